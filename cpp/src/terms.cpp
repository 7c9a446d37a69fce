#include "toolroll/terms.hpp"

#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "toolroll/english.hpp"
#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 30;
constexpr std::size_t kLettersOfWord = 3;  // so many letters beside digits are a word of their own
constexpr std::size_t kLongestStemmed = 64;

// What a character is to the splitting of identifiers, as bits.
enum Kind : std::uint8_t {
  kNone = 0,  // no part of a word
  kLower = 1,
  kUpper = 2,
  kDigit = 4,
  kOther = 8,    // of a script without case
  kMarked = 16,  // a mark: belongs to the character before it
  kIsS = 32,
};

constexpr auto kAsciiKinds = [] {
  std::array<std::uint8_t, 128> kinds{};
  for (int c = 'a'; c <= 'z'; ++c) kinds[static_cast<std::size_t>(c)] = kLower;
  for (int c = 'A'; c <= 'Z'; ++c) kinds[static_cast<std::size_t>(c)] = kUpper;
  for (int c = '0'; c <= '9'; ++c) kinds[static_cast<std::size_t>(c)] = kDigit;
  kinds['s'] = kLower | kIsS;
  return kinds;
}();

constexpr bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
constexpr std::uint8_t ascii_kind(char c) { return kAsciiKinds[static_cast<unsigned char>(c)]; }

std::uint8_t kind_of(char32_t c) {
  c = narrow(c);
  if (c < 0x80) return kAsciiKinds[c];
  const std::uint32_t bits = unicode::properties(c);
  if ((bits & unicode::kWord) == 0 || (bits & unicode::kPunctuation) != 0) return kNone;
  if ((bits & unicode::kMark) != 0) return kMarked;
  if ((bits & (unicode::kHangul | unicode::kUnspaced)) != 0) return kOther;
  return lower(c) != c ? kUpper : kLower;
}

// Where the part of an identifier that begins at `begin` ends; kind(i) for begin <= i < end.
template <typename KindAt>
std::size_t part_end(KindAt kind, std::size_t begin, std::size_t end) {
  std::size_t letters = 0;  // in a row before i
  std::uint8_t before = kNone;
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint8_t here = kind(i);
    if ((here & kMarked) != 0) continue;
    const auto is = [&](std::size_t at, unsigned kinds) {
      return at < end && (kind(at) & kinds) != 0;
    };
    if ((here & kUpper) != 0) {
      if ((before & (kLower | kOther)) != 0) return i;  // camel|Case
      const bool plural = is(i + 1, kIsS) && !is(i + 2, kLower);
      if ((before & kUpper) != 0 && is(i + 1, kLower) && !plural)
        return i;  // HTTP|Server, but URLs
    }
    if ((before & kDigit) != 0 && (here & (kUpper | kLower)) != 0) {
      std::size_t run = i;
      while (is(run, kUpper)) ++run;
      while (is(run, kLower)) ++run;
      if (run - i >= kLettersOfWord) return i;  // 1|password, but 2fa
    }
    if ((here & kDigit) != 0 && letters >= kLettersOfWord) return i;  // oauth|2, but s3
    letters = (here & (kUpper | kLower)) != 0 ? letters + 1 : 0;
    before = here;
  }
  return end;
}

// Latin, Greek, Cyrillic and their marks: taking the accent off leaves a letter people type
// instead.
constexpr bool sheds_accents(char32_t c) { return c < 0x530 || (c >= 0x1E00 && c < 0x2000); }

bool is_joined(char32_t c) { return is_hangul(c) || is_cjk(c); }

// The stems of the ASCII words that a thread has read last, in a table without chains: a word takes
// the place of another one of its slot. Texts repeat their words, and a stem takes twenty times as
// long as a look-up.
class StemCache {
 public:
  static constexpr std::size_t kLongestWord = 23;

  struct Entry {
    std::uint8_t size = 0;       // of the word; 0: free
    std::uint8_t stem_size = 0;  // 0: a stop word
    std::array<char, kLongestWord> word;
    std::array<char, kLongestWord> stem;
  };

  // The entry of a word of 1 to kLongestWord lower-case letters and digits.
  const Entry& operator[](std::string_view word) {
    if (entries_.empty()) entries_.resize(kSlots);
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    Entry& entry = entries_[(hash ^ (hash >> 32)) % kSlots];
    if (entry.size == word.size() && std::memcmp(entry.word.data(), word.data(), word.size()) == 0)
      return entry;
    entry.size = static_cast<std::uint8_t>(word.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.stem.data(), word.data(), word.size());
    entry.stem_size =
        is_stop_word(word)
            ? std::uint8_t{0}
            : static_cast<std::uint8_t>(stem_english({entry.stem.data(), word.size()}));
    return entry;
  }

 private:
  static constexpr std::size_t kSlots = 4096;
  std::vector<Entry> entries_;
};

}  // namespace

Analysis analysis_of(std::string_view name) {
  if (name == "default") return Analysis::kDefault;
  if (name == "plain") return Analysis::kPlain;
  throw std::invalid_argument("analysis: is '" + std::string(name) +
                              "', must be 'default' or 'plain'");
}

void Terms::read(std::string_view text, Analysis analysis) {
  if (text.size() >= kLongestText) throw std::invalid_argument("text: has 1 GiB or more");
  bytes_.clear();
  ends_.clear();
  if (analysis == Analysis::kPlain) return read_plain(text);
  for (std::size_t begin = 0; begin < text.size();) {
    if (is_ascii(text[begin]) && ascii_kind(text[begin]) == kNone) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < text.size() && is_ascii(text[end]) && ascii_kind(text[end]) != kNone) ++end;
    if (end < text.size() && !is_ascii(text[end])) {
      begin = read_wide_word(text, begin);
      continue;
    }
    const auto kind = [&](std::size_t i) { return ascii_kind(text[i]); };
    while (begin < end) {
      const std::size_t next = part_end(kind, begin, end);
      add_ascii(text.substr(begin, next - begin));
      begin = next;
    }
  }
}

void Terms::end_term(std::size_t begin) {
  if (bytes_.size() > begin) ends_.push_back(bytes_.size());
}

void Terms::read_plain(std::string_view text) {
  const std::size_t size = fold(text, folded_);  // may move the buffer
  const std::string_view folded(folded_.data(), size);
  bytes_.reserve(size);
  for (std::size_t at = 0, begin = 0; at <= size;) {
    std::size_t width = 1;
    bool inside = false;
    if (at < size && is_ascii(folded[at])) {
      inside = ascii_kind(folded[at]) != kNone || folded[at] == '_';
    } else if (at < size) {
      const Decoded decoded = decode(folded, at);
      width = decoded.size;
      inside = is_word(decoded.code_point);
    }
    if (!inside) {
      const std::size_t first = bytes_.size();
      bytes_ += folded.substr(begin, at - begin);
      end_term(first);
      begin = at + width;
    }
    at += width;
  }
}

// Adds the word that begins here and has a character outside ASCII; returns where it ends.
std::size_t Terms::read_wide_word(std::string_view text, std::size_t begin) {
  kinds_.clear();
  offsets_.clear();
  std::size_t at = begin;
  while (at < text.size()) {
    const auto [c, size] = decode(text, at);
    const std::uint8_t kind = kind_of(c);
    if (kind == kNone) {
      if (at == begin) return at + size;
      break;
    }
    kinds_.push_back(kind);
    offsets_.push_back(at);
    at += size;
  }
  offsets_.push_back(at);
  const auto kind = [&](std::size_t i) { return kinds_[i]; };
  for (std::size_t i = 0; i < kinds_.size();) {
    const std::size_t next = part_end(kind, i, kinds_.size());
    add_wide(text.substr(offsets_[i], offsets_[next] - offsets_[i]));
    i = next;
  }
  return at;
}

void Terms::add_ascii(std::string_view part) {
  const std::size_t begin = bytes_.size();
  bytes_.resize(begin + part.size());
  const std::span<char> term(bytes_.data() + begin, part.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    term[i] = ascii_kind(c) == kUpper ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  if (part.size() <= StemCache::kLongestWord) {
    thread_local StemCache stems;
    const StemCache::Entry& known = stems[{term.data(), term.size()}];
    std::memcpy(term.data(), known.stem.data(), known.stem_size);
    bytes_.resize(begin + known.stem_size);
  } else if (part.size() <= kLongestStemmed) {
    bytes_.resize(begin + stem_english(term));
  }
  end_term(begin);
}

void Terms::add_wide(std::string_view part) {
  const std::size_t size = fold(part, folded_);
  const std::string_view folded(folded_.data(), size);
  for (std::size_t at = 0; at < size;) {
    if (is_joined(decode(folded, at).code_point)) {
      std::size_t previous = at;  // where the character before `at` begins
      std::size_t count = 0;
      while (at < size) {
        const auto [c, width] = decode(folded, at);
        if (!is_joined(c)) break;
        if (++count > 1) {
          bytes_ += folded.substr(previous, at + width - previous);
          ends_.push_back(bytes_.size());
        }
        previous = at;
        at += width;
      }
      if (count == 1) {
        bytes_ += folded.substr(previous, at - previous);
        ends_.push_back(bytes_.size());
      }
      continue;
    }
    const std::size_t begin = bytes_.size();
    while (at < size) {
      const auto [c, width] = decode(folded, at);
      if (is_joined(c)) break;
      if (!sheds_accents(c)) {
        bytes_ += folded.substr(at, width);
      } else if (const char32_t base = strip_accent(c); base != 0) {
        encode(base, bytes_);
      }
      at += width;
    }
    const std::span<char> term(bytes_.data() + begin, bytes_.size() - begin);
    if (is_stop_word({term.data(), term.size()})) {
      bytes_.resize(begin);
      continue;
    }
    if (term.size() <= kLongestStemmed) bytes_.resize(begin + stem_english(term));
    end_term(begin);
  }
}

}  // namespace toolroll
