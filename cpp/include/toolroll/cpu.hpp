/// Which instruction set the kernels of this process use, decided once, at run time.
///
/// This module reads CPUID and XGETBV itself. In a wheel linked by another compiler,
/// `__builtin_cpu_supports` answered "no" to everything, and the kernels ran on the baseline
/// without any sign of it.
#pragma once

#include <string_view>

namespace toolroll {

/// Ordered on each architecture: a higher set includes the lower ones.
enum class Isa {
  kBaseline,  ///< every CPU of the architecture (SSE2 on x86-64); the scalar reference
  kNeon,      ///< AArch64
  kAvx2,      ///< AVX2, FMA, F16C, BMI1, BMI2, LZCNT, POPCNT: Haswell (2013), Zen, and later
  kAvx512,    ///< kAvx2 and AVX-512 F, BW, DQ, VL, VNNI: Ice Lake, Zen 4, and later
};

/// The best set that CPU and operating system support, whatever TOOLROLL_ISA says.
Isa isa_supported();

/// The set that the kernels use: isa_supported(), lowered by the environment variable TOOLROLL_ISA
/// ("baseline", "avx2", ...) as it was at the first call. A value that is unknown or higher than
/// isa_supported() is ignored. Any thread.
Isa isa();

/// The instruction set of a process whose CPU supports `supported` and whose TOOLROLL_ISA is
/// `wanted`.
Isa isa_lowered(Isa supported, std::string_view wanted);

/// "baseline", "neon", "avx2" or "avx512".
std::string_view isa_name(Isa isa);

}  // namespace toolroll
