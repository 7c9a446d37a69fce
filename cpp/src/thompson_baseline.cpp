// The sampler with one lane: the reference that the other instruction sets equal to the bit.
#include <bit>
#include <cmath>

#include "thompson_kernels.hpp"

namespace toolroll::thompson {
namespace {

#include "thompson_kernel.hpp"

struct OneLane {
  using Real = double;
  using Word = std::uint64_t;
  using Mask = bool;
  static constexpr std::size_t kLanes = 1;

  static Real real(double number) { return number; }
  static Word word(std::uint64_t number) { return number; }
  static Real load(const double* at) { return *at; }
  static Word load(const std::uint64_t* at) { return *at; }
  static Word load(const std::uint32_t* at) { return *at; }
  static Real gather(const double* column, const std::uint32_t* at) { return column[*at]; }
  static Word gather(const std::uint64_t* column, const std::uint32_t* at) { return column[*at]; }
  static void store(double* at, Real number) { *at = number; }

  static Real sqrt(Real x) { return std::sqrt(x); }
  static Real min(Real x, Real y) { return x < y ? x : y; }
  static Real max(Real x, Real y) { return x > y ? x : y; }
  static Real select(Mask mask, Real yes, Real no) { return mask ? yes : no; }

  static Word select(Mask mask, Word yes, Word no) { return mask ? yes : no; }
  static Word lane_numbers() { return 0; }
  // Writes the low halves of the wanted lanes, and may write anything up to kLanes; returns how
  // many.
  static std::size_t append(std::uint32_t* to, Word x, Mask wanted) {
    *to = static_cast<std::uint32_t>(x);
    return wanted ? 1 : 0;
  }

  static Word multiply(Word x, Word y) { return (x & 0xFFFFFFFFU) * (y & 0xFFFFFFFFU); }
  template <int kBits>
  static Word left(Word x) {
    return x << kBits;
  }
  template <int kBits>
  static Word right(Word x) {
    return x >> kBits;
  }
  static Real as_real(Word bits) { return std::bit_cast<Real>(bits); }
  static Word as_word(Real number) { return std::bit_cast<Word>(number); }

  static Mask negate(Mask mask) { return !mask; }
  static bool any(Mask mask) { return mask; }
  static std::uint32_t bits(Mask mask) { return mask ? 1 : 0; }
};

}  // namespace

const Kernels kBaselineKernels{Sampler<OneLane>::beta, Sampler<OneLane>::log_gamma};

}  // namespace toolroll::thompson
