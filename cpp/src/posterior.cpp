#include "toolroll/posterior.hpp"

#include <algorithm>

#include "portable.hpp"

namespace toolroll {
namespace {

constexpr double kLeastShape = 0.05;  // below it a draw's logarithm runs to -infinity

/// Walks down the levels. `absorb` turns (mean, strength, counts) into the shapes of a level and
/// returns its mean and strength.
template <typename Absorb>
Shapes posterior(const LevelCounts& counts, const Hierarchy& hierarchy, Absorb absorb) {
  double mean = hierarchy.mean;
  double strength = hierarchy.strength;
  Shapes shapes;
  if (counts.size == 0) shapes = absorb(mean, strength, Counts{});
  for (std::size_t i = 0; i < counts.size; ++i) {
    Counts own{std::max(counts.level[i].first, 0.0), std::max(counts.level[i].second, 0.0)};
    const bool is_last = i + 1 == counts.size;
    if (!is_last) {
      const Counts& child = counts.level[i + 1];
      own.first = std::max(own.first - std::max(child.first, 0.0), 0.0);
      own.second = std::max(own.second - std::max(child.second, 0.0), 0.0);
    }
    shapes = absorb(mean, strength, own);
    // Variances add: the parent's own, and that of its children around it.
    if (!is_last) strength = 1.0 / (1.0 / strength + 1.0 / hierarchy.spread[i]);
  }
  return {std::max(shapes.first, kLeastShape), std::max(shapes.second, kLeastShape)};
}

}  // namespace

Shapes beta_posterior(const LevelCounts& counts, const Hierarchy& hierarchy) {
  return posterior(counts, hierarchy, [](double& mean, double& strength, const Counts& own) {
    const Shapes shapes{mean * strength + own.first, (1.0 - mean) * strength + own.second};
    strength = shapes.first + shapes.second;
    mean = shapes.first / strength;
    return shapes;
  });
}

Shapes gamma_posterior(const LevelCounts& counts, const Hierarchy& hierarchy) {
  return posterior(counts, hierarchy, [](double& mean, double& strength, const Counts& own) {
    const Shapes shapes{mean * strength + own.first, strength + own.second};
    strength = shapes.second;
    mean = shapes.first / strength;
    return shapes;
  });
}

LogMoments log_moments_of_beta(const Shapes& shapes) {
  const portable::Polygamma one = portable::polygamma(shapes.first);
  const portable::Polygamma sum = portable::polygamma(shapes.first + shapes.second);
  return {one.digamma - sum.digamma, std::max(one.trigamma - sum.trigamma, 0.0)};
}

LogMoments log_moments_of_gamma(const Shapes& shapes) {
  const portable::Polygamma one = portable::polygamma(shapes.first);
  return {one.digamma - portable::log(shapes.second), one.trigamma};
}

}  // namespace toolroll
