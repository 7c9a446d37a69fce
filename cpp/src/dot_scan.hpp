/// The exact search: the rows with the best float32 products, found mostly with 8-bit products.
///
/// The naive form multiplies every row in float32 and keeps the best k. It reads four times as many
/// bytes as an 8-bit copy has, and reading dominates the cost. Rescoring a fixed number of 8-bit
/// winners in float32 is not exact: if many rows are close together, the true best may not be among
/// them. So each row gets an interval that provably holds its float32 product, and every row whose
/// interval reaches the k-th best lower end is rescored. The result is that of the float32 scan for
/// all data.
///
/// The interval: with q, x the float32 vectors and q', x' their 8-bit forms,
///   |q.x - q'.x'| = |q.(x - x') + (q - q').x'| <= |q| |x - x'| + |q - q'| |x'|
/// and |x'| <= |x| + |x - x'|, plus the rounding of the float32 sum itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "toolroll/bitset.hpp"
#include "toolroll/dot.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

/// Unit vectors (or zero) in both precisions.
struct VectorRows {
  VectorRows() = default;
  VectorRows(std::size_t n, std::size_t dim_);

  std::size_t size() const { return full.size(); }
  std::size_t width() const { return full.width(); }
  /// Writes x / |x| as row i, in both precisions. False, and nothing written, unless x is finite.
  bool assign(std::size_t i, std::span<const float> x);
  /// Makes row i a copy of another's row in both precisions. The widths must be the same.
  void copy(std::size_t i, const VectorRows& from, std::size_t row);
  /// Brings the 8-bit form of row i up to date.
  void quantise(std::size_t i);
  bool is_zero(std::size_t i) const { return step[i] == 0; }
  std::size_t memory_bytes() const;

  std::size_t dim = 0;
  Rows<float> full;
  Rows<std::int8_t> small;
  std::vector<float> step;   // of each row
  std::vector<float> error;  // of each row: at least |x - x'|
};

/// A query in both precisions; memory is kept from one query to the next.
class Query {
 public:
  /// False if x has no direction (all zeros). Throws std::invalid_argument unless x is finite.
  bool set(std::span<const float> x);

  const float* full() const { return full_.data(); }
  const std::int8_t* small() const { return small_.data(); }
  float step() const { return terms_.step; }
  /// Half the width of the interval around the 8-bit product with a row of this error.
  float slack(float row_error) const { return terms_.per_error * row_error + terms_.constant; }
  const BoundTerms& terms() const { return terms_; }

 private:
  std::size_t dim_ = 0;
  Rows<float> padded_;
  Rows<float> full_;
  Rows<std::int8_t> small_;
  BoundTerms terms_{};
};

/// A row whose float32 product is at most `upper`.
struct Candidate {
  std::int32_t row;
  float upper;
};

/// Offers the rows of `allowed` (all, if nullptr), of which there are `count`, to best.
void scan(const VectorRows& rows, const Query& query, std::size_t k, const Bitset* allowed,
          std::size_t count, Best& best);

/// Offers the float32 products of those candidates that reach `floor`.
void rescore(const VectorRows& rows, const Query& query, std::span<const Candidate> candidates,
             float floor, Best& best);

}  // namespace toolroll
