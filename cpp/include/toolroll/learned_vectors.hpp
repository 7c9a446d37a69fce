/// Learned vectors laid over those of a catalog, for one search.
///
/// A row whose subject has a learned vector v is compared by (1 - w) * cosine(q, row) + w *
/// cosine(q, v), and the learned vectors name their nearest rows too: a tool that words do not lead
/// to is found by the messages that it solved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "toolroll/bitset.hpp"
#include "toolroll/learned.hpp"
#include "toolroll/tool_keys.hpp"

namespace toolroll {

/// What a search is to know of what was learnt. Both may be missing together: then nothing was.
struct LearnedInput {
  const Learned* learned = nullptr;
  const ToolKeys* keys = nullptr;
  double now = 0.0;           // UTC seconds; from then on, what was learnt has faded
  std::size_t first_row = 0;  // the row of the keys that is row 0 of the retriever
};

class LearnedVectors {
 public:
  /// Nothing learnt: every function leaves its argument as it is.
  LearnedVectors() = default;
  /// size: rows of the retriever. Throws std::invalid_argument unless the keys have rows for them
  /// and the vectors, if there are any, are of width dim.
  LearnedVectors(const LearnedInput& input, std::size_t size, std::size_t dim);

  bool is_empty() const { return input_.learned == nullptr; }
  /// Adds the rows in play, at most so many, whose learned vectors speak most for the query.
  void nominate(std::span<const float> query, std::size_t most, const Bitset& in_play,
                std::vector<std::int32_t>& rows) const;
  /// Looks up the learned vectors of these rows, for blend() and recall().
  ///
  /// A tool that is said to have solved messages of all kinds is no answer to any of them: it
  /// counts as far as its messages are alike, not at all where their mean cosine is at `unrelated`
  /// or below, and whole from `related` on.
  void look_up(std::span<const std::int32_t> rows, float unrelated, float related);
  /// Whether any of them has one.
  bool has_any() const { return !entries_.empty(); }
  /// Turns the cosines of the rows that were looked up into blended ones.
  void blend(std::span<const float> query, std::span<float> cosines) const;
  /// Raises what the rows that were looked up have to how far the nearest of their messages is
  /// above a floor, less as it fades.
  void recall(std::span<const float> query, float floor, std::span<float> above) const;

 private:
  struct Entry {
    std::size_t place;  // among the rows looked up
    LearnedVector vector;
    float share;  // w, as far as the messages are alike
    float trust;  // how far they are, in [0, 1]
  };
  /// A query of length 1 in 8 bits, padded; without codes if it is all zeros.
  struct Direction {
    std::vector<std::int8_t> codes;
    float step = 0.0F;
  };
  Direction directed(std::span<const float> query) const;

  LearnedInput input_;
  std::size_t size_ = 0;
  std::size_t dim_ = 0;
  std::vector<std::uint64_t> subjects_;  // of the rows looked up
  std::vector<Entry> entries_;
};

}  // namespace toolroll
