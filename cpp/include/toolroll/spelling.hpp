/// Spelling: known words, and corrections of the misspelt words of a message.
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

#include "toolroll/archive.hpp"
#include "toolroll/language_gate.hpp"
#include "toolroll/string_table.hpp"

namespace toolroll {

/// Known words: Latin letters without case, accents and width, each with a weight.
///
/// A lexicon stores no misspellings. There are 54 n + 25 strings one edit away from a word of n
/// letters. The hash of each is computed in one step from the hashes of the word's beginnings and
/// ends, and a Bloom filter of two bytes a word rejects nearly all of them. So a lexicon takes some
/// 50 bytes a word, and building one is as fast as reading its words.
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

  /// A hash of a word from which its neighbours' hashes follow: the word as a number in base
  /// kBase.
  static constexpr std::uint64_t kBase = 0xD6E8FEB86659FD93U;

  /// Words with their weights; the weights of a repeated word are added. Strings that are not words
  /// of kShortest to kLongest letters are ignored. Throws std::invalid_argument if the sizes differ
  /// or a weight is not finite and positive.
  static Lexicon of_words(std::span<const std::string_view> words, std::span<const float> weights);

  /// The whole words of an embedder's vocabulary in order of frequency: pieces of at least
  /// kShortest ASCII letters. The n-th has the weight 1 / (n + flat). Throws std::invalid_argument
  /// unless flat is finite and positive.
  static Lexicon of_vocabulary(std::span<const std::string_view> pieces, double flat);

  /// The words of texts, weighed by how often they occur and by the texts' weights. An identifier
  /// gives its parts and, where only capitals part it, the whole: "listGitHub_repos" -> list, git,
  /// hub, listgithub, repos. Throws as of_words does. O(total text).
  static Lexicon of_texts(std::span<const std::string_view> texts, std::span<const float> weights);

  /// The lexicon that of_texts() makes without the removed texts and with the added ones. removed:
  /// are among its texts, with their weights; sums of weights must be exact, as those of whole
  /// numbers are. Throws as of_texts does. O(words + total text given).
  Lexicon with_changes(std::span<const std::string_view> removed,
                       std::span<const float> removed_weights,
                       std::span<const std::string_view> added,
                       std::span<const float> added_weights) const;

  /// The weight of a word of ASCII lower-case letters; 0 if it is unknown.
  float weight(std::string_view word) const;
  /// Whether it is a word or an inflection of one: its stem is that of a word (english.hpp). A
  /// stem by itself is no word ("schedul").
  bool knows(std::string_view word) const;

  /// Whether it knows every word of a text that a speller might correct. Then a speller with this
  /// lexicon changes nothing in the text, whatever other lexicon it has. O(n).
  bool knows_words_of(std::string_view text) const;

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

  static constexpr std::string_view kKind = "lexicon";
  static constexpr std::uint32_t kVersion = 1;
  ArchiveWriter archive() const;
  /// Throws ArchiveError unless the words are sound. O(words), without stemming them.
  static Lexicon read(ArchiveReader archive);

 private:
  Lexicon() = default;
  void add(std::string_view word, float weight);
  void add_words_of(std::string_view text, float weight);
  void finish();
  void fill_filter();
  static std::uint64_t bits_of(std::uint64_t mixed) {
    return std::uint64_t{1} << (mixed >> 32 & 63) | std::uint64_t{1} << (mixed >> 38 & 63);
  }

  StringTable table_;           // words, and the stems that are no words
  std::vector<float> weights_;  // by number in the table; 0: a stem
  std::size_t words_ = 0;
  std::vector<std::uint64_t> filter_;  // of the words only
  unsigned shift_ = 63;
};

/// Corrects the misspelt words of a message.
///
/// A word counts as misspelt if neither lexicon knows it and a known word of at least kShortest
/// letters is one edit away: a wrong, missing or additional letter, or two neighbours swapped.
/// Words of the catalog are preferred to words of the general vocabulary; then the word of greater
/// weight, where a missing letter, swapped letters and the same first letter multiply the weight by
/// kLikely each; then the first in the alphabet. A misspelling that is itself a word ("form" for
/// "from") is not found.
///
/// The speller never changes words of fewer than kShortest or more than Lexicon::kLongest letters;
/// words with digits, letters of other scripts or capitals inside; text in back quotes; parts of
/// addresses, paths and identifiers; words beside an apostrophe; or any word after kMostUnknown
/// unknown ones.
///
/// The general vocabulary is English and corrects only English messages: those with an English
/// function word in which at least half of the words are known or corrected by the catalog. It does
/// not correct possible names either: a capital within a sentence, an accent, parts with hyphens.
///
/// With a gate, a message that is not English is not corrected to English words ("gerade" is no
/// misspelt "grade"): to words that the general vocabulary knows, or that the gate counts as
/// English. The gate is asked about the message with all its corrections.
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

  /// gate: which messages are not English; nullptr to correct any language. own:
  /// additional words of an organisation's own tools, or nullptr. The weights of a word that both
  /// have are added. Throws std::invalid_argument if `catalog` or `general` is nullptr.
  Speller(std::shared_ptr<const Lexicon> catalog, std::shared_ptr<const Lexicon> general,
          std::shared_ptr<const LanguageGate> gate = nullptr,
          std::shared_ptr<const Lexicon> own = nullptr);

  /// The same with other own words. Nothing is copied.
  Speller with_own(std::shared_ptr<const Lexicon> own) const {
    return Speller(catalog_, general_, gate_, std::move(own));
  }

  /// The same with another lexicon of the catalog.
  Speller with_catalog(std::shared_ptr<const Lexicon> catalog) const {
    return Speller(std::move(catalog), general_, gate_, own_);
  }

  /// The misspelt words of a text, in order. Any bytes are accepted; ill-formed UTF-8 separates
  /// words. O(n).
  std::vector<Correction> corrections(std::string_view text) const;

  const std::shared_ptr<const Lexicon>& catalog() const { return catalog_; }
  const Lexicon& general() const { return *general_; }

 private:
  struct Best;
  bool knows(std::string_view word) const;
  float catalog_weight(std::string_view word) const;
  bool knows_stem(std::string_view stem) const;
  Best best(std::string_view word, bool is_name) const;

  std::shared_ptr<const Lexicon> catalog_;
  std::shared_ptr<const Lexicon> general_;
  std::shared_ptr<const LanguageGate> gate_;  // or nullptr
  std::shared_ptr<const Lexicon> own_;        // or nullptr
};

/// The text with its corrections made.
std::string corrected(std::string_view text, std::span<const Speller::Correction> corrections);

}  // namespace toolroll
