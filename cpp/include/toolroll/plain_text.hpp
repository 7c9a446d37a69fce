/// Estimates from a text's bytes: its cost in tokens, and whether it has markup.
#pragma once

#include <cstddef>
#include <string_view>

namespace toolroll {

/// The bytes of a text in UTF-8 by kind.
struct ByteCounts {
  std::size_t letters = 0;  ///< a to z, and double quotes
  std::size_t middle = 0;   ///< A to Z, and all bytes outside of ASCII
  std::size_t spaces = 0;
  std::size_t others = 0;
};
/// O(n).
ByteCounts count_bytes(std::string_view text);

/// Whether a text certainly has no markup, no address and no encoded data: none of < & ` and line
/// feeds, none of the pairs ]( // a: ** __ ~~ and "# ", and no kLongestWord bytes in a row without
/// a space. False proves nothing. O(n).
inline constexpr std::size_t kLongestWord = 60;
bool is_plain(std::string_view text);

}  // namespace toolroll
