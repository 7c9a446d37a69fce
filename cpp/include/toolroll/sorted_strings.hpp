/// Distinct strings in ascending order, each with its place as its number: the names of tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "toolroll/archive.hpp"
#include "toolroll/shared_array.hpp"

namespace toolroll {

/// Found by binary search in one arena, which may be a mapped file: nothing is made when it is
/// loaded. Immutable; safe to read from many threads.
class SortedStrings {
 public:
  /// Throws std::invalid_argument unless each text comes behind the one before it, byte by byte.
  static SortedStrings of(std::span<const std::string_view> ascending);

  /// The place of a string; none if it is not there. O(log n).
  std::optional<std::int32_t> find(std::string_view text) const;
  /// The string at a place below size().
  std::string_view operator[](std::size_t place) const {
    const std::uint64_t begin = place == 0 ? 0 : ends_[place - 1];
    return {bytes_.data() + begin, static_cast<std::size_t>(ends_[place] - begin)};
  }
  std::size_t size() const { return ends_.size(); }

  ArchiveWriter archive() const;
  /// Throws ArchiveError unless the strings are distinct and ascend.
  static SortedStrings read(ArchiveReader archive);

  static constexpr std::string_view kKind = "strings";
  static constexpr std::uint32_t kVersion = 1;

 private:
  SharedArray<char> bytes_;
  SharedArray<std::uint64_t> ends_;
};

}  // namespace toolroll
