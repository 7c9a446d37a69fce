/// The probability that a tool was shown (its propensity), for off-policy estimates from a log.
///
/// Scores are independent normals. Given a tool's score, the number of candidates above it has a
/// Poisson-binomial distribution, so the propensity is a one-dimensional integral over that score.
/// The integral is exact; counting replays takes a hundred thousand of them for three digits.
///
/// Source: Jeunen, RecSys 2025 (arXiv 2504.08773), gives the closed form for the first place. This
/// is its extension to k places with breakers, guards and groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace toolroll {

/// The candidates with the numbers that rank() wrote, without core ones. Of equal scores the lower
/// place comes first.
struct Odds {
  std::span<const double> mean;
  std::span<const double> sd;
  std::span<const double> show;           ///< probability of taking part, in [0, 1]
  std::span<const std::uint8_t> guarded;  ///< 1: shown whenever it takes part
  std::span<const std::uint64_t> group;   ///< only the best of a group competes; 0: none
};

/// out[i] = probability that candidate i is among the k shown, without exploration. The sum is the
/// expected number of shown candidates. The error is below 1e-6 if no deviation is less than a
/// hundredth of another, and below 0.002 otherwise. O(points * n^2 k), with about 50 points if the
/// deviations are similar.
///
/// Throws std::invalid_argument, before anything is written, if columns differ in length, a number
/// is not finite, a deviation is negative or a probability not in [0, 1].
void inclusion(const Odds& odds, std::size_t k, std::span<double> out);

/// The same with exploration, estimated from replays of the draw and of pick(). standard_error[i]
/// is the error of out[i], above 0 even if all replays agree. The same (seed, draws) give the same
/// numbers.
void inclusion_sampled(const Odds& odds, std::size_t k, double explore, std::uint64_t seed,
                       std::size_t draws, std::span<double> out, std::span<double> standard_error);

}  // namespace toolroll
