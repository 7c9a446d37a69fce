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
