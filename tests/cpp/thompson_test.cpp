#include "toolroll/thompson.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "toolroll/posterior.hpp"
#include "toolroll/stream.hpp"

namespace toolroll {
namespace {

struct Columns {
  std::vector<std::uint64_t> key;
  std::vector<double> alpha, beta;

  // Shapes over ten orders of magnitude, both sides of 1.
  explicit Columns(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const Stream stream(99, i);
      key.push_back(stream.bits(0));
      alpha.push_back(std::exp(20 * stream.uniform(1) - 7));
      beta.push_back(std::exp(20 * stream.uniform(2) - 7));
    }
  }
  operator Arms() const { return {key, alpha, beta}; }
};

std::vector<double> sampled(const Arms& arms, std::uint64_t seed, Isa using_isa = isa()) {
  std::vector<double> out(arms.key.size());
  thompson_sample(arms, seed, out, using_isa);
  return out;
}

std::string error_of(const Arms& arms, std::span<double> out) {
  try {
    thompson_sample(arms, 1, out);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("every instruction set gives the same bits, at every batch size") {
  const Columns columns(2600);
  const Arms all = columns;
  for (const std::size_t n :
       {0U, 1U, 2U, 3U, 7U, 8U, 9U, 15U, 16U, 17U, 158U, 1023U, 1024U, 1025U, 2600U}) {
    CAPTURE(n);
    const Arms arms{all.key.first(n), all.alpha.first(n), all.beta.first(n)};
    const std::vector<double> expected = sampled(arms, 5, Isa::kBaseline);
    std::vector<double> gamma(n);
    std::vector<double> wide(n);
    log_gamma_sample(arms.key, arms.alpha, 5, gamma, Isa::kBaseline);
    for (const Isa used : {Isa::kAvx2, Isa::kAvx512}) {  // what the processor lacks is lowered
      CHECK(sampled(arms, 5, used) == expected);
      log_gamma_sample(arms.key, arms.alpha, 5, wide, used);
      CHECK(wide == gamma);
    }
  }
}

TEST_CASE("each draw is what the arm gives alone") {
  const Columns columns(1100);
  const Arms all = columns;
  const std::vector<double> together = sampled(all, 8);
  for (std::size_t i = 0; i < together.size(); i += 13) {
    const Arms one{all.key.subspan(i, 1), all.alpha.subspan(i, 1), all.beta.subspan(i, 1)};
    CHECK(sampled(one, 8)[0] == together[i]);
  }
}

TEST_CASE("a wrong shape is named and nothing is written") {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(bad);
    Columns columns(300);
    columns.beta[271] = bad;
    std::vector<double> out(300, -7.0);
    CHECK(error_of(columns, out).starts_with("beta[271]: is "));
    CHECK(out == std::vector<double>(300, -7.0));
    CHECK_THROWS_AS(log_gamma_sample(columns.key, columns.beta, 1, out), std::invalid_argument);
    CHECK(out == std::vector<double>(300, -7.0));
  }
}

TEST_CASE("columns of different lengths are refused") {
  const Columns columns(4);
  const Arms arms = columns;
  std::vector<double> out(4);
  CHECK(error_of({arms.key, arms.alpha.first(3), arms.beta}, out) != "");
  CHECK(error_of({arms.key, arms.alpha, arms.beta.first(3)}, out) != "");
  CHECK(error_of(arms, std::span(out).first(3)) != "");
}

TEST_CASE("log-gamma draws have the moments of their law") {
  constexpr std::size_t kDraws = 200'000;
  std::vector<std::uint64_t> key(kDraws);
  for (std::size_t i = 0; i < kDraws; ++i) key[i] = i * 0x9E3779B97F4A7C15U;
  for (const double shape : {1e-3, 0.2, 1.0, 2.5, 40.0, 1e8}) {
    CAPTURE(shape);
    std::vector<double> logs(kDraws);
    log_gamma_sample(key, std::vector<double>(kDraws, shape), 3, logs);
    const LogMoments law = log_moments_of_gamma({shape, 1.0});
    double sum = 0;
    double squares = 0;
    for (const double log : logs) {
      sum += log - law.mean;
      squares += (log - law.mean) * (log - law.mean);
    }
    const double n = kDraws;
    CHECK(std::abs(sum / n) < 5 * std::sqrt(law.variance / n));
    // The kurtosis is at most that of an exponential, 9.
    CHECK(std::abs(squares / n - law.variance) < 5 * law.variance * std::sqrt(8 / n));
  }
}

TEST_CASE("log-gamma draws of shape 1 are exponential, of a small one powers of a uniform") {
  constexpr std::size_t kDraws = 100'000;
  std::vector<std::uint64_t> key(kDraws);
  for (std::size_t i = 0; i < kDraws; ++i) key[i] = i;
  std::vector<double> logs(kDraws);
  const auto greatest_gap = [&logs] {  // of Kolmogorov and Smirnov, for draws made uniform
    std::sort(logs.begin(), logs.end());
    double gap = 0;
    for (std::size_t i = 0; i < kDraws; ++i) {
      gap = std::max(gap, std::abs(logs[i] - (static_cast<double>(i) + 0.5) / kDraws));
    }
    return gap * std::sqrt(static_cast<double>(kDraws));
  };
  log_gamma_sample(key, std::vector<double>(kDraws, 1.0), 5, logs);
  for (double& log : logs) log = -std::expm1(-std::exp(log));
  CHECK(greatest_gap() < 2.5);  // p < 1e-5

  constexpr double kShape = 1e-3;  // P(G < g) = g^shape / Gamma(shape + 1), but for a g near 1
  log_gamma_sample(key, std::vector<double>(kDraws, kShape), 5, logs);
  for (double& log : logs) log = std::exp(kShape * log - std::lgamma(kShape + 1));
  CHECK(greatest_gap() < 2.5);
}

TEST_CASE("log-gamma draws are the same bits on every instruction set, and in every version") {
  const Columns columns(50'003);
  std::vector<double> shapes;  // the same on every machine: no function of its library's is asked
  for (std::uint64_t i = 0; i < columns.key.size(); ++i) {
    shapes.push_back(static_cast<double>(i * 7919 % 100'003 + 1) / 1e3);
  }
  for (const Isa wanted : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    std::vector<double> logs(columns.key.size());
    log_gamma_sample(columns.key, shapes, 5, logs, wanted);
    std::uint64_t digest = 14695981039346656037U;  // FNV-1a
    for (const double log : logs) {
      CHECK(std::isfinite(log));
      digest = (digest ^ std::bit_cast<std::uint64_t>(log)) * 1099511628211U;
    }
    CHECK(digest == 3077043305867432897U);
  }
}

TEST_CASE("log-gamma draws of extreme shapes are finite") {
  for (const double shape : {5e-324, 1e-300, 1e-3, 1.0, 1e8, 1e308}) {
    CAPTURE(shape);
    const Columns columns(1000);
    std::vector<double> logs(1000);
    log_gamma_sample(columns.key, std::vector<double>(1000, shape), 1, logs);
    CHECK(std::all_of(logs.begin(), logs.end(), [](double log) { return std::isfinite(log); }));
  }
}

TEST_CASE("four threads draw what one does") {
  const Columns columns(2000);
  const std::vector<double> expected = sampled(columns, 21);
  std::vector<int> agreed(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] { agreed[t] = sampled(columns, 21) == expected; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(agreed == std::vector<int>(4, 1));
}

}  // namespace
}  // namespace toolroll
