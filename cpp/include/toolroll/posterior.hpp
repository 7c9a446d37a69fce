/// Posteriors over a hierarchy of contexts, in closed form when they are read.
///
/// The naive forms use a tool's counts everywhere, or on one page only. The first learns
/// nothing about the page; the second starts from nothing on each page. Here the posterior of each
/// level is the prior of the next: it passes on its mean, with a strength that is limited by its
/// own uncertainty and by the spread of its children. A parent's counts include the child's counts,
/// so the child's are subtracted first: the same call must not count twice.
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

/// Counts from the widest level to the narrowest. Only the first `size` levels exist.
struct LevelCounts {
  std::array<Counts, kLevels> level;
  std::size_t size = 0;
};

/// Beta(first, second), or Gamma of shape `first` and rate `second`.
struct Shapes {
  double first = 1.0;
  double second = 1.0;
};

/// The prior of the widest level, and how much of a parent's certainty its children inherit.
struct Hierarchy {
  double mean;                             // of the widest level, above 0
  double strength;                         // the prior counts like this many observations, above 0
  std::array<double, kLevels - 1> spread;  // limit of a parent's strength as its child's prior
};

/// The Beta posterior at the narrowest level. Negative counts count as 0: rounding leaves them
/// where a report was taken back.
Shapes beta_posterior(const LevelCounts& counts, const Hierarchy& hierarchy);

/// The Gamma posterior of calls over expected calls at the narrowest level.
Shapes gamma_posterior(const LevelCounts& counts, const Hierarchy& hierarchy);

/// Mean and variance of the logarithm of a variable with this distribution.
struct LogMoments {
  double mean;
  double variance;
};
LogMoments log_moments_of_beta(const Shapes& shapes);
LogMoments log_moments_of_gamma(const Shapes& shapes);

}  // namespace toolroll
