#include "dot_loops.hpp"
#include "dot_tables.hpp"
#include "prefetch.hpp"

#if defined(__aarch64__) || defined(_M_ARM64)

#include <arm_neon.h>

#include <bit>

namespace toolroll {
namespace {

TOOLROLL_INLINE float one(const float* q, const float* a, std::size_t width) {
  float32x4_t s0 = vdupq_n_f32(0), s1 = s0, s2 = s0, s3 = s0;
  for (std::size_t i = 0; i < width; i += 16) {
    s0 = vfmaq_f32(s0, vld1q_f32(q + i), vld1q_f32(a + i));
    s1 = vfmaq_f32(s1, vld1q_f32(q + i + 4), vld1q_f32(a + i + 4));
    s2 = vfmaq_f32(s2, vld1q_f32(q + i + 8), vld1q_f32(a + i + 8));
    s3 = vfmaq_f32(s3, vld1q_f32(q + i + 12), vld1q_f32(a + i + 12));
  }
  return vaddvq_f32(vaddq_f32(vaddq_f32(s0, s1), vaddq_f32(s2, s3)));
}

/// Two products of 127 * 127 fit 16 bits; pairs of such sums are added in 32.
TOOLROLL_INLINE int32x4_t lanes(const std::int8_t* q, const std::int8_t* a, std::size_t width) {
  int32x4_t low = vdupq_n_s32(0), high = low;
  for (std::size_t i = 0; i < width; i += 32) {
    const int8x16_t x0 = vld1q_s8(q + i), x1 = vld1q_s8(q + i + 16);
    const int8x16_t y0 = vld1q_s8(a + i), y1 = vld1q_s8(a + i + 16);
    const int16x8_t first = vmull_s8(vget_low_s8(x0), vget_low_s8(y0));
    low = vpadalq_s16(low, vmlal_s8(first, vget_low_s8(x1), vget_low_s8(y1)));
    high = vpadalq_s16(high, vmlal_high_s8(vmull_high_s8(x0, y0), x1, y1));
  }
  return vaddq_s32(low, high);
}

TOOLROLL_INLINE std::int32_t one(const std::int8_t* q, const std::int8_t* a, std::size_t width) {
  return vaddvq_s32(lanes(q, a, width));
}

/// The bounds of four rows.
TOOLROLL_INLINE void four_bounds(const ByteQuery& query, const std::int8_t* const* rows,
                                 const float* step, const float* error, std::size_t width,
                                 float* upper) {
  int32x4_t sums[4];
  int32x4_t fine[4];
  for (int j = 0; j < 4; ++j) {
    sums[j] = lanes(query.values, rows[j], width);
    fine[j] = query.fine == nullptr ? vdupq_n_s32(0) : lanes(query.fine, rows[j], width);
  }
  const int32x4_t each = vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
  const int32x4_t rest = vpaddq_s32(vpaddq_s32(fine[0], fine[1]), vpaddq_s32(fine[2], fine[3]));
  const float32x4_t about = vfmaq_n_f32(vmulq_n_f32(vcvtq_f32_s32(each), query.step),
                                        vcvtq_f32_s32(rest), query.fine_step);
  const float32x4_t off =
      vfmaq_n_f32(vdupq_n_f32(query.constant), vld1q_f32(error), query.per_error);
  vst1q_f32(upper, vfmaq_f32(off, about, vld1q_f32(step)));
}

template <typename T, typename Sum>
void each(const T* query, const T* rows, std::size_t n, std::size_t width, Sum* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = one(query, rows + i * width, width);
}

template <typename T, typename Sum>
void each_at(const T* query, const T* rows, const std::int32_t* at, std::size_t n,
             std::size_t width, Sum* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = one(query, loops::row(rows, at[i], width), width);
}

double squares(const float* x, std::size_t width) { return loops::squares(x, width); }

void scale(const float* x, double factor, std::size_t width, float* out) {
  loops::scale(x, factor, width, out);
}

Quantised quantise(const float* x, std::size_t width, std::int8_t* values) {
  return finished(loops::quantise(x, width, values));
}

void bounds(const std::int32_t* products, const float* row_step, const float* row_error,
            std::size_t n, const BoundTerms& terms, float* lower, float* upper) {
  loops::bounds(products, row_step, row_error, n, terms, lower, upper);
}

/// The bounds of n rows, four at a time. The last four repeat the last row.
template <bool kListed>
void upper_of(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
              const float* row_error, const std::int32_t* at, std::size_t n, std::size_t width,
              float* upper) {
  for (std::size_t i = 0; i < n; i += 4) {
    const std::int8_t* some[4];
    float step[4];
    float error[4];
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t last = i + j < n ? i + j : n - 1;
      const std::size_t row = kListed ? static_cast<std::size_t>(at[last]) : last;
      some[j] = rows + row * width;
      if (kListed && last + 4 < n) {
        const std::int8_t* const next = loops::row(rows, at[last + 4], width);
        for (std::size_t byte = 0; byte < width && byte < 512; byte += 64) prefetch(next + byte);
      }
      step[j] = row_step[row];
      error[j] = row_error[row];
    }
    if (i + 4 <= n) {
      four_bounds(query, some, step, error, width, upper + i);
    } else {
      float bounds[4];
      four_bounds(query, some, step, error, width, bounds);
      for (std::size_t j = 0; i + j < n; ++j) upper[i + j] = bounds[j];
    }
  }
}

void i8_upper(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
              const float* row_error, std::size_t n, std::size_t width, float* upper) {
  upper_of<false>(query, rows, row_step, row_error, nullptr, n, width, upper);
}

void i8_upper_at(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                 const float* row_error, const std::int32_t* at, std::size_t n, std::size_t width,
                 float* upper) {
  upper_of<true>(query, rows, row_step, row_error, at, n, width, upper);
}

constexpr HalfByteForm kForm{0.0F, 127.0F};

HalfByteSums round_halves(const float* x, const float* y, std::size_t n, std::int8_t* low,
                          std::int8_t* high) {
  return finished(loops::round_halves(x, y, n, kForm, low, high));
}

std::uint32_t quantise4(const float* x, std::size_t width, std::uint8_t* values) {
  return loops::quantise4(x, width, values);
}

/// The query's values of four dimensions, for the four rows of a vector.
TOOLROLL_INLINE int8x16_t four_times(const std::int8_t* values) {
  std::int32_t number;
  std::memcpy(&number, values, sizeof number);
  return vreinterpretq_s8_s32(vdupq_n_s32(number));
}

/// Sixteen rows at a time: eight sums of 16 bits and eight of 32 stay in registers.
void i4_upper(const HalfByteQuery& query, const std::uint8_t* blocks, std::size_t n,
              std::size_t width, float* upper) {
  constexpr std::size_t kLine = 4 * kBlockRows;
  constexpr std::size_t kVectors = 4;
  const uint8x16_t halves = vdupq_n_u8(15);
  for (std::size_t block = 0; block < n; ++block, upper += kBlockRows) {
    const std::uint8_t* const first = blocks + block * block_bytes(width);
    std::int32_t sums[kBlockRows];
    for (std::size_t part = 0; part < kBlockRows / 16; ++part) {
      const std::uint8_t* at = first + part * 64;
      int32x4_t totals[2 * kVectors];
      for (std::size_t v = 0; v < 2 * kVectors; ++v) totals[v] = vdupq_n_s32(0);
      for (std::size_t from = 0; from < width / 2; from += 32) {
        int16x8_t partial[2 * kVectors];  // of eight groups: sixteen products of at most 15 * 127
        for (std::size_t v = 0; v < 2 * kVectors; ++v) partial[v] = vdupq_n_s16(0);
        for (std::size_t j = from; j < from + 32; j += 4, at += kLine) {
          const int8x16_t low = four_times(query.low + j);
          const int8x16_t high = four_times(query.high + j);
          for (std::size_t v = 0; v < kVectors; ++v) {
            const uint8x16_t x = vld1q_u8(at + 16 * v);
            const int8x16_t lows = vreinterpretq_s8_u8(vandq_u8(x, halves));
            const int8x16_t highs = vreinterpretq_s8_u8(vshrq_n_u8(x, 4));
            int16x8_t& front = partial[2 * v];
            int16x8_t& back = partial[2 * v + 1];
            front = vmlal_s8(front, vget_low_s8(lows), vget_low_s8(low));
            back = vmlal_high_s8(back, lows, low);
            front = vmlal_s8(front, vget_low_s8(highs), vget_low_s8(high));
            back = vmlal_high_s8(back, highs, high);
          }
        }
        for (std::size_t v = 0; v < 2 * kVectors; ++v) {
          totals[v] = vpadalq_s16(totals[v], partial[v]);
        }
      }
      for (std::size_t v = 0; v < kVectors; ++v) {
        vst1q_s32(sums + part * 16 + 4 * v, vpaddq_s32(totals[2 * v], totals[2 * v + 1]));
      }
    }
    loops::i4_bounds(query, sums, first + width / 2 * kBlockRows, upper);
  }
}

std::size_t above(const float* scores, std::size_t n, float least, std::int32_t first,
                  std::int32_t* rows) {
  return loops::above(scores, n, least, first, rows);
}

std::size_t ones(const std::uint64_t* words, std::size_t n) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += static_cast<std::size_t>(std::popcount(words[i]));
  return count;
}

void add_bytes(const std::uint8_t* bytes, float step, std::size_t n, float* sums) {
  loops::add_bytes(bytes, step, n, sums);
}

constexpr DotKernels kNeon{Isa::kNeon,   each,      each_at,  each,     each_at,     squares,
                           scale,        quantise,  bounds,   i8_upper, i8_upper_at, kForm,
                           round_halves, quantise4, i4_upper, above,    ones,        add_bytes};

}  // namespace

const DotKernels* neon_kernels() { return &kNeon; }

}  // namespace toolroll

#else

const toolroll::DotKernels* toolroll::neon_kernels() { return nullptr; }

#endif
