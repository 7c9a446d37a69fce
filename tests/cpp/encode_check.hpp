/// What holds for the pieces of any text, whatever tokeniser cuts it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace toolroll {

/// Ends the process unless the condition holds.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Each id is one of the vocabulary, and a limit cuts the same pieces off.
template <typename Tokeniser>
void check_encode(const Tokeniser& pieces, std::string_view text) {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> first;
  pieces.encode(text, 0, ids);
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < static_cast<std::int32_t>(pieces.size()));
  }
  pieces.encode(text, 3, first);
  require(first.size() == std::min<std::size_t>(3, ids.size()));
  require(std::equal(first.begin(), first.end(), ids.begin()));
}

}  // namespace toolroll
