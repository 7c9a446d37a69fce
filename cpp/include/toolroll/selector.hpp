/// The soft stages of a turn in one call: retrieval, learning from outcomes, and limits of what is
/// sent.
///
/// This is the definition of the stages. tests/oracle has each of them once more, slowly and in
/// Python, and the tests compare both on random turns: the same rows, scores and steps, to the last
/// bit. Policy is the caller's: `Ask::allowed` are the rows that may be selected, and nothing here
/// adds another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "toolroll/bitset.hpp"
#include "toolroll/fusion.hpp"
#include "toolroll/learned.hpp"
#include "toolroll/row_map.hpp"
#include "toolroll/slate.hpp"
#include "toolroll/tool_keys.hpp"

namespace toolroll {

/// The confidence that some tool serves a message, from its score (catalog/calibration.py).
class Calibration {
 public:
  Calibration() = default;
  /// best, own: scores of messages that are served, ascending.
  Calibration(std::vector<float> best, std::vector<float> own, bool has_vectors)
      : best_(std::move(best)), own_(std::move(own)), has_vectors_(has_vectors) {}

  /// The share of served messages that score no higher. `whole`: whether the turn could see nearly
  /// the whole catalog. `trust`: of the message's vector; none without a vector. O(log n).
  double confidence(double score, bool whole, std::optional<double> trust) const;

 private:
  std::vector<float> best_;
  std::vector<float> own_;
  bool has_vectors_ = false;
};

/// The stage Retrieval.
struct RetrievalStage {
  std::shared_ptr<const Retriever> retriever;
  Fusion fusion;
  double threshold = 0.0;      ///< 0: none
  std::size_t minimum = 0;     ///< rows that are kept below the threshold
  std::size_t candidates = 0;  ///< rows that are kept until the cut
  std::size_t core = 0;        ///< more of them, because core rows may be among them
  std::size_t rescored = 0;    ///< rows that are kept where outcomes will reorder them
  std::size_t spare = 0;       ///< more rows than are shown, for a rule that chooses among them
  Calibration calibration;
  double least_confidence = 0.0;  ///< below it nothing matches
  bool keeps_unmatched = true;    ///< whether the nearest rows stay where nothing matches
  bool learns = false;            ///< whether outcomes count
  bool is_damped = false;         ///< whether the trail has the deductions
};

/// The effect of a keyword or pattern on its toolkits; see `routes` of a profile.
enum class RouteMode : std::uint8_t { kFavour, kNarrow, kFill, kIgnore };

/// The stage Routes.
struct RoutesStage {
  RouteMode mode = RouteMode::kFavour;
  float weight = 0.0F;                              ///< the gain of a favoured row
  std::optional<std::vector<std::int32_t>> no_hit;  ///< rows that count as hit if none is
  bool scores = false;                              ///< with kNarrow, a row's score is its hit's
};

/// The stage NoMatch.
struct NoMatchStage {
  std::size_t most = 0;  ///< rows where k is open
  std::size_t least = 0;
  bool learns = false;
};

/// The stage Learning.
struct LearningStage {
  RowMap core;  ///< rows that take no place of k
  Weights weights;
  double temperature = 1.0;
  std::optional<std::size_t> k;
};

/// The stage Thompson.
struct ThompsonStage {
  RowMap core;  ///< rows that take no place of k
  std::optional<std::size_t> k;
};

/// The stage Cap, with the rows that k does not count, in the order of their places.
struct CapStage {
  std::vector<std::int32_t> core;
  std::optional<std::size_t> k;
  std::optional<std::size_t> max_tools;
};

/// The stage ConversationList, as far as it does not follow from the cap.
struct ListStage {
  std::size_t sticky_tools = 0;
  bool counts_added = false;  ///< sticky_tools counts only rows that the turn does not select
  double newcomers = 0.0;
  double growth = 0.0;  ///< 0: each turn sends its selection
};

/// The stages in their order; an absent one changes nothing. Routes that fill stand behind the
/// stages that reorder.
struct SoftStages {
  std::optional<RoutesStage> routes;
  double services = 0.0;  ///< the gain of rows whose service the message names
  double marks = 0.0;     ///< the gain of rows that deal with a mark of the message
  bool damps_marks = false;
  std::optional<RetrievalStage> retrieval;
  std::optional<RetrievalStage> by_words;
  std::optional<NoMatchStage> no_match;
  std::optional<LearningStage> learning;
  std::optional<ThompsonStage> thompson;
  bool includes = false;  ///< the stage AlwaysIncluded, with the rows below
  std::vector<std::int32_t> base;
  std::vector<std::int32_t> pinned;
  CapStage cap;
  std::optional<ListStage> list;
  bool has_order = false;

  bool fills() const { return routes && routes->mode == RouteMode::kFill && retrieval; }
};

/// The rows that deal with a mark of the message, or belong to a service that it names.
struct MarkedRows {
  std::span<const std::int32_t> rows;  // ascending, each once
  bool is_service;
};

/// The rows of a toolkit that was hit or called before, and their gain.
struct ToolkitRows {
  std::span<const std::int32_t> rows;  // ascending, each once
  double weight;
};

/// The rows of a conversation's tools; -1 for a name that is not in the catalog.
struct ConversationRows {
  bool is_whole = false;                 // everything is loaded
  std::span<const std::int32_t> loaded;  // each name once
  std::span<const std::int32_t> recent;  // called in the last turns, newest first, each name once
  std::span<const std::int32_t> listed;  // sent before, in order
  std::span<const std::int64_t> picked;  // for each of these, the turn that last selected it
  std::int64_t turn = 0;
};

/// Replaces scores: returns a finite one for each row, or nullopt to keep them. Rows come best
/// first.
using Rerank = std::function<std::optional<std::vector<float>>(std::span<const std::int32_t> rows,
                                                               std::span<const float> scores)>;

/// One turn. It refers to the caller's memory.
struct Ask {
  Part message;        // the weight is not read
  double trust = 1.0;  // of the message's vector, as precise as confidence reads it
  std::span<const Part> clauses;
  std::span<const Part> earlier;
  const Bitset& allowed;
  const Bitset* page = nullptr;         // the rows on the page, if one matches
  std::span<const ToolkitRows> routed;  // each toolkit that was hit, which may have no rows
  std::span<const MarkedRows> marks;
  std::span<const ToolkitRows> called;  // the latest turn first
  const Learned* learned = nullptr;     // `keys` is there where this is
  const ToolKeys* keys = nullptr;
  Scopes scopes{};
  std::uint64_t plain = 0;  // the scope of undecayed counts
  double now = 0.0;
  std::uint64_t seed = 0;
  std::optional<std::size_t> k;
  double room = 1.0;                       // k counts so many times
  std::optional<std::size_t> max_tools;    // the least of the limits of caller and provider
  std::optional<std::int64_t> budget;      // tokens
  std::span<const std::int32_t> costs[2];  // tokens by row, in one part or two; read for a budget
  std::span<const std::int32_t> included;  // rows that the call always includes, each once
  std::optional<ConversationRows> conversation;
  std::span<const std::int32_t> sent;  // rows of names sent before, -1 for an unknown one
  /// Asked one after the other, before the cut to k, for the rows behind the core.
  std::span<const Rerank> rerank;
};

enum class Verb : std::uint8_t { kNarrow, kAdmit, kRescore, kReorder, kArrange };
enum class Reason : std::uint8_t {
  kPageMatch,
  kRouteHit,
  kRouteScore,
  kRouteDefault,
  kRouteIgnore,
  kRouteFill,
  kMarkHit,
  kAffinity,
  kNearest,
  kThreshold,
  kNoTool,
  kByWords,
  kNoMatch,
  kDraw,
  kThompson,
  kLearnt,
  kOwnStep,
  kIncluded,
  kBase,
  kPinned,
  kWhole,
  kCoreFirst,
  kBeyondK,
  kMaxTools,
  kBudget,
  kListed,
  kSentFirst,
};
const char* name(Verb verb);
const char* name(Reason reason);

/// What a step found; the columns stand in `Picked`.
enum class Found : std::uint8_t {
  kNothing,
  kPage,
  kRoutes,
  kRouted,
  kMarks,
  kCalled,
  kRetrieved,
  kByWords,
  kFallback,
  kReranked,
  kDrawn,
  kOwnStep,
  kBeforeList,
};

const char* name(Found found);

/// One step of the trail: the rows in play after it.
struct Step {
  static constexpr std::int32_t kColumns = -1;

  Verb verb;
  Reason reason;
  Found found;
  std::int32_t set;     // in play: 0 the allowed rows, n Picked::pools[n - 1]; the rows below have
                        // evidence. kColumns: the rows below are in play
  std::uint32_t begin;  // of its rows and scores in Picked::rows and Picked::scores
  std::uint32_t end;
};

/// The result of retrieval, before outcomes change it.
struct FoundTools {
  Retrieved columns;
  std::vector<float> damped;  // deduction of damping from each score
  double confidence = 0.0;
  bool has_match = false;
};

/// The numbers behind each row's place. The stage Thompson fills only rows and scores.
struct Reranked {
  std::vector<std::int32_t> rows;
  std::vector<float> learnt;  // addition of outcomes to the scores
  std::vector<float> scores;
  std::vector<float> mean;
  std::vector<float> spread;
  std::vector<float> show;
  std::vector<std::uint8_t> core;
  std::vector<std::int32_t> guarded;
  std::size_t places = 0;
};

/// A selection and its trail, in columns.
struct Picked {
  std::vector<Step> steps;
  std::vector<std::int32_t> rows;  // of all steps, one behind the other
  std::vector<float> scores;
  std::vector<Bitset> pools;         // sets that were in play, in order
  std::vector<std::int32_t> routed;  // of Ask::routed, those that count
  double route_best = 0.0;
  std::vector<std::int32_t> marked;  // rows that gain by a mark
  std::vector<float> mark_gains;     // of these, for each mark, one behind the other
  double mark_best = 0.0;
  std::vector<std::int32_t> called;  // rows that gain by a call
  std::vector<float> called_gains;
  std::optional<FoundTools> retrieved;
  std::optional<FoundTools> by_words;
  std::vector<std::int32_t> fallback;
  std::optional<Reranked> reranked;
  std::vector<std::int32_t> own_steps;  // of Ask::rerank, those that gave scores: a step each
  std::size_t core = 0;                 // rows in front that were not reranked
  std::optional<std::vector<std::int32_t>> before_list;  // where the list changed the selection
  /// For each selected row, the turn that last selected it; only of a turn with a list.
  std::optional<std::vector<std::int64_t>> list_turns;

  /// The selected rows, in order, and their scores.
  std::span<const std::int32_t> selected() const;
  std::span<const float> selected_scores() const;
};

/// The soft stages of a pipeline over one catalog. Immutable; any number of threads may pick at
/// once.
class Selector {
 public:
  /// Throws std::invalid_argument if a retriever is missing or its size is another, or a row is out
  /// of range.
  Selector(std::size_t size, SoftStages stages);

  /// The selection of a turn. A function of its arguments alone; it leaves no state behind, also
  /// where it throws. O(retrieval + candidates). Throws std::invalid_argument if a size does not
  /// fit, a row or a number is out of its range, or a vector or score that counts is not finite.
  Picked pick(const Ask& ask) const;

  /// The approximate duration of such a call. O(size / 64).
  double expected_ns(const Ask& ask) const;

  std::size_t size() const { return size_; }
  const SoftStages& stages() const { return stages_; }

 private:
  class Turn;
  void check(const Ask& ask) const;

  std::size_t size_;
  SoftStages stages_;
  RowMap core_;  // rows that k does not count → their places in front
};

}  // namespace toolroll
