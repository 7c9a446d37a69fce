#include "toolroll/spelling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "toolroll/english.hpp"
#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kBitsOfWord = 16;  // of the filter: passes 1 of 70 unknown strings
constexpr std::size_t kMostBlocks = 1U << 20U;

enum Ascii : std::uint8_t {
  kLower = 1,
  kUpper = 2,
  kDigit = 4,
  kSpace = 8,
  kTechnical = 16,  // nobody writes it in a word: the chunk is an address, a path, an identifier
  kInner = 32,      // the same where it stands between letters or digits: file.txt, a:b
  kEndsSentence = 64,
};

constexpr auto kAscii = [] {
  std::array<std::uint8_t, 128> kinds{};
  for (std::size_t c = 'a'; c <= 'z'; ++c) kinds[c] = kLower;
  for (std::size_t c = 'A'; c <= 'Z'; ++c) kinds[c] = kUpper;
  for (std::size_t c = '0'; c <= '9'; ++c) kinds[c] = kDigit;
  for (std::size_t c = 0; c <= ' '; ++c) kinds[c] = kSpace;
  for (const char c : std::string_view("@/\\_=#$<>{}|~^"))
    kinds[static_cast<std::size_t>(c)] = kTechnical;
  kinds['.'] = kinds[':'] = kInner | kEndsSentence;
  kinds['!'] = kinds['?'] = kEndsSentence;
  kinds['\n'] |= kEndsSentence;
  return kinds;
}();

constexpr std::uint8_t kind_of(char c) {
  return static_cast<unsigned char>(c) < 0x80 ? kAscii[static_cast<unsigned char>(c)] : 0;
}
constexpr bool is_ascii_lower(char32_t c) { return c >= U'a' && c <= U'z'; }
constexpr bool is_alphanumeric(char c) {
  return static_cast<unsigned char>(c) >= 0x80 || (kind_of(c) & (kLower | kUpper | kDigit)) != 0;
}

// A run of letters, digits and marks: a word or something else.
struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t letters = 0;  // all of them; the first kLongest are kept
  bool is_latin = true;     // nothing but Latin letters and their marks
  bool has_accent = false;
  bool has_inner_upper = false;
  bool has_lower = false;
  bool begins_upper = false;
  std::array<char, Lexicon::kLongest> folded;

  std::string_view word() const { return {folded.data(), std::min(letters, folded.size())}; }
  bool is_word(std::size_t shortest) const {
    return is_latin && letters >= shortest && letters <= folded.size();
  }
  // Shapes of words: word, Word, WORD.
  bool is_camel() const { return has_inner_upper && has_lower; }

  void add(char lower, bool is_upper) {
    if (letters == 0) {
      begins_upper = is_upper;
    } else {
      has_inner_upper |= is_upper;
    }
    has_lower |= !is_upper;
    if (letters < folded.size()) folded[letters] = lower;
    ++letters;
  }
};

// Reads the run that begins here, or nothing: then end is where to go on. No space is needed
// between a Latin word and Hangul or ideographs, so those are not part of a run.
Run read_run(std::string_view text, std::size_t begin) {
  Run run;
  run.begin = begin;
  std::size_t at = begin;
  while (at < text.size()) {
    const char byte = text[at];
    const std::uint8_t kind = kind_of(byte);
    if ((kind & kLower) != 0) {
      run.add(byte, false);
      ++at;
    } else if ((kind & kUpper) != 0) {
      run.add(static_cast<char>(byte + ('a' - 'A')), true);
      ++at;
    } else if ((kind & kDigit) != 0) {
      run.is_latin = false;
      ++at;
    } else if (static_cast<unsigned char>(byte) < 0x80) {
      break;
    } else {
      const auto [wide, size] = decode(text, at);
      const char32_t c = narrow(wide);
      const std::uint32_t bits = unicode::properties(c);
      if ((bits & unicode::kWord) == 0 || (bits & (unicode::kHangul | unicode::kUnspaced)) != 0)
        break;
      if ((bits & unicode::kMark) == 0) {
        const char32_t small = lower(c);
        const char32_t base = strip_accent(small);
        if (is_ascii_lower(base)) {
          run.add(static_cast<char>(base), small != c);
          run.has_accent |= c >= 0x80;
        } else {
          run.is_latin = false;
        }
      } else {
        run.has_accent = true;
        run.is_latin &= at != begin;
      }
      at += size;
    }
  }
  run.end = at;
  return run;
}

// The hashes of a word's beginnings and ends, from which those of all its neighbours follow.
class Neighbours {
 public:
  explicit Neighbours(std::string_view word) : word_(word) {
    const std::size_t n = word.size();
    beginning_[0] = 0;
    for (std::size_t i = 0; i < n; ++i)
      beginning_[i + 1] = beginning_[i] * Lexicon::kBase + letter(i);
    end_[n] = 0;
    for (std::size_t i = n; i-- > 0;) end_[i] = letter(i) * kPowers[n - i - 1] + end_[i + 1];
  }

  // Calls visit(hash, is_likely, write) for each neighbour; write(out) writes its letters and
  // returns how many. A letter left out and two swapped go wrong in one way a place, a wrong or
  // additional one in 25: so the one way is the likelier.
  template <typename Visit>
  void each(Visit&& visit) const {
    const std::size_t n = word_.size();
    for (std::size_t i = 0; i < n; ++i) {  // a letter too many
      visit(hash(i, 0, 0, i + 1), false, [&](char* out) { return write(out, i, "", i + 1); });
    }
    for (std::size_t i = 0; i + 1 < n; ++i) {  // two swapped
      if (word_[i] == word_[i + 1]) continue;
      const std::uint64_t pair = letter(i + 1) * Lexicon::kBase + letter(i);
      visit(hash(i, pair, 2, i + 2), true, [&](char* out) {
        const char swapped[] = {word_[i + 1], word_[i]};
        return write(out, i, {swapped, 2}, i + 2);
      });
    }
    for (std::size_t i = 0; i <= n; ++i) {  // a letter missing before i, or another one than i
      for (std::size_t rest = i; rest <= std::min(i + 1, n); ++rest) {
        std::uint64_t any = hash(i, 0, 1, rest);
        for (char c = 'a'; c <= 'z'; ++c) {
          any += kPowers[n - rest];
          visit(any, rest == i, [&](char* out) { return write(out, i, {&c, 1}, rest); });
        }
      }
    }
  }

 private:
  static constexpr auto kPowers = [] {
    std::array<std::uint64_t, Lexicon::kLongest + 2> powers{};
    powers[0] = 1;
    for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * Lexicon::kBase;
    return powers;
  }();

  std::uint64_t letter(std::size_t i) const {
    return static_cast<std::uint64_t>(word_[i] - 'a') + 1;  // 'a' is 1: no letter is nothing
  }
  // Of word[0, i), so many letters with this hash, word[rest, n).
  std::uint64_t hash(std::size_t i, std::uint64_t middle, std::size_t letters,
                     std::size_t rest) const {
    const std::size_t after = word_.size() - rest;
    return beginning_[i] * kPowers[after + letters] + middle * kPowers[after] + end_[rest];
  }
  std::size_t write(char* out, std::size_t i, std::string_view middle, std::size_t rest) const {
    char* at = std::copy_n(word_.data(), i, out);
    at = std::copy(middle.begin(), middle.end(), at);
    at = std::copy(word_.begin() + static_cast<std::ptrdiff_t>(rest), word_.end(), at);
    return static_cast<std::size_t>(at - out);
  }

  std::string_view word_;
  std::array<std::uint64_t, Lexicon::kLongest + 1> beginning_;
  std::array<std::uint64_t, Lexicon::kLongest + 1> end_;
};

std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = 0;
  for (const char c : word) hash = hash * Lexicon::kBase + static_cast<std::uint64_t>(c - 'a' + 1);
  return hash;
}

std::string_view stem_of(std::string_view word, std::array<char, Lexicon::kLongest>& buffer) {
  std::copy(word.begin(), word.end(), buffer.begin());
  return {buffer.data(), stem_english({buffer.data(), word.size()})};
}

void check(std::string_view each, std::size_t n, std::span<const float> weights) {
  if (n != weights.size()) {
    throw std::invalid_argument("weights: are " + std::to_string(weights.size()) + ", must be " +
                                std::to_string(n) + ", one " + std::string(each));
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(weights[i]) || weights[i] <= 0) {
      throw std::invalid_argument("weight " + std::to_string(i) + ": must be finite and positive");
    }
  }
}

}  // namespace

Lexicon Lexicon::of_words(std::span<const std::string_view> words, std::span<const float> weights) {
  check("a word", words.size(), weights);
  Lexicon lexicon;
  lexicon.table_.reserve(words.size() + words.size() / 2);  // and stems that are no words
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Run run = read_run(words[i], 0);
    if (run.end == words[i].size() && run.is_word(kShortest)) lexicon.add(run.word(), weights[i]);
  }
  lexicon.finish();
  return lexicon;
}

Lexicon Lexicon::of_vocabulary(std::span<const std::string_view> pieces, double flat) {
  if (!std::isfinite(flat) || flat <= 0) {
    throw std::invalid_argument("flat: must be finite and positive");
  }
  std::vector<std::string_view> words;
  std::vector<float> weights;
  for (const std::string_view piece : pieces) {
    const bool is_word = piece.size() >= kShortest && std::ranges::all_of(piece, [](char c) {
                           return (kind_of(c) & (kLower | kUpper)) != 0;
                         });
    if (!is_word) continue;
    weights.push_back(static_cast<float>(1 / (static_cast<double>(words.size()) + flat)));
    words.push_back(piece);
  }
  return of_words(words, weights);
}

Lexicon Lexicon::of_texts(std::span<const std::string_view> texts, std::span<const float> weights) {
  check("a text", texts.size(), weights);
  Lexicon lexicon;
  for (std::size_t i = 0; i < texts.size(); ++i) lexicon.add_words_of(texts[i], weights[i]);
  lexicon.finish();
  return lexicon;
}

Lexicon Lexicon::with_changes(std::span<const std::string_view> removed,
                              std::span<const float> removed_weights,
                              std::span<const std::string_view> added,
                              std::span<const float> added_weights) const {
  const Lexicon less = of_texts(removed, removed_weights);
  const Lexicon more = of_texts(added, added_weights);
  Lexicon lexicon;
  for (std::size_t number = 0; number < words_; ++number) {
    const std::string_view word = table_[number];
    const float weight = weights_[number] - less.weight(word) + more.weight(word);
    if (weight > 0) lexicon.add(word, weight);
  }
  for (std::size_t number = 0; number < more.words_; ++number) {
    const std::string_view word = more.table_[number];
    if (weight(word) == 0) lexicon.add(word, more.weights_[number]);
  }
  lexicon.finish();
  return lexicon;
}

void Lexicon::add(std::string_view word, float weight) {
  const std::uint32_t number = table_.add(word);
  if (number == weights_.size()) weights_.push_back(0);
  weights_[number] += weight;
}

// Letters of any run count here, whatever digits stand beside them, and capitals part words.
void Lexicon::add_words_of(std::string_view text, float weight) {
  Run whole;
  Run part;
  bool before_upper = false;
  const auto end_part = [&] {
    if (part.is_word(kShortest)) add(part.word(), weight);
    part = Run();
  };
  const auto end_whole = [&] {
    const bool is_parted = part.letters < whole.letters;
    end_part();
    if (is_parted && whole.is_word(kShortest)) add(whole.word(), weight);
    whole = Run();
  };
  const auto add_letter = [&](char letter, bool upper, std::size_t next) {
    if (upper && part.letters > 0 &&
        (!before_upper || is_ascii_lower(narrow(decode(text, next).code_point)))) {
      end_part();
    }
    part.add(letter, upper);
    whole.add(letter, upper);
    before_upper = upper;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      const std::uint8_t kind = kind_of(text[at]);
      if ((kind & (kLower | kUpper)) != 0) {
        add_letter(static_cast<char>(text[at] | 0x20), (kind & kUpper) != 0, at + 1);
      } else if (whole.letters > 0 || !whole.is_latin) {
        end_whole();
      }
      ++at;
      continue;
    }
    const auto [wide, size] = decode(text, at);
    const char32_t c = narrow(wide);
    const char32_t small = lower(c);
    const std::uint32_t bits = unicode::properties(c);
    const char32_t base = strip_accent(small);
    if (is_ascii_lower(base)) {
      add_letter(static_cast<char>(base), small != c, at + size);
    } else if ((bits & unicode::kMark) == 0) {
      const bool is_other = c >= 0x80 && (bits & unicode::kWord) != 0 &&
                            (bits & (unicode::kHangul | unicode::kUnspaced)) == 0;
      if (is_other) {
        part.is_latin = whole.is_latin = false;
      } else if (whole.letters > 0 || !whole.is_latin) {
        end_whole();
      }
    }
    at += size;
  }
  end_whole();
}

void Lexicon::finish() {
  words_ = table_.size();
  fill_filter();
  std::array<char, kLongest> buffer;
  for (std::size_t number = 0; number < words_; ++number) {
    table_.add(stem_of(table_[number], buffer));
  }
  weights_.resize(table_.size(), 0);
  weights_.shrink_to_fit();
}

void Lexicon::fill_filter() {
  const std::size_t blocks =
      std::clamp<std::size_t>(std::bit_ceil(words_ * kBitsOfWord / 64 + 2), 2, kMostBlocks);
  filter_.assign(blocks, 0);
  shift_ = static_cast<unsigned>(64 - std::countr_zero(blocks));
  for (std::size_t number = 0; number < words_; ++number) {
    const std::uint64_t mixed = hash_of(table_[number]) * 0x9E3779B97F4A7C15U;
    filter_[mixed >> shift_] |= bits_of(mixed);
  }
}

ArchiveWriter Lexicon::archive() const {
  ArchiveWriter out(kKind, kVersion);
  table_.write(out);
  out.column(weights_);
  out.value<std::uint64_t>(words_);
  return out;
}

Lexicon Lexicon::read(ArchiveReader in) {
  Lexicon lexicon;
  lexicon.table_ = StringTable::read(in);
  lexicon.weights_ = in.column<float>();
  const auto words = in.value<std::uint64_t>();
  in.finish();
  bool is_sound =
      words <= lexicon.table_.size() && lexicon.weights_.size() == lexicon.table_.size();
  for (std::size_t i = 0; is_sound && i < lexicon.weights_.size(); ++i) {
    const float weight = lexicon.weights_[i];
    is_sound = i < words ? weight > 0 && std::isfinite(weight) : weight == 0;
  }
  if (!is_sound) throw ArchiveError("damaged lexicon: its weights are not those of its words");
  lexicon.words_ = static_cast<std::size_t>(words);
  lexicon.fill_filter();
  return lexicon;
}

float Lexicon::weight(std::string_view word) const {
  const std::uint32_t number = table_.find(word);
  return number == StringTable::kMissing ? 0 : weights_[number];
}

bool Lexicon::knows(std::string_view word) const {
  if (weight(word) > 0) return true;
  if (word.size() > kLongest) return false;
  std::array<char, kLongest> buffer;
  const std::string_view stem = stem_of(word, buffer);
  return stem != word && knows_stem(stem);
}

bool Lexicon::knows_words_of(std::string_view text) const {
  for (std::size_t at = 0; at < text.size();) {
    const Run run = read_run(text, at);
    at = run.end == at ? at + decode(text, at).size : run.end;
    if (run.is_word(Speller::kShortest) && !knows(run.word())) return false;
  }
  return true;
}

bool Lexicon::knows_stem(std::string_view stem) const {
  return table_.find(stem) != StringTable::kMissing;
}

std::size_t Lexicon::memory_bytes() const {
  return table_.memory_bytes() + weights_.capacity() * sizeof weights_[0] +
         filter_.capacity() * sizeof filter_[0];
}

struct Speller::Best {
  bool is_of_catalog = false;
  float weight = 0;
  std::size_t size = 0;
  std::array<char, Lexicon::kLongest + 1> letters;

  std::string_view word() const { return {letters.data(), size}; }
};

Speller::Speller(std::shared_ptr<const Lexicon> catalog, std::shared_ptr<const Lexicon> general,
                 std::shared_ptr<const LanguageGate> gate, std::shared_ptr<const Lexicon> own)
    : catalog_(std::move(catalog)),
      general_(std::move(general)),
      gate_(std::move(gate)),
      own_(std::move(own)) {
  if (!catalog_ || !general_) throw std::invalid_argument("lexicon: is missing");
}

float Speller::catalog_weight(std::string_view word) const {
  return catalog_->weight(word) + (own_ ? own_->weight(word) : 0);
}

bool Speller::knows_stem(std::string_view stem) const {
  return general_->knows_stem(stem) || catalog_->knows_stem(stem) ||
         (own_ && own_->knows_stem(stem));
}

bool Speller::knows(std::string_view word) const {
  if (general_->weight(word) > 0 || catalog_weight(word) > 0) return true;
  std::array<char, Lexicon::kLongest> buffer;
  const std::string_view stem = stem_of(word, buffer);
  return stem != word && knows_stem(stem);
}

Speller::Best Speller::best(std::string_view word, bool is_name) const {
  Best best;
  std::array<char, Lexicon::kLongest + 1> letters;
  const Lexicon& catalog = *catalog_;
  const Lexicon& general = *general_;
  const Lexicon* const own = own_.get();
  Neighbours(word).each([&](std::uint64_t hash, bool is_likely, auto&& write) {
    const bool maybe_catalog = catalog.may_hold(hash) || (own && own->may_hold(hash));
    const bool maybe_general = !is_name && !best.is_of_catalog && general.may_hold(hash);
    if (!maybe_catalog && !maybe_general) return;
    const std::string_view candidate(letters.data(), write(letters.data()));
    if (candidate.size() < kShortest) return;
    float weight = maybe_catalog ? catalog_weight(candidate) : 0;
    const bool is_of_catalog = weight > 0;
    if (best.is_of_catalog && !is_of_catalog) return;
    if (!is_of_catalog && maybe_general) weight = general.weight(candidate);
    if (weight == 0) return;
    if (is_likely) weight *= kLikely;
    if (candidate[0] == word[0]) weight *= kLikely;
    if (is_of_catalog == best.is_of_catalog &&
        (weight < best.weight || (weight == best.weight && candidate >= best.word()))) {
      return;
    }
    best.is_of_catalog = is_of_catalog;
    best.weight = weight;
    best.size = candidate.size();
    best.letters = letters;
  });
  return best;
}

std::vector<Speller::Correction> Speller::corrections(std::string_view text) const {
  std::vector<Correction> found;
  std::array<bool, kMostUnknown> is_general{};
  std::size_t tried = 0;
  std::size_t known = 0;  // and corrected to a word of the catalog
  std::size_t unknown = 0;
  bool is_english = false;
  bool sentence_begins = true;
  std::size_t chunk_end = 0;  // of what stands between white space
  bool is_technical = false;
  for (std::size_t at = 0; at < text.size();) {
    const char byte = text[at];
    if (at >= chunk_end) {
      if ((kind_of(byte) & kSpace) != 0) {
        sentence_begins |= byte == '\n';
        ++at;
        continue;
      }
      is_technical = byte == '-' && at + 1 < text.size() && text[at + 1] == '-';  // a --flag
      chunk_end = at;
      for (; chunk_end < text.size(); ++chunk_end) {
        const std::uint8_t kind = kind_of(text[chunk_end]);
        if ((kind & kSpace) != 0) break;
        is_technical |= (kind & kTechnical) != 0;
        is_technical |= (kind & kInner) != 0 && chunk_end > at &&
                        is_alphanumeric(text[chunk_end - 1]) && chunk_end + 1 < text.size() &&
                        is_alphanumeric(text[chunk_end + 1]);
      }
    }
    if (byte == '`') {
      const std::size_t closing = text.find('`', at + 1);
      if (closing != std::string_view::npos) {
        sentence_begins = false;
        at = closing + 1;
        chunk_end = std::max(chunk_end, at);
        continue;
      }
    }
    const Run run = read_run(text, at);
    if (run.end == at) {
      const auto [c, size] = decode(text, at);
      if ((kind_of(byte) & kEndsSentence) != 0 || c == U'。' || c == U'…') sentence_begins = true;
      at += size;
      continue;
    }
    at = run.end;
    const bool is_first = sentence_begins;
    sentence_begins = false;
    if (is_technical || run.is_camel() || !run.is_word(Lexicon::kShortest)) continue;
    const std::string_view word = run.word();
    if (knows(word)) {
      ++known;
      is_english |= is_stop_word(word);
      continue;
    }
    if (word.size() < kShortest) continue;
    const auto adjoins = [&](std::string_view mark) {
      return text.substr(0, run.begin).ends_with(mark) || text.substr(run.end).starts_with(mark);
    };
    if (adjoins("'") || adjoins("\xE2\x80\x99")) continue;
    if (++tried > kMostUnknown) break;
    ++unknown;
    const bool is_name = (run.begins_upper && !is_first) || run.has_accent || adjoins("-");
    const Best best = this->best(word, is_name);
    if (best.size == 0) continue;
    if (best.is_of_catalog) {
      ++known;
      --unknown;
    }
    is_general[found.size()] = !best.is_of_catalog;
    found.push_back({run.begin, run.end, std::string(best.word())});
  }
  if (!is_english || unknown > known) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!is_general[i]) {
        if (kept != i) found[kept] = std::move(found[i]);
        ++kept;
      }
    }
    found.resize(kept);
  }
  // Typos make an English message look foreign, so the corrected one is asked about.
  if (gate_ && !found.empty() && gate_->is_foreign(corrected(text, found))) {
    std::erase_if(found, [&](const Correction& one) {
      return general_->knows(one.word) || gate_->foreignness_of_word(one.word) <= 0;
    });
  }
  return found;
}

std::string corrected(std::string_view text, std::span<const Speller::Correction> corrections) {
  std::string out;
  out.reserve(text.size() + corrections.size());
  std::size_t at = 0;
  for (const Speller::Correction& correction : corrections) {
    out += text.substr(at, correction.begin - at);
    out += correction.word;
    at = correction.end;
  }
  out += text.substr(at);
  return out;
}

}  // namespace toolroll
