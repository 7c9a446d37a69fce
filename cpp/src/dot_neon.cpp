#include "dot_loops.hpp"
#include "dot_tables.hpp"

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

/// Products of 127 * 127 fit 16 bits one by one; pairs are added in 32.
TOOLROLL_INLINE std::int32_t one(const std::int8_t* q, const std::int8_t* a, std::size_t width) {
  int32x4_t low = vdupq_n_s32(0), high = low;
  for (std::size_t i = 0; i < width; i += 16) {
    const int8x16_t x = vld1q_s8(q + i);
    const int8x16_t y = vld1q_s8(a + i);
    low = vpadalq_s16(low, vmull_s8(vget_low_s8(x), vget_low_s8(y)));
    high = vpadalq_s16(high, vmull_high_s8(x, y));
  }
  return vaddvq_s32(vaddq_s32(low, high));
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

std::size_t ones(const std::uint64_t* words, std::size_t n) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += static_cast<std::size_t>(std::popcount(words[i]));
  return count;
}

constexpr DotKernels kNeon{Isa::kNeon, each,  each_at,  each,   each_at,
                           squares,    scale, quantise, bounds, ones};

}  // namespace

const DotKernels* neon_kernels() { return &kNeon; }

}  // namespace toolroll

#else

const toolroll::DotKernels* toolroll::neon_kernels() { return nullptr; }

#endif
