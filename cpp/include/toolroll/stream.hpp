/// Counter-based random numbers: pure functions of (seed, key, counter), without state.
///
/// A seed (one decision) and a key (one arm) name a stream, and the counter selects a number in it.
/// So any draw can be repeated from a log, alone and in any order, and threads share nothing.
///
/// Source: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
/// 1, 2, 3", SC 2011. It passes BigCrush, and it is a bijection of the counter for each seed: two
/// numbers of one seed never come from the same block. Ten rounds are three more than BigCrush
/// needs.
#pragma once

#include <array>
#include <cstdint>

namespace toolroll {

/// One block of Philox4x32-10, as published (the known answers are in the tests).
std::array<std::uint32_t, 4> philox4x32(const std::array<std::uint32_t, 4>& counter,
                                        const std::array<std::uint32_t, 2>& key);

/// The random numbers of one (seed, key). A value: copy it freely.
///
/// Block b is philox4x32({key low, key high, b low, b high}, {seed low, seed high}). The library
/// keeps b's high word for the purpose: draws of different purposes share no block.
class Stream {
 public:
  Stream(std::uint64_t seed, std::uint64_t key) : seed_(seed), key_(key) {}

  /// 128 bits.
  std::array<std::uint32_t, 4> block(std::uint64_t number) const;
  /// 64 bits: the first two words (low first) of block counter / 2, or its last two if counter is
  /// odd.
  std::uint64_t bits(std::uint64_t counter) const;
  /// Uniform on (0, 1), never 0 or 1: the upper 52 bits, centred in their cells.
  double uniform(std::uint64_t counter) const;
  /// The same of two words of a block, the low one first.
  static double unit(std::uint32_t low, std::uint32_t high);

 private:
  std::uint64_t seed_;
  std::uint64_t key_;
};

}  // namespace toolroll
