#include "toolroll/language_gate.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "toolroll/token_table.hpp"
#include "toolroll/unicode.hpp"
#include "toolroll/unigram.hpp"

namespace toolroll {
namespace {

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

}  // namespace

LanguageGate::LanguageGate(std::shared_ptr<const WordPiece> pieces, std::span<const float> weights)
    : pieces_(std::move(pieces)) {
  if (!pieces_) throw std::invalid_argument("pieces: are missing");
  const std::size_t size = pieces_->size();
  if (weights.size() != size + 2) {
    throw std::invalid_argument("gate: has " + std::to_string(weights.size()) +
                                " numbers, must have " + std::to_string(size + 2));
  }
  if (!std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); })) {
    throw std::invalid_argument("gate: has a number that is not finite");
  }
  weights_.assign(weights.begin(), weights.end() - 2);
  of_accent_ = weights[size];
  bias_ = weights[size + 1];
}

float LanguageGate::foreignness(std::string_view text) const {
  return bias_ + foreignness_of_word(text);
}

float LanguageGate::foreignness_of_word(std::string_view word) const {
  thread_local std::vector<std::int32_t> ids;
  pieces_->encode(word, TokenTable::kMostTokens, ids);
  return sum(word, ids);
}

bool LanguageGate::is_foreign(std::string_view text) const {
  if (is_ascii(text)) return foreignness(text) > 0;
  std::string narrowed;
  std::string latin;
  std::string other;
  text = narrow(text, narrowed);
  return foreignness(split_scripts(text, latin, other) ? latin : text) > 0;
}

float LanguageGate::sum(std::string_view text, std::span<const std::int32_t> ids) const {
  float sum = 0;
  for (const std::int32_t id : ids) sum += weights_[static_cast<std::size_t>(id)];
  const std::string_view beginning = text.substr(0, Unigram::kMostBytes);
  if (is_ascii(beginning)) return sum;
  for (std::size_t at = 0; at < beginning.size();) {
    const auto [c, size] = decode(beginning, at);
    if (is_accented(c)) sum += of_accent_;
    at += size;
  }
  return sum;
}

bool split_scripts(std::string_view text, std::string& latin, std::string& other) {
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

}  // namespace toolroll
