/// The sampler's entry points, one set for each instruction set; thompson.cpp chooses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "toolroll/cpu.hpp"

#if defined(__GNUC__) || defined(__clang__)
#define TOOLROLL_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define TOOLROLL_INLINE __forceinline
#else
#define TOOLROLL_INLINE inline
#endif

// GCC and Clang get -ffp-contract=off.
#if defined(_MSC_VER)
#pragma fp_contract(off)
#endif

#if defined(__x86_64__) || defined(_M_X64)
#define TOOLROLL_X86 1
#endif

namespace toolroll::thompson {

/// Columns of n arms. The shapes are finite and positive; log_odds may be null.
struct Kernels {
  void (*beta)(const std::uint64_t* key, const double* alpha, const double* beta, std::size_t n,
               std::uint64_t seed, double* out, double* log_odds);
  void (*log_gamma)(const std::uint64_t* key, const double* shape, std::size_t n,
                    std::uint64_t seed, double* out);
};

extern const Kernels kBaselineKernels;
#ifdef TOOLROLL_X86
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace toolroll::thompson
