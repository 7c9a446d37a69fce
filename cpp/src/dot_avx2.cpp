#include "dot_loops.hpp"
#include "dot_tables.hpp"

#if defined(__x86_64__) || defined(_M_X64)

#include <immintrin.h>

// The instruction set applies to the code below, not to the headers above.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt"))), \
                             apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")
#endif

#include "dot_kernel.hpp"

namespace toolroll {
namespace {

/// The sums of four vectors. four() and one() add in the same order, so a product does not depend
/// on its neighbours.
TOOLROLL_INLINE __m128 sums(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

TOOLROLL_INLINE __m128i sums(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
  return _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}

TOOLROLL_INLINE __m256i load(const std::int8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// |row| * (query with the row's sign). Two products of at most 127 * 127 fit 16 bits, so the
/// saturating sum of a pair never saturates.
TOOLROLL_INLINE __m256i add_products(__m256i sum, __m256i query, __m256i row) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(row), _mm256_sign_epi8(query, row));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/// In each half of the register, the sums of that half of four vectors.
TOOLROLL_INLINE __m256i pairs_of(const __m256i* four) {
  return _mm256_hadd_epi32(_mm256_hadd_epi32(four[0], four[1]),
                           _mm256_hadd_epi32(four[2], four[3]));
}

/// The sums of eight vectors from pairs_of the first and of the last four.
TOOLROLL_INLINE __m256i each_sum(const __m256i* pairs) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(pairs[0], pairs[1], 0x20),
                          _mm256_permute2x128_si256(pairs[0], pairs[1], 0x31));
}

/// Four values of a query as one number to broadcast.
TOOLROLL_INLINE int word(const std::int8_t* values) {
  int number;
  std::memcpy(&number, values, sizeof number);
  return number;
}

/// See dot_kernel.hpp.
struct Avx2 {
  struct Zero {};  // each sum begins at 0
  TOOLROLL_INLINE Zero start(const float*, std::size_t) { return {}; }
  TOOLROLL_INLINE Zero start(const std::int8_t*, std::size_t) { return {}; }

  /// Two accumulators a row: eight chains keep both multipliers busy. One load of the query serves
  /// four rows.
  TOOLROLL_INLINE __m128 four(const float* q, Zero, const float* a, const float* b, const float* c,
                              const float* d, std::size_t width) {
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
    for (std::size_t i = 0; i < width; i += 16) {
      const __m256 q0 = _mm256_loadu_ps(q + i);
      const __m256 q1 = _mm256_loadu_ps(q + i + 8);
      a0 = _mm256_fmadd_ps(q0, _mm256_loadu_ps(a + i), a0);
      a1 = _mm256_fmadd_ps(q1, _mm256_loadu_ps(a + i + 8), a1);
      b0 = _mm256_fmadd_ps(q0, _mm256_loadu_ps(b + i), b0);
      b1 = _mm256_fmadd_ps(q1, _mm256_loadu_ps(b + i + 8), b1);
      c0 = _mm256_fmadd_ps(q0, _mm256_loadu_ps(c + i), c0);
      c1 = _mm256_fmadd_ps(q1, _mm256_loadu_ps(c + i + 8), c1);
      d0 = _mm256_fmadd_ps(q0, _mm256_loadu_ps(d + i), d0);
      d1 = _mm256_fmadd_ps(q1, _mm256_loadu_ps(d + i + 8), d1);
    }
    return sums(_mm256_add_ps(a0, a1), _mm256_add_ps(b0, b1), _mm256_add_ps(c0, c1),
                _mm256_add_ps(d0, d1));
  }

  TOOLROLL_INLINE float one(const float* q, Zero, const float* a, std::size_t width) {
    __m256 a0 = _mm256_setzero_ps(), a1 = a0;
    for (std::size_t i = 0; i < width; i += 16) {
      a0 = _mm256_fmadd_ps(_mm256_loadu_ps(q + i), _mm256_loadu_ps(a + i), a0);
      a1 = _mm256_fmadd_ps(_mm256_loadu_ps(q + i + 8), _mm256_loadu_ps(a + i + 8), a1);
    }
    const __m256 sum = _mm256_add_ps(a0, a1);
    return _mm_cvtss_f32(sums(sum, sum, sum, sum));
  }

  TOOLROLL_INLINE __m128i four(const std::int8_t* q, Zero, const std::int8_t* a,
                               const std::int8_t* b, const std::int8_t* c, const std::int8_t* d,
                               std::size_t width) {
    __m256i a0 = _mm256_setzero_si256(), b0 = a0, c0 = a0, d0 = a0;
    for (std::size_t i = 0; i < width; i += 32) {
      const __m256i query = load(q + i);
      a0 = add_products(a0, query, load(a + i));
      b0 = add_products(b0, query, load(b + i));
      c0 = add_products(c0, query, load(c + i));
      d0 = add_products(d0, query, load(d + i));
    }
    return sums(a0, b0, c0, d0);
  }

  TOOLROLL_INLINE std::int32_t one(const std::int8_t* q, Zero, const std::int8_t* a,
                                   std::size_t width) {
    __m256i a0 = _mm256_setzero_si256(), a1 = a0;
    for (std::size_t i = 0; i < width; i += 64) {
      a0 = add_products(a0, load(q + i), load(a + i));
      a1 = add_products(a1, load(q + i + 32), load(a + i + 32));
    }
    const __m256i sum = _mm256_add_epi32(a0, a1);
    return _mm_cvtsi128_si32(sums(sum, sum, sum, sum));
  }

  static constexpr std::size_t kBatch = 8;

  template <bool kFine, typename Lines>
  TOOLROLL_INLINE void batch(const ByteQuery& query, Zero, Zero, const Lines& rows,
                             const float* row_step, const float* row_error, std::size_t width,
                             float* upper) {
    __m256i pairs[2];
    __m256i fine_pairs[2];
    for (std::size_t half = 0; half < 2; ++half) {
      const std::int8_t* const at[4] = {rows[4 * half], rows[4 * half + 1], rows[4 * half + 2],
                                        rows[4 * half + 3]};
      __m256i coarse[4];
      __m256i fine[4];
      for (int j = 0; j < 4; ++j) coarse[j] = fine[j] = _mm256_setzero_si256();
      for (std::size_t i = 0; i < width; i += 32) {
        const __m256i values = load(query.values + i);
        const __m256i rest = kFine ? load(query.fine + i) : values;
        for (int j = 0; j < 4; ++j) {
          const __m256i x = load(at[j] + i);
          coarse[j] = add_products(coarse[j], values, x);
          if constexpr (kFine) fine[j] = add_products(fine[j], rest, x);
        }
      }
      pairs[half] = pairs_of(coarse);
      if constexpr (kFine) fine_pairs[half] = pairs_of(fine);
    }
    __m256 about = _mm256_mul_ps(_mm256_cvtepi32_ps(each_sum(pairs)), _mm256_set1_ps(query.step));
    if constexpr (kFine) {
      about = _mm256_fmadd_ps(_mm256_cvtepi32_ps(each_sum(fine_pairs)),
                              _mm256_set1_ps(query.fine_step), about);
    }
    const __m256 off = _mm256_fmadd_ps(_mm256_loadu_ps(row_error), _mm256_set1_ps(query.per_error),
                                       _mm256_set1_ps(query.constant));
    _mm256_storeu_ps(upper, _mm256_fmadd_ps(about, _mm256_loadu_ps(row_step), off));
  }

  static constexpr HalfByteForm kForm{0.0F, 127.0F};

  /// Sixteen products of at most 15 * 127 fit 16 bits.
  TOOLROLL_INLINE void bounds_of_blocks(const HalfByteQuery& query, const std::uint8_t* blocks,
                                        std::size_t n, std::size_t width, float* upper) {
    constexpr std::size_t kVectors = kBlockRows / 8;
    const __m256i halves = _mm256_set1_epi8(15);
    const std::uint8_t* at = blocks;
    for (std::size_t block = 0; block < n; ++block, upper += kBlockRows) {
      __m256i sums[kVectors];  // the sums of 16 bits below take the registers
      for (std::size_t v = 0; v < kVectors; ++v) sums[v] = _mm256_setzero_si256();
      for (std::size_t from = 0; from < width / 2; from += 16) {
        __m256i partial[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v) partial[v] = _mm256_setzero_si256();
        for (std::size_t j = from; j < from + 16; j += 4, at += 4 * kBlockRows) {
          const __m256i low = _mm256_set1_epi32(word(query.low + j));
          const __m256i high = _mm256_set1_epi32(word(query.high + j));
          for (std::size_t v = 0; v < kVectors; ++v) {
            const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + v * 32));
            const __m256i lows = _mm256_maddubs_epi16(_mm256_and_si256(x, halves), low);
            const __m256i highs =
                _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(x, 4), halves), high);
            partial[v] = _mm256_add_epi16(partial[v], _mm256_add_epi16(lows, highs));
          }
        }
        for (std::size_t v = 0; v < kVectors; ++v) {
          sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(partial[v], _mm256_set1_epi16(1)));
        }
      }
      for (std::size_t v = 0; v < kVectors; ++v, at += 32) {
        const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
        const __m256 scale =
            _mm256_castsi256_ps(_mm256_and_si256(numbers, _mm256_set1_epi32(-0x10000)));
        const __m256 error = _mm256_castsi256_ps(_mm256_slli_epi32(numbers, 16));
        const __m256 p =
            _mm256_mul_ps(_mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[v]), _mm256_set1_ps(query.step),
                                          _mm256_set1_ps(query.bias)),
                          scale);
        const __m256 off =
            _mm256_fnmadd_ps(_mm256_set1_ps(query.slope), p, _mm256_set1_ps(query.slack));
        _mm256_storeu_ps(
            upper + v * 8,
            _mm256_fmadd_ps(error, off, _mm256_add_ps(p, _mm256_set1_ps(query.constant))));
      }
    }
  }

  TOOLROLL_INLINE std::size_t above(const float* scores, std::size_t n, float least,
                                    std::int32_t first, std::int32_t* rows) {
    const __m256 limit = _mm256_set1_ps(least);
    std::size_t count = 0;
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      auto hits = static_cast<unsigned>(
          _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(scores + i), limit, _CMP_GE_OQ)));
      for (; hits != 0; hits &= hits - 1) {
        rows[count++] = first + static_cast<std::int32_t>(i + _tzcnt_u32(hits));
      }
    }
    for (; i < n; ++i) {
      if (scores[i] >= least) rows[count++] = first + static_cast<std::int32_t>(i);
    }
    return count;
  }
};

constexpr DotKernels kAvx2 = X86Kernels<Avx2>::table(Isa::kAvx2);

}  // namespace
}  // namespace toolroll

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

namespace toolroll {

const DotKernels* avx2_kernels() { return &kAvx2; }

}  // namespace toolroll

#else

const toolroll::DotKernels* toolroll::avx2_kernels() { return nullptr; }

#endif
