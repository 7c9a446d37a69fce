/// Combines the learned vectors with a catalog's vectors, for one search.
///
/// If the subject of a row has a learned vector v, the row's similarity to a query q is
/// (1 - w) * cosine(q, row) + w * cosine(q, v). The search also nominates the rows whose learned
/// vectors are nearest to the query. So a message can find a tool by the messages that the tool
/// solved before, even if the tool's text does not match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "toolroll/bitset.hpp"
#include "toolroll/learned.hpp"
#include "toolroll/tool_keys.hpp"

namespace toolroll {

/// The part of the outcomes that a search reads. `learned` and `keys` come together, or both are
/// nullptr.
struct LearnedInput {
  const Learned* learned = nullptr;
  const ToolKeys* keys = nullptr;
  double now = 0.0;           // UTC seconds; the age of the statistics counts from here
  std::size_t first_row = 0;  // the row of the keys that is row 0 of the retriever
};

/// The learned vectors of one retriever's rows. A value of one search.
class LearnedVectors {
 public:
  /// No learned vectors: every function leaves its argument unchanged.
  LearnedVectors() = default;
  /// size: rows of the retriever. Throws std::invalid_argument if the keys have fewer rows than
  /// that, or if there are learned vectors and their width is not dim.
  LearnedVectors(const LearnedInput& input, std::size_t size, std::size_t dim);

  bool is_empty() const { return input_.learned == nullptr; }
  /// Appends the rows in play, at most `most`, whose learned vectors are nearest to the query.
  void nominate(std::span<const float> query, std::size_t most, const Bitset& in_play,
                std::vector<std::int32_t>& rows) const;
  /// Looks up the learned vectors of these rows, for blend() and recall().
  ///
  /// If people report that a tool solved messages of all kinds, the reports say little about any
  /// one of them. So a vector's weight grows with the mean cosine of its messages: it is least at
  /// `unrelated` and below, and full from `related` on.
  void look_up(std::span<const std::int32_t> rows, float unrelated, float related);
  /// Whether any of the rows that were looked up has a learned vector.
  bool has_any() const { return !entries_.empty(); }
  /// The places of these rows among those that were looked up, ascending.
  std::vector<std::size_t> places() const;
  /// A query of length 1 in 8 bits, padded. A query of zeros has no codes.
  struct Direction {
    std::vector<std::int8_t> codes;
    float step = 0.0F;
  };
  Direction directed(std::span<const float> query) const;

  /// Replaces the cosines of the rows that were looked up by the weighted sums described above.
  void blend(const Direction& direction, std::span<float> cosines) const;
  /// above[i] of row i becomes at least (cosine with the row's nearest message - floor), scaled by
  /// the message's age and by how alike the row's messages are.
  void recall(const Direction& direction, float floor, std::span<float> above) const;

 private:
  struct Entry {
    std::size_t place;  // among the rows looked up
    LearnedVector vector;
    float share;  // w, scaled by trust
    float trust;  // how alike the messages are, in [0, 1]
  };

  LearnedInput input_;
  std::size_t size_ = 0;
  std::size_t dim_ = 0;
  std::vector<std::uint64_t> subjects_;  // of the rows looked up
  std::vector<Entry> entries_;
};

}  // namespace toolroll
