/// Loops that a compiler vectorises by itself, written once and compiled for each instruction set.
///
/// Every function is forced inline into a caller that carries the target attribute. Nothing here
/// may call into the standard library: an inline function of it that was compiled for AVX2 could be
/// the copy which the linker keeps for everybody.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dot_tables.hpp"
#include "toolroll/dot.hpp"

#if defined(_MSC_VER) && !defined(__clang__)
#define TOOLROLL_INLINE static __forceinline
#else
#define TOOLROLL_INLINE static inline __attribute__((always_inline))
#endif

namespace toolroll::loops {

inline constexpr std::size_t kLanes =
    16;  // independent partial results: no reassociation is needed

inline constexpr float kRound =
    12582912.0F;  // 1.5 * 2^23: adding it drops the fraction, ties to even

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

/// The value of one dimension of a 4-bit row, 0..15; it stands for 7.5 less. The limits are
/// compared as integers: those of floats would keep GCC from vectorising for AVX2.
TOOLROLL_INLINE std::int32_t half_byte(float x, float inverse) {
  const float whole = (x * inverse + 7.5F + kRound) - kRound;
  std::int32_t value = static_cast<std::int32_t>(whole);
  value = value < 0 ? 0 : value;
  return value > 15 ? 15 : value;
}

/// Sums over the values that x has with this scale.
struct HalfByteFit {
  float products;  // of x and value
  float squares;   // of the values; exact, as they are multiples of 1/4 below 2^22
  /// The part of |x|^2 that the values explain.
  float explained() const { return products / squares * products; }
};

TOOLROLL_INLINE HalfByteFit half_byte_fit(const float* x, std::size_t width, float inverse) {
  float products[kLanes] = {};
  float squares[kLanes] = {};
  for (std::size_t i = 0; i < width; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float value = static_cast<float>(half_byte(x[i + j], inverse)) - 7.5F;
      products[j] += x[i + j] * value;
      squares[j] += value * value;
    }
  }
  HalfByteFit fit{0, 0};
  for (std::size_t j = 0; j < kLanes; ++j) {
    fit.products += products[j];
    fit.squares += squares[j];
  }
  return fit;
}

/// The best scale lies where fewer, finer steps lose as much at the ends as they gain within. The
/// search begins at a normal distribution's and climbs by steps of an eighth.
TOOLROLL_INLINE std::uint32_t quantise4(const float* x, std::size_t width, std::uint8_t* values) {
  constexpr float kNormalStep = 0.335F;  // of the values' root mean square
  constexpr float kClimb = 1.125F;
  constexpr int kMostClimbs = 24;
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < width; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += x[i + j] * x[i + j];
  }
  float squares = 0;
  for (std::size_t j = 0; j < kLanes; ++j) squares += lanes[j];
  if (squares == 0) {
    for (std::size_t i = 0; i < width; ++i) values[i] = 0;
    return 0;
  }

  float inverse = inverse_root(squares / static_cast<float>(width)) / kNormalStep;
  HalfByteFit best = half_byte_fit(x, width, inverse);
  float factor = 1.0F / kClimb;
  for (int climbs = 0; climbs < kMostClimbs; ++climbs) {
    const HalfByteFit fit = half_byte_fit(x, width, inverse * factor);
    if (fit.explained() > best.explained()) {
      best = fit;
      inverse *= factor;
    } else if (climbs == 0) {
      factor = kClimb;
    } else {
      break;
    }
  }

  const float scale = half_byte_scale(best.products, best.squares, width);
  float errors[kLanes] = {};
  for (std::size_t i = 0; i < width; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float value = static_cast<float>(half_byte(x[i + j], inverse)) - 7.5F;
      const float off = x[i + j] - scale * value;
      errors[j] += off * off;
    }
  }
  // A loop of its own: with the sums in it, GCC does not vectorise it.
  for (std::size_t i = 0; i < width; ++i) {
    values[i] = static_cast<std::uint8_t>(half_byte(x[i], inverse));
  }
  float error = 0;
  for (std::size_t j = 0; j < kLanes; ++j) error += errors[j];
  return packed(scale, error);
}

TOOLROLL_INLINE HalfByteSums round_halves(const float* x, const float* y, std::size_t n,
                                          HalfByteForm form, std::int8_t* low, std::int8_t* high) {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float a = x[i + j] < 0 ? -x[i + j] : x[i + j];
      const float b = y[i + j] < 0 ? -y[i + j] : y[i + j];
      const float size = a > b ? a : b;
      lanes[j] = size > lanes[j] ? size : lanes[j];
    }
  }
  float largest = 0;
  for (std::size_t j = 0; j < kLanes; ++j) largest = lanes[j] > largest ? lanes[j] : largest;
  const float step = largest / form.limit;
  const float inverse = largest > 0 ? form.limit / largest : 0.0F;

  float errors[kLanes] = {};
  std::int32_t lows[kLanes] = {};
  std::int32_t highs[kLanes] = {};
  for (std::size_t i = 0; i < n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float upper = (y[i + j] * inverse + kRound) - kRound;
      const float shared = form.share * upper;
      const float lower = (x[i + j] * inverse - shared + kRound) - kRound;
      const float off_y = y[i + j] - upper * step;
      const float off_x = x[i + j] - (lower + shared) * step;
      errors[j] += off_x * off_x + off_y * off_y;
      lows[j] += static_cast<std::int32_t>(lower);
      highs[j] += static_cast<std::int32_t>(upper);
      low[i + j] = static_cast<std::int8_t>(static_cast<std::int32_t>(lower));
      high[i + j] = static_cast<std::int8_t>(static_cast<std::int32_t>(upper));
    }
  }
  HalfByteSums sums{step, 0, 0, 0};  // the error squared: the caller takes the root
  for (std::size_t j = 0; j < kLanes; ++j) {
    sums.error += errors[j];
    sums.low += lows[j];
    sums.high += highs[j];
  }
  return sums;
}

/// The bound of a row from its products with the query's two parts.
TOOLROLL_INLINE float i8_bound(const ByteQuery& query, std::int32_t products, std::int32_t fine,
                               Quantised form) {
  const float about =
      static_cast<float>(products) * query.step + static_cast<float>(fine) * query.fine_step;
  return about * form.step + (form.error * query.per_error + query.constant);
}

/// The bounds of a block's rows from sums of n * effective value.
TOOLROLL_INLINE void i4_bounds(const HalfByteQuery& query, const std::int32_t* sums,
                               const std::uint8_t* numbers, float* upper) {
  for (std::size_t row = 0; row < kBlockRows; ++row) {
    std::uint32_t number;
    std::memcpy(&number, numbers + 4 * row, sizeof number);
    const std::uint32_t bits[2] = {number & 0xFFFF0000U, number << 16};
    float form[2];
    std::memcpy(form, bits, sizeof form);
    const float p = (static_cast<float>(sums[row]) * query.step + query.bias) * form[0];
    upper[row] = p + query.constant + form[1] * (query.slack - query.slope * p);
  }
}

TOOLROLL_INLINE std::size_t above(const float* scores, std::size_t n, float least,
                                  std::int32_t first, std::int32_t* rows) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    rows[count] = first + static_cast<std::int32_t>(i);
    count += scores[i] >= least ? 1 : 0;
  }
  return count;
}

TOOLROLL_INLINE void add_bytes(const std::uint8_t* bytes, float step, std::size_t n, float* sums) {
  for (std::size_t i = 0; i < n; ++i)
    sums[i] += step * static_cast<float>(static_cast<int>(bytes[i]));
}

}  // namespace toolroll::loops
