#include "toolroll/stream.hpp"

namespace toolroll {
namespace {

constexpr int kRounds = 10;
constexpr std::uint64_t kMultiplier0 = 0xD2511F53U;
constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;  // golden ratio
constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;  // sqrt(3) - 1

constexpr std::uint32_t low(std::uint64_t number) { return static_cast<std::uint32_t>(number); }
constexpr std::uint32_t high(std::uint64_t number) {
  return static_cast<std::uint32_t>(number >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(const std::array<std::uint32_t, 4>& counter,
                                        const std::array<std::uint32_t, 2>& key) {
  auto [x0, x1, x2, x3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * x0;
    const std::uint64_t product1 = kMultiplier1 * x2;
    x0 = high(product1) ^ x1 ^ k0;
    x1 = low(product1);
    x2 = high(product0) ^ x3 ^ k1;
    x3 = low(product0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {x0, x1, x2, x3};
}

std::array<std::uint32_t, 4> Stream::block(std::uint64_t number) const {
  return philox4x32({low(key_), high(key_), low(number), high(number)}, {low(seed_), high(seed_)});
}

std::uint64_t Stream::bits(std::uint64_t counter) const {
  const auto words = block(counter / 2);
  const std::size_t at = (counter % 2) * 2;
  return words[at] | std::uint64_t{words[at + 1]} << 32;
}

double Stream::uniform(std::uint64_t counter) const {
  const auto words = block(counter / 2);
  const std::size_t at = (counter % 2) * 2;
  return unit(words[at], words[at + 1]);
}

double Stream::unit(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t bits = low | std::uint64_t{high} << 32;
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace toolroll
