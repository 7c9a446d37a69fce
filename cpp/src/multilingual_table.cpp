#include "toolroll/multilingual_table.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::int32_t kNone = -1;

constexpr bool is_between(char32_t c, char32_t first, char32_t last) {
  return c >= first && c <= last;
}

// A letter of a script that the English table does not read and the other table does.
bool is_of_other_script(char32_t c) {
  if (c < 0x400) return false;
  if (is_between(c, 0x400, 0x52F)) return true;                                 // Cyrillic
  if (is_between(c, 0x620, 0x64A) || is_between(c, 0x66E, 0x6D3)) return true;  // Arabic
  if (is_between(c, 0x750, 0x77F) || is_between(c, 0xFB50, 0xFDFB)) return true;
  if (is_between(c, 0x900, 0x963)) return true;  // Devanagari
  return is_ideograph(c) || is_hangul(c) || is_between(c, 0x3005, 0x3007) ||
         is_between(c, 0x3041, 0x30FF) || is_between(c, 0xFF66, 0xFF9F);
}

constexpr bool is_accented(char32_t c) {
  return is_between(c, 0xC0, 0x24F) || is_between(c, 0x1E00, 0x1EFF);
}

bool is_letter(char32_t c) {
  if (c < 0x80) return is_between(c | 0x20, U'a', U'z');
  return is_word(c);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Puts the words of other scripts into one text and all the rest into another. Returns whether
// there are such words.
bool split(std::string_view text, std::string& latin, std::string& other) {
  latin.clear();
  other.clear();
  bool was_other = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, size] = decode(text, at);
    const bool is_other = is_of_other_script(c) || (was_other && c >= 0x80 && is_mark(c));
    if (is_other != was_other) (was_other ? other : latin).push_back(' ');
    (is_other ? other : latin).append(text, at, size);
    was_other = is_other;
    at += size;
  }
  return !other.empty();
}

}  // namespace

MultilingualTable::MultilingualTable(std::shared_ptr<const TokenTable> english,
                                     std::span<const std::string_view> vocabulary,
                                     std::span<const float> scores,
                                     std::span<const std::int8_t> table,
                                     std::span<const float> scale, std::span<const float> gate)
    : english_(std::move(english)),
      pieces_(vocabulary, scores),
      rows_(table, scale, english_->dim(), vocabulary.size()) {
  const std::size_t pieces = english_->pieces().size();
  if (gate.size() != pieces + 2) {
    throw std::invalid_argument("gate: has " + std::to_string(gate.size()) +
                                " numbers, must have " + std::to_string(pieces + 2));
  }
  if (!std::all_of(gate.begin(), gate.end(), [](float w) { return std::isfinite(w); })) {
    throw std::invalid_argument("gate: has a number that is not finite");
  }
  gate_.assign(gate.begin(), gate.end() - 2);
  of_accent_ = gate[pieces];
  bias_ = gate[pieces + 1];
}

std::size_t MultilingualTable::memory_bytes() const {
  return english_->memory_bytes() + pieces_.memory_bytes() + rows_.memory_bytes() +
         gate_.capacity() * sizeof gate_[0];
}

void MultilingualTable::embed(std::string_view text, std::span<float> out) const {
  if (out.size() != dim()) {
    throw std::invalid_argument("vector: has " + std::to_string(out.size()) +
                                " elements, must have " + std::to_string(dim()));
  }
  std::fill(out.begin(), out.end(), 0.0F);
  const std::string_view beginning = text.substr(0, Unigram::kMostBytes);
  thread_local std::string latin;
  thread_local std::string other;
  thread_local std::vector<std::int32_t> ids;
  if (is_ascii(beginning) || !split(beginning, latin, other)) {
    add_latin(text, out);
  } else {
    add_latin(latin, out);
    pieces_.encode(other, TokenTable::kMostTokens, ids);
    rows_.add(ids, kNone, out);
  }
  to_unit_length(out);
}

void MultilingualTable::add_latin(std::string_view text, std::span<float> sum) const {
  thread_local std::vector<std::int32_t> ids;
  english_->pieces().encode(text, TokenTable::kMostTokens, ids);
  if (bias_ + gate_sum(text, ids) > 0) {
    add_words(text.substr(0, Unigram::kMostBytes), sum);
  } else {
    english_->add(ids, sum);
  }
}

void MultilingualTable::add_words(std::string_view text, std::span<float> sum) const {
  thread_local std::string others;
  thread_local std::vector<std::int32_t> ids;
  others.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    for (bool is_within = true; is_within && at < text.size();) {
      const auto [c, size] = decode(text, at);
      is_within = is_letter(c);
      at += is_within || at == begin ? size : 0;  // what is no letter stands alone
    }
    const std::string_view word = text.substr(begin, at - begin);
    if (!is_letter(decode(word, 0).code_point)) continue;
    english_->pieces().encode(word, TokenTable::kMostTokens, ids);
    if (gate_sum(word, ids) > 0) {
      others.append(word).push_back(' ');
    } else {
      english_->add(ids, sum);
    }
  }
  pieces_.encode(others, TokenTable::kMostTokens, ids);
  rows_.add(ids, kNone, sum);
}

float MultilingualTable::gate_sum(std::string_view text, std::span<const std::int32_t> ids) const {
  float sum = 0;
  for (const std::int32_t id : ids) sum += gate_[static_cast<std::size_t>(id)];
  const std::string_view beginning = text.substr(0, Unigram::kMostBytes);
  if (is_ascii(beginning)) return sum;
  for (std::size_t at = 0; at < beginning.size();) {
    const auto [c, size] = decode(beginning, at);
    if (is_accented(c)) sum += of_accent_;
    at += size;
  }
  return sum;
}

float MultilingualTable::foreignness(std::string_view text) const {
  std::vector<std::int32_t> ids;
  english_->pieces().encode(text, TokenTable::kMostTokens, ids);
  return bias_ + gate_sum(text, ids);
}

}  // namespace toolroll
