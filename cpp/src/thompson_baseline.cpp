// The sampler with one lane: the reference that the other instruction sets equal to the bit.
#include <bit>
#include <cmath>

#include "thompson_kernels.hpp"

namespace toolroll::thompson {
namespace {

#include "thompson_kernel.hpp"
#include "thompson_one_lane.hpp"

}  // namespace

const Kernels kBaselineKernels{Sampler<OneLane>::beta, Sampler<OneLane>::log_gamma};

}  // namespace toolroll::thompson
