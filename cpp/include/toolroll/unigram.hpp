/// Unigram tokenisation: the most probable pieces of each word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toolroll {

/// Cuts text into the pieces of a vocabulary with log-probabilities, as SentencePiece does.
///
/// The text is case-folded and composed (`fold`), after full-width and half-width forms have become
/// ordinary ones. A word is a run of letters and their marks; digits, underscores and everything
/// else separate words. A word begins with U+2581, except in scripts that write no spaces between
/// words: there, a piece means the same wherever it stands. Of all sequences of pieces of a word,
/// the one with the highest sum of scores is taken; of equal ones, the one whose last piece is
/// longest, then its last but one. A character that is in no piece has no id.
///
/// Bounded for any input: only the first kMostBytes of a text are read, and a longer run than
/// kLongestRun characters is cut as several. O(bytes * longest piece), without recursion.
/// Immutable; safe to use from many threads.
///
/// Source: Kudo, "Subword Regularization", ACL 2018, section 3.2 (the Viterbi path alone).
class Unigram {
 public:
  static constexpr std::size_t kMostBytes = 16384;
  static constexpr std::size_t kLongestRun = 128;  // in characters, with the mark of its beginning
  static constexpr char32_t kBeginning = U'\u2581';

  /// vocabulary[id] is a piece in folded form, scores[id] its score.
  /// Throws std::invalid_argument if sizes differ, a score is not finite, or a piece is empty or
  /// occurs twice.
  Unigram(std::span<const std::string_view> vocabulary, std::span<const float> scores);

  /// Replaces ids by the pieces of the text, at most max_tokens of them (0: all). Any bytes are
  /// accepted.
  void encode(std::string_view text, std::size_t max_tokens, std::vector<std::int32_t>& ids) const;

  std::size_t size() const { return scores_.size(); }
  std::size_t memory_bytes() const;

 private:
  struct Edge {
    std::uint64_t key;    // the node above, and the character
    std::uint32_t child;  // 0: free; the root is no child
  };
  struct Run {
    std::array<char32_t, kLongestRun> characters;
    std::size_t size = 0;
    bool is_unspaced = false;
  };

  static std::uint64_t key_of(std::uint32_t node, char32_t c) {
    return static_cast<std::uint64_t>(node) << 32 | c;
  }
  std::size_t slot_of(std::uint64_t key) const;
  std::uint32_t child(std::uint32_t node, char32_t c) const;
  std::uint32_t add_child(std::uint32_t node, char32_t c);
  void grow();
  void cut(Run& run, std::vector<std::int32_t>& ids) const;

  std::vector<double> scores_;       // by piece
  double unknown_score_ = 0;         // of a character without a piece
  std::vector<std::int32_t> piece_;  // by node of the trie; -1: none ends here
  std::vector<Edge> edges_;          // open addressing; a power of two, at most half full
};

}  // namespace toolroll
