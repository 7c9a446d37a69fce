/// Keywords in a message: many patterns found in one pass over caseless text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toolroll {

class ArchiveReader;
class ArchiveWriter;

/// Where a pattern may match.
///
/// A boundary lies at both ends of the text and between any two characters, unless both are word
/// characters (is_word) of one kind: both Hangul, or neither Hangul nor of a script without spaces.
/// So "slack" is a word in "Slack에서", and in Han, kana, Thai, Lao, Khmer and Myanmar text, which
/// do not mark words, there is a boundary everywhere and kWord finds what kSubstring finds.
enum class MatchMode : std::uint8_t {
  kSubstring,  // anywhere
  kWord,       // with a boundary on both sides
  kPrefix,     // with a boundary on the left: Korean particles attach on the right
};

/// Half-open byte range of the caller's own text, on code point boundaries.
struct Match {
  std::int32_t pattern;
  std::size_t start;
  std::size_t end;

  friend bool operator==(const Match&, const Match&) = default;
};

/// A dictionary of patterns, compiled; immutable, safe to search from many threads.
///
/// Patterns and texts are compared folded (unicode.hpp): case and composition make no difference.
/// Duplicates are fine, each keeps its number: its position in the list.
///
/// The patterns are two tries in one double array, substrings in one, words and prefixes in the
/// other. A search looks at the four bytes that begin at each position, in a small table that tells
/// whether a pattern may start with them, and walks down a trie where one may. Repetitive texts
/// would make that quadratic, so after a number of steps linear in the text it goes on by the
/// failure links of Aho and Corasick: the search for substrings is O(n) whatever the text, plus the
/// matches reported. Words and prefixes are tried only where one can begin, O(n * kLongestWord) at
/// worst.
///
/// Source: Aho & Corasick, "Efficient string matching", CACM 1975; Aoe, "An efficient digital
/// search algorithm by using a double-array structure", IEEE TSE 1989.
class Automaton {
 public:
  /// Bytes, folded, that a word or prefix pattern may have.
  static constexpr std::size_t kLongestWord = 512;

  /// No patterns: finds nothing.
  Automaton() : Automaton({}, {}) {}

  /// Throws std::invalid_argument, naming the pattern, if one is empty or, for words and prefixes,
  /// too long; if the lists differ in length; or if all together have 1 GiB or more.
  /// O(bytes * log patterns).
  Automaton(std::span<const std::string> patterns, std::span<const MatchMode> modes);

  /// The distinct patterns that match, ascending.
  std::vector<std::int32_t> find(std::string_view text) const;

  /// All matches, overlapping ones too, each once, by (start, end, pattern). A match that begins or
  /// ends inside what one source character folds to covers the whole character: "s" in "ß".
  /// Memory grows with the matches.
  std::vector<Match> matches(std::string_view text) const;

  std::size_t size() const { return modes_.size(); }
  std::size_t memory_bytes() const;

  void save(const std::string& path) const;
  std::vector<std::byte> bytes() const;
  /// Throws ArchiveError. A file holds the folded patterns, not the tries: those are built again,
  /// so that no file, sound or crafted, can hold a wrong link.
  static Automaton load(const std::string& path);
  static Automaton from_bytes(std::vector<std::byte> bytes);

 private:
  struct Unit {  // a slot of the double array
    std::uint32_t
        base;  // children are at base + class of their byte; lowest bit: a pattern ends here
    std::uint32_t parent;  // the slot this one is a child of
  };
  struct Entry {          // one text in one mode, with the patterns that have it
    std::uint32_t begin;  // in patterns_
    std::uint32_t end;
    std::uint32_t length;  // of the text, bytes
    MatchMode mode;
    bool more;  // the next entry ends at the same slot
  };

  void build();
  void build_links(std::span<const std::uint32_t> slots);
  void build_filter(std::span<const std::string_view> keys);
  std::string_view pattern(std::size_t i) const {
    return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  template <typename Report>
  void scan(std::string_view text, Report&& report) const;
  template <typename Report>
  void scan_linked(std::string_view text, std::size_t begin, Report&& report) const;
  template <typename Report>
  std::size_t walk(std::uint32_t root, std::string_view text, std::size_t begin,
                   Report&& report) const;
  void write(ArchiveWriter& archive) const;
  static Automaton read(ArchiveReader& archive);

  std::string text_;                    // the folded patterns, one behind the other
  std::vector<std::uint64_t> offsets_;  // size() + 1
  std::vector<MatchMode> modes_;

  std::array<std::uint8_t, 256> class_{};  // of a byte; 0: in no pattern
  std::vector<Unit> units_;
  std::vector<std::uint32_t> entry_of_;  // by slot: 1 + its first entry, 0 for none
  std::vector<std::uint32_t> failure_;   // by slot: the longest proper suffix that is in the trie
  std::vector<std::uint32_t> suffix_;    // by slot: the longest one that is a pattern, 0 for none
  std::vector<Entry> entries_;
  std::vector<std::int32_t> patterns_;

  // What a pattern may begin with, two bits each (substrings, words): by a hash of four bytes, and
  // for patterns shorter than that by their first two.
  std::vector<std::uint8_t> starts_;
  unsigned starts_shift_ = 0;
  std::vector<std::uint8_t> short_starts_;  // empty if there are none
};

}  // namespace toolroll
