#include "toolroll/unicode.hpp"

#include <random>

#include "check.hpp"

using namespace toolroll;

TEST_CASE("every code point survives encoding and decoding") {
  for (char32_t c = 0; c <= unicode::kLast; ++c) {
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    std::string text;
    encode(c, text);
    const Decoded decoded = decode(text, 0);
    CHECK(decoded.code_point == (surrogate ? kReplacement : c));
    CHECK(decoded.size == text.size());
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
    CHECK(encode(decode(folded.text)) == folded.text);
    CHECK(fold(folded.text).text == folded.text);
    std::string buffer;
    CHECK(fold(text, buffer) == folded.text.size());
    CHECK(buffer.substr(0, folded.text.size()) == folded.text);
    for (std::size_t byte = 0; byte <= folded.text.size(); ++byte) {
      CHECK(folded.source(byte) <= text.size());
      CHECK(folded.source_end(byte) <= text.size());
    }
  }
}

TEST_CASE("numbers beyond Unicode have the properties of the replacement character") {
  CHECK(unicode::properties(0xFFFFFFFF) == unicode::properties(kReplacement));
  char32_t parts[4];
  CHECK(decompose(0xFFFFFFFF, parts) == 1);
  CHECK(lower(0xFFFFFFFF) == 0xFFFFFFFF);
}

TEST_CASE("ASCII punctuation is what BERT splits at") {
  std::string found;
  for (char32_t c = 0; c < 128; ++c) {
    if (is_punctuation(c)) found += static_cast<char>(c);
  }
  CHECK(found == R"(!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~)");
}

TEST_CASE("scripts are told apart") {
  for (const char32_t c : U"日かーไကកລ") {
    if (c != 0) CHECK((is_word(c) && is_cjk(c)));
  }
  for (const char32_t c : U"가ㅋ") {
    if (c != 0) CHECK((is_word(c) && is_hangul(c) && !is_cjk(c)));
  }
  for (const char32_t c : U"aжि٣_") {
    if (c != 0) CHECK((is_word(c) && !is_hangul(c) && !is_cjk(c)));
  }
  for (const char32_t c : U"。\uFE0F☀") {
    if (c != 0) CHECK(!is_word(c));
  }
}

TEST_CASE("control characters, marks, lower case and accents are those of Unicode") {
  CHECK((is_control(0) && is_control(0x7F) && is_control(0x200B) && !is_control('\n')));
  CHECK((is_mark(0x0301) && is_mark(0xFE0F) && !is_mark('a') && !is_mark(0x093F)));
  CHECK((is_space(' ') && is_space(0x3000) && !is_space('_')));
  CHECK((lower(U'Ä') == U'ä' && lower(U'Σ') == U'σ' && lower(U'İ') == U'i' && lower('1') == '1'));
  CHECK((strip_accent(U'é') == 'e' && strip_accent(0x0301) == 0 && strip_accent(U'ß') == U'ß'));
  char32_t parts[4];
  REQUIRE(decompose(U'ǖ', parts) == 3);
  CHECK((parts[0] == 'u' && parts[1] == 0x0308 && parts[2] == 0x0304));
  REQUIRE(decompose(U'각', parts) == 3);
  CHECK((parts[0] == 0x1100 && parts[1] == 0x1161 && parts[2] == 0x11A8));
}

// The tables were compared with Python's unicodedata, code point by code point, when these digests
// were taken. A new version of Unicode changes them: compare again, then write down the new ones.
TEST_CASE("properties and mappings of every code point are those that were verified") {
  const auto mixed = [](std::uint64_t digest, std::uint64_t number) {
    return (digest ^ number) * 1099511628211U;  // FNV-1a
  };
  std::uint64_t properties = 14695981039346656037U;
  std::uint64_t mappings = properties;
  for (char32_t c = 0; c <= unicode::kLast; ++c) {
    const bool all[] = {is_word(c),        is_hangul(c),  is_cjk(c), is_space(c),
                        is_punctuation(c), is_control(c), is_mark(c)};
    for (const bool one : all) properties = mixed(properties, one ? 1 : 0);
    char32_t parts[4];
    const std::size_t size = decompose(c, parts);
    for (std::size_t i = 0; i < size; ++i) mappings = mixed(mappings, parts[i]);
    mappings = mixed(mixed(mappings, lower(c)), strip_accent(c));
  }
  CHECK(properties == 14683812356027833653U);
  CHECK(mappings == 3942229172996885015U);
}
