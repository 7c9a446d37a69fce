#include "toolroll/selector.hpp"

namespace toolroll {

const char* name(Verb verb) {
  switch (verb) {
    case Verb::kNarrow:
      return "narrow";
    case Verb::kAdmit:
      return "admit";
    case Verb::kRescore:
      return "rescore";
    case Verb::kReorder:
      return "reorder";
    case Verb::kArrange:
      return "arrange";
  }
  return "";
}

const char* name(Reason reason) {
  switch (reason) {
    case Reason::kPageMatch:
      return "page.match";
    case Reason::kRouteHit:
      return "route.hit";
    case Reason::kRouteScore:
      return "route.score";
    case Reason::kRouteDefault:
      return "route.default";
    case Reason::kRouteIgnore:
      return "route.ignore";
    case Reason::kRouteFill:
      return "route.fill";
    case Reason::kMarkHit:
      return "mark.hit";
    case Reason::kAffinity:
      return "session.affinity";
    case Reason::kNearest:
      return "retrieval.nearest";
    case Reason::kThreshold:
      return "retrieval.threshold";
    case Reason::kNoTool:
      return "retrieval.no_tool";
    case Reason::kByWords:
      return "retrieval.words";
    case Reason::kNoMatch:
      return "no_match";
    case Reason::kDraw:
      return "learning.draw";
    case Reason::kThompson:
      return "learning.thompson";
    case Reason::kLearnt:
      return "learning.order";
    case Reason::kOwnStep:
      return "step";
    case Reason::kIncluded:
      return "always_include";
    case Reason::kBase:
      return "base";
    case Reason::kPinned:
      return "pinned";
    case Reason::kWhole:
      return "cap.whole";
    case Reason::kCoreFirst:
      return "cap.core_first";
    case Reason::kBeyondK:
      return "cap.k";
    case Reason::kMaxTools:
      return "cap.max_tools";
    case Reason::kBudget:
      return "cap.budget";
    case Reason::kListed:
      return "listing";
    case Reason::kSentFirst:
      return "order.sent_first";
  }
  return "";
}

const char* name(Found found) {
  switch (found) {
    case Found::kNothing:
      return "";
    case Found::kPage:
      return "page";
    case Found::kRoutes:
      return "routes";
    case Found::kRouted:
      return "routed";
    case Found::kMarks:
      return "marks";
    case Found::kCalled:
      return "called";
    case Found::kRetrieved:
      return "retrieved";
    case Found::kByWords:
      return "by_words";
    case Found::kFallback:
      return "fallback";
    case Found::kReranked:
      return "reranked";
    case Found::kDrawn:
      return "drawn";
    case Found::kOwnStep:
      return "own_step";
    case Found::kBeforeList:
      return "before_list";
  }
  return "";
}

}  // namespace toolroll
