/// BERT's uncased WordPiece tokenisation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toolroll/string_table.hpp"

namespace toolroll {

/// Cuts text into the pieces of a vocabulary, as BertTokenizer does with do_lower_case. It removes
/// control characters and accents (NFD without non-spacing marks), lowers case, splits at white
/// space, around punctuation and around each ideograph, and then takes the longest piece that fits,
/// repeatedly.
///
/// A word that no pieces compose, or of more than 100 characters, becomes one [UNK]. Special tokens
/// in the text ("[SEP]") are ordinary text. Immutable; safe to use from many threads.
///
/// Source: Wu et al., "Google's Neural Machine Translation System", 2016; Devlin et al., "BERT",
/// 2019.
class WordPiece {
 public:
  static constexpr std::size_t kLongestWord = 100;  // in characters

  /// vocabulary[id] is a piece; a piece that continues a word begins with "##".
  /// Throws std::invalid_argument if a piece occurs twice or "[UNK]" is missing.
  explicit WordPiece(std::span<const std::string_view> vocabulary);

  /// Replaces ids by the pieces of the text, at most max_tokens of them (0: all). It adds no
  /// special tokens. Any bytes are accepted; ill-formed UTF-8 is ignored. O(n); it stops reading
  /// after max_tokens.
  void encode(std::string_view text, std::size_t max_tokens, std::vector<std::int32_t>& ids) const;

  std::size_t size() const { return size_; }
  std::int32_t unknown() const { return unknown_; }
  std::size_t memory_bytes() const;

 private:
  struct Pieces {
    StringTable table;
    std::vector<std::int32_t> ids;  // by number in the table
    std::size_t longest = 0;        // in bytes
  };
  struct Word;

  void add(Pieces& pieces, std::string_view piece, std::size_t id);
  void read_wide(std::string_view text, std::size_t& at, Word& word,
                 std::vector<std::int32_t>& ids) const;
  void read_character(char32_t c, Word& word, std::vector<std::int32_t>& ids) const;
  void end_word(Word& word, std::vector<std::int32_t>& ids) const;
  void cut(std::string_view word, std::vector<std::int32_t>& ids) const;

  std::size_t size_;
  std::int32_t unknown_ = -1;
  Pieces beginning_;
  Pieces continuing_;  // without their "##"
};

}  // namespace toolroll
