#include "toolroll/unicode.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <span>
#include <stdexcept>

namespace toolroll {
namespace unicode {

#include "unicode_tables.inc"

}  // namespace unicode

namespace {

using unicode::properties;
using unicode::Property;

// The entry for c in a two-stage table whose last page repeats.
template <typename Page, std::size_t kPages, typename Cell>
std::size_t entry(const Page (&pages)[kPages], const Cell* cells, unsigned shift, char32_t c) {
  const std::size_t page = pages[std::min<std::size_t>(c >> shift, kPages - 1)];
  return cells[(page << shift) | (c & ((1U << shift) - 1))];
}

// What c folds to, in UTF-8; empty if c is its own folded form.
std::string_view folded(char32_t c) {
  using namespace unicode;
  const std::size_t i = entry(kFoldPage, kFoldCell, kFoldShift, c);
  const std::size_t size = i == 0 ? 0 : std::size_t{kFoldStart[i]} - kFoldStart[i - 1];
  return {reinterpret_cast<const char*>(kFoldPool) + (i == 0 ? 0 : kFoldStart[i - 1]), size};
}

unsigned rank(char32_t c) { return properties(c) >> 16; }  // canonical combining class

// Hangul syllables are arithmetic: 19 leads x 21 vowels x 28 trails, the first trail being none.
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28;
constexpr char32_t kSyllables = kLeads * kVowels * kTrails;

// The primary composite of two code points, or 0.
char32_t composite(char32_t first, char32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
  }
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTrails == 0 &&
      second - (kTrail + 1) < kTrails - 1) {
    return first + (second - kTrail);
  }
  const std::uint64_t key = std::uint64_t{first} << 32 | second;
  const auto* const end = std::end(unicode::kComposeKey);
  const auto* const at = std::lower_bound(std::begin(unicode::kComposeKey), end, key);
  return at == end || *at != key ? 0 : unicode::kComposed[at - std::begin(unicode::kComposeKey)];
}

void append_decomposed(char32_t c, std::u32string& out) {
  char32_t parts[4];
  out.append(parts, decompose(c, parts));
}

// Puts marks into canonical order: runs of rank above 0 by rank, equals as they stood.
void reorder(std::u32string& text) {
  const auto is_starter = [](char32_t c) { return rank(c) == 0; };
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if_not(at, text.end(), is_starter);
    at = std::find_if(begin, text.end(), is_starter);
    if (at - begin > 1) {
      std::stable_sort(begin, at, [](char32_t a, char32_t b) { return rank(a) < rank(b); });
    }
  }
}

// Joins what canonical composition joins; the text is decomposed and in canonical order.
void compose(std::u32string& text) {
  std::size_t size = 0;
  std::size_t starter = text.size();  // none yet
  unsigned last = 0;                  // rank of the last one kept after the starter; 0: none was
  for (const char32_t c : text) {
    const unsigned own = rank(c);
    if (starter < size && (last == 0 || last < own)) {
      if (const char32_t joined = composite(text[starter], c); joined != 0) {
        text[starter] = joined;
        continue;
      }
    }
    if (own == 0) starter = size;
    last = own;
    text[size++] = c;
  }
  text.resize(size);
}

// Eight ASCII bytes in lower case; bytes behind one that is not ASCII are unspecified.
std::uint64_t lower_ascii(std::uint64_t word) {
  constexpr std::uint64_t kEach = 0x0101010101010101;
  const std::uint64_t from_a = word + kEach * (0x80 - 'A');          // high bit: 'A' or above
  const std::uint64_t beyond_z = word + kEach * (0x80 - ('Z' + 1));  // high bit: above 'Z'
  return word | ((from_a & ~beyond_z & (kEach * 0x80)) >> 2);        // 'A' + 0x20 == 'a'
}
static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");

// One pass over the text. A segment is a code point with those behind it that may join it; nearly
// all are one code point, which is written when it is met and taken back if a mark follows.
class Folder {
 public:
  Folder(std::string_view text, std::string& out, std::vector<Folded::Edit>* edits)
      : text_(text), out_(out), edits_(edits) {
    if (text.size() >= std::size_t{1} << 30) {
      throw std::invalid_argument("text: has " + std::to_string(text.size()) +
                                  " bytes, must have less than 1 GiB");
    }
    ensure(0);
  }

  std::size_t run() {
    while (in_ < text_.size()) {
      if (static_cast<unsigned char>(text_[in_]) < 0x80) {
        ascii();
      } else {
        other();
      }
    }
    return written_;
  }

 private:
  // Room that is always left behind what the rest of the text takes if nothing grows.
  static constexpr std::size_t kRoom = 16;

  void ensure(std::size_t size) {
    const std::size_t needed = written_ + size + (text_.size() - in_) + kRoom;
    if (out_.size() < needed) out_.resize(std::max(needed, out_.size() + out_.size() / 2));
  }

  void ascii() {
    const char* const in = text_.data();
    char* const out = out_.data();
    const std::size_t end = text_.size();
    std::size_t i = in_;
    std::size_t o = written_;
    bool ended = false;
    while (end - i >= 8 && !ended) {
      std::uint64_t word;
      std::memcpy(&word, in + i, 8);
      const std::uint64_t lowered = lower_ascii(word);
      std::memcpy(out + o, &lowered, 8);
      const std::uint64_t high = word & 0x8080808080808080;
      const std::size_t taken =
          high == 0 ? 8 : static_cast<std::size_t>(std::countr_zero(high)) / 8;
      ended = high != 0;
      i += taken;
      o += taken;
    }
    for (; !ended && i < end && static_cast<unsigned char>(in[i]) < 0x80; ++i, ++o) {
      out[o] = static_cast<char>(in[i] >= 'A' && in[i] <= 'Z' ? in[i] + 0x20 : in[i]);
    }
    in_ = i;
    written_ = o;
    segment_in_ = i - 1;
    segment_out_ = o - 1;
  }

  void other() {
    const auto [c, size] = decode(text_, in_);
    if (c - kSyllable < kSyllables) {
      begin_segment();
      std::memcpy(out_.data() + written_, text_.data() + in_, 3);
      in_ += 3;
      written_ += 3;
      return;
    }
    const std::uint32_t found = properties(c);
    if ((found & Property::kExtends) != 0) {
      joined();
      return;
    }
    begin_segment();
    std::string_view to = text_.substr(in_, size);
    bool one_to_one = true;
    if (c == kReplacement) {
      to = "\xEF\xBF\xBD";
      one_to_one = size == 3;
    } else if ((found & Property::kFolds) != 0) {
      to = folded(c);
      one_to_one = to.size() == size && decode(to, 0).size == size;
    }
    in_ += size;
    if (to.size() > size) ensure(to.size());
    std::memcpy(out_.data() + written_, to.data(), to.size());
    written_ += to.size();
    if (!one_to_one) note();
  }

  // A segment of several code points: NFD, case folding, NFC.
  void joined() {
    in_ = segment_in_;
    written_ = segment_out_;
    while (edits_ != nullptr && !edits_->empty() && edits_->back().end > written_) {
      edits_->pop_back();
    }
    bool folds = false;
    pieces_.clear();
    while (in_ < text_.size()) {
      const auto [c, size] = decode(text_, in_);
      if (in_ != segment_in_ && (properties(c) & Property::kExtends) == 0) break;
      append_decomposed(c, pieces_);
      in_ += size;
    }
    reorder(pieces_);
    for (const char32_t c : pieces_) folds = folds || (properties(c) & Property::kFolds) != 0;
    if (folds) {
      cased_.swap(pieces_);
      pieces_.clear();
      for (const char32_t c : cased_) {
        const std::string_view to = folded(c);
        if (to.empty()) pieces_.push_back(c);
        for (std::size_t at = 0; at < to.size();) {
          const auto [part, size] = decode(to, at);
          append_decomposed(part, pieces_);
          at += size;
        }
      }
      reorder(pieces_);
    }
    compose(pieces_);
    const std::string to = encode(pieces_);
    ensure(to.size());
    std::memcpy(out_.data() + written_, to.data(), to.size());
    written_ += to.size();
    if (text_.substr(segment_in_, in_ - segment_in_) != to) note();
    begin_segment();
  }

  void begin_segment() {
    segment_in_ = in_;
    segment_out_ = written_;
  }

  // The segment's offsets are not those of its source.
  void note() {
    if (edits_ == nullptr) return;
    edits_->push_back({static_cast<std::uint32_t>(segment_out_),
                       static_cast<std::uint32_t>(written_), static_cast<std::uint32_t>(in_)});
  }

  std::string_view text_;
  std::string& out_;
  std::vector<Folded::Edit>* edits_;
  std::size_t in_ = 0;           // bytes read
  std::size_t written_ = 0;      // bytes written
  std::size_t segment_in_ = 0;   // where the last segment began, in the text
  std::size_t segment_out_ = 0;  // and in the output
  std::u32string pieces_;
  std::u32string cased_;
};

// Source offset minus folded offset behind the edits before `edit`, in wrapping arithmetic.
std::size_t shift_before(const std::vector<Folded::Edit>& edits, std::size_t edit) {
  return edit == 0 ? 0 : std::size_t{edits[edit - 1].source_end} - edits[edit - 1].end;
}

}  // namespace

double latin_share(std::string_view text) {
  std::size_t letters = 0;
  std::size_t latin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, size] = decode(text, at);
    at += size;
    if (c < 0x80) {  // no table is needed for most texts
      const char32_t lower = c | 0x20;
      const bool is_letter = lower >= U'a' && lower <= U'z';
      letters += is_letter ? 1 : 0;
      latin += is_letter ? 1 : 0;
    } else if (is_word(c) && !is_mark(c)) {
      ++letters;
      latin += c < 0x250 || (c >= 0x1E00 && c < 0x1F00) ? 1 : 0;
    }
  }
  return letters == 0 ? 1.0 : static_cast<double>(latin) / static_cast<double>(letters);
}

std::u32string decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, size] = decode(text, at);
    out.push_back(c);
    at += size;
  }
  return out;
}

void encode(char32_t c, std::string& out) {
  if (c > unicode::kLast || (c >= 0xD800 && c <= 0xDFFF)) c = kReplacement;
  const auto tail = [&](unsigned shift) {
    out.push_back(static_cast<char>(0x80 | ((c >> shift) & 0x3F)));
  };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | c >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size() * 3);
  for (const char32_t c : text) encode(c, out);
  return out;
}

std::size_t decompose(char32_t c, char32_t (&out)[4]) {
  if (c - kSyllable < kSyllables) {
    const char32_t i = c - kSyllable;
    out[0] = kLead + i / (kVowels * kTrails);
    out[1] = kVowel + i / kTrails % kVowels;
    out[2] = kTrail + i % kTrails;
    return out[2] == kTrail ? 2 : 3;
  }
  using namespace unicode;
  const std::size_t i =
      c < 0x80 ? 0 : entry(kDecompositionPage, kDecompositionCell, kDecompositionShift, c);
  if (i == 0) {
    out[0] = c;
    return 1;
  }
  const std::size_t begin = kDecompositionStart[i - 1];
  const std::size_t size = kDecompositionStart[i] - begin;
  std::copy_n(kDecompositionPool + begin, size, out);
  return size;
}

char32_t strip_accent(char32_t c) {
  if (c < 0x80) return c;
  if (is_mark(c)) return 0;
  char32_t parts[4]{};
  decompose(c, parts);
  return parts[0];
}

std::string_view narrow(std::string_view text, std::string& buffer) {
  constexpr char kLead = '\xEF';  // of all wide forms in UTF-8
  if (text.find(kLead) == std::string_view::npos) return text;
  buffer.clear();
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, size] = decode(text, at);
    if (const char32_t ordinary = narrow(c); ordinary != c) {
      buffer.push_back(static_cast<char>(ordinary));
    } else {
      buffer.append(text, at, size);
    }
    at += size;
  }
  return buffer;
}

char32_t lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 0x20 : c;
  const std::size_t i = entry(unicode::kLowerPage, unicode::kLowerCell, unicode::kLowerShift, c);
  return i == 0 ? c : unicode::kLowerPool[i - 1];
}

std::size_t Folded::source(std::size_t byte) const {
  const auto at = std::upper_bound(edits.begin(), edits.end(), byte,
                                   [](std::size_t b, const Edit& edit) { return b < edit.end; });
  const std::size_t shift = shift_before(edits, static_cast<std::size_t>(at - edits.begin()));
  return (at == edits.end() ? byte : std::min<std::size_t>(byte, at->begin)) + shift;
}

std::size_t Folded::source_end(std::size_t byte) const {
  const auto at = std::lower_bound(edits.begin(), edits.end(), byte,
                                   [](const Edit& edit, std::size_t b) { return edit.end < b; });
  if (at != edits.end() && at->begin < byte) return at->source_end;
  return byte + shift_before(edits, static_cast<std::size_t>(at - edits.begin()));
}

Folded fold(std::string_view text) {
  Folded folded;
  folded.text.resize(Folder(text, folded.text, &folded.edits).run());
  return folded;
}

std::size_t fold(std::string_view text, std::string& buffer) {
  return Folder(text, buffer, nullptr).run();
}

}  // namespace toolroll
