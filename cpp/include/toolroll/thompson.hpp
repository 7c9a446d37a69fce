/// Thompson sampling: draws from the Beta posteriors of many arms.
///
/// A draw is a function of (seed, key, alpha, beta) alone. It has the same bits on every machine,
/// so a logged decision can be replayed anywhere: a draw consists of additions, multiplications,
/// divisions and square roots, which IEEE 754 rounds alike everywhere, and no two of them are
/// fused.
///
/// How an arm is drawn. Block t = 1, 2, ... of its stream (stream.hpp) is one attempt: two words
/// give a pair of normals by the polar method, each normal proposes a gamma variate by Marsaglia
/// and Tsang's cube, the other two words accept or reject both at once (with the product of their
/// probabilities, which keeps the two independent). The first accepted attempt is the draw. A shape
/// below 1 is drawn at shape + 1, and log(u) / shape is added to its logarithm, with u from block
/// 0; logarithms are needed because at shape 1e-3 both gammas are often below the smallest double.
/// Each normal uses 32 bits and each uniform 52, so events rarer than 2^-32 are not resolved
/// finely.
///
/// Sources: Marsaglia & Bray, "A Convenient Method for Generating Normal Variables", SIAM Review
/// 1964. Ahrens & Dieter, "Computer Methods for Sampling from Gamma, Beta, Poisson and Binomial
/// Distributions", Computing 1974. Marsaglia & Tsang, "A Simple Method for Generating Gamma
/// Variables", ACM TOMS 2000. Chapelle & Li, "An Empirical Evaluation of Thompson Sampling", 2011.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace toolroll {

/// Beta posteriors of n arms, one column per field.
struct Arms {
  std::span<const std::uint64_t> key;  // stable tool key; names the arm's random stream
  std::span<const double> alpha;       // prior + rewards, finite and > 0
  std::span<const double> beta;        // prior + misses, finite and > 0
};

/// Draws one sample per arm: out[i] ~ Beta(alpha[i], beta[i]), in [0, 1].
///
/// Shapes below 1e-250 count as 1e-250, above 1e250 as 1e250. O(n), no allocation.
///
/// Throws std::invalid_argument if the columns differ in length or a shape is not finite and
/// positive, naming the row; out is then untouched.
void thompson_sample(const Arms& arms, std::uint64_t seed, std::span<double> out);

}  // namespace toolroll
