#include "toolroll/selector.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "checks.hpp"
#include "toolroll/thompson.hpp"

namespace toolroll {
namespace {

// A turn that sees so much of the catalog is measured against the best of the whole.
constexpr double kWhole = 0.4;
constexpr double kInAPart = 0.5;      // of several clauses a mark is in one
constexpr double kBatch = 1.0 / 3.0;  // of a full list goes at once

// Logistic curves of best scores where tools have no examples, and how many messages they weigh.
constexpr double kVectorsCentre = 0.70, kVectorsScale = 0.153;
constexpr double kWordsCentre = 0.30, kWordsScale = 0.08;
constexpr double kAtLargeCounts = 4.0;

// Posterior mean below which a tool loses its place in the stage Thompson.
constexpr double kFailing = 0.125;

constexpr double kTurnNs = 4'000;                    // what a turn costs beside retrieval
constexpr double kLearntRowNs = 150;                 // a candidate's posteriors and its draw
constexpr std::size_t kMost = std::size_t{1} << 31;  // of what is counted: more than any rows

std::size_t rounded_up(double number) {
  return number >= static_cast<double>(kMost) ? kMost : static_cast<std::size_t>(std::ceil(number));
}

void check_rows(const char* what, std::span<const std::int32_t> rows, std::size_t size,
                std::int32_t least = 0) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < least || (rows[i] >= 0 && static_cast<std::size_t>(rows[i]) >= size)) {
      refuse(entry(what, i), rows[i], "in 0.." + std::to_string(size) + " (exclusive)");
    }
  }
}

void check_size(const char* what, std::size_t found, std::size_t size) {
  if (found != size) {
    throw std::invalid_argument(std::string(what) + ": has " + std::to_string(found) +
                                " rows, must have " + std::to_string(size));
  }
}

void check_stage(const char* what, const RetrievalStage& stage, std::size_t size) {
  if (!stage.retriever) throw std::invalid_argument(std::string(what) + ": is missing");
  check_size(what, stage.retriever->size(), size);
}

/// The rows of all these columns, ascending, each once, as far as they are in play.
template <typename Columns, typename RowsOf>
std::vector<std::int32_t> joined(const Columns& columns, const RowsOf& rows_of,
                                 const Bitset& pool) {
  std::vector<std::int32_t> rows;
  for (const auto& column : columns) {
    for (const std::int32_t row : rows_of(column)) {
      if (pool.contains(static_cast<std::size_t>(row))) rows.push_back(row);
    }
  }
  if (columns.size() > 1) {
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  return rows;
}

}  // namespace

double Calibration::confidence(double score, bool whole, std::optional<double> trust) const {
  if (score <= 0.0) return 0.0;
  const bool by_vectors = trust && *trust >= 0.5;
  const double centre = by_vectors ? kVectorsCentre : kWordsCentre;
  const double scale = by_vectors ? kVectorsScale : kWordsScale;
  const double at_large = 1.0 / (1.0 + std::exp(-(score - centre) / scale));
  if (has_vectors_ && !trust) return at_large;  // the embedder has failed
  const std::vector<float>& known = whole ? best_ : own_;
  const auto below =
      std::upper_bound(known.begin(), known.end(), score,
                       [](double one, float other) { return one < static_cast<double>(other); }) -
      known.begin();
  return (kAtLargeCounts * at_large + static_cast<double>(below)) /
         (kAtLargeCounts + static_cast<double>(known.size()));
}

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
    case Reason::kIncluded:
      return "always_include";
    case Reason::kBase:
      return "base";
    case Reason::kPinned:
      return "pinned";
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
    case Found::kBeforeList:
      return "before_list";
  }
  return "";
}

std::span<const std::int32_t> Picked::selected() const {
  if (steps.empty()) return {};
  return std::span(rows).subspan(steps.back().begin, steps.back().end - steps.back().begin);
}

std::span<const float> Picked::selected_scores() const {
  if (steps.empty()) return {};
  return std::span(scores).subspan(steps.back().begin, steps.back().end - steps.back().begin);
}

/// One turn on its way through the stages. Each stage reads the columns and replaces them.
class Selector::Turn {
 public:
  Turn(const Selector& selector, const Ask& ask)
      : selector_(selector),
        stages_(selector.stages_),
        ask_(ask),
        pool_(&ask.allowed),
        included_(ask.included.size()) {
    for (const std::int32_t row : ask.included) {
      if (selector.core_.find(row) == nullptr) {
        const auto place = static_cast<std::int32_t>(selector.core_.size() + included_.size());
        included_.add(row, place);
      }
    }
  }

  void narrow_to_page() {
    if (ask_.page == nullptr) return;
    Bitset kept = ask_.allowed & *ask_.page;
    if (kept.count() == 0) return;
    picked_.pool = std::move(kept);
    pool_ = &*picked_.pool;
    step(Verb::kNarrow, Reason::kPageMatch, Found::kPage);
  }

  void favour_routes() {
    if (!stages_.route_weight || !ask_.has_route) return;
    rows_ = joined(ask_.routed, [](std::span<const std::int32_t> rows) { return rows; }, *pool_);
    scores_.assign(rows_.size(), *stages_.route_weight);
    picked_.route_best = rows_.empty() ? 0.0 : static_cast<double>(*stages_.route_weight);
    step(Verb::kRescore, Reason::kRouteHit, Found::kRoutes);
  }

  /// A row gains once, by the greatest weight of its marks.
  void favour_marks() {
    const std::span<const MarkedRows> marks = ask_.marks;
    const auto rows_of = [](const MarkedRows& mark) { return mark.rows; };
    const double of_mark = ask_.clauses.size() > 1 ? kInAPart * stages_.marks : stages_.marks;
    const auto weight = [&](std::size_t mark) {
      return static_cast<float>(marks[mark].is_service ? stages_.services : of_mark);
    };
    std::vector<std::int32_t> rows = joined(marks, rows_of, *pool_);
    if (rows.empty()) return;
    const std::size_t n = rows.size();
    std::vector<float>& gains = picked_.mark_gains;
    gains.assign(marks.size() * n, 0.0F);
    std::vector<float> gained(n, 0.0F);
    std::vector<std::uint8_t> has_gained(n, 0);
    for (const std::size_t mark : by_weight(marks.size(), weight)) {
      std::size_t at = 0;  // both columns ascend
      for (const std::int32_t row : marks[mark].rows) {
        while (at < n && rows[at] < row) ++at;
        if (at == n) break;
        if (rows[at] != row || has_gained[at] != 0) continue;
        has_gained[at] = 1;
        gained[at] = weight(mark);
        if (stages_.damps_marks) gained[at] *= stages_.retrieval.retriever->damping(row);
        gains[mark * n + at] = gained[at];
      }
    }
    const float best = *std::max_element(gained.begin(), gained.end());
    picked_.mark_best = static_cast<double>(best);
    gain(rows, gained);
    picked_.marked = std::move(rows);
    step(Verb::kRescore, Reason::kMarkHit, Found::kMarks);
  }

  /// A row gains by the latest turn that called its toolkit.
  void favour_called() {
    std::size_t most = 0;
    for (const CalledRows& toolkit : ask_.called) most += toolkit.rows.size();
    if (most == 0) return;
    RowMap place(most);
    std::vector<std::int32_t>& rows = picked_.called;
    std::vector<double> gains;
    for (const CalledRows& toolkit : ask_.called) {
      for (const std::int32_t row : toolkit.rows) {
        if (!(toolkit.weight > 0.0)) continue;
        if (place.add(row, static_cast<std::int32_t>(rows.size()))) {
          rows.push_back(row);
          gains.push_back(toolkit.weight);
        } else {
          double& known = gains[static_cast<std::size_t>(*place.find(row))];
          known = std::max(known, toolkit.weight);
        }
      }
    }
    if (rows.empty()) return;
    picked_.called_gains.assign(gains.begin(), gains.end());
    gain(rows, picked_.called_gains);
    step(Verb::kRescore, Reason::kAffinity, Found::kCalled);
  }

  void retrieve() {
    const RetrievalStage& stage = stages_.retrieval;
    // What was called before is no evidence that the message needs a tool; a hit is.
    FoundTools& found = picked_.retrieved;
    found = search(stage, ask_.message, rows_, scores_, picked_.route_best + picked_.mark_best);
    rows_ = found.columns.rows;
    scores_ = found.columns.scores;
    std::size_t kept = rows_.size();
    if (stage.threshold != 0.0) {
      const auto is_enough = [&](float score) {
        return static_cast<double>(score) >= stage.threshold;
      };
      const auto enough = static_cast<std::size_t>(
          std::partition_point(scores_.begin(), scores_.end(), is_enough) - scores_.begin());
      kept = std::min(kept, std::max(enough, stage.minimum));
      if (kept == 0) found.has_match = false;
    }
    is_pool_ = false;
    step(Verb::kNarrow, Reason::kNearest, Found::kRetrieved);
    if (kept < rows_.size()) {
      resize(kept);
      step(Verb::kNarrow, Reason::kThreshold);
    }
    if (!found.has_match && !stage.keeps_unmatched) {
      resize(0);
      step(Verb::kNarrow, Reason::kNoTool);
    }
  }

  /// Where vectors found nothing at all.
  void retrieve_by_words() {
    if (!stages_.by_words || !rows_.empty() || !picked_.retrieved.columns.rows.empty()) return;
    const RetrievalStage& stage = *stages_.by_words;
    Part words = ask_.message;
    words.vector = {};
    FoundTools found = search(stage, words, {}, {}, 0.0);
    if (found.columns.rows.empty() || (!found.has_match && !stage.keeps_unmatched)) return;
    rows_ = found.columns.rows;
    scores_.assign(rows_.size(), 0.0F);
    step(Verb::kAdmit, Reason::kByWords);
    scores_ = found.columns.scores;
    picked_.by_words = std::move(found);
    step(Verb::kRescore, Reason::kByWords, Found::kByWords);
  }

  /// Where nothing matched: see NoMatch in Python, which has the five rules.
  void fall_back() {
    if (!stages_.no_match || !rows_.empty()) return;
    const std::optional<std::size_t> k = places(stages_.cap.k);
    const std::size_t most = k ? *k : stages_.no_match->most;
    if (most == 0 || has_earlier()) return;
    const bool has_core = allows_core();
    const std::vector<std::int32_t>& retrieved = picked_.retrieved.columns.rows;
    if (!retrieved.empty()) {
      if (!has_core) rows_.assign(retrieved.begin(), retrieved.begin() + first(most, retrieved));
    } else if (!has_core || is_narrowed()) {
      const Bitset& choice = pool_->count() > 0 ? *pool_ : ask_.allowed;
      choice.each([&](std::int32_t row) {
        if (!is_core(row)) rows_.push_back(row);
      });
      order_by_reliability();
      if (const std::size_t kept = std::max(most, stages_.no_match->least); kept < rows_.size()) {
        rows_.resize(kept);
      }
    }
    scores_.assign(rows_.size(), 0.0F);
    if (rows_.empty()) return;
    picked_.fallback = rows_;
    has_fallback_ = true;
    step(Verb::kAdmit, Reason::kNoMatch, Found::kFallback);
  }

  void rank() {
    if (!stages_.learning || ask_.learned == nullptr || rows_.empty()) return;
    const LearningStage& stage = *stages_.learning;
    const std::size_t n = rows_.size();
    const std::optional<std::size_t> k = places(stage.k);
    Reranked& found = picked_.reranked.emplace();
    found.places = k ? std::min(*k, n) : n;
    found.core.resize(n);
    for (std::size_t i = 0; i < n; ++i) found.core[i] = stage.core.holds(rows_[i]) ? 1 : 0;
    const FoundTools& retrieved = picked_.by_words ? *picked_.by_words : picked_.retrieved;
    const std::vector<std::int32_t>& leaders = retrieved.columns.raw_best;
    const std::size_t guards =
        std::min<std::size_t>({stage.weights.protected_leaders, found.places / 3, leaders.size()});
    found.guarded.assign(leaders.begin(), leaders.begin() + static_cast<std::ptrdiff_t>(guards));
    std::vector<std::int32_t> order(n);
    for (std::vector<float>* column : {&found.scores, &found.mean, &found.spread, &found.show}) {
      column->resize(n);
    }
    std::vector<Placement> placement(n);
    toolroll::rank(*ask_.learned, *ask_.keys, {rows_, scores_, found.guarded, found.core},
                   ask_.scopes, ask_.now, ask_.seed, found.places, stage.temperature, stage.weights,
                   {order, found.scores, found.mean, found.spread, found.show, placement});
    found.rows = rows_;
    found.learnt.resize(n);
    for (std::size_t i = 0; i < n; ++i) found.learnt[i] = found.scores[i] - scores_[i];
    scores_ = found.scores;
    step(Verb::kRescore, Reason::kDraw, Found::kReranked);
    reorder(order);
    step(Verb::kReorder, Reason::kLearnt);
  }

  /// The nearest rows that do not fail and the best draw of the others, in the order of the draws.
  void draw() {
    if (!stages_.thompson || ask_.learned == nullptr || rows_.empty()) return;
    const ThompsonStage& stage = *stages_.thompson;
    const std::size_t n = rows_.size();
    std::vector<std::uint64_t> arms(n);
    std::vector<double> alpha(n), beta(n), draws(n);
    bool has_counts = false;
    for (std::size_t i = 0; i < n; ++i) {
      arms[i] = ask_.keys->arm(static_cast<std::size_t>(rows_[i]));
      const Shapes shapes = ask_.learned->plain(arms[i], ask_.plain);
      alpha[i] = shapes.first;
      beta[i] = shapes.second;
      has_counts = has_counts || alpha[i] + beta[i] > 2.0;
    }
    if (!has_counts) return;
    thompson_sample({arms, alpha, beta}, ask_.seed, draws);
    std::vector<std::uint8_t> is_behind(n, 0);
    if (const std::optional<std::size_t> k = places(stage.k)) {
      std::size_t left = *k > 0 ? *k - 1 : 0;
      std::size_t best = n;  // of those behind, the best draw
      for (std::size_t i = 0; i < n; ++i) {
        if (stage.core.holds(rows_[i])) continue;
        if (left > 0 && alpha[i] >= kFailing * (alpha[i] + beta[i])) {
          --left;
          continue;
        }
        is_behind[i] = 1;
        if (best == n || draws[i] > draws[best]) best = i;
      }
      if (*k > 0 && best < n) is_behind[best] = 0;
    }
    Rows order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int32_t>(i);
    std::sort(order.begin(), order.end(), [&](std::int32_t one, std::int32_t other) {
      const auto a = static_cast<std::size_t>(one), b = static_cast<std::size_t>(other);
      if (is_behind[a] != is_behind[b]) return is_behind[a] < is_behind[b];
      return draws[a] != draws[b] ? draws[a] > draws[b] : rows_[a] < rows_[b];
    });
    scores_.assign(draws.begin(), draws.end());
    Reranked& found = picked_.reranked.emplace();
    found.rows = rows_;
    found.scores = scores_;
    step(Verb::kRescore, Reason::kThompson, Found::kDrawn);
    reorder(order);
    step(Verb::kReorder, Reason::kLearnt);
  }

  void include() {
    if (!stages_.includes) return;
    admit(ask_.included, Reason::kIncluded);
    admit(stages_.base, Reason::kBase);
    admit(stages_.pinned, Reason::kPinned);
  }

  void cut() {
    put_core_first();
    cut_to_k();
    if (const auto most = limit(); most && rows_.size() > *most) {
      resize(*most);
      step(Verb::kNarrow, Reason::kMaxTools);
    }
    if (ask_.budget) cut_to_budget();
  }

  void keep_list() {
    if (!stages_.list || !ask_.conversation) return;
    const ListStage& stage = *stages_.list;
    const ConversationRows& conversation = *ask_.conversation;
    const Rows found = rows_;
    const Sent sent = sent_rows(conversation);
    Set ahead_set(found.size() + conversation.loaded.size() + conversation.recent.size());
    Rows ahead;
    for (const std::int32_t row : found) {
      if (is_core(row) && ahead_set.add(row)) ahead.push_back(row);
    }
    for (const std::int32_t row : held(found)) {
      if (allows(row) && ahead_set.add(row)) ahead.push_back(row);
    }
    Rows counted;
    for (const std::int32_t row : found) {
      if (!ahead_set.holds(row)) counted.push_back(row);
    }
    const std::optional<std::size_t> k = places(stages_.cap.k);
    std::optional<std::size_t> most;
    if (k && stage.growth != 0.0 && !conversation.is_whole) {
      most = rounded_up(static_cast<double>(*k) * stage.growth);
    }
    if (most && !sent.rows.empty()) {
      const auto room = static_cast<std::size_t>(std::min(
          std::nearbyint(static_cast<double>(*k) * stage.newcomers), static_cast<double>(kMost)));
      Rows kept;
      for (std::size_t i = 0; i < counted.size(); ++i) {
        if (i < room || sent.place.holds(counted[i])) kept.push_back(counted[i]);
      }
      counted = std::move(kept);
    }
    Rows picked = ahead;
    picked.insert(picked.end(), counted.begin(), counted.end());
    Rows order = ordered(picked, sent, most.has_value());

    const std::optional<std::size_t> limit = this->limit();
    const bool is_full = most && order.size() > *most + ahead.size();
    if (is_full || ask_.budget || (limit && order.size() > *limit)) {
      Rows back = latest(order, picked, sent);
      if (is_full) {
        const double room = std::floor(static_cast<double>(*most) * (1.0 - kBatch));
        const double left = room - static_cast<double>(counted.size());
        if (left < static_cast<double>(back.size())) {
          back.resize(static_cast<std::size_t>(std::max(left, 0.0)));
        }
      }
      order = bounded(order, picked, back, conversation.is_whole ? 0.0 : kBatch);
    }
    if (order == found) return;
    picked_.before_list = found;
    arrange(std::move(order));
    step(Verb::kArrange, Reason::kListed, Found::kBeforeList);
  }

  void keep_order() {
    if (!stages_.has_order || ask_.sent.empty()) return;
    RowMap place(ask_.sent.size());
    for (std::size_t i = 0; i < ask_.sent.size(); ++i) {
      if (ask_.sent[i] >= 0) place.add(ask_.sent[i], static_cast<std::int32_t>(i));
    }
    const auto behind = static_cast<std::int32_t>(place.size());
    Rows ranks, order(rows_.size());
    for (const std::int32_t row : rows_) {
      const std::int32_t* const at = place.find(row);
      ranks.push_back(at != nullptr ? *at : behind);
    }
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return ranks[static_cast<std::size_t>(a)] < ranks[static_cast<std::size_t>(b)];
    });
    reorder(order);
    step(Verb::kReorder, Reason::kSentFirst);
  }

  Picked result() && { return std::move(picked_); }

 private:
  using Rows = std::vector<std::int32_t>;
  using Set = RowMap;
  /// The rows that were sent before and are still allowed, and their places in that list.
  struct Sent {
    Rows rows;
    RowMap place;
  };

  void step(Verb verb, Reason reason, Found found = Found::kNothing) {
    const auto begin = static_cast<std::uint32_t>(picked_.rows.size());
    picked_.rows.insert(picked_.rows.end(), rows_.begin(), rows_.end());
    picked_.scores.insert(picked_.scores.end(), scores_.begin(), scores_.end());
    const auto end = static_cast<std::uint32_t>(picked_.rows.size());
    picked_.steps.push_back({verb, reason, found, is_pool_, begin, end});
  }

  void resize(std::size_t n) {
    rows_.resize(n);
    scores_.resize(n);
  }

  std::optional<std::size_t> places(std::optional<std::size_t> k) const {
    const std::optional<std::size_t> most = ask_.k ? ask_.k : k;
    if (!most || ask_.room == 1.0) return most;
    return rounded_up(static_cast<double>(*most) * ask_.room);
  }

  std::optional<std::size_t> limit() const {
    const std::optional<std::size_t>& own = stages_.cap.max_tools;
    if (!own || !ask_.max_tools) return own ? own : ask_.max_tools;
    return std::min(*own, *ask_.max_tools);
  }

  bool allows(std::int32_t row) const {
    return ask_.allowed.contains(static_cast<std::size_t>(row));
  }

  /// The row's place in front, nullptr if k counts it.
  const std::int32_t* core_place(std::int32_t row) const {
    const std::int32_t* const place = selector_.core_.find(row);
    return place != nullptr ? place : included_.find(row);
  }
  bool is_core(std::int32_t row) const { return core_place(row) != nullptr; }
  bool allows_core() const {
    const auto allowed = [&](std::int32_t row) { return allows(row); };
    return std::ranges::any_of(stages_.cap.core, allowed) ||
           std::ranges::any_of(ask_.included, allowed);
  }

  std::int64_t cost(std::int32_t row) const {
    const auto at = static_cast<std::size_t>(row);
    const std::size_t behind = ask_.costs[0].size();
    return at < behind ? ask_.costs[0][at] : ask_.costs[1][at - behind];
  }

  /// The numbers of marks, the greatest weight first.
  template <typename Weight>
  static std::vector<std::size_t> by_weight(std::size_t count, const Weight& weight) {
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
    return order;
  }

  /// Adds to the scores of rows in play; those that have none have 0 so far.
  void gain(const Rows& rows, const std::vector<float>& gains) {
    const std::size_t before = rows_.size();
    const RowMap known = RowMap::of(rows_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (const std::int32_t* const at = before == 0 ? nullptr : known.find(rows[i])) {
        scores_[static_cast<std::size_t>(*at)] += gains[i];
      } else {
        rows_.push_back(rows[i]);
        scores_.push_back(gains[i]);
      }
    }
    std::size_t kept = before;
    for (std::size_t i = before; i < rows_.size(); ++i) {
      if (!pool_->contains(static_cast<std::size_t>(rows_[i]))) continue;
      rows_[kept] = rows_[i];
      scores_[kept++] = scores_[i];
    }
    resize(kept);
  }

  FoundTools search(const RetrievalStage& stage, const Part& message,
                    std::span<const std::int32_t> known_rows, std::span<const float> known_scores,
                    double hits) const {
    std::size_t wanted = std::max(stage.candidates, places(stage.candidates).value_or(0));
    const Learned* const learned = stage.learns ? ask_.learned : nullptr;
    wanted += stage.spare;
    if (learned != nullptr) wanted = std::max(wanted, stage.rescored);
    const std::size_t k = std::min(wanted + stage.core, selector_.size_);
    FoundTools found;
    found.columns =
        stage.retriever->search({message,
                                 ask_.clauses,
                                 ask_.earlier,
                                 *pool_,
                                 known_rows,
                                 known_scores,
                                 k,
                                 {learned, learned != nullptr ? ask_.keys : nullptr, ask_.now}},
                                stage.fusion);
    const Retrieved& columns = found.columns;
    const bool is_whole =
        static_cast<double>(pool_->count()) >= kWhole * static_cast<double>(selector_.size_);
    found.confidence = stage.calibration.confidence(
        static_cast<double>(columns.evidence) + hits, is_whole,
        message.vector.empty() ? std::nullopt : std::optional(ask_.trust));
    found.has_match = !columns.rows.empty() && found.confidence >= stage.least_confidence;
    if (stage.is_damped) {
      found.damped.reserve(columns.rows.size());
      for (std::size_t i = 0; i < columns.rows.size(); ++i) {
        const float sum = columns.dense[i] + columns.intents[i] + columns.lexical[i] +
                          columns.clauses[i] + columns.earlier[i];
        found.damped.push_back((stage.retriever->damping(columns.rows[i]) - 1.0F) * sum);
      }
    }
    return found;
  }

  /// Whether the conversation adds tools of earlier turns to the list.
  bool has_earlier() const {
    if (!ask_.conversation) return false;
    const ConversationRows& conversation = *ask_.conversation;
    if (conversation.is_whole) return true;
    const auto counts = [&](std::int32_t row) { return row >= 0 && allows(row) && !is_core(row); };
    const std::size_t sticky =
        std::min(conversation.recent.size(), stages_.list ? stages_.list->sticky_tools : 0);
    return std::ranges::any_of(conversation.loaded, counts) ||
           std::ranges::any_of(conversation.recent.first(sticky), counts) ||
           (stages_.list && stages_.list->growth != 0.0 &&
            std::ranges::any_of(conversation.listed, counts));
  }

  bool is_narrowed() const {
    const std::size_t left = pool_->count();
    return left > 0 && left < ask_.allowed.count();
  }

  /// Puts rows first that outcomes speak for.
  void order_by_reliability() {
    if (!stages_.no_match->learns || ask_.learned == nullptr) return;
    std::vector<std::pair<double, std::int32_t>> order;
    order.reserve(rows_.size());
    for (const std::int32_t row : rows_) {
      const std::uint64_t arm = ask_.keys->arm(static_cast<std::size_t>(row));
      const Shapes beta = ask_.learned->reliability(arm, ask_.scopes, ask_.now);
      order.emplace_back(-beta.first / (beta.first + beta.second), row);
    }
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) rows_[i] = order[i].second;
  }

  static std::ptrdiff_t first(std::size_t most, const Rows& rows) {
    return static_cast<std::ptrdiff_t>(std::min(most, rows.size()));
  }

  void reorder(const Rows& places) {
    Rows rows;
    std::vector<float> scores;
    rows.reserve(places.size());
    scores.reserve(places.size());
    for (const std::int32_t place : places) {
      rows.push_back(rows_[static_cast<std::size_t>(place)]);
      scores.push_back(scores_[static_cast<std::size_t>(place)]);
    }
    rows_ = std::move(rows);
    scores_ = std::move(scores);
  }

  /// Puts allowed rows that are not there in front, without a score.
  void admit(std::span<const std::int32_t> rows, Reason reason) {
    if (rows.empty()) return;
    const Set there = RowMap::of(rows_);
    Rows added;
    for (const std::int32_t row : rows) {
      if (allows(row) && !there.holds(row)) added.push_back(row);
    }
    if (added.empty()) return;
    rows_.insert(rows_.begin(), added.begin(), added.end());
    scores_.insert(scores_.begin(), added.size(), 0.0F);
    step(Verb::kAdmit, reason);
  }

  void put_core_first() {
    core_ = 0;
    if (selector_.core_.size() == 0 && included_.size() == 0) return;
    Rows order;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (is_core(rows_[i])) order.push_back(static_cast<std::int32_t>(i));
    }
    core_ = order.size();
    const auto row_at = [&](std::int32_t at) { return rows_[static_cast<std::size_t>(at)]; };
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return *core_place(row_at(a)) < *core_place(row_at(b));
    });
    bool is_there = true;
    for (std::size_t i = 0; i < core_; ++i) is_there &= order[i] == static_cast<std::int32_t>(i);
    if (is_there) return;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!is_core(rows_[i])) order.push_back(static_cast<std::int32_t>(i));
    }
    reorder(order);
    step(Verb::kReorder, Reason::kCoreFirst);
  }

  void cut_to_k() {
    const std::optional<std::size_t> k = places(stages_.cap.k);
    if (!k || core_ + *k >= rows_.size()) return;
    const std::size_t n = rows_.size();
    std::size_t found = 0;
    for (std::size_t i = core_; i < n; ++i) found += scores_[i] != 0.0F ? 1 : 0;
    if (found == n - core_ || has_fallback_) {
      resize(core_ + *k);
    } else if (found <= *k) {
      return;
    } else {
      std::size_t kept = core_, scored = 0;
      for (std::size_t i = core_; i < n; ++i) {
        if (scores_[i] != 0.0F && ++scored > *k) continue;
        rows_[kept] = rows_[i];
        scores_[kept++] = scores_[i];
      }
      resize(kept);
    }
    step(Verb::kNarrow, Reason::kBeyondK);
  }

  void cut_to_budget() {
    std::int64_t left = *ask_.budget;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (cost(rows_[i]) > left) continue;
      left -= cost(rows_[i]);
      rows_[kept] = rows_[i];
      scores_[kept++] = scores_[i];
    }
    if (kept == rows_.size()) return;
    resize(kept);
    step(Verb::kNarrow, Reason::kBudget);
  }

  Sent sent_rows(const ConversationRows& conversation) const {
    Sent sent{{}, RowMap(conversation.listed.size())};
    for (std::size_t i = 0; i < conversation.listed.size(); ++i) {
      const std::int32_t row = conversation.listed[i];
      if (row < 0 || !allows(row)) continue;
      if (sent.place.add(row, static_cast<std::int32_t>(i))) {
        sent.rows.push_back(row);
      } else {
        *sent.place.find(row) = static_cast<std::int32_t>(i);
      }
    }
    return sent;
  }

  /// Loaded rows, then those that were called in the last turns.
  Rows held(const Rows& selected) const {
    const ConversationRows& conversation = *ask_.conversation;
    const ListStage& stage = *stages_.list;
    Rows rows;
    for (const std::int32_t row : conversation.loaded) {
      if (row >= 0) rows.push_back(row);
    }
    const Set is_selected = RowMap::of(selected);
    std::size_t left = stage.sticky_tools;
    for (const std::int32_t row : conversation.recent) {
      const bool is_free = stage.counts_added && row >= 0 && is_selected.holds(row);
      if (!is_free) {
        if (left == 0) {
          if (!stage.counts_added) break;
          continue;
        }
        --left;
      }
      if (row >= 0) rows.push_back(row);
    }
    return rows;
  }

  /// What was sent in its order, then newcomers.
  Rows ordered(const Rows& picked, const Sent& sent, bool grows) const {
    const bool is_whole = ask_.conversation->is_whole;
    const std::size_t most = is_whole ? ask_.allowed.count() : sent.rows.size() + picked.size();
    Rows order;
    order.reserve(most);
    if (!is_whole && !grows) {
      const Set stays = RowMap::of(picked);
      for (const std::int32_t row : sent.rows) {
        if (stays.holds(row)) order.push_back(row);
      }
      for (const std::int32_t row : picked) {
        if (!sent.place.holds(row)) order.push_back(row);
      }
      return order;
    }
    Set there(most);
    const auto add = [&](std::int32_t row) {
      if (there.add(row)) order.push_back(row);
    };
    std::ranges::for_each(sent.rows, add);
    std::ranges::for_each(picked, add);
    if (is_whole) ask_.allowed.each(add);
    return order;
  }

  /// The rows of the order that this turn did not pick, latest picked first; those of one turn as
  /// they were sent, then by row.
  Rows latest(const Rows& order, const Rows& picked, const Sent& sent) const {
    struct Back {
      std::int64_t turn;
      std::int64_t place;
      std::int32_t row;
      auto operator<=>(const Back&) const = default;
    };
    const Set is_picked = RowMap::of(picked);
    std::vector<Back> back;
    for (const std::int32_t row : order) {
      if (is_picked.holds(row)) continue;
      if (const std::int32_t* const at = sent.place.find(row)) {
        back.push_back({-ask_.conversation->picked[static_cast<std::size_t>(*at)], *at, row});
      } else {
        back.push_back({0, row, row});
      }
    }
    std::sort(back.begin(), back.end());
    Rows rows;
    rows.reserve(back.size());
    for (const Back& one : back) rows.push_back(one.row);
    return rows;
  }

  /// The order without the rows that exceed the limits: `back` is cut first, from its end.
  Rows bounded(const Rows& order, Rows picked, Rows back, double batch) const {
    if (const auto most = limit(); most && picked.size() + back.size() > *most) {
      if (picked.size() > *most) picked.resize(*most);
      const double room = std::floor(static_cast<double>(*most) * (1.0 - batch));
      const double left = std::max(room - static_cast<double>(picked.size()), 0.0);
      if (left < static_cast<double>(back.size())) back.resize(static_cast<std::size_t>(left));
    }
    if (ask_.budget) {
      std::int64_t left = *ask_.budget;
      picked = affordable(picked, left);
      std::int64_t costs = 0;
      for (const std::int32_t row : back) costs += cost(row);
      if (costs > left) {
        left -= static_cast<std::int64_t>(std::floor(static_cast<double>(*ask_.budget) * batch));
        back = affordable(back, left);
      }
    }
    Set stays(picked.size() + back.size());
    for (const std::int32_t row : picked) stays.add(row);
    for (const std::int32_t row : back) stays.add(row);
    Rows kept;
    for (const std::int32_t row : order) {
      if (stays.holds(row)) kept.push_back(row);
    }
    return kept;
  }

  /// The rows that fit, one after the other. left: tokens, and then what is left of them.
  Rows affordable(const Rows& rows, std::int64_t& left) const {
    Rows chosen;
    for (const std::int32_t row : rows) {
      if (cost(row) > left) continue;
      left -= cost(row);
      chosen.push_back(row);
    }
    return chosen;
  }

  /// Puts these rows into play and no others; a row that was not in play has no score.
  void arrange(Rows rows) {
    const RowMap known = RowMap::of(rows_);
    std::vector<float> scores;
    scores.reserve(rows.size());
    for (const std::int32_t row : rows) {
      const std::int32_t* const at = known.find(row);
      scores.push_back(at == nullptr ? 0.0F : scores_[static_cast<std::size_t>(*at)]);
    }
    rows_ = std::move(rows);
    scores_ = std::move(scores);
  }

  const Selector& selector_;
  const SoftStages& stages_;
  const Ask& ask_;
  const Bitset* pool_;  // what is in play, or was when it was last a set
  bool is_pool_ = true;
  Rows rows_;
  std::vector<float> scores_;
  RowMap included_;       // rows that the call includes and are no core → their places
  std::size_t core_ = 0;  // of the rows, those in front that k does not count
  bool has_fallback_ = false;
  Picked picked_;
};

Selector::Selector(std::size_t size, SoftStages stages)
    : size_(size), stages_(std::move(stages)), core_(RowMap::of(stages_.cap.core)) {
  check_stage("retriever", stages_.retrieval, size);
  if (stages_.by_words) check_stage("retriever by words", *stages_.by_words, size);
  check_rows("base", stages_.base, size);
  check_rows("pinned", stages_.pinned, size);
  check_rows("core", stages_.cap.core, size);
  if (stages_.learning) toolroll::check(stages_.learning->weights);
}

void Selector::check(const Ask& ask) const {
  check_size("allowed", ask.allowed.size(), size_);
  if (ask.page != nullptr) check_size("page", ask.page->size(), size_);
  for (const std::span<const std::int32_t> rows : ask.routed) check_rows("routed", rows, size_);
  for (const MarkedRows& mark : ask.marks) check_rows("marks", mark.rows, size_);
  for (const CalledRows& toolkit : ask.called) check_rows("called", toolkit.rows, size_);
  check_rows("included", ask.included, size_);
  check_rows("sent", ask.sent, size_, -1);
  if (ask.learned != nullptr && ask.keys == nullptr) {
    throw std::invalid_argument("keys: are missing, must come with what was learnt");
  }
  if (ask.keys != nullptr) check_size("keys", ask.keys->size(), size_);
  if (!(ask.room >= 0.0)) refuse("room", ask.room, "at least 0");
  if (ask.budget) check_size("costs", ask.costs[0].size() + ask.costs[1].size(), size_);
  if (ask.conversation) {
    const ConversationRows& conversation = *ask.conversation;
    check_rows("loaded", conversation.loaded, size_, -1);
    check_rows("recent", conversation.recent, size_, -1);
    check_rows("listed", conversation.listed, size_, -1);
    check_length("picked", conversation.picked.size(), conversation.listed.size());
  }
}

Picked Selector::pick(const Ask& ask) const {
  check(ask);
  Turn turn(*this, ask);
  turn.narrow_to_page();
  turn.favour_routes();
  turn.favour_marks();
  turn.favour_called();
  turn.retrieve();
  turn.retrieve_by_words();
  turn.fall_back();
  turn.rank();
  turn.draw();
  turn.include();
  turn.cut();
  turn.keep_list();
  turn.keep_order();
  return std::move(turn).result();
}

double Selector::expected_ns(const Ask& ask) const {
  const RetrievalStage& stage = stages_.retrieval;
  const std::size_t k = std::min(stage.candidates + stage.spare + stage.core, size_);
  const RetrievalQuery query{
      ask.message, ask.clauses, ask.earlier, ask.allowed,
      {},          {},          k,           {ask.learned, ask.keys, ask.now}};
  const double learnt =
      ask.learned == nullptr ? 0.0 : kLearntRowNs * static_cast<double>(stage.rescored);
  return kTurnNs + learnt + stage.retriever->expected_ns(query);
}

}  // namespace toolroll
