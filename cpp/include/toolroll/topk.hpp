/// The best k of n scores: higher first, ties by ascending row.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace toolroll {

/// Rows with their scores, best first, ties by ascending row.
struct Hits {
  std::vector<std::int32_t> rows;
  std::vector<float> scores;
};

/// Writes the best.size() best rows, best first, ties by ascending row.
/// Throws std::invalid_argument if best is longer than scores. NaN is not allowed.
/// O(n + m log k), m of them better than the k best before them.
void top_k(std::span<const float> scores, std::span<std::int32_t> best);

/// A score and its row as one number that sorts as we rank: greater is better, ties by ascending
/// row.
inline std::uint64_t rank(float score, std::int32_t row) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 ranks as 0
  const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{ordered} << 32 | ~static_cast<std::uint32_t>(row);
}
inline float ranked_score(std::uint64_t rank) {
  const auto ordered = static_cast<std::uint32_t>(rank >> 32);
  return std::bit_cast<float>((ordered >> 31) != 0 ? ordered ^ 0x80000000U : ~ordered);
}
inline std::int32_t ranked_row(std::uint64_t rank) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(rank));
}

/// Keeps the k best of the rows offered so far, in any order of offers.
class Best {
 public:
  explicit Best(std::size_t k);

  /// Scores below this are not kept; -inf until there are k rows.
  float threshold() const { return threshold_; }
  std::size_t size() const { return ranks_.size(); }

  /// score is finite, row is not negative. O(k) for small k, O(log k) otherwise.
  void offer(float score, std::int32_t row) {
    if (score >= threshold_) insert(rank(score, row));
  }
  /// Offers scores[i] for row first + i; skips runs below the threshold sixteen at a time.
  void offer(std::span<const float> scores, std::int32_t first);

  /// Best first; takes the rows out.
  void take(std::vector<std::int32_t>& rows, std::vector<float>& scores);

 private:
  void insert(std::uint64_t rank);

  std::size_t k_;
  float threshold_ = -std::numeric_limits<float>::infinity();
  std::vector<std::uint64_t> ranks_;  // best first for small k, else a heap with the worst in front
};

/// Calls visit(i) for each i with scores[i] >= threshold(), ascending. visit may raise the
/// threshold: it is read again before each group of sixteen and before each visit.
template <typename Threshold, typename Visit>
void each_above(std::span<const float> scores, Threshold threshold, Visit visit) {
  constexpr std::size_t kGroup = 16;
  std::size_t i = 0;
  for (; i + kGroup <= scores.size(); i += kGroup) {
    const float limit = threshold();
    int hits = 0;  // counting vectorises where an early exit does not
    for (std::size_t j = 0; j < kGroup; ++j) hits += scores[i + j] >= limit ? 1 : 0;
    if (hits == 0) continue;
    for (std::size_t j = i; j < i + kGroup; ++j) {
      if (scores[j] >= threshold()) visit(j);
    }
  }
  for (; i < scores.size(); ++i) {
    if (scores[i] >= threshold()) visit(i);
  }
}

}  // namespace toolroll
