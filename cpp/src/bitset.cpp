#include "toolroll/bitset.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "toolroll/dot.hpp"

namespace toolroll {
namespace {

void check_same(const Bitset& a, const Bitset& b) {
  if (a.size() != b.size()) {
    throw std::invalid_argument("bitsets: of " + std::to_string(a.size()) + " and " +
                                std::to_string(b.size()) + " rows, must be of the same catalog");
  }
}

}  // namespace

Bitset Bitset::full(std::size_t size) {
  Bitset set(size);
  for (std::uint64_t& word : set.words_) word = ~std::uint64_t{0};
  if (size % 64 != 0) set.words_.back() = (std::uint64_t{1} << (size % 64)) - 1;
  return set;
}

Bitset Bitset::of(std::size_t size, std::span<const std::int32_t> rows) {
  Bitset set(size);
  for (const std::int32_t row : rows) {
    if (row < 0 || static_cast<std::size_t>(row) >= size) {
      throw std::invalid_argument("row " + std::to_string(row) + ": must be in 0.." +
                                  std::to_string(size) + " (exclusive)");
    }
    const auto at = static_cast<std::size_t>(row);
    set.words_[at / 64] |= std::uint64_t{1} << (at % 64);
  }
  return set;
}

Bitset Bitset::join(const Bitset& head, const Bitset& tail) {
  Bitset set(head.size_ + tail.size_);
  std::copy(head.words_.begin(), head.words_.end(), set.words_.begin());
  const std::size_t first = head.size_ / 64;
  const std::size_t shift = head.size_ % 64;
  for (std::size_t i = 0; i < tail.words_.size(); ++i) {
    set.words_[first + i] |= tail.words_[i] << shift;
    const std::uint64_t carry = shift == 0 ? 0 : tail.words_[i] >> (64 - shift);
    if (carry != 0) set.words_[first + i + 1] |= carry;  // a bit of a row, so the word is there
  }
  return set;
}

Bitset Bitset::slice(std::size_t begin, std::size_t end) const {
  if (begin > end || end > size_) {
    throw std::invalid_argument("slice " + std::to_string(begin) + ".." + std::to_string(end) +
                                ": must be within 0.." + std::to_string(size_));
  }
  Bitset set(end - begin);
  const std::size_t first = begin / 64;
  const std::size_t shift = begin % 64;
  for (std::size_t i = 0; i < set.words_.size(); ++i) {
    std::uint64_t word = words_[first + i] >> shift;
    if (shift != 0 && first + i + 1 < words_.size()) word |= words_[first + i + 1] << (64 - shift);
    set.words_[i] = word;
  }
  if (set.size_ % 64 != 0) set.words_.back() &= (std::uint64_t{1} << (set.size_ % 64)) - 1;
  return set;
}

std::size_t Bitset::count() const { return dot_kernels().ones(words_.data(), words_.size()); }

Bitset Bitset::operator&(const Bitset& other) const {
  check_same(*this, other);
  Bitset out(size_);
  for (std::size_t i = 0; i < words_.size(); ++i) out.words_[i] = words_[i] & other.words_[i];
  return out;
}

Bitset Bitset::operator|(const Bitset& other) const {
  check_same(*this, other);
  Bitset out(size_);
  for (std::size_t i = 0; i < words_.size(); ++i) out.words_[i] = words_[i] | other.words_[i];
  return out;
}

Bitset Bitset::operator-(const Bitset& other) const {
  check_same(*this, other);
  Bitset out(size_);
  for (std::size_t i = 0; i < words_.size(); ++i) out.words_[i] = words_[i] & ~other.words_[i];
  return out;
}

}  // namespace toolroll
