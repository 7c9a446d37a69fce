#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "selector_turn.hpp"

namespace toolroll {
namespace {

// A turn that sees so much of the catalog is measured against the best of the whole: on MetaTool it
// refuses 4.8 % of served messages where it sees 60 % of the tools, and would 6.8 % where it sees
// 30 %.
constexpr double kWhole = 0.4;

// Best scores of served messages where tools have no examples, as logistic curves: with vectors 5 %
// lie below 0.25, by words alone below 0.06. Catalogs of many tools have higher ones, but a wrong
// refusal costs more than a missed one. kAtLargeCounts: how many held-out messages a curve weighs.
constexpr double kVectorsCentre = 0.70, kVectorsScale = 0.153;
constexpr double kWordsCentre = 0.30, kWordsScale = 0.08;
constexpr double kAtLargeCounts = 4.0;

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

void Selector::Turn::retrieve() {
  if (!stages_.retrieval) return;
  const RetrievalStage& stage = *stages_.retrieval;
  // What was called before is no evidence that the message needs a tool; a hit is.
  FoundTools& found = picked_.retrieved.emplace(
      search(stage, ask_.message, rows_, scores_, picked_.route_best + picked_.mark_best));
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

void Selector::Turn::retrieve_by_words() {
  if (!stages_.by_words || !rows_.empty() || !picked_.retrieved->columns.rows.empty()) return;
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

void Selector::Turn::fall_back() {
  if (!stages_.no_match || !is_empty()) return;
  const std::optional<std::size_t> k = places(stages_.cap.k);
  const std::size_t most = k ? *k : stages_.no_match->most;
  if (most == 0 || has_earlier()) return;
  const bool has_core = allows_core();
  rows_.clear();
  if (picked_.retrieved && !picked_.retrieved->columns.rows.empty()) {
    if (has_core) return;
    const Rows& retrieved = picked_.retrieved->columns.rows;
    rows_.assign(retrieved.begin(),
                 retrieved.begin() + static_cast<std::ptrdiff_t>(std::min(most, retrieved.size())));
  } else if (!has_core || is_narrowed()) {
    last_choice().each([&](std::int32_t row) {
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
  if (is_pool_) {  // the set with these rows, then the rows in their order
    Rows rows = std::exchange(rows_, {});
    std::vector<float> scores = std::exchange(scores_, {});
    put_pool(pool() | Bitset::of(selector_.size_, rows));
    step(Verb::kAdmit, Reason::kNoMatch, Found::kFallback);
    rows_ = std::move(rows);
    scores_ = std::move(scores);
    is_pool_ = false;
    step(Verb::kNarrow, Reason::kNoMatch);
    return;
  }
  step(Verb::kAdmit, Reason::kNoMatch, Found::kFallback);
}

bool Selector::Turn::allows_core() const {
  const auto allowed = [&](std::int32_t row) { return allows(row); };
  return std::ranges::any_of(stages_.cap.core, allowed) ||
         std::ranges::any_of(ask_.included, allowed);
}

const Bitset& Selector::Turn::last_choice() const {
  for (std::size_t set = sets_; set > 0; --set) {
    if (picked_.pools[set - 1].count() > 0) return picked_.pools[set - 1];
  }
  return ask_.allowed;
}

bool Selector::Turn::has_earlier() const {
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

bool Selector::Turn::is_narrowed() const {
  const std::size_t left = pool().count();
  return left > 0 && left < ask_.allowed.count();
}

FoundTools Selector::Turn::search(const RetrievalStage& stage, const Part& message,
                                  std::span<const std::int32_t> known_rows,
                                  std::span<const float> known_scores, double hits) const {
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
                               pool(),
                               known_rows,
                               known_scores,
                               k,
                               {learned, learned != nullptr ? ask_.keys : nullptr, ask_.now}},
                              stage.fusion);
  const Retrieved& columns = found.columns;
  const bool is_whole =
      static_cast<double>(pool().count()) >= kWhole * static_cast<double>(selector_.size_);
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

}  // namespace toolroll
