// Any bytes have pieces, and the pieces of a word are what trying every length from the longest
// down finds.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encode_check.hpp"
#include "toolroll/token_table.hpp"
#include "toolroll/wordpiece.hpp"

using namespace toolroll;

namespace {

constexpr std::array<std::string_view, 16> kVocabulary = {
    "[UNK]", "a", "b", "ab",       "abc",        "##a",          "##b", "##bc",
    "##cab", "c", ".", "\xC3\x9F", "##\xC3\x9F", "\xE6\xBC\xA2", "##c", "bca"};

// For text of the letters a, b, c, blanks and dots only.
std::vector<std::int32_t> oracle(std::string_view text) {
  std::vector<std::int32_t> ids;
  const auto id = [](const std::string& piece) {
    const auto at = std::find(kVocabulary.begin(), kVocabulary.end(), piece);
    return at == kVocabulary.end() ? -1 : static_cast<std::int32_t>(at - kVocabulary.begin());
  };
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && text[end] >= 'a') ++end;
    const std::string word(text.substr(begin, end - begin));
    std::vector<std::int32_t> found;
    for (std::size_t at = 0; at < word.size();) {
      std::size_t n = word.size() - at;
      while (n > 0 && id((at == 0 ? "" : "##") + word.substr(at, n)) < 0) --n;
      if (n == 0 || word.size() > WordPiece::kLongestWord) {
        found = {0};
        break;
      }
      found.push_back(id((at == 0 ? "" : "##") + word.substr(at, n)));
      at += n;
    }
    ids.insert(ids.end(), found.begin(), found.end());
    if (end < text.size() && text[end] == '.') ids.push_back(id("."));
    begin = end + 1;
  }
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const WordPiece pieces(kVocabulary);
  static const std::vector<std::int8_t> rows(kVocabulary.size() * 5, 3);
  static const std::vector<float> scale(kVocabulary.size(), 1.0F);
  static const TokenTable table(kVocabulary, rows, scale, 5);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_encode(pieces, text);
  std::array<float, 5> vector;
  table.embed(text, vector);

  std::string plain(text);
  for (char& c : plain) c = "abc ."[static_cast<unsigned char>(c) % 5];
  std::vector<std::int32_t> ids;
  pieces.encode(plain, 0, ids);
  require(ids == oracle(plain));
  return 0;
}
