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
TOOLROLL_INLINE __m512i shifted(__m512i row) {
  return _mm512_xor_si512(row, _mm512_set1_epi8(static_cast<char>(0x80)));
}

TOOLROLL_INLINE __m512i add_products(__m512i sum, __m512i query, __m512i row) {
  return _mm512_dpbusd_epi32(sum, shifted(row), query);
}

/// Lane i of each quarter is the sum over that quarter of the i-th vector.
TOOLROLL_INLINE __m512i quarter_sums(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/// The sums of sixteen vectors, from quarter_sums of four at a time.
TOOLROLL_INLINE __m512i sixteen_sums(const __m512i* quads) {
  const __m512i front = _mm512_add_epi32(_mm512_shuffle_i32x4(quads[0], quads[1], 0x88),
                                         _mm512_shuffle_i32x4(quads[0], quads[1], 0xDD));
  const __m512i back = _mm512_add_epi32(_mm512_shuffle_i32x4(quads[2], quads[3], 0x88),
                                        _mm512_shuffle_i32x4(quads[2], quads[3], 0xDD));
  return _mm512_add_epi32(_mm512_shuffle_i32x4(front, back, 0x88),
                          _mm512_shuffle_i32x4(front, back, 0xDD));
}

/// Four values of a query as one number to broadcast.
TOOLROLL_INLINE int word(const std::int8_t* values) {
  int number;
  std::memcpy(&number, values, sizeof number);
  return number;
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

  static constexpr std::size_t kBatch = 16;

  template <bool kFine, typename Lines>
  TOOLROLL_INLINE void batch(const ByteQuery& query, __m512i start, __m512i fine_start,
                             const Lines& rows, const float* row_step, const float* row_error,
                             std::size_t width, float* upper) {
    __m512i sums[4];
    __m512i fine[4];
    for (std::size_t quad = 0; quad < 4; ++quad) {
      // Row after row: the prefetcher sees one stream. The loops over a known width are unrolled,
      // and the query stays in registers.
      __m512i coarse_sums[4];
      __m512i fine_sums[4];
      for (std::size_t j = 0; j < 4; ++j) {
        const std::int8_t* const row = rows[4 * quad + j];
        __m512i sum = start;
        __m512i rest = fine_start;
        for (std::size_t i = 0; i < width; i += 64) {
          const __m512i x = shifted(load(row + i));
          sum = _mm512_dpbusd_epi32(sum, x, load(query.values + i));
          if constexpr (kFine) rest = _mm512_dpbusd_epi32(rest, x, load(query.fine + i));
        }
        coarse_sums[j] = sum;
        fine_sums[j] = rest;
      }
      sums[quad] = quarter_sums(coarse_sums[0], coarse_sums[1], coarse_sums[2], coarse_sums[3]);
      if constexpr (kFine) {
        fine[quad] = quarter_sums(fine_sums[0], fine_sums[1], fine_sums[2], fine_sums[3]);
      }
    }
    __m512 about =
        _mm512_mul_ps(_mm512_cvtepi32_ps(sixteen_sums(sums)), _mm512_set1_ps(query.step));
    if constexpr (kFine) {
      about = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sixteen_sums(fine)),
                              _mm512_set1_ps(query.fine_step), about);
    }
    const __m512 off = _mm512_fmadd_ps(_mm512_loadu_ps(row_error), _mm512_set1_ps(query.per_error),
                                       _mm512_set1_ps(query.constant));
    _mm512_storeu_ps(upper, _mm512_fmadd_ps(about, _mm512_loadu_ps(row_step), off));
  }

  /// VNNI takes a byte of both halves for one unsigned number: it is 16 * high + low, and
  /// (16 * high + low) * y + 16 * (low * x) = 16 * (high * y + low * (x + y / 16)). So the products
  /// of the upper halves need no shift, if the query's lower values leave a sixteenth of the
  /// upper ones to them. 119 + 119 / 16 is below 127.
  static constexpr HalfByteForm kForm{0.0625F, 119.0F};

  TOOLROLL_INLINE void bounds_of_blocks(const HalfByteQuery& query, const std::uint8_t* blocks,
                                        std::size_t n, std::size_t width, float* upper) {
    constexpr std::size_t kVectors = kBlockRows / 16;
    const __m512i halves = _mm512_set1_epi8(15);
    const std::uint8_t* at = blocks;
    for (std::size_t block = 0; block < n; ++block, upper += kBlockRows) {
      __m512i bytes[kVectors];
      __m512i lows[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) bytes[v] = lows[v] = _mm512_setzero_si512();
      for (std::size_t j = 0; j < width / 2; j += 4, at += 4 * kBlockRows) {
        const __m512i high = _mm512_set1_epi32(word(query.high + j));
        const __m512i low = _mm512_set1_epi32(word(query.low + j));
        for (std::size_t v = 0; v < kVectors; ++v) {
          const __m512i x = _mm512_loadu_si512(at + 64 * v);
          bytes[v] = _mm512_dpbusd_epi32(bytes[v], x, high);
          lows[v] = _mm512_dpbusd_epi32(lows[v], _mm512_and_si512(x, halves), low);
        }
      }
      for (std::size_t v = 0; v < kVectors; ++v, at += 64) {
        const __m512i sum = _mm512_add_epi32(bytes[v], _mm512_slli_epi32(lows[v], 4));
        const __m512i numbers = _mm512_loadu_si512(at);
        const __m512 scale =
            _mm512_castsi512_ps(_mm512_and_si512(numbers, _mm512_set1_epi32(-0x10000)));
        const __m512 error = _mm512_castsi512_ps(_mm512_slli_epi32(numbers, 16));
        const __m512 p = _mm512_mul_ps(
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(query.step * 0.0625F),
                            _mm512_set1_ps(query.bias)),
            scale);
        const __m512 off =
            _mm512_fnmadd_ps(_mm512_set1_ps(query.slope), p, _mm512_set1_ps(query.slack));
        _mm512_storeu_ps(
            upper + 16 * v,
            _mm512_fmadd_ps(error, off, _mm512_add_ps(p, _mm512_set1_ps(query.constant))));
      }
    }
  }

  TOOLROLL_INLINE std::size_t above(const float* scores, std::size_t n, float least,
                                    std::int32_t first, std::int32_t* rows) {
    const __m512 limit = _mm512_set1_ps(least);
    __m512i at =
        _mm512_add_epi32(_mm512_set1_epi32(first),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    std::size_t count = 0;
    // Without a branch: where rows are left at all, nobody can foresee in which sixteen.
    for (std::size_t i = 0; i < n; i += 16) {
      const auto there = static_cast<__mmask16>(n - i < 16 ? (1U << (n - i)) - 1 : 0xFFFF);
      const __mmask16 hits = _mm512_mask_cmp_ps_mask(
          there, _mm512_maskz_loadu_ps(there, scores + i), limit, _CMP_GE_OQ);
      _mm512_storeu_si512(rows + count, _mm512_maskz_compress_epi32(hits, at));
      count += static_cast<std::size_t>(_mm_popcnt_u32(hits));
      at = _mm512_add_epi32(at, _mm512_set1_epi32(16));
    }
    return count;
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
