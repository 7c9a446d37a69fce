// Patterns and a text from any bytes, compared with a search by std::string::find; then the bytes
// as an archive, bare and behind a right checksum.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "toolroll/archive.hpp"
#include "toolroll/automaton.hpp"
#include "toolroll/unicode.hpp"

namespace {

using namespace toolroll;

int kind(char32_t c) { return !is_word(c) ? 0 : is_cjk(c) ? 3 : is_hangul(c) ? 2 : 1; }

bool is_boundary(const std::string& text, std::size_t at) {
  if (at == 0 || at == text.size()) return true;
  const int left = kind(decode(text.substr(0, at)).back());
  return left == 0 || left == 3 || left != kind(decode(text, at).code_point);
}

bool matches(const std::string& pattern, MatchMode mode, const std::string& text) {
  for (auto at = text.find(pattern); at != std::string::npos; at = text.find(pattern, at + 1)) {
    if ((mode == MatchMode::kSubstring || is_boundary(text, at)) &&
        (mode != MatchMode::kWord || is_boundary(text, at + pattern.size()))) {
      return true;
    }
  }
  return false;
}

void demand(bool holds) {
  if (!holds) std::abort();
}

void try_archive(std::vector<std::byte> bytes) {
  try {
    const Automaton loaded = Automaton::from_bytes(std::move(bytes));
    (void)loaded.matches("any text at all");
  } catch (const ArchiveError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> parts(
      1);  // divided by 0xFF; the last is the text, first bytes are modes
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == 0xFF) {
      parts.emplace_back();
    } else {
      parts.back().push_back(static_cast<char>(data[i]));
    }
  }
  const std::string text = parts.back();
  parts.pop_back();
  std::vector<std::string> patterns;
  std::vector<MatchMode> modes;
  for (const std::string& part : parts) {
    if (part.size() < 2 || part.size() > Automaton::kLongestWord / 3) continue;
    modes.push_back(static_cast<MatchMode>(static_cast<unsigned char>(part[0]) % 3));
    patterns.push_back(part.substr(1));
  }
  const Automaton automaton(patterns, modes);
  const std::string folded = fold(text).text;
  std::vector<std::int32_t> expected;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (matches(fold(patterns[i]).text, modes[i], folded)) {
      expected.push_back(static_cast<std::int32_t>(i));
    }
  }
  demand(automaton.find(text) == expected);
  std::vector<std::int32_t> matched;
  for (const Match& match : automaton.matches(text)) {
    demand(match.start < match.end && match.end <= text.size());
    matched.push_back(match.pattern);
  }
  std::sort(matched.begin(), matched.end());
  matched.erase(std::unique(matched.begin(), matched.end()), matched.end());
  demand(matched == expected);
  demand(Automaton::from_bytes(automaton.bytes()).find(text) == expected);

  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  try_archive(bytes);
  ArchiveWriter sealed("KEYWORDS", 1);
  for (const std::byte byte : bytes) sealed.value(static_cast<std::uint8_t>(byte));
  try_archive(sealed.bytes());
  return 0;
}
