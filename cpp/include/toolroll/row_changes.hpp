/// Which rows of an index stay when a few of its tools change, and where new ones come between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace toolroll {

/// The rows of a changed index. Kept rows stay in their order; added ones may be anywhere between.
/// A changed row is removed and added.
class RowChanges {
 public:
  static constexpr std::int32_t kNone = -1;

  /// before: the number of rows of the old index. sources: for each row of the new index its old
  /// row, or kNone for an added one. Throws std::invalid_argument unless the old rows ascend and
  /// are in 0..before - 1. O(before + sources).
  RowChanges(std::size_t before, std::span<const std::int32_t> sources);

  std::size_t before() const { return targets_.size(); }
  std::size_t size() const { return sources_.size(); }
  /// The old row of each new one, or kNone.
  std::span<const std::int32_t> sources() const { return sources_; }
  /// The new row of each old one, or kNone.
  std::span<const std::int32_t> targets() const { return targets_; }
  /// The new rows that are added, ascending.
  std::span<const std::int32_t> added() const { return added_; }

  /// Throws std::invalid_argument unless the index has `before` rows and so many are added.
  void check(std::size_t rows, std::size_t added) const;

 private:
  std::vector<std::int32_t> sources_;
  std::vector<std::int32_t> targets_;
  std::vector<std::int32_t> added_;
};

}  // namespace toolroll
