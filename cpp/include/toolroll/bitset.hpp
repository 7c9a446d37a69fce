/// Sets of catalog rows, one bit a row, 64 rows a word.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace toolroll {

/// An immutable set of rows out of 0..size()-1. Safe to read from many threads.
class Bitset {
 public:
  explicit Bitset(std::size_t size) : size_(size), words_((size + 63) / 64) {}
  static Bitset full(std::size_t size);
  /// Throws std::invalid_argument if a row is not in 0..size-1.
  static Bitset of(std::size_t size, std::span<const std::int32_t> rows);
  /// The rows of two catalogs as one: row r of tail becomes row head.size() + r.
  static Bitset join(const Bitset& head, const Bitset& tail);

  std::size_t size() const { return size_; }
  std::size_t count() const;
  bool contains(std::size_t row) const { return (words_[row / 64] >> (row % 64) & 1U) != 0; }
  std::span<const std::uint64_t> words() const { return words_; }

  /// These operations throw std::invalid_argument if the sizes differ. O(size / 64).
  Bitset operator&(const Bitset& other) const;
  Bitset operator|(const Bitset& other) const;
  /// Rows of this set that are not in the other.
  Bitset operator-(const Bitset& other) const;
  bool operator==(const Bitset& other) const = default;

  /// The rows begin..end-1 as a set of their own: row begin is its row 0. Throws
  /// std::invalid_argument unless begin <= end <= size(). O((end - begin) / 64).
  Bitset slice(std::size_t begin, std::size_t end) const;

  /// Calls visit(row) for each row, ascending.
  template <typename Visit>
  void each(Visit visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t word = words_[w]; word != 0; word &= word - 1) {
        visit(static_cast<std::int32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(word))));
      }
    }
  }

 private:
  std::size_t size_;
  std::vector<std::uint64_t> words_;  // bits behind size_ are 0
};

}  // namespace toolroll
