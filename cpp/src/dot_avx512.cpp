#include "dot_loops.hpp"
#include "dot_tables.hpp"

#if defined(__x86_64__) || defined(_M_X64)

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 and 13 take the "undefined" source of an unmasked intrinsic for a mistake (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

// The instruction set applies to the code below, not to the headers above.
#if defined(__clang__)
#pragma clang attribute push(                                                                     \
    __attribute__((                                                                               \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,bmi,bmi2,lzcnt,popcnt"))), \
    apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif

#include "dot_kernel.hpp"

namespace toolroll {
namespace {

/// Adds the upper half to the lower. four() and one() both add in this order.
TOOLROLL_INLINE __m256 fold(__m512 x) {
  return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
}

TOOLROLL_INLINE __m256i fold(__m512i x) {
  return _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
}

TOOLROLL_INLINE __m128 sums(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m256 pairs =
      _mm256_hadd_ps(_mm256_hadd_ps(fold(a), fold(b)), _mm256_hadd_ps(fold(c), fold(d)));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

TOOLROLL_INLINE __m128i sums(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m256i pairs =
      _mm256_hadd_epi32(_mm256_hadd_epi32(fold(a), fold(b)), _mm256_hadd_epi32(fold(c), fold(d)));
  return _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}

TOOLROLL_INLINE __m512i load(const std::int8_t* at) { return _mm512_loadu_si512(at); }

/// VNNI multiplies unsigned by signed numbers, so this uses row + 128. start() compensates for the
/// excess of 128 * sum(query).
TOOLROLL_INLINE __m512i add_products(__m512i sum, __m512i query, __m512i row) {
  const __m512i shifted = _mm512_xor_si512(row, _mm512_set1_epi8(static_cast<char>(0x80)));
  return _mm512_dpbusd_epi32(sum, shifted, query);
}

/// See dot_kernel.hpp.
struct Avx512 {
  struct Zero {};  // each sum begins at 0
  TOOLROLL_INLINE Zero start(const float*, std::size_t) { return {}; }

  TOOLROLL_INLINE __m128 four(const float* q, Zero, const float* a, const float* b, const float* c,
                              const float* d, std::size_t width) {
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
    for (std::size_t i = 0; i < width; i += 32) {
      const __m512 q0 = _mm512_loadu_ps(q + i);
      const __m512 q1 = _mm512_loadu_ps(q + i + 16);
      a0 = _mm512_fmadd_ps(q0, _mm512_loadu_ps(a + i), a0);
      a1 = _mm512_fmadd_ps(q1, _mm512_loadu_ps(a + i + 16), a1);
      b0 = _mm512_fmadd_ps(q0, _mm512_loadu_ps(b + i), b0);
      b1 = _mm512_fmadd_ps(q1, _mm512_loadu_ps(b + i + 16), b1);
      c0 = _mm512_fmadd_ps(q0, _mm512_loadu_ps(c + i), c0);
      c1 = _mm512_fmadd_ps(q1, _mm512_loadu_ps(c + i + 16), c1);
      d0 = _mm512_fmadd_ps(q0, _mm512_loadu_ps(d + i), d0);
      d1 = _mm512_fmadd_ps(q1, _mm512_loadu_ps(d + i + 16), d1);
    }
    return sums(_mm512_add_ps(a0, a1), _mm512_add_ps(b0, b1), _mm512_add_ps(c0, c1),
                _mm512_add_ps(d0, d1));
  }

  TOOLROLL_INLINE float one(const float* q, Zero, const float* a, std::size_t width) {
    __m512 a0 = _mm512_setzero_ps(), a1 = a0;
    for (std::size_t i = 0; i < width; i += 32) {
      a0 = _mm512_fmadd_ps(_mm512_loadu_ps(q + i), _mm512_loadu_ps(a + i), a0);
      a1 = _mm512_fmadd_ps(_mm512_loadu_ps(q + i + 16), _mm512_loadu_ps(a + i + 16), a1);
    }
    const __m512 sum = _mm512_add_ps(a0, a1);
    return _mm_cvtss_f32(sums(sum, sum, sum, sum));
  }

  /// The start value of each row's sum: its lanes add up to -128 * sum(query).
  TOOLROLL_INLINE __m512i start(const std::int8_t* query, std::size_t width) {
    const __m512i shift = _mm512_set1_epi8(static_cast<char>(0x80));
    __m512i sum = _mm512_setzero_si512();
    for (std::size_t i = 0; i < width; i += 64)
      sum = _mm512_dpbusd_epi32(sum, shift, load(query + i));
    return _mm512_sub_epi32(_mm512_setzero_si512(), sum);
  }

  TOOLROLL_INLINE __m128i four(const std::int8_t* q, __m512i start, const std::int8_t* a,
                               const std::int8_t* b, const std::int8_t* c, const std::int8_t* d,
                               std::size_t width) {
    __m512i a0 = start, b0 = start, c0 = start, d0 = start;
    for (std::size_t i = 0; i < width; i += 64) {
      const __m512i query = load(q + i);
      a0 = add_products(a0, query, load(a + i));
      b0 = add_products(b0, query, load(b + i));
      c0 = add_products(c0, query, load(c + i));
      d0 = add_products(d0, query, load(d + i));
    }
    return sums(a0, b0, c0, d0);
  }

  TOOLROLL_INLINE std::int32_t one(const std::int8_t* q, __m512i start, const std::int8_t* a,
                                   std::size_t width) {
    __m512i sum = start;
    for (std::size_t i = 0; i < width; i += 64) sum = add_products(sum, load(q + i), load(a + i));
    return _mm512_reduce_add_epi32(sum);
  }
};

constexpr DotKernels kAvx512 = X86Kernels<Avx512>::table(Isa::kAvx512);

}  // namespace
}  // namespace toolroll

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

namespace toolroll {

const DotKernels* avx512_kernels() { return &kAvx512; }

}  // namespace toolroll

#else

const toolroll::DotKernels* toolroll::avx512_kernels() { return nullptr; }

#endif
