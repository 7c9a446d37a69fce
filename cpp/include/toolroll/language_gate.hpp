/// Whether a text in Latin letters is English.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toolroll/wordpiece.hpp"

namespace toolroll {

/// A linear classifier: each WordPiece of a text has a weight, and so has each Latin letter with an
/// accent, which WordPiece removes. If their sum and the bias are above 0, the text is not English.
///
/// Immutable; safe to use from many threads.
class LanguageGate {
 public:
  /// weights: one for each piece, one for accented letters, then the bias. Throws
  /// std::invalid_argument if the pieces are missing, the sizes don't fit or a number is not
  /// finite.
  LanguageGate(std::shared_ptr<const WordPiece> pieces, std::span<const float> weights);

  /// The sum for a text with these pieces, with the bias. Accents count in the first
  /// Unigram::kMostBytes of a text.
  float foreignness(std::string_view text, std::span<const std::int32_t> ids) const {
    return bias_ + sum(text, ids);
  }
  float foreignness(std::string_view text) const;

  /// The same without the bias, for a single word of a text that is not English.
  float foreignness_of_word(std::string_view word, std::span<const std::int32_t> ids) const {
    return sum(word, ids);
  }
  float foreignness_of_word(std::string_view word) const;

  /// Whether the words in Latin letters of a text are in another language than English. Words in
  /// other scripts do not count. O(n).
  bool is_foreign(std::string_view text) const;

  std::size_t memory_bytes() const { return weights_.capacity() * sizeof weights_[0]; }

 private:
  float sum(std::string_view text, std::span<const std::int32_t> ids) const;

  std::shared_ptr<const WordPiece> pieces_;
  std::vector<float> weights_;  // by piece
  float of_accent_ = 0;
  float bias_ = 0;
};

/// Puts the words in Han, kana, Hangul, Cyrillic, Arabic and Devanagari into one text, and all the
/// rest into another. Returns whether there are such words. O(n).
bool split_scripts(std::string_view text, std::string& latin, std::string& other);

}  // namespace toolroll
