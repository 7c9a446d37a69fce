#include "toolroll/thompson.hpp"

#include <algorithm>
#include <limits>

#include "checks.hpp"
#include "thompson_kernels.hpp"

namespace toolroll {
namespace {

using thompson::Kernels;

const Kernels& kernels([[maybe_unused]] Isa wanted) {
#ifdef TOOLROLL_X86
  const Isa used = std::min(wanted, isa_supported());
  if (used >= Isa::kAvx512) return thompson::kAvx512Kernels;
  if (used >= Isa::kAvx2) return thompson::kAvx2Kernels;
#endif
  return thompson::kBaselineKernels;
}

bool is_shape(double number) {
  return (number > 0) & (number <= std::numeric_limits<double>::max());  // not &&: no branch
}

void check_shapes(const char* column, std::span<const double> shapes) {
  bool sound = true;
  for (const double shape : shapes) sound &= is_shape(shape);
  if (sound) return;
  for (std::size_t row = 0; row < shapes.size(); ++row) {
    if (!is_shape(shapes[row])) refuse(entry(column, row), shapes[row], "finite and above 0");
  }
}

}  // namespace

void thompson_sample(const Arms& arms, std::uint64_t seed, std::span<double> out, Isa using_isa) {
  const std::size_t n = arms.key.size();
  check_length("alpha", arms.alpha.size(), n);
  check_length("beta", arms.beta.size(), n);
  check_length("out", out.size(), n);
  check_shapes("alpha", arms.alpha);
  check_shapes("beta", arms.beta);
  kernels(using_isa).beta(arms.key.data(), arms.alpha.data(), arms.beta.data(), n, seed, out.data(),
                          nullptr);
}

void log_gamma_sample(std::span<const std::uint64_t> key, std::span<const double> shape,
                      std::uint64_t seed, std::span<double> out, Isa using_isa) {
  check_length("shape", shape.size(), key.size());
  check_length("out", out.size(), key.size());
  check_shapes("shape", shape);
  kernels(using_isa).log_gamma(key.data(), shape.data(), key.size(), seed, out.data());
}

}  // namespace toolroll
