/// The exact search: the rows with the best float32 products, found mostly with 4-bit and 8-bit
/// products.
///
/// The naive form multiplies every row in float32 and keeps the best k. It reads eight times as
/// many bytes as a 4-bit copy has, and reading dominates the cost. Rescoring a fixed number of
/// winners of a copy is not exact: if many rows are close together, the true best may not be among
/// them. So a row's product with a copy is turned into a bound that its float32 product provably
/// does not exceed. A row is left out only if its bound is below the float32 products of k rows
/// that were found before. These are all strictly better, so the result is that of the float32
/// scan, ties included, for all data.
///
/// The bound of an 8-bit copy: with q, x the float32 vectors and q', x' their rounded forms,
///   q.x - q'.x' = q.(x - x') + (q - q').x' <= |q| |x - x'| + |q - q'| |x'|
/// and |x'| <= |x| + |x - x'|, plus the rounding of the float32 sum itself.
///
/// That of a 4-bit copy is narrower. There x' = a w, where w are the values of the row and `a` is
/// not below the least-squares factor x.w / w.w. So the rest r = x - x' has r.x' <= 0. Let t be the
/// cosine of q and x'. What of q is not along x' has length sqrt(1 - t^2), so that
///   q.r <= sqrt(1 - t^2) |r|          if t >= 0, and
///   q.r <= |r|                        in any case.
/// The root is concave in t, hence nowhere above its tangent at any t0 in 0..1:
///   sqrt(1 - t^2) <= c - c t0 t       with c = 1 / sqrt(1 - t0^2).
/// Let p be the computed q'.x', F at least |q.x' - p|, and L at least |x'|. If p >= F, then
/// t >= (p - F) / L >= 0, and
///   q.x = q.x' + q.r <= p + F + (c - c t0 (p - F) / L) |r|.
/// If p < F, the factor of |r| is at least c >= 1, so the bound holds as well, for t < 0 too
/// (t < 0 implies p < F). As t0 the search takes about the cosine of rows that it must tell apart
/// at that time; every t0 is right.
/// `a` is rounded up to 8 significant bits and the least-squares factor has |a w| <= |x|, so
/// L = 1.009. F = |q - q'| L, and the roundings of p: since |w_i| >= 1/2, a <= 2.02 / sqrt(width),
/// and so the terms that p adds are below 7.5 * 2.02 + 1.1 < 17, and a few roundings of them below
/// 1e-5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "half_byte_rows.hpp"
#include "toolroll/archive.hpp"
#include "toolroll/bitset.hpp"
#include "toolroll/dot.hpp"
#include "toolroll/row_changes.hpp"
#include "toolroll/shared_array.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

/// Unit vectors (or zero) in each precision.
struct VectorRows {
  VectorRows() = default;
  /// vectors: row-major float32[n, dim]; row i becomes x / |x|, in both precisions. Throws
  /// std::invalid_argument if a value is not finite.
  static VectorRows of(std::span<const float> vectors, std::size_t dim);
  /// The rows that of() makes of the kept rows' vectors and of the added ones, row-major
  /// float32[added, dim]. Throws std::invalid_argument if a value is not finite.
  VectorRows with_changes(const RowChanges& changes, std::span<const float> added) const;

  void save(ArchiveWriter& archive) const;
  /// The rows as they were saved; of a mapped archive a view. Throws ArchiveError unless every row
  /// has length 1 or 0 and every number of its 8-bit form is one that a kernel can take.
  static VectorRows load(ArchiveReader& archive);

  std::size_t size() const { return full.size(); }
  std::size_t width() const { return full.width(); }
  bool is_zero(std::size_t i) const { return step[i] == 0; }
  std::size_t memory_bytes() const;

  std::size_t dim = 0;
  Rows<float> full;
  Rows<std::int8_t> small;
  SharedArray<float> step;   // of each row
  SharedArray<float> error;  // of each row: at least |x - x'|
  HalfByteRows halves;       // empty, or of all rows as they are

 private:
  void keep(std::span<const Quantised> forms);
};

/// A query in each precision; memory is kept from one query to the next.
class Query {
 public:
  /// False if x has no direction (all zeros). Throws std::invalid_argument unless x is finite.
  bool set(std::span<const float> x);
  /// Rounds the query for a scan in stages, too.
  void set_stages();

  const float* full() const { return full_.data(); }
  const std::int8_t* small() const { return small_.data(); }
  float step() const { return terms_.step; }
  /// Half the width of the interval around the 8-bit product with a row of this error.
  float slack(float row_error) const { return terms_.per_error * row_error + terms_.constant; }
  const BoundTerms& terms() const { return terms_; }

  /// The query in 8 bits.
  ByteQuery coarse() const;
  /// The query in 16 bits. After set_stages().
  const ByteQuery& fine() const { return fine_; }
  /// The query beside 4-bit rows; t0 in 0..0.95: see above. After set_stages().
  HalfByteQuery halves(float t0) const;

 private:
  std::size_t dim_ = 0;
  Rows<float> padded_;
  Rows<float> full_;
  Rows<std::int8_t> small_;
  BoundTerms terms_{};
  float rounding_ = 0;  // of any bound
  Rows<float> parts_;   // scratch
  Rows<std::int8_t> rest_;
  Rows<std::int8_t> low_high_;
  ByteQuery fine_{};
  HalfByteQuery halves_{};
};

/// A row whose float32 product is at most `upper`.
struct Candidate {
  std::int32_t row;
  float upper;
};

/// Offers the rows of `allowed` (all, if nullptr), of which there are `count`, to best, which keeps
/// k of them.
void scan(const VectorRows& rows, Query& query, std::size_t k, const Bitset* allowed,
          std::size_t count, Best& best);

/// Whether a scan for a few of `count` allowed rows begins with the 4-bit rows.
bool scans_in_stages(const VectorRows& rows, std::size_t count);

/// The part of scan() that reads all rows in order, in stages. `mask` is a filter (nullptr: none).
void sweep(const VectorRows& rows, Query& query, std::size_t k, const Bitset* mask, Best& best);

/// Offers the float32 products of those candidates that reach `floor`.
void rescore(const VectorRows& rows, const Query& query, std::span<const Candidate> candidates,
             float floor, Best& best);

}  // namespace toolroll
