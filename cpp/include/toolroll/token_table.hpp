/// Static sentence vectors: the sum of one row of a table for each token of the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "toolroll/quantized_rows.hpp"
#include "toolroll/wordpiece.hpp"

namespace toolroll {

/// A vocabulary with an 8-bit vector for each piece. The length of a vector is the token's weight.
///
/// Immutable; safe to use from many threads. The result has the same bits on every instruction set.
class TokenTable {
 public:
  /// Only this many tokens of a text count; the rest is not read.
  static constexpr std::size_t kMostTokens = 512;

  /// table: int8[V, dim], row-major; the vector of piece i is table[i] * scale[i].
  /// Throws std::invalid_argument if sizes don't fit, dim is 0, or a scale is not finite.
  TokenTable(std::span<const std::string_view> vocabulary, std::span<const std::int8_t> table,
             std::span<const float> scale, std::size_t dim);

  /// Writes the unit vector of the text; zeros if it has no known token. [UNK] does not count.
  /// Throws std::invalid_argument unless out has dim elements.
  void embed(std::string_view text, std::span<float> out) const;

  /// sum += the rows of these pieces; [UNK] does not count. sum has dim elements.
  void add(std::span<const std::int32_t> ids, std::span<float> sum) const;

  std::size_t dim() const { return rows_.dim(); }
  const WordPiece& pieces() const { return *pieces_; }
  const std::shared_ptr<const WordPiece>& shared_pieces() const { return pieces_; }
  std::size_t memory_bytes() const;

 private:
  std::shared_ptr<const WordPiece> pieces_;
  QuantizedRows rows_;
};

}  // namespace toolroll
