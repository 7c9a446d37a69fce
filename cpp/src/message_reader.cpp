#include "toolroll/message_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "toolroll/terms.hpp"
#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

constexpr double kUsers = 1;  // weights beside a message of one term
constexpr double kUsersBefore = 0.5;
constexpr double kAssistants = 1;
constexpr double kLeastWeight = 0.05;

// Longer ones before those that they begin with.
constexpr std::array<std::string_view, 8> kConjunctions = {
    "and then", "and also", "then", "and", "also", "plus", "as well as", "but"};

constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// Where the n-th character begins, or the text's size.
std::size_t offset_of(std::string_view text, std::size_t n) {
  if (n >= text.size()) return text.size();
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!continues_character(text[at]) && n-- == 0) break;
  }
  return at;
}

bool is_document(std::string_view message) {
  constexpr std::size_t kMost = MessageReader::kLongestClaused;
  return message.size() > kMost && offset_of(message, kMost) < message.size();
}

// What parts a message, by ASCII character.
enum Ascii : std::uint8_t { kPlain = 0, kBlank = 1, kEnd = 2, kComma = 4 };

constexpr auto kAscii = [] {
  std::array<std::uint8_t, 128> kinds{};
  for (std::size_t c = 0x09; c <= 0x0D; ++c) kinds[c] = kBlank;
  for (std::size_t c = 0x1C; c <= 0x20; ++c) kinds[c] = kBlank;  // also the separators of ASCII
  for (const char c : std::string_view(".!?;")) kinds[static_cast<std::size_t>(c)] = kEnd;
  kinds[','] = kComma;
  return kinds;
}();

bool is_blank(char32_t c) { return c < 0x80 ? kAscii[c] == kBlank : is_space(c); }

constexpr bool is_wide_end(char32_t c) {
  return c == U'。' || c == U'！' || c == U'？' || c == U'；';
}

// Kana and Han of the Basic Multilingual Plane: no spaces part their words.
constexpr bool is_unspaced(char32_t c) {
  return (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF);
}

std::size_t blanks_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const auto [c, size] = decode(text, at);
    if (!is_blank(c)) break;
    at += size;
  }
  return at;
}

// Behind the word, in whatever case, or kNone. A long s (U+017F) is an s.
std::size_t word_end(std::string_view text, std::size_t at, std::string_view word) {
  constexpr std::string_view kLongS = "\xC5\xBF";
  for (const char letter : word) {
    if (letter == 's' && text.substr(at).starts_with(kLongS)) {
      at += kLongS.size();
      continue;
    }
    if (at == text.size()) return kNone;
    const char c = text[at++];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c) != letter) return kNone;
  }
  return at;
}

// Behind blanks, a conjunction and blanks, or kNone.
std::size_t conjunction_end(std::string_view text, std::size_t at) {
  const std::size_t begin = blanks_end(text, at);
  if (begin == at) return kNone;
  for (const std::string_view word : kConjunctions) {
    const std::size_t end = word_end(text, begin, word);
    if (end == kNone) continue;
    const std::size_t next = blanks_end(text, end);
    if (next > end) return next;
  }
  return kNone;
}

// Where the separator ends that begins here, or kNone. c: the character here, none at the end of
// the text. before: the one before it, or 0. An empty separator is behind an ideographic full stop
// only; is_first: whether none has been here yet.
std::size_t separator_end(std::string_view text, std::size_t at, char32_t c, char32_t before,
                          bool is_first) {
  const bool here_blank = at < text.size() && is_blank(c);
  if (here_blank && before < 0x80 && kAscii[before] == kEnd) return blanks_end(text, at);
  if (is_wide_end(before) && (here_blank || is_first)) return blanks_end(text, at);
  if (at == text.size()) return kNone;
  if (c == U'\n') {
    while (at < text.size() && text[at] == '\n') ++at;
    return at;
  }
  if (c == U',') {
    const std::size_t conjunction = conjunction_end(text, at + 1);
    if (conjunction != kNone) return conjunction;
    const std::size_t end = blanks_end(text, at + 1);
    return end > at + 1 ? end : kNone;
  }
  if (here_blank) {
    return is_blank(before) || before == U',' ? kNone : conjunction_end(text, at);
  }
  return c == U'、' || c == U'，' ? at + 3 : kNone;
}

// Calls visit(piece) for each piece of the message; it returns whether to go on.
template <typename Visit>
void each_piece(std::string_view text, Visit&& visit) {
  std::size_t begin = 0;
  char32_t before = 0;
  bool is_first = true;
  for (std::size_t at = 0;;) {
    if (at < text.size() && before < 0x80 && static_cast<unsigned char>(text[at]) < 0x80 &&
        (kAscii[static_cast<unsigned char>(text[at])] & (kBlank | kComma)) == 0) {
      before = static_cast<unsigned char>(text[at++]);  // nothing begins at most characters
      continue;
    }
    const auto [c, size] = decode(text, at);
    const std::size_t end = separator_end(text, at, c, before, is_first);
    if (end != kNone) {
      if (!visit(text.substr(begin, at - begin))) return;
      is_first = end > at;
      if (end > at) before = c == U'、' || c == U'，' ? c : U' ';
      begin = at = end;
      continue;
    }
    if (at == text.size()) break;
    is_first = true;
    before = c;
    at += size;
  }
  visit(text.substr(begin));
}

bool has_words(std::string_view piece) {
  std::size_t words = 0;
  for (std::size_t at = 0; at < piece.size() && words < MessageReader::kLeastWords;) {
    const auto [c, size] = decode(piece, at);
    at += size;
    if (is_blank(c)) continue;
    ++words;
    if (is_unspaced(c)) {
      const auto [next, more] = decode(piece, at);
      if (is_unspaced(next)) at += more;
      continue;
    }
    while (at < piece.size()) {
      const auto [next, more] = decode(piece, at);
      if (is_blank(next) || is_unspaced(next)) break;
      at += more;
    }
  }
  return words >= MessageReader::kLeastWords;
}

double weight_beside(std::size_t terms) {
  return std::exp(-static_cast<double>(terms > 0 ? terms - 1 : 0) / MessageReader::kTerms);
}

// The weight of the turns before a message with this query.
double weight_of_earlier(std::string_view query) {
  Terms terms;
  terms.read(query, Analysis::kDefault);
  std::vector<std::string_view> distinct;
  double weight = weight_beside(0);
  for (std::size_t i = 0; i < terms.size() && weight >= kLeastWeight; ++i) {
    if (std::find(distinct.begin(), distinct.end(), terms[i]) != distinct.end()) continue;
    distinct.push_back(terms[i]);
    weight = weight_beside(distinct.size());
  }
  return weight;
}

Passage passage(std::string_view text, double weight) { return {std::string(text), {}, 1, weight}; }

std::vector<Passage> passages_of(std::span<const EarlierTurn> earlier, std::string_view query) {
  std::vector<Passage> passages;
  const double weight = earlier.empty() ? 0 : weight_of_earlier(query);
  if (weight < kLeastWeight) return passages;
  const auto add = [&](std::string_view text, double share) {
    if (share * weight >= kLeastWeight) passages.push_back(passage(text, share * weight));
  };
  double share = kUsers;
  for (std::size_t i = earlier.size(); i-- > 0 && share > 0;) {
    if (!earlier[i].is_users) continue;
    add(earlier[i].text, share);
    share = share == kUsers ? kUsersBefore : 0;
  }
  if (!earlier.back().is_users) add(earlier.back().text, kAssistants);
  return passages;
}

template <typename Visit>
void each_passage(Reading& reading, Visit&& visit) {
  visit(reading.query);
  for (Passage& clause : reading.clauses) visit(clause);
  for (Passage& turn : reading.earlier) visit(turn);
}

}  // namespace

std::vector<std::string_view> clauses_of(std::string_view message) {
  std::vector<std::string_view> clauses;
  if (is_document(message)) return clauses;
  each_piece(message, [&](std::string_view piece) {
    // A message of one piece, as most are, allocates nothing.
    if (piece.size() < message.size() && has_words(piece)) clauses.push_back(piece);
    return clauses.size() < MessageReader::kMostClauses;
  });
  if (clauses.size() == 1) clauses.clear();
  return clauses;
}

std::vector<std::string_view> parts_of(std::string_view message) {
  std::vector<std::string_view> parts;
  if (is_document(message)) return parts;
  each_piece(message, [&](std::string_view piece) {
    if (blanks_end(piece, 0) < piece.size()) parts.push_back(piece);
    return true;
  });
  return parts;
}

MessageReader::MessageReader(std::shared_ptr<const Speller> speller, bool has_clauses)
    : speller_(std::move(speller)), has_clauses_(has_clauses) {}

Reading MessageReader::read(std::string_view message, std::span<const EarlierTurn> earlier,
                            const MayShow& may_show, bool is_english) const {
  Reading reading;
  reading.text = message;
  std::vector<Speller::Correction> corrections;
  if (speller_) corrections = speller_->corrections(reading.text);
  if (may_show) {
    std::erase_if(corrections, [&](const Speller::Correction& one) {
      return !speller_->general().knows(one.word) && !may_show(one.word);
    });
  }
  reading.query.text = corrections.empty() ? reading.text : corrected(reading.text, corrections);
  if (has_clauses_) {
    for (const std::string_view clause : clauses_of(reading.query.text)) {
      reading.clauses.push_back(passage(clause, 1));
    }
  }
  reading.earlier = passages_of(earlier, reading.query.text);
  if (is_english) {
    each_passage(reading, [](Passage& one) { one.trust = latin_share(one.text); });
  }
  return reading;
}

void embed(const MultilingualTable& table, Reading& reading) {
  each_passage(reading, [&](Passage& one) {
    one.vector.resize(table.dim());
    table.embed(one.text, one.vector);
  });
}

}  // namespace toolroll
