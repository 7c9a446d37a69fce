#include "toolroll/selector.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "checks.hpp"
#include "selector_turn.hpp"

namespace toolroll {
namespace {

constexpr double kTurnNs = 4'000;      // what a turn costs beside retrieval
constexpr double kLearntRowNs = 150;   // a candidate's posteriors and its draw
constexpr double kUnrankedRowNs = 20;  // a row's place where there is no retrieval

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

}  // namespace

std::size_t rounded_up(double number) {
  return number >= static_cast<double>(kMost) ? kMost : static_cast<std::size_t>(std::ceil(number));
}

std::span<const std::int32_t> Picked::selected() const {
  if (steps.empty()) return {};
  return std::span(rows).subspan(steps.back().begin, steps.back().end - steps.back().begin);
}

std::span<const float> Picked::selected_scores() const {
  if (steps.empty()) return {};
  return std::span(scores).subspan(steps.back().begin, steps.back().end - steps.back().begin);
}

Selector::Turn::Turn(const Selector& selector, const Ask& ask)
    : selector_(selector), stages_(selector.stages_), ask_(ask), included_(ask.included.size()) {
  for (const std::int32_t row : ask.included) {
    if (selector.core_.find(row) == nullptr) {
      const auto place = static_cast<std::int32_t>(selector.core_.size() + included_.size());
      included_.add(row, place);
    }
  }
}

Picked Selector::Turn::result() && {
  count_turns();
  return std::move(picked_);
}

void Selector::Turn::step(Verb verb, Reason reason, Found found) {
  const auto begin = static_cast<std::uint32_t>(picked_.rows.size());
  picked_.rows.insert(picked_.rows.end(), rows_.begin(), rows_.end());
  picked_.scores.insert(picked_.scores.end(), scores_.begin(), scores_.end());
  const auto end = static_cast<std::uint32_t>(picked_.rows.size());
  const auto set = is_pool_ ? static_cast<std::int32_t>(sets_) : Step::kColumns;
  picked_.steps.push_back({verb, reason, found, set, begin, end});
}

void Selector::Turn::resize(std::size_t n) {
  rows_.resize(n);
  scores_.resize(n);
}

void Selector::Turn::put_pool(Bitset pool) {
  picked_.pools.push_back(std::move(pool));
  sets_ = picked_.pools.size();
}

void Selector::Turn::narrow_to(const Bitset& kept, Reason reason, Found found) {
  put_pool(pool() & kept);
  std::size_t left = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!kept.contains(static_cast<std::size_t>(rows_[i]))) continue;
    rows_[left] = rows_[i];
    scores_[left++] = scores_[i];
  }
  resize(left);
  step(Verb::kNarrow, reason, found);
}

void Selector::Turn::reorder(const Rows& places) {
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

void Selector::Turn::arrange(Rows rows) {
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

std::optional<std::size_t> Selector::Turn::places(std::optional<std::size_t> k) const {
  const std::optional<std::size_t> most = ask_.k ? ask_.k : k;
  if (!most || ask_.room == 1.0) return most;
  return rounded_up(static_cast<double>(*most) * ask_.room);
}

std::optional<std::size_t> Selector::Turn::limit() const {
  const std::optional<std::size_t>& own = stages_.cap.max_tools;
  if (!own || !ask_.max_tools) return own ? own : ask_.max_tools;
  return std::min(*own, *ask_.max_tools);
}

const std::int32_t* Selector::Turn::core_place(std::int32_t row) const {
  const std::int32_t* const place = selector_.core_.find(row);
  return place != nullptr ? place : included_.find(row);
}

std::int64_t Selector::Turn::cost(std::int32_t row) const {
  const auto at = static_cast<std::size_t>(row);
  const std::size_t behind = ask_.costs[0].size();
  return at < behind ? ask_.costs[0][at] : ask_.costs[1][at - behind];
}

Selector::Selector(std::size_t size, SoftStages stages)
    : size_(size), stages_(std::move(stages)), core_(RowMap::of(stages_.cap.core)) {
  if (stages_.retrieval) {
    check_stage("retriever", *stages_.retrieval, size);
  } else if (stages_.by_words || stages_.learning || stages_.thompson) {
    throw std::invalid_argument("retriever: is missing, must be there for a stage that reorders");
  }
  if (stages_.by_words) check_stage("retriever by words", *stages_.by_words, size);
  if (stages_.routes && stages_.routes->no_hit) check_rows("no hit", *stages_.routes->no_hit, size);
  check_rows("base", stages_.base, size);
  check_rows("pinned", stages_.pinned, size);
  check_rows("core", stages_.cap.core, size);
  if (stages_.learning) toolroll::check(stages_.learning->weights);
}

void Selector::check(const Ask& ask) const {
  check_size("allowed", ask.allowed.size(), size_);
  if (ask.page != nullptr) check_size("page", ask.page->size(), size_);
  for (const ToolkitRows& toolkit : ask.routed) check_rows("routed", toolkit.rows, size_);
  for (const MarkedRows& mark : ask.marks) check_rows("marks", mark.rows, size_);
  for (const ToolkitRows& toolkit : ask.called) check_rows("called", toolkit.rows, size_);
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
  const bool fills = stages_.fills();
  if (!fills) turn.route();
  turn.favour_marks();
  turn.favour_called();
  turn.retrieve();
  if (!fills) {
    turn.retrieve_by_words();
    turn.fall_back();
  }
  turn.rank();
  turn.draw();
  if (fills) {
    turn.fill();
    turn.retrieve_by_words();
    turn.fall_back();
  }
  turn.include();
  turn.cut();
  turn.keep_list();
  turn.keep_order();
  return std::move(turn).result();
}

double Selector::expected_ns(const Ask& ask) const {
  if (!stages_.retrieval) {
    return kTurnNs + kUnrankedRowNs * static_cast<double>(ask.allowed.count());
  }
  const RetrievalStage& stage = *stages_.retrieval;
  const std::size_t k = std::min(stage.candidates + stage.spare + stage.core, size_);
  const RetrievalQuery query{
      ask.message, ask.clauses, ask.earlier, ask.allowed,
      {},          {},          k,           {ask.learned, ask.keys, ask.now}};
  const double learnt =
      ask.learned == nullptr ? 0.0 : kLearntRowNs * static_cast<double>(stage.rescored);
  return kTurnNs + learnt + stage.retriever->expected_ns(query);
}

}  // namespace toolroll
