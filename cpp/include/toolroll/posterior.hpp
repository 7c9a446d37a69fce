/// Posteriors over a hierarchy of contexts, in closed form at reading time.
///
/// The naive form pools: a tool's counts everywhere, or those of this page alone. The first learns
/// nothing of the page, the second forgets all others and starts from nothing on each. Here each
/// level is the prior of the next: its mean, and a strength that its own uncertainty and the spread
/// of its children bound. A child's data is in its parent's counts too, so it is left out of them
/// first: the same call must not count twice.
///
/// Source: the shrinkage of empirical Bayes (Morris, JASA 1983) on the conjugate pairs
/// Beta-Bernoulli and Gamma-Poisson (DuMouchel, The American Statistician 1999, for the latter as a
/// ratio of observed to expected).
#pragma once

#include <array>
#include <cstddef>

namespace toolroll {

inline constexpr std::size_t kLevels = 3;  // everywhere, page, tier on page in category

/// A level's counts as of now. Reliability: successes and failures; lift: calls and expected calls.
struct Counts {
  double first = 0.0;
  double second = 0.0;
};

/// Counts from the widest level to the narrowest; the first `size` of them are there.
struct LevelCounts {
  std::array<Counts, kLevels> level;
  std::size_t size = 0;
};

/// Beta(first, second), or Gamma of shape `first` and rate `second`.
struct Shapes {
  double first = 1.0;
  double second = 1.0;
};

/// What a hierarchy begins with, and how much of a parent's certainty its children inherit.
struct Hierarchy {
  double mean;                             // of the widest level, above 0
  double strength;                         // observations that this mean is worth, above 0
  std::array<double, kLevels - 1> spread;  // the most that a parent's mean is worth to its child
};

/// The Beta posterior at the narrowest level. Negative counts, which rounding leaves where a count
/// was taken back, are 0.
Shapes beta_posterior(const LevelCounts& counts, const Hierarchy& hierarchy);

/// The Gamma posterior of calls over expected calls at the narrowest level.
Shapes gamma_posterior(const LevelCounts& counts, const Hierarchy& hierarchy);

/// Mean and variance of the logarithm of what is distributed so.
struct LogMoments {
  double mean;
  double variance;
};
LogMoments log_moments_of_beta(const Shapes& shapes);
LogMoments log_moments_of_gamma(const Shapes& shapes);

}  // namespace toolroll
