/// Statistical tests are of fixed numbers. Each p-value is compared with kAlarm, so that all of
/// them together alarm for a sound generator with probability below 1e-3.
#include "toolroll/stream.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"

namespace toolroll {
namespace {

constexpr double kAlarm = 1e-6;

double p_of_normal(double z) { return std::erfc(std::abs(z) / std::sqrt(2.0)); }

/// By Wilson and Hilferty's cube root, good to a few percent of p at 255 degrees and more.
double p_of_chi_square(const std::vector<double>& counts) {
  double total = 0;
  for (const double count : counts) total += count;
  const auto n = static_cast<double>(counts.size());
  double chi_square = 0;
  for (const double count : counts) {
    chi_square += (count - total / n) * (count - total / n) / (total / n);
  }
  const double degrees = n - 1;
  const double spread = 2 / (9 * degrees);
  return p_of_normal((std::cbrt(chi_square / degrees) - (1 - spread)) / std::sqrt(spread));
}

/// One number from each of n neighbours in seed, key or counter, the other two fixed.
std::vector<std::uint64_t> along(const std::string& axis, std::uint64_t n) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < n; ++i) {
    if (axis == "counter") numbers.push_back(Stream(11, 5).bits(i));
    if (axis == "key") numbers.push_back(Stream(11, i).bits(3));
    if (axis == "seed") numbers.push_back(Stream(i, 5).bits(3));
  }
  return numbers;
}

constexpr std::array<const char*, 3> kAxes = {"counter", "key", "seed"};

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

TEST_CASE("a stream's numbers are the halves of its blocks") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 1000; ++round) {
    const std::uint64_t seed = random();
    const std::uint64_t key = random();
    const std::uint64_t at = random();
    const std::uint64_t block = at / 2;
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const auto words =
        philox4x32({low(key), high(key), low(block), high(block)}, {low(seed), high(seed)});
    const std::size_t first = at % 2 == 0 ? 0 : 2;
    CHECK(Stream(seed, key).bits(at) == (words[first] | std::uint64_t{words[first + 1]} << 32));
  }
}

TEST_CASE("uniforms are never 0 or 1 and their mean is a half") {
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double u = Stream(3, 4).uniform(i);
    CHECK(u > 0 && u < 1);
    sum += u;
  }
  CHECK(std::abs(sum / 10000 - 0.5) < 5 * std::sqrt(1.0 / 12 / 10000));
}

TEST_CASE("bytes are equally frequent along every axis") {
  for (const char* const axis : kAxes) {
    CAPTURE(axis);
    const auto numbers = along(axis, 100'000);
    for (const int shift : {0, 24, 56}) {
      std::vector<double> counts(256);
      for (const std::uint64_t number : numbers) counts[number >> shift & 0xFF] += 1;
      CHECK(p_of_chi_square(counts) > kAlarm);
    }
  }
}

TEST_CASE("neighbours are uncorrelated along every axis") {
  for (const char* const axis : kAxes) {
    CAPTURE(axis);
    std::vector<double> uniform;
    for (const std::uint64_t number : along(axis, 100'000)) {
      uniform.push_back(static_cast<double>(number >> 12) * 0x1p-52 - 0.5);
    }
    for (const std::size_t lag : {1, 2, 8}) {
      double sum = 0;
      for (std::size_t i = lag; i < uniform.size(); ++i) sum += uniform[i - lag] * uniform[i] * 12;
      const auto n = static_cast<double>(uniform.size() - lag);  // variance 1 / n if independent
      CHECK(p_of_normal(sum / std::sqrt(n)) > kAlarm);
    }
  }
}

TEST_CASE("half of the bits differ between neighbours") {
  for (const char* const axis : kAxes) {
    CAPTURE(axis);
    const auto numbers = along(axis, 20'000);
    std::array<double, 64> differing{};
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      for (std::size_t bit = 0; bit < 64; ++bit) {
        differing[bit] += static_cast<double>((numbers[i - 1] ^ numbers[i]) >> bit & 1);
      }
    }
    const auto n = static_cast<double>(numbers.size() - 1);
    for (const double count : differing) {
      CHECK(p_of_normal((count - n / 2) / std::sqrt(n / 4)) > kAlarm / 64);
    }
  }
}

}  // namespace
}  // namespace toolroll
