#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "selector_turn.hpp"

namespace toolroll {
namespace {

constexpr double kInAPart = 0.5;  // of several clauses a mark is in one

/// The rows of all these columns, ascending, each once, as far as they are in play.
template <typename Column>
Rows joined(std::span<const Column> columns, const Bitset& pool) {
  Rows rows;
  for (const Column& column : columns) {
    for (const std::int32_t row : column.rows) {
      if (pool.contains(static_cast<std::size_t>(row))) rows.push_back(row);
    }
  }
  if (columns.size() > 1) {
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  return rows;
}

/// The numbers of marks, the greatest weight first.
template <typename Weight>
std::vector<std::size_t> by_weight(std::size_t count, const Weight& weight) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  return order;
}

}  // namespace

void Selector::Turn::narrow_to_page() {
  if (ask_.page == nullptr) return;
  Bitset kept = ask_.allowed & *ask_.page;
  if (kept.count() == 0) return;
  put_pool(std::move(kept));
  step(Verb::kNarrow, Reason::kPageMatch, Found::kPage);
}

void Selector::Turn::favour_routes() {
  if (ask_.routed.empty()) return;
  rows_ = joined(ask_.routed, pool());
  scores_.assign(rows_.size(), stages_.routes->weight);
  picked_.route_best = rows_.empty() ? 0.0 : static_cast<double>(stages_.routes->weight);
  step(Verb::kRescore, Reason::kRouteHit, Found::kRoutes);
}

void Selector::Turn::favour_marks() {
  const std::span<const MarkedRows> marks = ask_.marks;
  const double of_mark = ask_.clauses.size() > 1 ? kInAPart * stages_.marks : stages_.marks;
  const auto weight = [&](std::size_t mark) {
    return static_cast<float>(marks[mark].is_service ? stages_.services : of_mark);
  };
  Rows rows = joined(marks, pool());
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
      if (stages_.damps_marks) gained[at] *= stages_.retrieval->retriever->damping(row);
      gains[mark * n + at] = gained[at];
    }
  }
  const float best = *std::max_element(gained.begin(), gained.end());
  picked_.mark_best = static_cast<double>(best);
  gain(rows, gained);
  picked_.marked = std::move(rows);
  step(Verb::kRescore, Reason::kMarkHit, Found::kMarks);
}

void Selector::Turn::favour_called() {
  std::size_t most = 0;
  for (const ToolkitRows& toolkit : ask_.called) most += toolkit.rows.size();
  if (most == 0) return;
  RowMap place(most);
  std::vector<std::int32_t>& rows = picked_.called;
  std::vector<double> gains;
  for (const ToolkitRows& toolkit : ask_.called) {
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

void Selector::Turn::gain(const Rows& rows, const std::vector<float>& gains) {
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
    if (!pool().contains(static_cast<std::size_t>(rows_[i]))) continue;
    rows_[kept] = rows_[i];
    scores_[kept++] = scores_[i];
  }
  resize(kept);
}

}  // namespace toolroll
