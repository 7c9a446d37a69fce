/// What the searches of a BM25 index share: their buffers, and the way to a row's postings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "toolroll/bm25.hpp"
#include "toolroll/terms.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

// Measured by `python -m bench --only lexical`.
/// Up to so many rows all sums are scanned, without maxima: most blocks would have to be summed.
inline constexpr std::size_t kBm25Small = 2048;
/// Postings that are walked in the time that one is looked up.
inline constexpr std::size_t kBm25LookUpCost = 32;

/// A sum above 0, however small.
inline constexpr float kLeastSum = std::numeric_limits<float>::denorm_min();

/// Offers every sum above 0 of the allowed rows.
inline void collect(std::span<const float> sums, const Bitset* allowed, Best& best) {
  each_above(
      sums, [&best] { return std::max(best.threshold(), kLeastSum); },
      [&](std::size_t row) {
        if (allowed == nullptr || allowed->contains(row)) {
          best.offer(sums[row], static_cast<std::int32_t>(row));
        }
      });
}

inline void offer_if_above_zero(float sum, std::int32_t row, Best& best) {
  if (sum > 0) best.offer(sum, row);
}

inline Hits taken(Best& best) {
  Hits hits;
  best.take(hits.rows, hits.scores);
  return hits;
}

/// The buffers of one search. They are kept from search to search, so that a search allocates
/// almost nothing.
struct Bm25Index::Scratch {
  Terms terms;
  std::vector<std::string_view> unknown;
  Message message;
  std::vector<float> sums;           // by row; all 0 between searches
  std::vector<float> bounds;         // by block
  std::vector<std::uint64_t> ranks;  // of blocks
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> kept;  // those of rows that may be among the best
};

/// The scratch buffers of one index: one for each search that ran at the same time, at most kKept.
/// They are freed with the index.
class Bm25Index::ScratchPool {
 public:
  ScratchPool() { idle_.reserve(kKept); }

  std::unique_ptr<Scratch> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(idle_.back());
        idle_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<Scratch>();
  }
  void give_back(std::unique_ptr<Scratch> scratch) noexcept {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kKept) idle_.push_back(std::move(scratch));  // within what was reserved
  }
  std::size_t idle() const {
    const std::lock_guard lock(mutex_);
    return idle_.size();
  }

 private:
  static constexpr std::size_t kKept = 16;
  mutable std::mutex mutex_;  // held for the move of a pointer
  std::vector<std::unique_ptr<Scratch>> idle_;
};

/// A scratch buffer for the time of one call. The destructor returns it with all sums 0, also after
/// an exception.
class Bm25Index::Lease {
 public:
  explicit Lease(ScratchPool& pool) : pool_(pool), scratch_(pool.take()) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (is_dirty_) std::fill(scratch_->sums.begin(), scratch_->sums.end(), 0.0F);
    pool_.give_back(std::move(scratch_));
  }

  Scratch& operator*() { return *scratch_; }
  Scratch* operator->() { return scratch_.get(); }
  // The sums of so many rows, all 0. The caller sets them to 0 after use and reports that, or the
  // destructor does it.
  float* sums(std::size_t n) {
    if (scratch_->sums.size() < n) scratch_->sums.resize(n);
    is_dirty_ = true;
    return scratch_->sums.data();
  }
  void are_zero_again() { is_dirty_ = false; }

 private:
  ScratchPool& pool_;
  std::unique_ptr<Scratch> scratch_;
  bool is_dirty_ = false;
};

inline Bm25Index::Range Bm25Index::range_of(std::uint32_t term, std::size_t row) const {
  if (shift_[term] == kNoSkips) return {begins_[term], df(term)};
  const std::uint32_t* const skips = skips_.data() + skips_begin_[term] + (row >> shift_[term]);
  return {begins_[term] + skips[0], skips[1] - skips[0]};
}

inline std::uint64_t Bm25Index::first_from(std::uint32_t term, std::size_t row) const {
  auto [first, n] = range_of(term, row);
  const std::int32_t* const rows = postings_.data();
  while (n > 0) {  // halves the range without a branch that depends on a row
    const std::size_t half = n / 2;
    const bool is_below = static_cast<std::size_t>(rows[first + half]) < row;
    first += is_below ? half + 1 : 0;
    n = is_below ? n - half - 1 : half;
  }
  return first;
}

inline float Bm25Index::impact(std::uint32_t term, std::int32_t row) const {
  const auto at = static_cast<std::size_t>(row);
  const std::uint8_t* const maxima = maxima_of(term);
  if (maxima != nullptr && maxima[at / kBlock] == 0) return 0;
  const std::uint64_t found = first_from(term, at);
  return found < begins_[term + 1] && postings_[found] == row ? impacts_[found] : 0;
}

}  // namespace toolroll
