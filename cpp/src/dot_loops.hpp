/// Loops that a compiler vectorises by itself, written once and compiled for each instruction set.
///
/// Every function is forced inline into a caller that carries the target attribute. Nothing here
/// may call into the standard library: an inline function of it that was compiled for AVX2 could be
/// the copy which the linker keeps for everybody.
#pragma once

#include <cstddef>
#include <cstdint>

#include "toolroll/dot.hpp"

#if defined(_MSC_VER) && !defined(__clang__)
#define TOOLROLL_INLINE static __forceinline
#else
#define TOOLROLL_INLINE static inline __attribute__((always_inline))
#endif

namespace toolroll::loops {

inline constexpr std::size_t kLanes =
    16;  // independent partial results: no reassociation is needed

template <typename T>
TOOLROLL_INLINE const T* row(const T* rows, std::int32_t at, std::size_t width) {
  return rows + static_cast<std::size_t>(at) * width;
}

TOOLROLL_INLINE double squares(const float* x, std::size_t width) {
  double lanes[8] = {};
  for (std::size_t i = 0; i < width; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double value = x[i + j];
      lanes[j] += value * value;
    }
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

TOOLROLL_INLINE void scale(const float* x, double factor, std::size_t width, float* out) {
  for (std::size_t i = 0; i < width; ++i) out[i] = static_cast<float>(x[i] * factor);
}

TOOLROLL_INLINE Quantised quantise(const float* x, std::size_t width, std::int8_t* values) {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < width; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float size = x[i + j] < 0 ? -x[i + j] : x[i + j];
      lanes[j] = size > lanes[j] ? size : lanes[j];
    }
  }
  float largest = 0;
  for (std::size_t j = 0; j < kLanes; ++j) largest = lanes[j] > largest ? lanes[j] : largest;
  const float step = largest / 127.0F;
  const float inverse = largest > 0 ? 127.0F / largest : 0.0F;

  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it drops the fraction, ties to even
  float errors[kLanes] = {};
  for (std::size_t i = 0; i < width; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float rounded = (x[i + j] * inverse + kRound) - kRound;
      const float off = x[i + j] - rounded * step;
      errors[j] += off * off;
      values[i + j] = static_cast<std::int8_t>(static_cast<std::int32_t>(rounded));
    }
  }
  float error = 0;
  for (std::size_t j = 0; j < kLanes; ++j) error += errors[j];
  return {step, error};  // squared: the caller takes the root and adds the slack
}

TOOLROLL_INLINE void bounds(const std::int32_t* products, const float* row_step,
                            const float* row_error, std::size_t n, const BoundTerms& terms,
                            float* lower, float* upper) {
  const BoundTerms t = terms;
  for (std::size_t i = 0; i < n; ++i) {
    const float about = static_cast<float>(products[i]) * row_step[i] * t.step;
    const float off = t.per_error * row_error[i] + t.constant;
    lower[i] = about - off;
    upper[i] = about + off;
  }
}

}  // namespace toolroll::loops
