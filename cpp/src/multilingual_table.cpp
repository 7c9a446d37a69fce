#include "toolroll/multilingual_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::int32_t kNone = -1;

bool is_letter(char32_t c) {
  if (c < 0x80) return (c | 0x20) >= U'a' && (c | 0x20) <= U'z';
  return is_word(c);
}

}  // namespace

MultilingualTable::MultilingualTable(std::shared_ptr<const TokenTable> english,
                                     std::span<const std::string_view> vocabulary,
                                     std::span<const float> scores,
                                     std::span<const std::int8_t> table,
                                     std::span<const float> scale, std::span<const float> gate)
    : english_(std::move(english)),
      pieces_(vocabulary, scores),
      rows_(table, scale, english_->dim(), vocabulary.size()),
      gate_(english_->shared_pieces(), gate) {}

std::size_t MultilingualTable::memory_bytes() const {
  return english_->memory_bytes() + pieces_.memory_bytes() + rows_.memory_bytes() +
         gate_.memory_bytes();
}

void MultilingualTable::embed(std::string_view text, std::span<float> out) const {
  if (out.size() != dim()) {
    throw std::invalid_argument("vector: has " + std::to_string(out.size()) +
                                " elements, must have " + std::to_string(dim()));
  }
  std::fill(out.begin(), out.end(), 0.0F);
  thread_local std::string narrowed;
  text = narrow(text, narrowed);
  const std::string_view beginning = text.substr(0, Unigram::kMostBytes);
  thread_local std::string latin;
  thread_local std::string other;
  thread_local std::vector<std::int32_t> ids;
  if (is_ascii(beginning) || !split_scripts(beginning, latin, other)) {
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
  if (gate_.foreignness(text, ids) > 0) {
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
    if (gate_.foreignness_of_word(word, ids) > 0) {
      others.append(word).push_back(' ');
    } else {
      english_->add(ids, sum);
    }
  }
  pieces_.encode(others, TokenTable::kMostTokens, ids);
  rows_.add(ids, kNone, sum);
}

}  // namespace toolroll
