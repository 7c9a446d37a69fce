/// Static sentence vectors for texts in English and in other languages, in one space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "toolroll/language_gate.hpp"
#include "toolroll/quantized_rows.hpp"
#include "toolroll/token_table.hpp"
#include "toolroll/unigram.hpp"

namespace toolroll {

/// Two tables whose rows have the same dimensions: one of WordPieces for English, one of unigram
/// pieces for other languages.
///
/// A text is read in two parts. Words in Han, kana, Hangul, Cyrillic, Arabic and Devanagari belong
/// to the second table. All the rest belongs to the English table, unless the gate says that it is
/// not English (language_gate.hpp): then the second table reads those of its words that are not
/// English either. The text's vector is the sum of all rows at unit length. So an English text has
/// exactly the vector that the English table gives it, and an English name in a Chinese sentence
/// keeps its meaning.
///
/// Full-width Latin letters and digits are read as ordinary ones.
///
/// Bounded for any input: other scripts are searched in the first Unigram::kMostBytes of a text,
/// and at most TokenTable::kMostTokens pieces of a part count. Immutable; safe to use from many
/// threads.
class MultilingualTable {
 public:
  /// vocabulary, scores: of the unigram pieces. table: int8[V, dim], scale: [V].
  /// gate: the weights of a LanguageGate over the English table's pieces.
  /// Throws std::invalid_argument if sizes don't fit or a number is not finite.
  MultilingualTable(std::shared_ptr<const TokenTable> english,
                    std::span<const std::string_view> vocabulary, std::span<const float> scores,
                    std::span<const std::int8_t> table, std::span<const float> scale,
                    std::span<const float> gate);

  /// Writes the unit vector of the text; zeros if neither table knows a piece of it.
  /// Throws std::invalid_argument unless out has dim elements.
  void embed(std::string_view text, std::span<float> out) const;

  std::size_t dim() const { return rows_.dim(); }
  std::size_t memory_bytes() const;

 private:
  void add_latin(std::string_view text, std::span<float> sum) const;
  void add_words(std::string_view text, std::span<float> sum) const;

  std::shared_ptr<const TokenTable> english_;
  Unigram pieces_;
  QuantizedRows rows_;
  LanguageGate gate_;
};

}  // namespace toolroll
