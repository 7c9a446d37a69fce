#include "toolroll/sorted_strings.hpp"

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace toolroll {

SortedStrings SortedStrings::of(std::span<const std::string_view> ascending) {
  std::vector<char> bytes;
  std::vector<std::uint64_t> ends;
  ends.reserve(ascending.size());
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    if (i > 0 && ascending[i] <= ascending[i - 1]) {
      throw std::invalid_argument("strings: number " + std::to_string(i) +
                                  " is not behind the one before it");
    }
    bytes.insert(bytes.end(), ascending[i].begin(), ascending[i].end());
    ends.push_back(bytes.size());
  }
  SortedStrings strings;
  strings.bytes_ = std::move(bytes);
  strings.ends_ = std::move(ends);
  return strings;
}

std::optional<std::int32_t> SortedStrings::find(std::string_view text) const {
  std::size_t first = 0;
  for (std::size_t left = size(); left > 0;) {
    const std::size_t half = left / 2;
    const int order = (*this)[first + half].compare(text);
    if (order == 0) return static_cast<std::int32_t>(first + half);
    if (order < 0) {
      first += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return std::nullopt;
}

ArchiveWriter SortedStrings::archive() const {
  ArchiveWriter out(kKind, kVersion);
  out.array(bytes_);
  out.array(ends_);
  return out;
}

SortedStrings SortedStrings::read(ArchiveReader in) {
  SortedStrings strings;
  strings.bytes_ = in.array<char>();
  strings.ends_ = in.array<std::uint64_t>();
  in.finish();
  if (strings.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw ArchiveError("damaged strings: they are too many");
  }
  std::uint64_t begin = 0;
  std::string_view before;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::uint64_t end = strings.ends_[i];
    if (end < begin || end > strings.bytes_.size()) {
      throw ArchiveError("damaged strings: their ends are out of order");
    }
    const std::string_view text = strings[i];
    if (i > 0 && text <= before) throw ArchiveError("damaged strings: they do not ascend");
    before = text;
    begin = end;
  }
  if (begin != strings.bytes_.size()) throw ArchiveError("damaged strings: bytes behind the last");
  return strings;
}

}  // namespace toolroll
