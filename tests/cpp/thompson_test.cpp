#include "toolroll/thompson.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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

TEST_CASE("philox4x32 gives the published known answers") {
  // kat_vectors of Random123 by the generator's authors.
  using Four = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kAll = 0xFFFFFFFFU;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Four{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox4x32({kAll, kAll, kAll, kAll}, {kAll, kAll}) ==
        Four{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  CHECK(philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
        Four{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("uniforms are never 0 or 1 and their mean is a half") {
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double u = Stream(3, 4).uniform(i);
    CHECK_UNARY(u > 0 && u < 1);
    sum += u;
  }
  CHECK(std::abs(sum / 10000 - 0.5) < 5 * std::sqrt(1.0 / 12 / 10000));
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

TEST_CASE("a wrong rerank writes nothing") {
  const Columns columns(4);
  const std::vector<float> scores{1, 1};
  std::vector<std::int32_t> rows{9, 9};
  std::vector<float> best_scores{9, 9};
  std::vector<double> draws{9, 9};
  const std::vector<std::int32_t> wrong{0, 4};
  CHECK_THROWS_AS(thompson_rerank(columns, 1, {wrong, scores}, 1.0, {rows, best_scores, draws}),
                  std::invalid_argument);
  const std::vector<std::int32_t> one{0};
  CHECK_THROWS_AS(thompson_rerank(columns, 1, {one, std::span(scores).first(1)}, 1.0,
                                  {rows, best_scores, draws}),
                  std::invalid_argument);
  CHECK(rows == std::vector<std::int32_t>{9, 9});
  CHECK(best_scores == std::vector<float>{9, 9});
  CHECK(draws == std::vector<double>{9, 9});
}

TEST_CASE("four threads draw and rerank what one does") {
  const Columns columns(2000);
  const std::vector<double> expected = sampled(columns, 21);
  std::vector<std::int32_t> candidates;
  for (std::int32_t row = 0; row < 2000; row += 7) candidates.push_back(row);
  const std::vector<float> scores(candidates.size(), 0.5F);
  const auto rerank = [&] {
    std::vector<std::int32_t> rows(20);
    std::vector<float> best(20);
    std::vector<double> draws(20);
    thompson_rerank(columns, 21, {candidates, scores}, 1.0, {rows, best, draws});
    return rows;
  };
  const std::vector<std::int32_t> best = rerank();
  std::vector<int> agreed(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back(
        [&, t] { agreed[t] = sampled(columns, 21) == expected && rerank() == best; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(agreed == std::vector<int>(4, 1));
}

}  // namespace
}  // namespace toolroll
