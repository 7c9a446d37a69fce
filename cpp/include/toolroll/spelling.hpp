/// Spelling: the words a reader knows, and what a misspelt word of a message was meant to be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toolroll/string_table.hpp"

namespace toolroll {

/// Known words: Latin letters without case and accents, each with a weight.
///
/// Nothing is stored for the misspellings of a word. All strings one edit away from a word of n
/// letters are 54 n + 25; the hash of each follows from those of the word's beginnings and ends in
/// one step, and a Bloom filter of two bytes a word turns nearly all of them away. So a lexicon
/// costs some 50 bytes a word, and is built at the speed of reading.
///
/// Immutable; safe to read from many threads.
///
/// Source: F. Damerau, "A technique for computer detection and correction of spelling errors",
/// 1964 (the edits); P. Norvig, "How to write a spelling corrector", 2007 (trying them all);
/// Putze, Sanders & Singler, "Cache-, hash- and space-efficient Bloom filters", 2007.
class Lexicon {
 public:
  static constexpr std::size_t kShortest = 3;  // letters of a word that is kept
  static constexpr std::size_t kLongest = 24;

  /// A hash of a word from which those of its neighbours follow: the word as a number in base
  /// kBase.
  static constexpr std::uint64_t kBase = 0xD6E8FEB86659FD93U;

  /// Words with their weights; those of a word that occurs twice are added up. What is not a word
  /// of kShortest to kLongest letters is left out. Throws std::invalid_argument if the sizes differ
  /// or a weight is not finite and positive.
  static Lexicon of_words(std::span<const std::string_view> words, std::span<const float> weights);

  /// The words of texts, weighed by how often they occur and by the texts' weights. An identifier
  /// gives its parts and, where only capitals part it, the whole: "listGitHub_repos" -> list, git,
  /// hub, listgithub, repos. Throws as of_words does. O(total text).
  static Lexicon of_texts(std::span<const std::string_view> texts, std::span<const float> weights);

  /// The word's weight; 0 if it is none. The word: ASCII lower-case letters.
  float weight(std::string_view word) const;
  /// Whether it is a word or an inflection of one: its stem is that of a word (english.hpp). A
  /// stem by itself is no word ("schedul").
  bool knows(std::string_view word) const;

  /// Whether it is the stem of a word.
  bool knows_stem(std::string_view stem) const;

  /// False only if no word has this hash.
  bool may_hold(std::uint64_t hash) const {
    const std::uint64_t mixed = hash * 0x9E3779B97F4A7C15U;
    const std::uint64_t bits = bits_of(mixed);
    return (filter_[mixed >> shift_] & bits) == bits;
  }

  std::size_t size() const { return words_; }
  std::size_t memory_bytes() const;

 private:
  Lexicon() = default;
  void add(std::string_view word, float weight);
  void add_words_of(std::string_view text, float weight);
  void finish();
  static std::uint64_t bits_of(std::uint64_t mixed) {
    return std::uint64_t{1} << (mixed >> 32 & 63) | std::uint64_t{1} << (mixed >> 38 & 63);
  }

  StringTable table_;           // words, and the stems that are no words
  std::vector<float> weights_;  // by number in the table; 0: a stem
  std::size_t words_ = 0;
  std::vector<std::uint64_t> filter_;  // of the words only
  unsigned shift_ = 63;
};

/// Reads a message as it was meant.
///
/// A word is taken for misspelt if neither lexicon knows it and a known one of at least kShortest
/// letters is one edit away: a letter wrong, missing or too many, or two neighbours swapped. Words
/// of the catalog are preferred to those of the general vocabulary; then the heavier one, where a
/// missing letter, swapped ones and the same first letter count kLikely times each; then the first
/// in the alphabet. A misspelling that is itself a word ("form" for "from") cannot be seen.
///
/// Left as they are: words of fewer than kShortest or more than Lexicon::kLongest letters, with
/// digits, letters of other scripts or capitals inside; whatever stands in back quotes, is part of
/// an address, path or identifier, or adjoins an apostrophe; everything from the unknown word on
/// that follows kMostUnknown others.
///
/// The general vocabulary is English, and mends only English: messages with an English function
/// word in which at least as many words are known (or mended by the catalog) as are not. It doesn't
/// mend what may be a name either: a capital within a sentence, an accent, parts joined by hyphens.
///
/// Immutable; safe to use from many threads.
class Speller {
 public:
  // Letters of a word that is corrected. Of four letters, too many real words are one letter from
  // another: teal and deal, oats and eats, feta and feat.
  static constexpr std::size_t kShortest = 5;
  static constexpr std::size_t kMostUnknown = 32;  // unknown words of a message that are tried
  static constexpr float kLikely = 3;

  struct Correction {
    std::size_t begin;  // in bytes of the text
    std::size_t end;
    std::string word;  // in lower case, without accents
  };

  /// own: more words of the catalog, where a part of it is shared; a word of both has the weight of
  /// both. Throws std::invalid_argument if another one is nullptr.
  Speller(std::shared_ptr<const Lexicon> catalog, std::shared_ptr<const Lexicon> general,
          std::shared_ptr<const Lexicon> own = nullptr);

  /// The same with more words of the catalog, in place of those it had; it copies none.
  Speller with_own(std::shared_ptr<const Lexicon> own) const {
    return Speller(catalog_, general_, std::move(own));
  }

  /// The misspelt words of a text in their order, mostly none. Any bytes are accepted; ill-formed
  /// UTF-8 separates words. O(n).
  std::vector<Correction> corrections(std::string_view text) const;

  const Lexicon& catalog() const { return *catalog_; }
  const Lexicon& general() const { return *general_; }

 private:
  struct Best;
  bool knows(std::string_view word) const;
  float catalog_weight(std::string_view word) const;
  bool knows_stem(std::string_view stem) const;
  Best best(std::string_view word, bool is_name) const;

  std::shared_ptr<const Lexicon> catalog_;
  std::shared_ptr<const Lexicon> general_;
  std::shared_ptr<const Lexicon> own_;  // or nullptr
};

/// The text with its corrections made.
std::string corrected(std::string_view text, std::span<const Speller::Correction> corrections);

}  // namespace toolroll
