// The sampler with eight lanes. What is compiled here runs only where isa() says AVX-512.
#include "thompson_kernels.hpp"

#ifdef TOOLROLL_X86

#include <immintrin.h>

// AVX-512 brings FMA along: -ffp-contract=off (CMakeLists.txt) keeps products and sums apart.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,popcnt"))), \
                             apply_to = function)
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header, bug 105593
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,popcnt")
#endif

namespace toolroll::thompson {
namespace {

#include "thompson_kernel.hpp"

struct EightLanes {
  struct Mask {
    __mmask8 all;  // a bit for each lane
    friend TOOLROLL_INLINE Mask operator&(Mask x, Mask y) {
      return {static_cast<__mmask8>(x.all & y.all)};
    }
    friend TOOLROLL_INLINE Mask operator|(Mask x, Mask y) {
      return {static_cast<__mmask8>(x.all | y.all)};
    }
  };
  struct Real {
    __m512d all;
    friend TOOLROLL_INLINE Real operator+(Real x, Real y) { return {_mm512_add_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Real operator-(Real x, Real y) { return {_mm512_sub_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Real operator*(Real x, Real y) { return {_mm512_mul_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Real operator/(Real x, Real y) { return {_mm512_div_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Mask operator<(Real x, Real y) {
      return {_mm512_cmp_pd_mask(x.all, y.all, _CMP_LT_OQ)};
    }
  };
  struct Word {
    __m512i all;
    friend TOOLROLL_INLINE Word operator+(Word x, Word y) {
      return {_mm512_add_epi64(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator-(Word x, Word y) {
      return {_mm512_sub_epi64(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator&(Word x, Word y) {
      return {_mm512_and_si512(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator|(Word x, Word y) {
      return {_mm512_or_si512(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator^(Word x, Word y) {
      return {_mm512_xor_si512(x.all, y.all)};
    }
  };
  static constexpr std::size_t kLanes = 8;

  static TOOLROLL_INLINE Real real(double number) { return {_mm512_set1_pd(number)}; }
  static TOOLROLL_INLINE Word word(std::uint64_t number) {
    return {_mm512_set1_epi64(static_cast<long long>(number))};
  }
  static TOOLROLL_INLINE Real load(const double* at) { return {_mm512_loadu_pd(at)}; }
  static TOOLROLL_INLINE Word load(const std::uint64_t* at) { return {_mm512_loadu_si512(at)}; }
  static TOOLROLL_INLINE Word load(const std::uint32_t* at) {
    return {_mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)))};
  }
  static TOOLROLL_INLINE Real gather(const double* column, const std::uint32_t* at) {
    return {_mm512_setr_pd(column[at[0]], column[at[1]], column[at[2]], column[at[3]],
                           column[at[4]], column[at[5]], column[at[6]], column[at[7]])};
  }
  static TOOLROLL_INLINE Word gather(const std::uint64_t* column, const std::uint32_t* at) {
    return {_mm512_setr_epi64(
        static_cast<long long>(column[at[0]]), static_cast<long long>(column[at[1]]),
        static_cast<long long>(column[at[2]]), static_cast<long long>(column[at[3]]),
        static_cast<long long>(column[at[4]]), static_cast<long long>(column[at[5]]),
        static_cast<long long>(column[at[6]]), static_cast<long long>(column[at[7]]))};
  }
  static TOOLROLL_INLINE void store(double* at, Real x) { _mm512_storeu_pd(at, x.all); }

  static TOOLROLL_INLINE Real sqrt(Real x) { return {_mm512_sqrt_pd(x.all)}; }
  static TOOLROLL_INLINE Real min(Real x, Real y) { return {_mm512_min_pd(x.all, y.all)}; }
  static TOOLROLL_INLINE Real max(Real x, Real y) { return {_mm512_max_pd(x.all, y.all)}; }
  static TOOLROLL_INLINE Real select(Mask mask, Real yes, Real no) {
    return {_mm512_mask_blend_pd(mask.all, no.all, yes.all)};
  }

  static TOOLROLL_INLINE Word select(Mask mask, Word yes, Word no) {
    return {_mm512_mask_blend_epi64(mask.all, no.all, yes.all)};
  }
  static TOOLROLL_INLINE Word lane_numbers() { return {_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)}; }
  // Compressed in a register: compressing into memory is slow on Zen 4.
  static TOOLROLL_INLINE std::size_t append(std::uint32_t* to, Word x, Mask wanted) {
    const __m512i packed = _mm512_maskz_compress_epi64(wanted.all, x.all);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi64_epi32(packed));
    return static_cast<std::size_t>(_mm_popcnt_u32(wanted.all));
  }

  static TOOLROLL_INLINE Word multiply(Word x, Word y) { return {_mm512_mul_epu32(x.all, y.all)}; }
  template <int kBits>
  static TOOLROLL_INLINE Word left(Word x) {
    return {_mm512_slli_epi64(x.all, kBits)};
  }
  template <int kBits>
  static TOOLROLL_INLINE Word right(Word x) {
    return {_mm512_srli_epi64(x.all, kBits)};
  }
  static TOOLROLL_INLINE Real as_real(Word x) { return {_mm512_castsi512_pd(x.all)}; }
  static TOOLROLL_INLINE Word as_word(Real x) { return {_mm512_castpd_si512(x.all)}; }

  static TOOLROLL_INLINE Mask negate(Mask mask) { return {static_cast<__mmask8>(~mask.all)}; }
  static TOOLROLL_INLINE bool any(Mask mask) { return mask.all != 0; }
  static TOOLROLL_INLINE std::uint32_t bits(Mask mask) { return mask.all; }
};

void beta(const std::uint64_t* key, const double* alpha, const double* beta_shape, std::size_t n,
          std::uint64_t seed, double* out, double* log_odds) {
  Sampler<Twice<EightLanes>>::beta(key, alpha, beta_shape, n, seed, out, log_odds);
}

void log_gamma(const std::uint64_t* key, const double* shape, std::size_t n, std::uint64_t seed,
               double* out) {
  Sampler<Twice<EightLanes>>::log_gamma(key, shape, n, seed, out);
}

}  // namespace
}  // namespace toolroll::thompson

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

namespace toolroll::thompson {

const Kernels kAvx512Kernels{beta, log_gamma};

}  // namespace toolroll::thompson

#endif
