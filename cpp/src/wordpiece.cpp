#include "toolroll/wordpiece.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::string_view kUnknown = "[UNK]";
constexpr std::string_view kContinues = "##";
constexpr std::size_t kLongestWordBytes = 4 * WordPiece::kLongestWord;

enum Ascii : std::uint8_t { kControl, kSpace, kPunctuation, kLetter };

constexpr auto kAscii = [] {
  std::array<std::uint8_t, 128> kinds{};
  for (std::size_t c = 0; c < kinds.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    kinds[c] = letter ? kLetter : space ? kSpace : c < 0x20 || c == 0x7F ? kControl : kPunctuation;
  }
  return kinds;
}();

constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

// The word being read, as it will be looked up.
struct WordPiece::Word {
  std::array<char, kLongestWordBytes> bytes;
  std::size_t size = 0;
  std::size_t characters = 0;  // also those that no longer fit

  void add(char c) {
    if (characters++ < kLongestWord) bytes[size++] = c;
  }
  void add(char32_t c, std::string& utf8) {
    if (characters++ >= kLongestWord) return;
    utf8.clear();
    encode_one(c, utf8);
    size = static_cast<std::size_t>(std::copy(utf8.begin(), utf8.end(), bytes.begin() + size) -
                                    bytes.begin());
  }

 private:
  static void encode_one(char32_t c, std::string& utf8) { toolroll::encode(c, utf8); }
};

WordPiece::WordPiece(std::span<const std::string_view> vocabulary) : size_(vocabulary.size()) {
  if (size_ > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("vocabulary: has more than 2^31 - 1 pieces");
  }
  beginning_.table.reserve(size_);
  for (std::size_t id = 0; id < size_; ++id) {
    const std::string_view piece = vocabulary[id];
    if (piece == kUnknown) unknown_ = static_cast<std::int32_t>(id);
    if (piece.starts_with(kContinues) && piece.size() > kContinues.size()) {
      add(continuing_, piece.substr(kContinues.size()), id);
    } else {
      add(beginning_, piece, id);
    }
  }
  if (unknown_ < 0) throw std::invalid_argument("vocabulary: has no [UNK]");
}

void WordPiece::add(Pieces& pieces, std::string_view piece, std::size_t id) {
  if (pieces.table.add(piece) != pieces.ids.size()) {
    throw std::invalid_argument("vocabulary: piece " + std::to_string(id) + ", '" +
                                std::string(piece) + "', occurs twice");
  }
  pieces.ids.push_back(static_cast<std::int32_t>(id));
  pieces.longest = std::max(pieces.longest, piece.size());
}

std::size_t WordPiece::memory_bytes() const {
  return beginning_.table.memory_bytes() + continuing_.table.memory_bytes() +
         (beginning_.ids.capacity() + continuing_.ids.capacity()) * sizeof(std::int32_t);
}

void WordPiece::encode(std::string_view text, std::size_t max_tokens,
                       std::vector<std::int32_t>& ids) const {
  ids.clear();
  if (max_tokens == 0) max_tokens = std::numeric_limits<std::size_t>::max();
  Word word;
  for (std::size_t at = 0; at < text.size() && ids.size() < max_tokens;) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x80) {
      read_wide(text, at, word, ids);
      continue;
    }
    ++at;
    switch (kAscii[static_cast<unsigned char>(c)]) {
      case kLetter:
        word.add(c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c);
        break;
      case kControl:
        break;
      case kPunctuation:
        end_word(word, ids);
        word.add(c);
        [[fallthrough]];
      default:
        end_word(word, ids);
    }
  }
  end_word(word, ids);
  if (ids.size() > max_tokens) ids.resize(max_tokens);
}

// One character outside ASCII: normalised first, then treated as what it has become.
void WordPiece::read_wide(std::string_view text, std::size_t& at, Word& word,
                          std::vector<std::int32_t>& ids) const {
  const auto [c, size] = decode(text, at);
  at += size;
  if (c == kReplacement || is_control(c)) return;
  if (is_space(c)) return end_word(word, ids);
  const bool alone = is_ideograph(c);
  if (alone) end_word(word, ids);
  char32_t parts[4] = {};
  const std::size_t count = decompose(c, parts);
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_mark(parts[i])) read_character(lower(parts[i]), word, ids);
  }
  if (alone) end_word(word, ids);
}

void WordPiece::read_character(char32_t c, Word& word, std::vector<std::int32_t>& ids) const {
  thread_local std::string utf8;
  const bool alone = is_punctuation(c);
  if (alone || is_space(c)) end_word(word, ids);
  if (is_space(c)) return;
  word.add(c, utf8);
  if (alone) end_word(word, ids);
}

void WordPiece::end_word(Word& word, std::vector<std::int32_t>& ids) const {
  if (word.characters == 0) return;
  if (word.characters > kLongestWord) {
    ids.push_back(unknown_);
  } else {
    cut({word.bytes.data(), word.size}, ids);
  }
  word.size = 0;
  word.characters = 0;
}

void WordPiece::cut(std::string_view word, std::vector<std::int32_t>& ids) const {
  // Most words are pieces. The hashes of all prefixes, below, take longer to clear than a look-up.
  if (word.size() <= beginning_.longest) {
    const std::uint32_t number = beginning_.table.find(word);
    if (number != StringTable::kMissing) {
      ids.push_back(beginning_.ids[number]);
      return;
    }
  }
  const std::size_t before = ids.size();
  std::array<StringTable::Hash, kLongestWordBytes + 1> hashes;  // [n]: of the next n bytes
  for (std::size_t begin = 0; begin < word.size();) {
    const Pieces& pieces = begin == 0 ? beginning_ : continuing_;
    const std::string_view rest = word.substr(begin, pieces.longest);
    StringTable::Hash hash;
    for (std::size_t n = 0; n < rest.size(); ++n) {
      hash.add(rest[n]);
      hashes[n + 1] = hash;
    }
    std::size_t n = rest.size();
    std::uint32_t number = StringTable::kMissing;
    for (; n > 0; --n) {
      if (begin + n < word.size() && continues_character(word[begin + n])) continue;
      number = pieces.table.find(rest.substr(0, n), hashes[n]);
      if (number != StringTable::kMissing) break;
    }
    if (n == 0) {
      ids.resize(before);
      ids.push_back(unknown_);
      return;
    }
    ids.push_back(pieces.ids[number]);
    begin += n;
  }
}

}  // namespace toolroll
