/// The Unicode functions of text analysis: decoding, character properties, and caseless text with
/// a mapping to its source.
///
/// All follow the Unicode version in unicode_tables.inc, not the version of the interpreter or the
/// system. Any bytes are accepted: each maximal ill-formed part decodes to U+FFFD, as with Python's
/// errors="replace". Pure functions, safe from every thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace toolroll {

inline constexpr char32_t kReplacement = U'\uFFFD';

struct Decoded {
  char32_t code_point;
  std::size_t size;  // bytes taken; 0 only at the end of the text
};

/// The code point at a byte offset.
inline Decoded decode(std::string_view text, std::size_t at) {
  const std::size_t left = text.size() - at;
  if (left == 0) return {0, 0};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {kReplacement, 1};
  if (left < 2) return {kReplacement, 1};
  // The second byte's range excludes overlong forms, surrogates and numbers beyond Unicode.
  const char32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const char32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  const char32_t second = byte(1);
  if (second < low || second > high) return {kReplacement, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (second & 0x3F), 2};
  if (left < 3 || (byte(2) & 0xC0) != 0x80) return {kReplacement, 2};
  const char32_t three = (second & 0x3F) << 6 | (byte(2) & 0x3F);
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | three, 3};
  if (left < 4 || (byte(3) & 0xC0) != 0x80) return {kReplacement, 3};
  return {(lead & 0x07) << 18 | three << 6 | (byte(3) & 0x3F), 4};
}
/// All code points.
std::u32string decode(std::string_view text);

/// Whether all bytes are ASCII.
inline bool is_ascii(std::string_view text) {
  constexpr std::uint64_t kHigh = 0x8080808080808080U;
  std::uint64_t word = 0;
  std::size_t at = 0;
  for (; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHigh) != 0) return false;
  }
  for (; at < text.size(); ++at) {
    if (static_cast<unsigned char>(text[at]) >= 0x80) return false;
  }
  return true;
}

/// The share of a text's letters that are Latin, in [0, 1]; 1 for a text without letters.
double latin_share(std::string_view text);

/// Appends a code point as UTF-8; a surrogate or a number beyond Unicode becomes U+FFFD.
void encode(char32_t code_point, std::string& out);
std::string encode(std::u32string_view text);

namespace unicode {

enum Property : std::uint32_t {
  kWord = 1,
  kHangul = 2,
  kUnspaced = 4,
  kSpace = 8,
  kPunctuation = 16,
  kControl = 32,
  kMark = 64,
  kExtends = 128,  // may join the character before it when the text is composed
  kFolds = 256,    // is not its own folded form
};

inline constexpr unsigned kPropertyShift = 7;
inline constexpr char32_t kLast = 0x10FFFF;
extern const std::uint8_t kPropertyPage[];
extern const std::uint8_t kPropertyCell[];
extern const std::uint32_t kPropertyRecord[];

/// Property bits, with the canonical combining class from bit 16 on.
inline std::uint32_t properties(char32_t c) {
  if (c > kLast) c = kReplacement;
  const std::size_t page = kPropertyPage[c >> kPropertyShift];
  return kPropertyRecord[kPropertyCell[(page << kPropertyShift) |
                                       (c & ((1U << kPropertyShift) - 1))]];
}

}  // namespace unicode

/// A letter, digit, mark of a letter, or connector such as '_'. Not variation selectors and
/// enclosing marks.
inline bool is_word(char32_t c) { return (unicode::properties(c) & unicode::kWord) != 0; }
/// A Hangul syllable or jamo.
inline bool is_hangul(char32_t c) { return (unicode::properties(c) & unicode::kHangul) != 0; }
/// A word character of a script that writes no spaces between words: Han, kana, Bopomofo, Thai,
/// Lao, Khmer, Myanmar.
inline bool is_cjk(char32_t c) { return (unicode::properties(c) & unicode::kUnspaced) != 0; }
/// Has the White_Space property.
inline bool is_space(char32_t c) { return (unicode::properties(c) & unicode::kSpace) != 0; }
/// As BERT means it: a category P*, or an ASCII character that is no letter, digit, space or
/// control.
inline bool is_punctuation(char32_t c) {
  return (unicode::properties(c) & unicode::kPunctuation) != 0;
}
/// As BERT means it: a category C*, but not tab, line feed and carriage return.
inline bool is_control(char32_t c) { return (unicode::properties(c) & unicode::kControl) != 0; }
/// A non-spacing mark (Mn), such as a combining accent.
inline bool is_mark(char32_t c) { return (unicode::properties(c) & unicode::kMark) != 0; }
/// A Han ideograph as BERT counts them, by block: no kana, no Hangul.
constexpr bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/// Writes the full canonical decomposition (NFD of this one code point); returns its length, 1
/// to 4.
std::size_t decompose(char32_t c, char32_t (&out)[4]);
/// The first code point of the decomposition, or 0 for a non-spacing mark: é -> e.
/// A Hangul syllable gives its first jamo only; decompose() gives all of them.
char32_t strip_accent(char32_t c);
/// A full-width Latin letter or digit as the ordinary one; any other code point as it is.
constexpr char32_t narrow(char32_t c) {
  const bool is_wide =
      (c >= 0xFF10 && c <= 0xFF19) || (c >= 0xFF21 && c <= 0xFF3A) || (c >= 0xFF41 && c <= 0xFF5A);
  return is_wide ? c - 0xFEE0 : c;
}
/// The same for a text: the text itself if it has none, else the buffer. O(n).
std::string_view narrow(std::string_view text, std::string& buffer);
/// Lower case, one code point for one. Only İ has a longer lower case; this gives i without the dot
/// above.
char32_t lower(char32_t c);

/// Caseless text: two texts that differ in case, in composition or in the width of Latin letters
/// only fold to the same bytes.
struct Folded {
  /// A range of the folded text whose source has another length.
  struct Edit {
    std::uint32_t begin;       // in the folded text
    std::uint32_t end;         // in the folded text
    std::uint32_t source_end;  // in the source
  };

  std::string text;
  std::vector<Edit> edits;  // ascending; none where nothing changed length

  /// The source offset where the characters that gave text[byte] begin. byte <= text.size(). O(log
  /// edits).
  std::size_t source(std::size_t byte) const;
  /// The source offset where the characters that gave text[byte - 1] end: the end of a match that
  /// ends at byte. Together they map outward: "s" found in a folded "ß" is the whole ß. 0 for byte
  /// 0.
  std::size_t source_end(std::size_t byte) const;
};

/// Canonical caseless form: NFC(casefold(narrow(NFD(text)))) with full case folding, so ß -> ss,
/// İ -> i̇, Ａ -> a.
///
/// O(n) but for a run of combining marks on one letter, which is sorted. Throws
/// std::invalid_argument if the text has 1 GiB or more.
Folded fold(std::string_view text);

/// The same without the mapping, for hot paths: writes the folded bytes to buffer and returns their
/// number. The buffer grows as needed and never shrinks; the bytes after them are unspecified.
std::size_t fold(std::string_view text, std::string& buffer);

}  // namespace toolroll
