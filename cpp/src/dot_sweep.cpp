#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "dot_scan.hpp"
#include "prefetch.hpp"

namespace toolroll {
namespace {

/// One search: chunk by chunk, from bounds of the whole chunk to float32 products of a few rows.
class Sweep {
 public:
  Sweep(const VectorRows& rows, Query& query, const Bitset* mask, Best& best)
      : rows_(rows), query_(query), mask_(mask), best_(best) {}

  void run(std::size_t k) {
    const bool in_halves = !rows_.halves.empty();
    if (in_halves) query_.set_stages();
    std::size_t pause = 0;  // chunks until the 4-bit rows are tried again
    std::size_t length = kFirstChunk;
    for (std::size_t first = 0; first < rows_.size(); first += length, length = kChunk) {
      length = std::min(length, rows_.size() - first);
      const bool is_first = first == 0;
      if (in_halves && pause == 0) {
        bound_halves(first, length);
        if (is_first) seed(length, k);
        const std::size_t count = above(first, length, at_ + waiting_);
        const bool too_many = static_cast<double>(count) > kTooMany * static_cast<double>(length);
        if (too_many) pause = kPause;
        wait(count, is_first || too_many);
        continue;
      }
      if (pause > 0) --pause;
      dot_.i8_upper(query_.coarse(), rows_.small.row(first), rows_.step.data() + first,
                    rows_.error.data() + first, length, rows_.width(), upper_);
      if (is_first) seed(length, k);
      keep(above(first, length, at_),
           [&](std::size_t i) { return upper_[static_cast<std::size_t>(at_[i]) - first]; });
    }
    refine();
  }

 private:
  // Measured by `python -m bench --only vectors`.
  // The bounds of a chunk stay in the first-level cache. The first chunk is longer, so that the
  // best of it are near the best of all.
  static constexpr std::size_t kFirstChunk = 2048;
  static constexpr std::size_t kChunk = 1024;
  static_assert(kFirstChunk % kBlockRows == 0 && kChunk % kBlockRows == 0);
  // If more rows of a chunk than this share are left after 4 bits, then 8 bits are faster at once:
  // the next ones are read in them. Of the first chunk, random directions leave about half, and
  // vectors of texts 3 to 20 %.
  static constexpr double kTooMany = 0.25;
  static constexpr std::size_t kPause = 15;
  // So many rows are refined together, so that each does not wait for memory alone.
  static constexpr std::size_t kTogether = 64;
  static constexpr std::size_t kSortedAtMost = 64;
  // Bounds that are offered one by one, before the others are compared with the best of them.
  static constexpr std::size_t kFirstSeeds = 128;

  bool is_allowed(std::int32_t row) const {
    return mask_ == nullptr || mask_->contains(static_cast<std::size_t>(row));
  }

  /// A bound below this excludes its row. Never -inf, which stands for rows that are done.
  float least() const { return std::max(best_.threshold(), std::numeric_limits<float>::lowest()); }

  /// Writes the rows of the chunk whose bounds reach the threshold; returns how many.
  std::size_t above(std::size_t first, std::size_t length, std::int32_t* rows) const {
    return dot_.above(upper_, length, least(), static_cast<std::int32_t>(first), rows);
  }

  void bound_halves(std::size_t first, std::size_t length) {
    // Rows at the threshold have about this cosine with their 4-bit form.
    const float t0 = std::clamp(best_.threshold() - rows_.halves.mean_error(), 0.0F, 0.95F);
    dot_.i4_upper(query_.halves(t0), rows_.halves.block(first),
                  (length + kBlockRows - 1) / kBlockRows, rows_.width(), upper_);
  }

  /// Offers the k rows of the first chunk that have the highest bounds, so that there is a
  /// threshold.
  void seed(std::size_t length, std::size_t k) {
    if (mask_ != nullptr) {
      for (std::size_t i = 0; i < length; ++i) {
        if (!mask_->contains(i)) upper_[i] = -std::numeric_limits<float>::infinity();
      }
    }
    Best highest(std::min(k, length));
    const std::size_t some = std::min(length, kFirstSeeds);
    highest.offer({upper_, some}, 0);
    const std::size_t count =
        dot_.above(upper_ + some, length - some,
                   std::max(highest.threshold(), std::numeric_limits<float>::lowest()),
                   static_cast<std::int32_t>(some), at_);
    for (std::size_t i = 0; i < count; ++i) highest.offer(upper_[at_[i]], at_[i]);
    std::vector<std::int32_t> seeds;
    std::vector<float> bounds;
    highest.take(seeds, bounds);
    while (!bounds.empty() && bounds.back() < std::numeric_limits<float>::lowest()) {
      bounds.pop_back();  // not allowed
    }
    kept_ = 0;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      candidates_[kept_++] = {seeds[i], bounds[i]};
      upper_[seeds[i]] = -std::numeric_limits<float>::infinity();
    }
    offer_candidates();
  }

  /// Adds the rows behind the waiting ones to them, and refines all as soon as they are enough.
  void wait(std::size_t count, bool at_once) {
    for (std::size_t i = waiting_; i < waiting_ + std::min(count, kTogether); ++i) {
      const auto row = static_cast<std::size_t>(at_[i]);
      prefetch_bytes(rows_.small.row(row), rows_.width());
      prefetch(&rows_.step[row]);
      prefetch(&rows_.error[row]);
    }
    waiting_ += count;
    if (at_once || waiting_ >= kTogether) refine();
  }

  /// From 4 bits to 8 for the rows that wait.
  void refine() {
    if (waiting_ == 0) return;
    dot_.i8_upper_at(query_.fine(), rows_.small.data(), rows_.step.data(), rows_.error.data(), at_,
                     waiting_, rows_.width(), upper_);
    keep(waiting_, [&](std::size_t i) { return upper_[i]; });
    waiting_ = 0;
  }

  /// Offers those of the first `count` rows of at_ whose bounds reach the threshold, highest first.
  template <typename Bound>
  void keep(std::size_t count, Bound bound) {
    kept_ = 0;
    const float limit = least();
    for (std::size_t i = 0; i < count; ++i) {
      const float upper = bound(i);
      if (upper >= limit && is_allowed(at_[i])) candidates_[kept_++] = {at_[i], upper};
    }
    if (kept_ <= kSortedAtMost) {
      std::ranges::sort(std::span(candidates_, kept_), std::greater<>{}, &Candidate::upper);
    }
    offer_candidates();
  }

  void offer_candidates() {
    constexpr std::size_t kGroup = 4;  // rows whose products are computed together
    std::int32_t group[kGroup];
    float scores[kGroup];
    for (std::size_t i = 0; i < kept_; i += kGroup) {
      const std::size_t end = std::min(i + kGroup, kept_);
      const std::size_t next = std::min(end + kGroup, kept_);
      for (std::size_t j = end; j < next; ++j) prefetch_row(candidates_[j].row);
      std::size_t count = 0;
      for (std::size_t j = i; j < end; ++j) {
        if (candidates_[j].upper >= best_.threshold()) group[count++] = candidates_[j].row;
      }
      dot_.f32_at(query_.full(), rows_.full.data(), group, count, rows_.width(), scores);
      for (std::size_t j = 0; j < count; ++j) best_.offer(scores[j], group[j]);
    }
  }

  void prefetch_row(std::int32_t row) const {
    prefetch_bytes(rows_.full.row(static_cast<std::size_t>(row)), rows_.width() * sizeof(float));
  }

  /// Behind the first 2 kB the hardware has recognised the stream.
  static void prefetch_bytes(const void* at, std::size_t size) {
    size = std::min<std::size_t>(size, 2048);
    for (std::size_t i = 0; i < size; i += 64) prefetch(static_cast<const std::byte*>(at) + i);
  }

  const VectorRows& rows_;
  Query& query_;
  const Bitset* mask_;
  Best& best_;
  const DotKernels& dot_ = dot_kernels();
  std::size_t waiting_ = 0;  // rows at the beginning of at_
  std::size_t kept_ = 0;     // candidates of the last keep()
  float upper_[kFirstChunk + kTogether];
  std::int32_t at_[kFirstChunk + kTogether + 16];
  Candidate candidates_[kFirstChunk + kTogether];
};

}  // namespace

void sweep(const VectorRows& rows, Query& query, std::size_t k, const Bitset* mask, Best& best) {
  Sweep(rows, query, mask, best).run(k);
}

}  // namespace toolroll
