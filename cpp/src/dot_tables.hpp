/// What dot.cpp and its twins share.
#pragma once

#include "toolroll/dot.hpp"

namespace toolroll {

/// nullptr where the compiler's target has no such instructions.
const DotKernels* neon_kernels();
const DotKernels* avx2_kernels();
const DotKernels* avx512_kernels();

/// From loops::quantise's squared error to a bound on its length.
Quantised finished(Quantised squared);
/// The same for loops::round_halves.
HalfByteSums finished(HalfByteSums squared);

float inverse_root(float x);
/// The scale of a 4-bit row whose values have these sums of x * value and value * value: the
/// least-squares factor, rounded up to the upper half of a float.
float half_byte_scale(float products, float squares, std::size_t width);
/// Scale and error as a block holds them, from half_byte_scale's result and a squared error.
std::uint32_t packed(float scale, float squared_error);

}  // namespace toolroll
