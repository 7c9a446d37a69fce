/// Several vectors for each row: the clusters of a tool's example messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "toolroll/archive.hpp"
#include "toolroll/row_changes.hpp"
#include "toolroll/shared_array.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll {

/// For each row any number of unit vectors, each with a weight. Immutable; safe from many threads.
class Intents {
 public:
  /// begins: [rows + 1], ascending from 0: the vectors of row r are begins[r] to begins[r + 1].
  /// vectors: row-major float32[begins.back(), dim], scaled to length 1. weights: one a vector, in
  /// [0, 1]. Throws std::invalid_argument if sizes do not fit or a number is out of its range.
  static Intents build(std::span<const std::int64_t> begins, std::span<const float> vectors,
                       std::size_t dim, std::span<const float> weights);

  /// The result of build() for the kept rows' vectors and the added rows', which are passed as for
  /// build(). Throws std::invalid_argument as build does, or if the sizes do not fit.
  Intents with_changes(const RowChanges& changes, std::span<const std::int64_t> begins,
                       std::span<const float> vectors, std::span<const float> weights) const;

  /// Writes the greatest weight * cosine among each row's vectors; 0 if none is above 0.
  /// O(vectors of the rows). Throws std::invalid_argument if a row is out of range, the query's
  /// size does not fit, or out is not as long as rows.
  void nearest(std::span<const float> query, std::span<const std::int32_t> rows,
               std::span<float> out) const;

  /// Whether the row has any. The row is in range.
  bool has(std::int32_t row) const {
    const auto at = static_cast<std::size_t>(row);
    return begins_[at + 1] > begins_[at];
  }
  std::size_t size() const { return begins_.size() - 1; }
  std::size_t count() const { return weights_.size(); }
  std::size_t dim() const { return vectors_.dim(); }
  std::size_t memory_bytes() const;

  static constexpr std::string_view kKind = "intents";
  static constexpr std::uint32_t kVersion = 1;
  /// The archive, which refers to these intents.
  ArchiveWriter archive() const;
  /// A view of the archive's memory. Throws ArchiveError unless every number is sound.
  static Intents read(ArchiveReader archive);

 private:
  Intents(SharedArray<std::int64_t> begins, VectorIndex vectors, SharedArray<float> weights);

  SharedArray<std::int64_t> begins_;
  VectorIndex vectors_;
  SharedArray<float> weights_;
};

}  // namespace toolroll
