#include "dot_loops.hpp"
#include "dot_tables.hpp"

#if defined(__x86_64__) || defined(_M_X64)

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 and 13 take the "undefined" source of an unmasked intrinsic for a mistake (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#if defined(_MSC_VER) && !defined(__clang__)
#define TOOLROLL_AVX512
#else
#define TOOLROLL_AVX512 \
  __attribute__((       \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,bmi,bmi2,lzcnt,popcnt")))
#endif

namespace toolroll {
namespace {

/// The upper half on the lower: both twins of a product add up in this order.
TOOLROLL_AVX512 TOOLROLL_INLINE __m256 fold(__m512 x) {
  return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
}

TOOLROLL_AVX512 TOOLROLL_INLINE __m256i fold(__m512i x) {
  return _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
}

TOOLROLL_AVX512 TOOLROLL_INLINE __m128 sums(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m256 pairs =
      _mm256_hadd_ps(_mm256_hadd_ps(fold(a), fold(b)), _mm256_hadd_ps(fold(c), fold(d)));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

TOOLROLL_AVX512 TOOLROLL_INLINE __m128i sums(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m256i pairs =
      _mm256_hadd_epi32(_mm256_hadd_epi32(fold(a), fold(b)), _mm256_hadd_epi32(fold(c), fold(d)));
  return _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}

TOOLROLL_AVX512 TOOLROLL_INLINE __m128 four(const float* q, const float* a, const float* b,
                                            const float* c, const float* d, std::size_t width) {
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

TOOLROLL_AVX512 TOOLROLL_INLINE float one(const float* q, const float* a, std::size_t width) {
  __m512 a0 = _mm512_setzero_ps(), a1 = a0;
  for (std::size_t i = 0; i < width; i += 32) {
    a0 = _mm512_fmadd_ps(_mm512_loadu_ps(q + i), _mm512_loadu_ps(a + i), a0);
    a1 = _mm512_fmadd_ps(_mm512_loadu_ps(q + i + 16), _mm512_loadu_ps(a + i + 16), a1);
  }
  const __m512 sum = _mm512_add_ps(a0, a1);
  return _mm_cvtss_f32(sums(sum, sum, sum, sum));
}

TOOLROLL_AVX512 TOOLROLL_INLINE __m512i load(const std::int8_t* at) {
  return _mm512_loadu_si512(at);
}

/// VNNI multiplies unsigned by signed: rows are taken as row + 128, and 128 * sum(query) too much
/// is subtracted once at the end.
TOOLROLL_AVX512 TOOLROLL_INLINE __m512i add_products(__m512i sum, __m512i query, __m512i row) {
  const __m512i shifted = _mm512_xor_si512(row, _mm512_set1_epi8(static_cast<char>(0x80)));
  return _mm512_dpbusd_epi32(sum, shifted, query);
}

/// 128 * sum(query), as a start value for the sum of each row: lanes add up to it, negative.
TOOLROLL_AVX512 TOOLROLL_INLINE __m512i excess(const std::int8_t* query, std::size_t width) {
  const __m512i shift = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i < width; i += 64)
    sum = _mm512_dpbusd_epi32(sum, shift, load(query + i));
  return _mm512_sub_epi32(_mm512_setzero_si512(), sum);
}

TOOLROLL_AVX512 TOOLROLL_INLINE __m128i four(const std::int8_t* q, __m512i start,
                                             const std::int8_t* a, const std::int8_t* b,
                                             const std::int8_t* c, const std::int8_t* d,
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

TOOLROLL_AVX512 TOOLROLL_INLINE std::int32_t one(const std::int8_t* q, __m512i start,
                                                 const std::int8_t* a, std::size_t width) {
  __m512i sum = start;
  for (std::size_t i = 0; i < width; i += 64) sum = add_products(sum, load(q + i), load(a + i));
  return _mm512_reduce_add_epi32(sum);
}

// What differs between the two types, so that the loops below are written once.
struct Nothing {};
TOOLROLL_AVX512 TOOLROLL_INLINE Nothing excess(const float*, std::size_t) { return {}; }
TOOLROLL_AVX512 TOOLROLL_INLINE __m128 four(const float* q, Nothing, const float* a, const float* b,
                                            const float* c, const float* d, std::size_t width) {
  return four(q, a, b, c, d, width);
}
TOOLROLL_AVX512 TOOLROLL_INLINE float one(const float* q, Nothing, const float* a,
                                          std::size_t width) {
  return one(q, a, width);
}
TOOLROLL_AVX512 TOOLROLL_INLINE void store(float* out, __m128 products) {
  _mm_storeu_ps(out, products);
}
TOOLROLL_AVX512 TOOLROLL_INLINE void store(std::int32_t* out, __m128i products) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), products);
}

/// Asks for as many bytes as are about to be read, some way behind them: four rows at once look
/// like four short streams, which the hardware's prefetcher loses at the end of each row.
template <typename T>
TOOLROLL_AVX512 TOOLROLL_INLINE void ahead(const T* at, std::size_t bytes) {
  constexpr std::size_t kAhead = 8192;
  const auto from =
      reinterpret_cast<std::uintptr_t>(at) + kAhead;  // may lie behind the rows: a hint
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i), _MM_HINT_T0);
  }
}

template <typename T, typename Sum>
TOOLROLL_AVX512 void each(const T* query, const T* rows, std::size_t n, std::size_t width,
                          Sum* out) {
  const auto start = excess(query, width);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const T* const a = rows + i * width;
    ahead(a, 4 * width * sizeof(T));
    store(out + i, four(query, start, a, a + width, a + 2 * width, a + 3 * width, width));
  }
  for (; i < n; ++i) out[i] = one(query, start, rows + i * width, width);
}

/// Rows that lie apart defeat the hardware's prefetcher: ask for the next four while four are used.
/// Behind 512 bytes of a row it has caught on.
template <typename T>
TOOLROLL_AVX512 TOOLROLL_INLINE void fetch(const T* row, std::size_t width) {
  const std::size_t bytes = width * sizeof(T) < 512 ? width * sizeof(T) : 512;
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(row) + i, _MM_HINT_T0);
  }
}

template <typename T, typename Sum>
TOOLROLL_AVX512 void each_at(const T* query, const T* rows, const std::int32_t* at, std::size_t n,
                             std::size_t width, Sum* out) {
  const auto start = excess(query, width);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const std::size_t ahead = i + 8 <= n ? i + 8 : n;
    for (std::size_t j = i + 4; j < ahead; ++j) fetch(loops::row(rows, at[j], width), width);
    store(out + i,
          four(query, start, loops::row(rows, at[i], width), loops::row(rows, at[i + 1], width),
               loops::row(rows, at[i + 2], width), loops::row(rows, at[i + 3], width), width));
  }
  for (; i < n; ++i) out[i] = one(query, start, loops::row(rows, at[i], width), width);
}

TOOLROLL_AVX512 double squares(const float* x, std::size_t width) {
  return loops::squares(x, width);
}

TOOLROLL_AVX512 void scale(const float* x, double factor, std::size_t width, float* out) {
  loops::scale(x, factor, width, out);
}

TOOLROLL_AVX512 Quantised quantise(const float* x, std::size_t width, std::int8_t* values) {
  return finished(loops::quantise(x, width, values));
}

TOOLROLL_AVX512 void bounds(const std::int32_t* products, const float* row_step,
                            const float* row_error, std::size_t n, const BoundTerms& terms,
                            float* lower, float* upper) {
  loops::bounds(products, row_step, row_error, n, terms, lower, upper);
}

TOOLROLL_AVX512 std::size_t ones(const std::uint64_t* words, std::size_t n) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += static_cast<std::size_t>(_mm_popcnt_u64(words[i]));
  return count;
}

constexpr DotKernels kAvx512{Isa::kAvx512, each,  each_at,  each,   each_at,
                             squares,      scale, quantise, bounds, ones};

}  // namespace

const DotKernels* avx512_kernels() { return &kAvx512; }

}  // namespace toolroll

#else

const toolroll::DotKernels* toolroll::avx512_kernels() { return nullptr; }

#endif
