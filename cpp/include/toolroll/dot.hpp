/// Inner products of one query with many rows, in float32, 8 bits and 4 bits, on the best
/// instruction set.
///
/// Every operation exists as plain loops (Isa::kBaseline, which the tests compare the others with)
/// and for each SIMD instruction set, behind one table. Rows are padded with zeros to a multiple of
/// 64 values, so no kernel has a tail.
///
/// Within one instruction set, a row's float32 product does not depend on the row's position or on
/// the function that computes it, so the scores of a scan and of a rescoring are equal bit by bit.
/// Between instruction sets float32 products differ in the last digits; 8-bit products are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "toolroll/cpu.hpp"
#include "toolroll/shared_array.hpp"

namespace toolroll {

inline constexpr std::size_t kWidthUnit = 64;
inline constexpr std::size_t kMaxDim = 65536;  ///< 127 * 127 * 65536 still fits 32 bits

/// A row's width in memory.
constexpr std::size_t padded_width(std::size_t dim) {
  return (dim + kWidthUnit - 1) / kWidthUnit * kWidthUnit;
}

namespace detail {
/// Zeroed memory, aligned to a cache line; from 4 MB on, in huge pages if Linux grants them.
void* allocate_rows(std::size_t bytes);
void free_rows(void* memory, std::size_t bytes) noexcept;
}  // namespace detail

/// n rows of dim values each, padded with zeros; fixed size, not copyable. In memory of their own,
/// or a view of a file, which is read only.
template <typename T>
class Rows {
 public:
  Rows() = default;
  Rows(std::size_t n, std::size_t dim)
      : n_(n),
        width_(padded_width(dim)),
        own_(static_cast<T*>(detail::allocate_rows(bytes())), Free{bytes()}),
        data_(own_.get()) {}
  /// A view of rows that are padded already. Throws std::invalid_argument if their number does not
  /// fit.
  Rows(std::size_t n, std::size_t dim, SharedArray<T> padded)
      : n_(n), width_(padded_width(dim)), view_(std::move(padded)), data_(view_.data()) {
    if (width_ == 0 || view_.size() / width_ != n || view_.size() % width_ != 0) {
      throw std::invalid_argument("rows: are not of one width");
    }
  }

  std::size_t size() const { return n_; }
  std::size_t width() const { return width_; }
  std::size_t bytes() const { return n_ * width_ * sizeof(T); }
  /// For writing; only of rows in memory of their own.
  T* mutable_row(std::size_t i) { return own_.get() + i * width_; }
  const T* row(std::size_t i) const { return data_ + i * width_; }
  const T* data() const { return data_; }
  std::span<const T> span() const { return {data_, n_ * width_}; }
  /// The bytes of memory of its own; 0 for a view.
  std::size_t memory_bytes() const { return own_ ? bytes() : 0; }

 private:
  struct Free {
    std::size_t bytes = 0;
    void operator()(T* memory) const { detail::free_rows(memory, bytes); }
  };
  std::size_t n_ = 0;
  std::size_t width_ = 0;
  std::unique_ptr<T[], Free> own_;
  SharedArray<T> view_;
  const T* data_ = nullptr;
};

/// A vector in 8 bits: x is close to step * values, with values in -127..127.
struct Quantised {
  float step;   ///< 0 for a zero vector
  float error;  ///< at least the Euclidean length of x - step * values
};

/// Turns 8-bit products into an interval that holds the float32 product: see bounds below.
struct BoundTerms {
  float step;       ///< of the query
  float per_error;  ///< times the row's quantisation error
  float constant;   ///< the part that does not depend on the row
};

/// A query beside 8-bit rows, in 8 bits or in 16: close to step * values + fine_step * fine.
struct ByteQuery {
  const std::int8_t* values;
  const std::int8_t* fine;  ///< nullptr: the query has 8 bits
  float step;
  float fine_step;
  float per_error;
  float constant;
};

/// Rows in 4 bits, in blocks that a kernel reads from the first byte to the last.
///
/// A row x is close to scale * (n - 7.5), with n in 0..15. A block holds kBlockRows rows. For each
/// eight dimensions it has four bytes of each row, row after row: byte i has n of dimension 8j + i
/// in its lower half and n of dimension 8j + 4 + i in its upper one. Behind them lies one number of
/// 32 bits for each row: the upper half of it is the upper half of the float `scale`, the lower
/// half that of the float `error`, which is at least the length of x - scale * (n - 7.5). Rows that
/// fill up the last block are 0. All numbers are little-endian.
inline constexpr std::size_t kBlockRows = 64;

/// Bytes of a block of rows of a padded width.
constexpr std::size_t block_bytes(std::size_t width) { return kBlockRows * (width / 2 + 4); }

/// How a query beside 4-bit rows is rounded. The effective value of a lower dimension is
/// low + share * high, where high is the value four dimensions behind it.
struct HalfByteForm {
  float share;  ///< 0 or 1/16, as the kernel needs it
  float limit;  ///< of the values, so that low fits 8 bits
};

/// A query beside 4-bit rows. `low` and `high` hold the values of dimensions 8j..8j+3 and
/// 8j+4..8j+7, width / 2 each. With p = scale * (sum * step + bias), where sum is the sum of
/// n * effective value over all dimensions, the bound of a row is
/// p + constant + error * (slack - slope * p).
struct HalfByteQuery {
  const std::int8_t* low;
  const std::int8_t* high;
  float step;
  float bias;  ///< -7.5 * step * the sum of the effective values
  float slack;
  float slope;
  float constant;
};

/// What rounding a query to a HalfByteForm gives.
struct HalfByteSums {
  float step;
  float error;        ///< at least the length of query - step * effective values
  std::int32_t low;   ///< sum of `low`
  std::int32_t high;  ///< sum of `high`
};

/// One instruction set's functions. `width` is a padded width; pointers to rows need no alignment.
struct DotKernels {
  Isa isa;

  /// out[i] = query . row i, for n consecutive rows.
  void (*f32)(const float* query, const float* rows, std::size_t n, std::size_t width, float* out);
  /// out[i] = query . row at[i].
  void (*f32_at)(const float* query, const float* rows, const std::int32_t* at, std::size_t n,
                 std::size_t width, float* out);
  /// The same over 8-bit values in -127..127, exact.
  void (*i8)(const std::int8_t* query, const std::int8_t* rows, std::size_t n, std::size_t width,
             std::int32_t* out);
  void (*i8_at)(const std::int8_t* query, const std::int8_t* rows, const std::int32_t* at,
                std::size_t n, std::size_t width, std::int32_t* out);

  /// Sum of squares in double. It is finite if and only if every value is.
  double (*squares)(const float* x, std::size_t width);
  /// out[i] = x[i] * factor, in double, rounded once.
  void (*scale)(const float* x, double factor, std::size_t width, float* out);
  /// Rounds a vector of length about 1 (or 0) to 8 bits.
  Quantised (*quantise)(const float* x, std::size_t width, std::int8_t* values);
  /// lower[i], upper[i] = products[i] * row_step[i] * step -+ (per_error * row_error[i] +
  /// constant).
  void (*bounds)(const std::int32_t* products, const float* row_step, const float* row_error,
                 std::size_t n, const BoundTerms& terms, float* lower, float* upper);
  /// upper[i] = products * row's step + per_error * row's error + constant, for n consecutive 8-bit
  /// rows; at least the float32 product if the query's terms are those of Query.
  void (*i8_upper)(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                   const float* row_error, std::size_t n, std::size_t width, float* upper);
  /// The same for the rows at[i].
  void (*i8_upper_at)(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                      const float* row_error, const std::int32_t* at, std::size_t n,
                      std::size_t width, float* upper);
  /// The form that i4_upper needs its query in.
  HalfByteForm half_byte_form;
  /// Rounds a query that lies in two halves of n values each: dimensions 8j..8j+3, and 8j+4..8j+7.
  HalfByteSums (*round_halves)(const float* x, const float* y, std::size_t n, std::int8_t* low,
                               std::int8_t* high);
  /// Rounds a vector of length about 1 (or 0) to 4 bits: values in 0..15. Returns its scale and
  /// error as a block holds them.
  std::uint32_t (*quantise4)(const float* x, std::size_t width, std::uint8_t* values);
  /// The bounds of all rows of n consecutive blocks.
  void (*i4_upper)(const HalfByteQuery& query, const std::uint8_t* blocks, std::size_t n,
                   std::size_t width, float* upper);
  /// Writes first + i for each i < n with scores[i] >= least, ascending; returns how many. `rows`
  /// has room for n + 16.
  std::size_t (*above)(const float* scores, std::size_t n, float least, std::int32_t first,
                       std::int32_t* rows);
  /// Number of bits set in n words.
  std::size_t (*ones)(const std::uint64_t* words, std::size_t n);
  /// sums[i] += step * bytes[i], each rounded twice: the same number on every instruction set.
  void (*add_bytes)(const std::uint8_t* bytes, float step, std::size_t n, float* sums);
};

/// The table for isa().
const DotKernels& dot_kernels();
/// The table for one instruction set; nullptr if this build or this CPU does not have it.
const DotKernels* dot_kernels(Isa isa);

}  // namespace toolroll
