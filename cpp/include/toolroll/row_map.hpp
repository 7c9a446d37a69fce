/// A map from a few rows to numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace toolroll {

/// Rows, each with a number. Made for a known number of rows; a lookup takes some nanoseconds.
class RowMap {
 public:
  RowMap() : RowMap(0) {}
  /// most: the greatest number of rows that will be added.
  explicit RowMap(std::size_t most)
      : slots_(std::bit_ceil(2 * most + 2), Slot{kFree, 0}),
        shift_(static_cast<unsigned>(64 - std::countr_zero(slots_.size()))) {}
  /// Rows with their places; of a row that occurs twice the first one.
  static RowMap of(std::span<const std::int32_t> rows) {
    RowMap map(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) map.add(rows[i], static_cast<std::int32_t>(i));
    return map;
  }

  /// The number of the row, nullptr if it was not added.
  const std::int32_t* find(std::int32_t row) const {
    const Slot& slot = slots_[at(row)];
    return slot.row == kFree ? nullptr : &slot.number;
  }
  std::int32_t* find(std::int32_t row) {
    Slot& slot = slots_[at(row)];
    return slot.row == kFree ? nullptr : &slot.number;
  }
  bool holds(std::int32_t row) const { return slots_[at(row)].row != kFree; }

  /// Adds a row of at least 0. False, and nothing is changed, if the row is there already.
  bool add(std::int32_t row, std::int32_t number = 0) {
    Slot& slot = slots_[at(row)];
    if (slot.row != kFree) return false;
    slot = {row, number};
    ++size_;
    return true;
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::int32_t kFree = -1;
  struct Slot {
    std::int32_t row;
    std::int32_t number;
  };

  /// The row's slot, or the free one where it would go.
  std::size_t at(std::int32_t row) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = static_cast<std::size_t>(
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(row)) * 0x9E3779B97F4A7C15U) >>
        shift_);
    while (slots_[i].row != kFree && slots_[i].row != row) i = (i + 1) & mask;
    return i;
  }

  std::vector<Slot> slots_;  // open addressing, at most half full
  unsigned shift_;
  std::size_t size_ = 0;
};

}  // namespace toolroll
