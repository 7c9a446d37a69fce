// The sampler with four lanes. What is compiled here runs only where isa() says AVX2.
#include "thompson_kernels.hpp"

#ifdef TOOLROLL_X86

#include <immintrin.h>

// Without FMA: nothing here can be contracted, whatever the compiler's flags.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace toolroll::thompson {
namespace {

#include "thompson_kernel.hpp"

// For each set of lanes, where their low halves are, in front.
struct alignas(32) Packed {
  std::uint32_t half[8];
  std::size_t size;
};
constexpr Packed kPacked[16] = {
    {{}, 0},     {{0}, 1},       {{2}, 1},       {{0, 2}, 2},       {{4}, 1},    {{0, 4}, 2},
    {{2, 4}, 2}, {{0, 2, 4}, 3}, {{6}, 1},       {{0, 6}, 2},       {{2, 6}, 2}, {{0, 2, 6}, 3},
    {{4, 6}, 2}, {{0, 4, 6}, 3}, {{2, 4, 6}, 3}, {{0, 2, 4, 6}, 4},
};

struct FourLanes {
  struct Mask {
    __m256d all;  // all bits of a lane are 1 or 0
    friend TOOLROLL_INLINE Mask operator&(Mask x, Mask y) { return {_mm256_and_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Mask operator|(Mask x, Mask y) { return {_mm256_or_pd(x.all, y.all)}; }
  };
  struct Real {
    __m256d all;
    friend TOOLROLL_INLINE Real operator+(Real x, Real y) { return {_mm256_add_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Real operator-(Real x, Real y) { return {_mm256_sub_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Real operator*(Real x, Real y) { return {_mm256_mul_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Real operator/(Real x, Real y) { return {_mm256_div_pd(x.all, y.all)}; }
    friend TOOLROLL_INLINE Mask operator<(Real x, Real y) {
      return {_mm256_cmp_pd(x.all, y.all, _CMP_LT_OQ)};
    }
  };
  struct Word {
    __m256i all;
    friend TOOLROLL_INLINE Word operator+(Word x, Word y) {
      return {_mm256_add_epi64(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator-(Word x, Word y) {
      return {_mm256_sub_epi64(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator&(Word x, Word y) {
      return {_mm256_and_si256(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator|(Word x, Word y) {
      return {_mm256_or_si256(x.all, y.all)};
    }
    friend TOOLROLL_INLINE Word operator^(Word x, Word y) {
      return {_mm256_xor_si256(x.all, y.all)};
    }
  };
  static constexpr std::size_t kLanes = 4;

  static TOOLROLL_INLINE Real real(double number) { return {_mm256_set1_pd(number)}; }
  static TOOLROLL_INLINE Word word(std::uint64_t number) {
    return {_mm256_set1_epi64x(static_cast<long long>(number))};
  }
  static TOOLROLL_INLINE Real load(const double* at) { return {_mm256_loadu_pd(at)}; }
  static TOOLROLL_INLINE Word load(const std::uint64_t* at) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))};
  }
  static TOOLROLL_INLINE Word load(const std::uint32_t* at) {
    return {_mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)))};
  }
  // Not the gather instruction: it is slower than four loads on many processors.
  static TOOLROLL_INLINE Real gather(const double* column, const std::uint32_t* at) {
    return {_mm256_setr_pd(column[at[0]], column[at[1]], column[at[2]], column[at[3]])};
  }
  static TOOLROLL_INLINE Word gather(const std::uint64_t* column, const std::uint32_t* at) {
    return {_mm256_setr_epi64x(
        static_cast<long long>(column[at[0]]), static_cast<long long>(column[at[1]]),
        static_cast<long long>(column[at[2]]), static_cast<long long>(column[at[3]]))};
  }
  static TOOLROLL_INLINE void store(double* at, Real x) { _mm256_storeu_pd(at, x.all); }

  static TOOLROLL_INLINE Real sqrt(Real x) { return {_mm256_sqrt_pd(x.all)}; }
  static TOOLROLL_INLINE Real min(Real x, Real y) { return {_mm256_min_pd(x.all, y.all)}; }
  static TOOLROLL_INLINE Real max(Real x, Real y) { return {_mm256_max_pd(x.all, y.all)}; }
  static TOOLROLL_INLINE Real select(Mask mask, Real yes, Real no) {
    return {_mm256_blendv_pd(no.all, yes.all, mask.all)};
  }

  static TOOLROLL_INLINE Word select(Mask mask, Word yes, Word no) {
    return as_word(select(mask, as_real(yes), as_real(no)));
  }
  static TOOLROLL_INLINE Word lane_numbers() { return {_mm256_setr_epi64x(0, 1, 2, 3)}; }
  static TOOLROLL_INLINE std::size_t append(std::uint32_t* to, Word x, Mask wanted) {
    const int mask = _mm256_movemask_pd(wanted.all);
    const __m256i order = _mm256_load_si256(reinterpret_cast<const __m256i*>(kPacked[mask].half));
    const __m256i packed = _mm256_permutevar8x32_epi32(x.all, order);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
    return kPacked[mask].size;
  }

  static TOOLROLL_INLINE Word multiply(Word x, Word y) { return {_mm256_mul_epu32(x.all, y.all)}; }
  template <int kBits>
  static TOOLROLL_INLINE Word left(Word x) {
    return {_mm256_slli_epi64(x.all, kBits)};
  }
  template <int kBits>
  static TOOLROLL_INLINE Word right(Word x) {
    return {_mm256_srli_epi64(x.all, kBits)};
  }
  static TOOLROLL_INLINE Real as_real(Word x) { return {_mm256_castsi256_pd(x.all)}; }
  static TOOLROLL_INLINE Word as_word(Real x) { return {_mm256_castpd_si256(x.all)}; }

  static TOOLROLL_INLINE Mask negate(Mask mask) {
    return {_mm256_xor_pd(mask.all, _mm256_castsi256_pd(_mm256_set1_epi64x(-1)))};
  }
  static TOOLROLL_INLINE bool any(Mask mask) { return _mm256_movemask_pd(mask.all) != 0; }
  static TOOLROLL_INLINE std::uint32_t bits(Mask mask) {
    return static_cast<std::uint32_t>(_mm256_movemask_pd(mask.all));
  }
};

void beta(const std::uint64_t* key, const double* alpha, const double* beta_shape, std::size_t n,
          std::uint64_t seed, double* out, double* log_odds) {
  Sampler<Twice<FourLanes>>::beta(key, alpha, beta_shape, n, seed, out, log_odds);
}

void log_gamma(const std::uint64_t* key, const double* shape, std::size_t n, std::uint64_t seed,
               double* out) {
  Sampler<Twice<FourLanes>>::log_gamma(key, shape, n, seed, out);
}

}  // namespace
}  // namespace toolroll::thompson

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

namespace toolroll::thompson {

const Kernels kAvx2Kernels{beta, log_gamma};

}  // namespace toolroll::thompson

#endif
