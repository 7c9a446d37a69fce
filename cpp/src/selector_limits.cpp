#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "checks.hpp"
#include "selector_turn.hpp"

namespace toolroll {

void Selector::Turn::include() {
  if (!stages_.includes) return;
  admit(ask_.included, Reason::kIncluded);
  admit(stages_.base, Reason::kBase);
  admit(stages_.pinned, Reason::kPinned);
}

void Selector::Turn::admit(std::span<const std::int32_t> rows, Reason reason) {
  if (rows.empty()) return;
  if (is_pool_) {
    put_pool(pool() | (Bitset::of(selector_.size_, rows) & ask_.allowed));
    return step(Verb::kAdmit, reason);
  }
  const RowMap there = RowMap::of(rows_);
  Rows added;
  for (const std::int32_t row : rows) {
    if (allows(row) && !there.holds(row)) added.push_back(row);
  }
  if (added.empty()) return;
  rows_.insert(rows_.begin(), added.begin(), added.end());
  scores_.insert(scores_.begin(), added.size(), 0.0F);
  step(Verb::kAdmit, reason);
}

void Selector::Turn::cut() {
  if (is_pool_) {
    rank_pool();
    rerank();
  } else {
    put_core_first();
    rerank();
    cut_to_k();
  }
  if (const auto most = limit(); most && rows_.size() > *most) {
    resize(*most);
    step(Verb::kNarrow, Reason::kMaxTools);
  }
  if (ask_.budget) cut_to_budget();
}

void Selector::Turn::rank_pool() {
  struct Ranked {
    std::int32_t place;
    float score;
    std::int32_t row;
  };
  const auto behind = static_cast<std::int32_t>(selector_.core_.size() + included_.size());
  const RowMap known = RowMap::of(rows_);
  std::vector<Ranked> order;
  order.reserve(pool().count());
  pool().each([&](std::int32_t row) {
    const std::int32_t* const place = core_place(row);
    const std::int32_t* const at = known.find(row);
    order.push_back({place != nullptr ? *place : behind,
                     at != nullptr ? scores_[static_cast<std::size_t>(*at)] : 0.0F, row});
  });
  std::stable_sort(order.begin(), order.end(), [](const Ranked& a, const Ranked& b) {
    return a.place != b.place ? a.place < b.place : a.score > b.score;
  });
  rows_.clear();
  scores_.clear();
  for (const Ranked& one : order) {
    rows_.push_back(one.row);
    scores_.push_back(one.score);
  }
  is_pool_ = false;
  core_ = static_cast<std::size_t>(
      std::ranges::count_if(order, [behind](const Ranked& one) { return one.place < behind; }));
  step(Verb::kNarrow, Reason::kWhole);
}

void Selector::Turn::put_core_first() {
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

void Selector::Turn::rerank() {
  if (ask_.rerank.empty() || core_ == rows_.size()) return;
  const std::size_t n = rows_.size() - core_;
  unscored_.emplace(n);
  for (std::size_t i = core_; i < rows_.size(); ++i) {
    if (scores_[i] == 0.0F) unscored_->add(rows_[i]);
  }
  picked_.core = core_;
  for (std::size_t at = 0; at < ask_.rerank.size(); ++at) {
    const auto given = ask_.rerank[at](std::span<const std::int32_t>(rows_).subspan(core_),
                                       std::span<const float>(scores_).subspan(core_));
    if (!given) continue;
    check_length("scores", given->size(), n);
    for (std::size_t i = 0; i < n; ++i) {
      if (!std::isfinite((*given)[i]))
        refuse(entry("scores", i), static_cast<double>((*given)[i]), "finite");
      scores_[core_ + i] = (*given)[i];
    }
    Rows order(rows_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(core_), order.end(),
                     [&](std::int32_t a, std::int32_t b) {
                       return scores_[static_cast<std::size_t>(a)] >
                              scores_[static_cast<std::size_t>(b)];
                     });
    reorder(order);
    picked_.own_steps.push_back(static_cast<std::int32_t>(at));
    step(Verb::kReorder, Reason::kOwnStep, Found::kOwnStep);
  }
}

void Selector::Turn::cut_to_k() {
  const std::optional<std::size_t> k = places(stages_.cap.k);
  if (!k || core_ + *k >= rows_.size()) return;
  const std::size_t n = rows_.size();
  const auto counts = [&](std::size_t i) {
    return unscored_ ? !unscored_->holds(rows_[i]) : scores_[i] != 0.0F;
  };
  std::size_t found = 0;
  for (std::size_t i = core_; i < n; ++i) found += counts(i) ? 1 : 0;
  if (found == n - core_ || has_fallback_) {
    resize(core_ + *k);
  } else if (found <= *k) {
    return;
  } else {
    std::size_t kept = core_, scored = 0;
    for (std::size_t i = core_; i < n; ++i) {
      if (counts(i) && ++scored > *k) continue;
      rows_[kept] = rows_[i];
      scores_[kept++] = scores_[i];
    }
    resize(kept);
  }
  step(Verb::kNarrow, Reason::kBeyondK);
}

void Selector::Turn::cut_to_budget() {
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

}  // namespace toolroll
