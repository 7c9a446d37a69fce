#include "toolroll/topk.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

namespace toolroll {
namespace {

// Shifting up to 64 numbers is faster than two walks through a heap.
constexpr std::size_t kSorted = 64;
constexpr std::size_t kReserve = 1024;  // a k of a million takes no memory before there are rows

}  // namespace

Best::Best(std::size_t k) : k_(k) {
  if (k == 0) threshold_ = std::numeric_limits<float>::infinity();
  ranks_.reserve(std::min(k, kReserve));
}

void Best::insert(std::uint64_t rank) {
  if (k_ == 0) return;
  if (k_ <= kSorted) {
    if (ranks_.size() < k_) {
      ranks_.push_back(rank);
    } else if (rank > ranks_.back()) {
      ranks_.back() = rank;
    } else {
      return;
    }
    std::size_t i = ranks_.size() - 1;
    for (; i > 0 && ranks_[i - 1] < rank; --i) ranks_[i] = ranks_[i - 1];
    ranks_[i] = rank;
    if (ranks_.size() == k_) threshold_ = ranked_score(ranks_.back());
    return;
  }
  if (ranks_.size() == k_) {
    if (rank <= ranks_.front()) return;
    std::ranges::pop_heap(ranks_, std::greater<>{});
    ranks_.back() = rank;
  } else {
    ranks_.push_back(rank);
  }
  std::ranges::push_heap(ranks_, std::greater<>{});
  if (ranks_.size() == k_) threshold_ = ranked_score(ranks_.front());
}

void Best::offer(std::span<const float> scores, std::int32_t first) {
  each_above(
      scores, [this] { return threshold_; },
      [&](std::size_t i) { insert(rank(scores[i], first + static_cast<std::int32_t>(i))); });
}

void Best::take(std::vector<std::int32_t>& rows, std::vector<float>& scores) {
  if (k_ > kSorted) std::ranges::sort(ranks_, std::greater<>{});
  rows.resize(ranks_.size());
  scores.resize(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    rows[i] = ranked_row(ranks_[i]);
    scores[i] = ranked_score(ranks_[i]);
  }
  ranks_.clear();
  if (k_ != 0) threshold_ = -std::numeric_limits<float>::infinity();
}

void top_k(std::span<const float> scores, std::span<std::int32_t> best) {
  if (best.size() > scores.size()) {
    throw std::invalid_argument("top_k: asked for " + std::to_string(best.size()) + " of " +
                                std::to_string(scores.size()) + " scores");
  }
  Best kept(best.size());
  kept.offer(scores, 0);
  std::vector<std::int32_t> rows;
  std::vector<float> ignored;
  kept.take(rows, ignored);
  std::ranges::copy(rows, best.begin());
}

}  // namespace toolroll
