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

}  // namespace toolroll
