/// A matrix of 8-bit rows, each with a scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace toolroll {

/// Row i is table[i] * scale[i].
///
/// Immutable; safe to use from many threads. Sums are in float32, row by row in the order of the
/// ids, so they have the same bits on every instruction set.
class QuantizedRows {
 public:
  /// table: int8[count, dim], row-major.
  /// Throws std::invalid_argument if sizes don't fit, dim is 0, or a scale is not finite.
  QuantizedRows(std::span<const std::int8_t> table, std::span<const float> scale, std::size_t dim,
                std::size_t count);

  /// sum += the rows of the ids, but for the id `without`. sum has dim elements.
  void add(std::span<const std::int32_t> ids, std::int32_t without, std::span<float> sum) const;

  std::size_t dim() const { return dim_; }
  std::size_t memory_bytes() const { return table_.capacity() + scale_.capacity() * sizeof(float); }

 private:
  std::size_t dim_;
  std::vector<std::int8_t> table_;
  std::vector<float> scale_;
};

/// Brings a vector to length 1. Its length is computed in float64 in a fixed order. A vector
/// without a finite length above 0 becomes zeros.
void to_unit_length(std::span<float> vector);

}  // namespace toolroll
