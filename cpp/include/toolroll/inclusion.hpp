/// How probable it was that a tool was shown: what logged decisions need to judge others by.
///
/// Scores are independent normals, so the probability that at most k - 1 others are above is a
/// Poisson-binomial at each score, and its mean over the tool's own score a one-dimensional
/// integral: exact, where counting replays costs a hundred thousand of them for three digits.
///
/// Source: Jeunen, RecSys 2025 (arXiv 2504.08773), has it in closed form for the first place; here
/// it is for k places, with breakers, guards and groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace toolroll {

/// Candidates as rank() left them, without core ones. Ties go to the lower place.
struct Odds {
  std::span<const double> mean;
  std::span<const double> sd;
  std::span<const double> show;           ///< probability of taking part, in [0, 1]
  std::span<const std::uint8_t> guarded;  ///< 1: shown whenever it takes part
  std::span<const std::uint64_t> group;   ///< only the best of a group competes; 0: none
};

/// out[i] = probability that candidate i is among the k shown; without exploration. The sum is the
/// expected number of shown. Error below 1e-6 where no deviation is less than a hundredth of
/// another's, below 0.002 otherwise. O(points * n^2 k), 50 points or so if deviations are alike.
///
/// Throws std::invalid_argument, before anything is written, if columns differ in length, a number
/// is not finite, a deviation is negative or a probability not in [0, 1].
void inclusion(const Odds& odds, std::size_t k, std::span<double> out);

/// The same by replays of the draw and of pick(), with exploration. standard_error[i] is that of
/// out[i], above 0 even where every replay agrees. Same (seed, draws), same numbers.
void inclusion_sampled(const Odds& odds, std::size_t k, double explore, std::uint64_t seed,
                       std::size_t draws, std::span<double> out, std::span<double> standard_error);

}  // namespace toolroll
