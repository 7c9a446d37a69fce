#include "toolroll/thompson.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "checks.hpp"
#include "portable.hpp"
#include "toolroll/stream.hpp"

namespace toolroll {
namespace {

// Within these the ratio of two gammas, and its inverse, is a normal double: the smallest cube is
// 2^-159.
constexpr double kSmallestShape = 1e-250;
constexpr double kGreatestShape = 1e250;

// Two attempts in three are accepted at worst, so no draw needs 200. The bound ends the loop even
// if another thread writes NaN into the columns meanwhile.
constexpr std::uint64_t kMostAttempts = 200;

void check_shapes(const char* column, std::span<const double> shapes) {
  for (std::size_t row = 0; row < shapes.size(); ++row) {
    if (!(shapes[row] > 0 && shapes[row] <= std::numeric_limits<double>::max())) {
      refuse(entry(column, row), shapes[row], "finite and above 0");
    }
  }
}

// On (-1, 1), never 0.
double signed_unit(std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-31 - 1.0; }

double within_range(double shape) { return std::clamp(shape, kSmallestShape, kGreatestShape); }

// Marsaglia and Tsang's d. A shape below 1 is drawn as shape + 1, then boosted.
double scale_of(double shape) { return shape + (shape < 1.0 ? 1.0 - 1.0 / 3 : -1.0 / 3); }

double boost(double u, double shape) { return shape < 1.0 ? portable::log(u) / shape : 0.0; }

// Marsaglia and Tsang's cube: d * cube is proposed for Gamma(d + 1/3), with c = 1 / sqrt(9 d).
struct Proposal {
  double root;
  double cube;
  double square;  // of the normal
};

Proposal propose(double normal, double c) {
  const double root = 1.0 + c * normal;
  return {root, root * root * root, normal * normal};
}

// The logarithm of the probability with which a proposal is accepted.
double log_acceptance(const Proposal& proposal, double d) {
  return 0.5 * proposal.square + d * ((1.0 - proposal.cube) + portable::log(proposal.cube));
}

// The ratio of two gammas, from the first attempt that is accepted.
double gamma_ratio(const Stream& stream, double alpha, double beta) {
  const double da = scale_of(within_range(alpha));
  const double db = scale_of(within_range(beta));
  // Both c = 1 / sqrt(9 d) with one division.
  const double root_a = std::sqrt(9.0 * da);
  const double root_b = std::sqrt(9.0 * db);
  const double inverse = 1.0 / (root_a * root_b);
  double ratio = 1.0;
  for (std::uint64_t attempt = 1; attempt <= kMostAttempts; ++attempt) {
    const auto words = stream.block(attempt);
    const double x = signed_unit(words[0]);
    const double y = signed_unit(words[1]);
    const double square = x * x + y * y;  // at least 2^-63: neither is ever 0
    if (!(square < 1.0)) continue;
    const double scale = std::sqrt(-2.0 * portable::log(square) / square);
    const Proposal a = propose(x * scale, inverse * root_b);
    const Proposal b = propose(y * scale, inverse * root_a);
    if (!(a.root > 0.0 && b.root > 0.0)) continue;
    ratio = da * a.cube / (db * b.cube);
    // One uniform accepts both, with the product of their probabilities. The squeezes join as
    // well: (1 - p)(1 - q) >= 1 - (p + q).
    const double u = Stream::unit(words[2], words[3]);
    const double squeezed = 0.0331 * (a.square * a.square + b.square * b.square);
    if (u < 1.0 - squeezed) break;
    if (portable::log(u) < log_acceptance(a, da) + log_acceptance(b, db)) break;
  }
  return ratio;
}

// 1 / (1 + exp(-x)); exactly 0 below -708.
double logistic(double x) {
  const double magnitude = std::abs(x);
  const double small = magnitude < 708.0 ? portable::exp(-magnitude) : 0.0;
  return (x < 0.0 ? small : 1.0) / (1.0 + small);
}

double draw(const Stream& stream, double alpha, double beta) {
  const double ratio = gamma_ratio(stream, alpha, beta);
  if (alpha >= 1.0 && beta >= 1.0) return ratio / (1.0 + ratio);
  const auto words = stream.block(0);
  const double boosts = boost(Stream::unit(words[0], words[1]), within_range(alpha)) -
                        boost(Stream::unit(words[2], words[3]), within_range(beta));
  return logistic(portable::log(ratio) + boosts);
}

}  // namespace

void thompson_sample(const Arms& arms, std::uint64_t seed, std::span<double> out) {
  const std::size_t n = arms.key.size();
  check_length("alpha", arms.alpha.size(), n);
  check_length("beta", arms.beta.size(), n);
  check_length("out", out.size(), n);
  check_shapes("alpha", arms.alpha);
  check_shapes("beta", arms.beta);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = draw(Stream(seed, arms.key[i]), arms.alpha[i], arms.beta[i]);
  }
}

}  // namespace toolroll
