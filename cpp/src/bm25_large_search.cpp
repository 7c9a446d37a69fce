// The search of an index of more than kBm25Small rows: blocks in the order of their bounds, or the
// postings of the rarest terms.
#include <algorithm>
#include <array>
#include <bit>

#include "bm25_search.hpp"
#include "prefetch.hpp"
#include "toolroll/dot.hpp"

namespace toolroll {
namespace {

// Measured by `python -m bench --only lexical`.
constexpr std::size_t kSeeds = 8;  // blocks, and a quarter of k, that give a threshold
constexpr std::size_t kMostSeeds = 64;
constexpr std::size_t kTile = 2048;  // blocks whose bounds are computed at a time
// A search computes bounds if the terms of its message have so many times the postings of the
// blocks that give a threshold. Otherwise walking the postings of the rare terms is faster.
constexpr std::size_t kBoundedPostings = 96;
constexpr std::size_t kCrowdShare = 4;  // all sums are scanned instead of a list of n / 4 rows
constexpr std::size_t kBlockCost = 12;  // postings walked while one term is added to a block's rows
// With so many times the blocks that could be summed while the postings are walked, none is.
constexpr std::size_t kHopeless = 4;
constexpr std::size_t kTogether = 8;  // blocks whose postings are asked for together

constexpr std::size_t kLineOfPostings = 16;  // postings in a cache line
// More than the error of a sum of kMostTerms float32 numbers. Bounds are increased by it before
// they exclude a row.
constexpr float kSlack = 1 + 1e-4F;

}  // namespace

/// One search of a large index.
class Bm25Index::LargeSearch {
 public:
  LargeSearch(const Bm25Index& index, const Message& message, std::size_t k, const Bitset* allowed,
              Lease& scratch)
      : index_(index),
        terms_(message.terms),
        postings_(message.postings),
        k_(k),
        allowed_(allowed),
        scratch_(scratch),
        bounds_(scratch->bounds),
        best_(k) {}

  Hits run() {
    const bool has_bounds = postings_ > kBoundedPostings * terms_.size() * seeds();
    bounds_.clear();
    find_rest();
    if (has_bounds) {
      find_bounds();
      sum_promising_blocks();
      if (sum_other_blocks()) return taken(best_);
    }
    const std::size_t walked = has_bounds ? walk<true>() : walk<false>();
    if (is_crowded_) {
      scan(walked);
    } else {
      finish(walked);
    }
    return taken(best_);
  }

 private:
  /// Whether a row with at most this sum may be among the k best.
  bool may_be_kept(float bound) const { return bound > 0 && bound * kSlack >= least_; }

  /// The number of blocks that give a threshold.
  std::size_t seeds() const { return std::min(kSeeds + k_ / 4, kMostSeeds); }

  /// The least bound of a block that may have one of the k best.
  float least_bound() const { return std::max(least_ / kSlack, kLeastSum); }

  bool is_allowed(std::int32_t row) const {
    return allowed_ == nullptr || allowed_->contains(static_cast<std::size_t>(row));
  }

  std::size_t row_of(std::uint64_t posting) const {
    return static_cast<std::size_t>(index_.postings_[posting]);
  }

  /// bounds_[block] = at least the sum of each of its allowed rows, but for kSlack.
  void find_bounds() {
    const DotKernels& dot = dot_kernels();
    bounds_.resize(index_.blocks());
    std::ranges::fill(bounds_, 0.0F);
    for (std::size_t first = 0; first < bounds_.size(); first += kTile) {
      const std::size_t count = std::min(kTile, bounds_.size() - first);
      float* const bounds = bounds_.data() + first;
      for (const std::uint32_t term : terms_) {
        const std::uint8_t* maxima = index_.maxima_of(term);
        if (maxima == nullptr) continue;
        dot.add_bytes(maxima + first, index_.step_[term], count, bounds);
      }
    }
    for (const std::uint32_t term : terms_) {
      if (index_.maxima_of(term) != nullptr) continue;
      const std::uint64_t end = index_.begins_[term + 1];
      for (std::uint64_t i = index_.begins_[term]; i < end;) {
        const std::size_t block = row_of(i) / kBlock;
        float most = 0;
        for (; i < end && row_of(i) / kBlock == block; ++i) {
          most = std::max(most, index_.impacts_[i]);
        }
        bounds_[block] += most;
      }
    }
    if (allowed_ == nullptr) return;
    for (std::size_t b = 0; b < bounds_.size(); ++b) {
      if (allowed_rows(b) == 0) bounds_[b] = 0;
    }
  }

  /// The allowed rows of a block, a bit for each.
  std::uint32_t allowed_rows(std::size_t block) const {
    constexpr std::uint32_t kAll = (1U << kBlock) - 1;
    if (allowed_ == nullptr) return kAll;
    const std::size_t first = block * kBlock;
    return static_cast<std::uint32_t>(allowed_->words()[first / 64] >> (first % 64)) & kAll;
  }

  /// Offers the rows of the blocks with the greatest bounds.
  void sum_promising_blocks() {
    const DotKernels& dot = dot_kernels();
    Best best(seeds());
    std::array<std::int32_t, kTile + 16> blocks;
    for (std::size_t first = 0; first < bounds_.size(); first += kTile) {
      const std::size_t count = std::min(kTile, bounds_.size() - first);
      const std::size_t found =
          dot.above(bounds_.data() + first, count, std::max(best.threshold(), kLeastSum),
                    static_cast<std::int32_t>(first), blocks.data());
      for (std::size_t i = 0; i < found; ++i) {
        best.offer(bounds_[static_cast<std::size_t>(blocks[i])], blocks[i]);
      }
    }
    sum_blocks(taken(best).rows);
  }

  /// Offers the rows of all other blocks that may have one of the best, in the order of their
  /// bounds. False if walking postings is likely to be faster: then some blocks are left.
  bool sum_other_blocks() {
    std::size_t walked = 0;
    for (std::size_t j = 0; j < terms_.size() && may_be_kept(rest_[j]); ++j) {
      walked += index_.df(terms_[j]);
    }
    const std::size_t most = walked / (kBlockCost * terms_.size());
    std::vector<std::int32_t>& blocks = scratch_->rows;
    if (blocks.size() < bounds_.size() + 16) blocks.resize(bounds_.size() + 16);
    const std::size_t count =
        dot_kernels().above(bounds_.data(), bounds_.size(), least_bound(), 0, blocks.data());
    if (count > kHopeless * most) return false;
    std::vector<std::uint64_t>& heap = scratch_->ranks;
    heap.clear();
    for (std::size_t i = 0; i < count; ++i) {
      heap.push_back(rank(bounds_[static_cast<std::size_t>(blocks[i])], blocks[i]));
    }
    std::ranges::make_heap(heap);
    std::array<std::int32_t, kTogether> next;
    for (std::size_t summed = 0; !heap.empty() && may_be_kept(ranked_score(heap.front()));
         summed += kTogether) {
      if (summed >= most) return false;
      std::size_t taken = 0;
      for (; taken < kTogether && !heap.empty(); ++taken) {
        next[taken] = ranked_row(heap.front());
        std::ranges::pop_heap(heap);
        heap.pop_back();
      }
      sum_blocks({next.data(), taken});
    }
    return true;
  }

  /// Offers the rows of these blocks, as far as they may be kept. Their bounds become 0.
  void sum_blocks(std::span<const std::int32_t> blocks) {
    for (const std::int32_t block : blocks) prefetch_block(static_cast<std::size_t>(block));
    for (const std::int32_t at : blocks) {
      const auto block = static_cast<std::size_t>(at);
      if (may_be_kept(bounds_[block])) sum_block(block);
      bounds_[block] = 0;
      least_ = std::max(least_, best_.threshold());
    }
  }

  /// Asks for the postings among which those of the block are.
  void prefetch_block(std::size_t block) const {
    for (const std::uint32_t term : terms_) {
      if (index_.most_in(term, block) == 0) continue;
      const auto [first, count] = index_.range_of(term, block * kBlock);
      for (std::size_t i = first; i < first + count; i += kLineOfPostings) {
        prefetch(index_.postings_.data() + i);
        prefetch(index_.impacts_.data() + i);
      }
    }
  }

  /// Offers the allowed rows of the block, unless none of them may be kept.
  void sum_block(std::size_t block) {
    const std::size_t first = block * kBlock;
    std::array<float, kBlock> sums = {};
    for (const std::uint32_t term : terms_) {
      if (index_.most_in(term, block) == 0) continue;
      const std::uint64_t end = index_.begins_[term + 1];
      for (std::uint64_t i = index_.first_from(term, first); i < end && row_of(i) < first + kBlock;
           ++i) {
        sums[row_of(i) - first] += index_.impacts_[i];
      }
    }
    for (std::uint32_t left = allowed_rows(block); left != 0; left &= left - 1) {
      const auto at = static_cast<std::size_t>(std::countr_zero(left));
      offer_if_above_zero(sums[at], static_cast<std::int32_t>(first + at), best_);
    }
  }

  /// rest_[j] = at least what terms j and later add to any row.
  void find_rest() {
    rest_[terms_.size()] = 0;
    for (std::size_t j = terms_.size(); j-- > 0;) {
      rest_[j] = rest_[j + 1] + index_.greatest_[terms_[j]];
    }
  }

  /// Sums the first terms of all rows that may be kept, until no other row may be kept. Returns how
  /// many terms that takes. The rows are in scratch_->rows, their sums at their places.
  template <bool kHasBounds>
  std::size_t walk() {
    float* const sums = scratch_.sums(index_.size_);
    std::vector<std::int32_t>& rows = scratch_->rows;
    if (rows.size() < index_.size_) rows.resize(index_.size_);
    std::int32_t* const found = rows.data();
    std::size_t j = 0;
    for (; j < terms_.size(); ++j) {
      const std::uint32_t term = terms_[j];
      if (j > 0 && index_.df(term) > count_) raise_least(sums);
      if (!may_be_kept(rest_[j])) break;
      is_crowded_ = !kHasBounds && (count_ + index_.df(term)) * kCrowdShare > index_.size_;
      if (is_crowded_) break;
      const float least = least_bound();
      const std::int32_t* const postings = index_.postings_.data() + index_.begins_[term];
      const float* const impacts = index_.impacts_.data() + index_.begins_[term];
      const float* const bounds = bounds_.data();
      const std::size_t df = index_.df(term);
      std::size_t count = count_;  // not in memory: the loop waits for it
      for (std::size_t i = 0; i < df; ++i) {
        const std::int32_t row = postings[i];
        if constexpr (kHasBounds) {
          if (bounds[static_cast<std::size_t>(row) / kBlock] < least) continue;
        }
        found[count] = row;
        count += static_cast<std::size_t>(sums[row] == 0);
        sums[row] += impacts[i];
      }
      count_ = count;
    }
    return j;
  }

  /// Adds the terms from `first` on to all rows, and offers those with a sum.
  void scan(std::size_t first) {
    float* const sums = scratch_->sums.data();
    for (std::size_t j = first; j < terms_.size(); ++j) index_.add_up(terms_[j], sums);
    collect({sums, index_.size_}, allowed_, best_);
    std::fill_n(sums, index_.size_, 0.0F);
    scratch_.are_zero_again();
  }

  /// least_ becomes at least the k-th greatest sum so far: the sums only grow.
  void raise_least(const float* sums) {
    Best best = best_;
    for (const std::int32_t row : found()) {
      if (is_allowed(row)) best.offer(sums[row], row);
    }
    least_ = std::max(least_, best.threshold());
  }

  std::span<const std::int32_t> found() const { return {scratch_->rows.data(), count_}; }

  /// Adds the terms from `first` on to the rows that walk() found, and offers those that may be
  /// kept.
  void finish(std::size_t first) {
    float* const sums = scratch_->sums.data();
    std::vector<std::int32_t>& rows = scratch_->kept;
    rows.assign(found().begin(), found().end());
    if (allowed_ != nullptr)
      std::erase_if(rows, [&](std::int32_t row) { return !is_allowed(row); });
    if (first < terms_.size()) {
      raise_least(sums);
      keep(rows, [&](std::int32_t row) { return sums[row] + rest_[first]; });
      keep(rows, [&](std::int32_t row) {
        float sum = sums[row];
        for (std::size_t j = first; j < terms_.size(); ++j) {
          sum += index_.most_in(terms_[j], static_cast<std::size_t>(row) / kBlock);
        }
        return sum;
      });
      for (std::size_t j = first; j < terms_.size(); ++j) {
        if (j > first) keep(rows, [&](std::int32_t row) { return sums[row] + rest_[j]; });
        index_.add_up(terms_[j], rows, sums);
      }
    }
    for (const std::int32_t row : rows) offer_if_above_zero(sums[row], row, best_);
    for (const std::int32_t row : found()) sums[row] = 0;
    scratch_.are_zero_again();
  }

  /// Keeps the rows that may be kept by these bounds of their sums.
  template <typename Bound>
  void keep(std::vector<std::int32_t>& rows, Bound bound) const {
    std::size_t kept = 0;
    for (const std::int32_t row : rows) {
      rows[kept] = row;
      kept += static_cast<std::size_t>(may_be_kept(bound(row)));
    }
    rows.resize(kept);
  }

  const Bm25Index& index_;
  std::span<const std::uint32_t> terms_;
  std::size_t postings_;  // of all terms
  std::size_t k_;
  const Bitset* allowed_;
  Lease& scratch_;
  std::vector<float>& bounds_;  // by block; empty if this search does without
  Best best_;
  float least_ = 0;          // at most the k-th best score
  std::size_t count_ = 0;    // rows that walk() found
  bool is_crowded_ = false;  // whether walk() ended because it would have found too many
  std::array<float, kMostTerms + 1> rest_;
};

Hits Bm25Index::search_large(const Message& message, std::size_t k, const Bitset* allowed,
                             Lease& scratch) const {
  return LargeSearch(*this, message, k, allowed, scratch).run();
}

}  // namespace toolroll
