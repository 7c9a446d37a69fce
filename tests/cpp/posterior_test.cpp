#include "toolroll/posterior.hpp"

#include <cmath>

#include "check.hpp"

namespace toolroll {
namespace {

/// The derivative of log Gamma by its sum over steps, far enough up for three terms of the series.
double slow_digamma(double x) {
  double below = 0.0;
  for (; x < 1e4; x += 1.0) below += 1.0 / x;
  return std::log(x) - 0.5 / x - 1.0 / (12.0 * x * x) - below;
}
double slow_trigamma(double x) {
  double below = 0.0;
  for (; x < 1e4; x += 1.0) below += 1.0 / (x * x);
  return below + 1.0 / x + 0.5 / (x * x) + 1.0 / (6.0 * x * x * x);
}

TEST_CASE("the moments of a draw's logarithm are those of the slow sums") {
  for (const double a : {0.05, 0.3, 1.0, 2.55, 7.9, 8.0, 8.1, 60.0, 5000.0}) {
    for (const double b : {0.05, 0.45, 1.0, 30.0}) {
      CAPTURE(a);
      CAPTURE(b);
      const LogMoments beta = log_moments_of_beta({a, b});
      CHECK(testing::is_near(beta.mean, slow_digamma(a) - slow_digamma(a + b), 1e-9));
      CHECK(testing::is_near(beta.variance, slow_trigamma(a) - slow_trigamma(a + b), 1e-7));
      const LogMoments gamma = log_moments_of_gamma({a, b});
      CHECK(testing::is_near(gamma.mean, slow_digamma(a) - std::log(b), 1e-9));
      CHECK(testing::is_near(gamma.variance, slow_trigamma(a), 1e-9));
    }
  }
}

TEST_CASE("a level without counts of its own hands its parent's mean on, less surely") {
  const Hierarchy hierarchy{0.8, 4.0, {10.0, 10.0}};
  LevelCounts counts;
  counts.size = 3;
  counts.level[0] = {30.0, 10.0};
  const Shapes shapes = beta_posterior(counts, hierarchy);
  const double mean = (0.8 * 4.0 + 30.0) / 44.0;
  CHECK(testing::is_near(shapes.first / (shapes.first + shapes.second), mean));
  CHECK(shapes.first + shapes.second < 10.0);
}

TEST_CASE("what a child has seen is left out of its parents") {
  const Hierarchy hierarchy{0.5, 2.0, {5.0, 5.0}};
  LevelCounts one_page;
  one_page.size = 2;
  one_page.level[0] = {8.0, 2.0};
  one_page.level[1] = {8.0, 2.0};
  const Shapes shapes = beta_posterior(one_page, hierarchy);
  // The parent knows nothing beside the child, so it is the prior: strength 1 / (1/2 + 1/5).
  const double strength = 1.0 / (1.0 / 2.0 + 1.0 / 5.0);
  CHECK(testing::is_near(shapes.first, 0.5 * strength + 8.0));
  CHECK(testing::is_near(shapes.second, 0.5 * strength + 2.0));
}

}  // namespace
}  // namespace toolroll
