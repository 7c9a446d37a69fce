#include "toolroll/plain_text.hpp"

#include <array>
#include <cstdint>

namespace toolroll {
namespace {

enum Kind : std::uint8_t { kOther, kLetter, kMiddle, kSpace };

constexpr auto kKinds = [] {
  std::array<std::uint8_t, 256> kinds{};
  for (std::size_t c = 'a'; c <= 'z'; ++c) kinds[c] = kLetter;
  kinds['"'] = kLetter;
  for (std::size_t c = 'A'; c <= 'Z'; ++c) kinds[c] = kMiddle;
  for (std::size_t c = 0x80; c < 256; ++c) kinds[c] = kMiddle;
  kinds[' '] = kSpace;
  return kinds;
}();

// Of each byte: 0, or the byte before it that makes both suspicious; kAlone: by itself.
constexpr std::uint8_t kAlone = 0xFF;  // no byte of UTF-8
constexpr auto kSuspicious = [] {
  std::array<std::uint8_t, 256> before{};
  for (const char c : {'<', '&', '`', '\n'}) before[static_cast<unsigned char>(c)] = kAlone;
  for (const char c : {'/', '*', '_', '~'}) {
    before[static_cast<unsigned char>(c)] = static_cast<std::uint8_t>(c);
  }
  before['('] = ']';
  before[':'] = 'a';
  before[' '] = '#';
  return before;
}();

}  // namespace

ByteCounts count_bytes(std::string_view text) {
  std::array<std::size_t, 4> counts{};
  for (const char c : text) ++counts[kKinds[static_cast<unsigned char>(c)]];
  return {counts[kLetter], counts[kMiddle], counts[kSpace], counts[kOther]};
}

bool is_plain(std::string_view text) {
  std::uint8_t before = 0;
  std::size_t word_begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<std::uint8_t>(text[at]);
    const std::uint8_t suspicious = kSuspicious[c];
    if (suspicious != 0 && (suspicious == kAlone || suspicious == before)) return false;
    if (c == ' ') {
      if (at - word_begin >= kLongestWord) return false;
      word_begin = at + 1;
    }
    before = c;
  }
  return text.size() - word_begin < kLongestWord;
}

}  // namespace toolroll
