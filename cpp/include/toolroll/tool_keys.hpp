/// The keys under which the statistics know the rows of a catalog. They outlive the catalog.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "toolroll/row_changes.hpp"

namespace toolroll {

/// Three columns of 64-bit keys, and an index from subjects to rows. Immutable; safe to share.
class ToolKeys {
 public:
  /// arm: the key of a tool's reliability, from its name. intent: the key of its lift and vector,
  /// from its name and text. group: the key of its group of interchangeable tools, 0 for none.
  /// Throws std::invalid_argument if the columns differ in length.
  ToolKeys(std::vector<std::uint64_t> arm, std::vector<std::uint64_t> intent,
           std::vector<std::uint64_t> group);

  /// The rows of a shared catalog, then the rows of an organisation's own. Neither is copied.
  /// Throws std::invalid_argument if one is missing or stacked itself.
  static ToolKeys stacked(std::shared_ptr<const ToolKeys> shared,
                          std::shared_ptr<const ToolKeys> own);

  /// The keys of the kept rows and of the added ones. Throws std::invalid_argument if the sizes do
  /// not fit or these are stacked. O(n log n).
  ToolKeys with_changes(const RowChanges& changes, std::vector<std::uint64_t> arm,
                        std::vector<std::uint64_t> intent, std::vector<std::uint64_t> group) const;

  std::size_t size() const { return behind_ + arm_.size() + (own_ ? own_->size() : 0); }
  std::uint64_t arm(std::size_t row) const { return column(row, &ToolKeys::arm_); }
  std::uint64_t group(std::size_t row) const { return column(row, &ToolKeys::group_); }
  /// The key of lift and vector: the group if there is one, else the intent.
  std::uint64_t subject(std::size_t row) const { return column(row, &ToolKeys::subject_); }

  /// Calls visit(row) for each row of a subject, ascending. O(1) if it has none.
  template <typename Visit>
  void each_row(std::uint64_t subject, Visit visit) const {
    if (shared_ != nullptr) {
      shared_->each_own(subject, 0, visit);
      own_->each_own(subject, behind_, visit);
    } else {
      each_own(subject, 0, visit);
    }
  }

 private:
  ToolKeys() = default;

  std::uint64_t column(std::size_t row, std::vector<std::uint64_t> ToolKeys::* keys) const {
    if (shared_ == nullptr) return (this->*keys)[row];
    return row < behind_ ? (shared_.get()->*keys)[row] : (own_.get()->*keys)[row - behind_];
  }

  template <typename Visit>
  void each_own(std::uint64_t subject, std::size_t behind, Visit visit) const {
    if (slots_.empty()) return;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = home(subject) & mask; slots_[at].size != 0; at = (at + 1) & mask) {
      if (slots_[at].subject != subject) continue;
      for (std::size_t i = 0; i < slots_[at].size; ++i) {
        visit(static_cast<std::int32_t>(behind) + rows_[slots_[at].begin + i]);
      }
      return;
    }
  }

  static std::size_t home(std::uint64_t key) {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20);
  }

  /// A subject's place in rows_; empty if it has none.
  struct Slot {
    std::uint64_t subject = 0;
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };

  std::vector<std::uint64_t> arm_;
  std::vector<std::uint64_t> group_;
  std::vector<std::uint64_t> subject_;
  std::vector<Slot> slots_;         // open addressing, at most half full
  std::vector<std::int32_t> rows_;  // by subject, ascending within it
  std::shared_ptr<const ToolKeys> shared_;
  std::shared_ptr<const ToolKeys> own_;
  std::size_t behind_ = 0;  // rows of the shared part
};

}  // namespace toolroll
