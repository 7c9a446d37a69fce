#include "toolroll/unicode.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace toolroll;

TEST_CASE("every code point survives encoding and decoding") {
  for (char32_t c = 0; c <= unicode::kLast; ++c) {
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    std::string text;
    encode(c, text);
    const Decoded decoded = decode(text, 0);
    CHECK_EQ(decoded.code_point, surrogate ? kReplacement : c);
    CHECK_EQ(decoded.size, text.size());
  }
}

TEST_CASE("random bytes fold to well-formed text whose offsets lead into the source") {
  std::mt19937 random(1);
  const std::string_view pool = "aZ\xC3\x89\xCC\x81\xE1\x84\x85\xA1\xED\xA0\xF0\x9F\xFF\xCD\x85";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::size_t size = random() % 24; text.size() < size;)
      text += pool[random() % pool.size()];
    const Folded folded = fold(text);
    CHECK_EQ(encode(decode(folded.text)), folded.text);
    CHECK_EQ(fold(folded.text).text, folded.text);
    std::string buffer;
    CHECK_EQ(fold(text, buffer), folded.text.size());
    CHECK_EQ(buffer.substr(0, folded.text.size()), folded.text);
    for (std::size_t byte = 0; byte <= folded.text.size(); ++byte) {
      CHECK_LE(folded.source(byte), text.size());
      CHECK_LE(folded.source_end(byte), text.size());
    }
  }
}

TEST_CASE("numbers beyond Unicode have the properties of the replacement character") {
  CHECK_EQ(unicode::properties(0xFFFFFFFF), unicode::properties(kReplacement));
  char32_t parts[4];
  CHECK_EQ(decompose(0xFFFFFFFF, parts), 1);
  CHECK_EQ(lower(0xFFFFFFFF), 0xFFFFFFFF);
}
