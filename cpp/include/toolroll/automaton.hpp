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
/// Patterns and texts are compared in folded form (unicode.hpp): case and composition make no
/// difference. A pattern's number is its position in the list. Duplicates are allowed.
///
/// The patterns form two hashed tries whose edges take four bytes: one of substrings, one of words
/// and prefixes. A small table answers for each position whether a pattern may begin with the four
/// bytes there; at most positions none does. From the other positions the search walks down a trie.
/// Where four patterns or fewer are left, it compares their next eight bytes at once, without a
/// branch on the result. It tries words and prefixes only where one can begin.
///
/// A walk takes at most length / 4 steps. Long substrings in a repetitive text could need too many
/// walks. For such patterns an Aho-Corasick automaton is built too, and the search continues with
/// its failure links after a number of steps linear in the text. So a search is O(n) for every text
/// and every pattern.
///
/// Source: Aho & Corasick, "Efficient string matching", CACM 1975.
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
  /// Throws ArchiveError. A file holds the folded patterns, and load() builds the tries from them,
  /// so that no file can hold a wrong link.
  static Automaton load(const std::string& path);
  static Automaton from_bytes(std::vector<std::byte> bytes);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kGroup = 4;
  static constexpr std::size_t kBlock = 256;

  struct Entry {          // one text in one mode, with the patterns that have it
    std::uint32_t begin;  // in patterns_
    std::uint32_t end;
    std::uint32_t length;  // of the text, bytes
    MatchMode mode;
    bool more;  // the next entry has the same text
  };
  struct Key {  // one text of a trie
    std::string_view text;
    std::uint32_t entry;  // its first
  };
  struct Table {  // a hash table with linear probing, of the edges of a trie
    struct Slot {
      std::uint64_t key;
      std::uint32_t value;  // kNone: empty
    };
    std::vector<Slot> slots;
    unsigned shift = 0;

    void reserve(std::size_t count);
    std::size_t position(std::uint64_t key) const;  // of the key, or where it would be
    std::uint32_t find(std::uint64_t key) const { return slots[position(key)].value; }
  };
  struct Root {  // the edges of kStride bytes from a root: the ones every search meets
    struct Edge {
      std::uint32_t window;
      std::uint32_t child;  // kNone: empty
    };
    std::vector<Edge> slots;
    unsigned shift = 0;

    void build(std::span<const Edge> edges);
    std::uint32_t find(std::uint32_t window, std::size_t slot) const;  // slot: its hash
  };
  struct Group {  // what follows in up to kGroup texts: text & mask == value
    std::array<std::uint64_t, kGroup> mask;
    std::array<std::uint64_t, kGroup> value;
  };
  struct Start {  // where a pattern may begin: the tries, and those with a short text
    std::uint16_t offset;
    std::uint16_t bits;
  };
  struct State {            // of the Aho-Corasick automaton
    std::uint32_t failure;  // the longest proper suffix that is a state
    std::uint32_t suffix;   // the longest one that is a text, 0 for none
    std::uint32_t entry;    // 1 + the first entry of its text, 0 for none
  };

  void build();
  void build_filter(std::span<const Key> keys);
  void build_tries(std::span<const Key> substrings, std::span<const Key> words);
  void add_group(std::span<const Key> keys, std::size_t depth);
  void build_links(std::span<const Key> keys);
  std::string_view pattern(std::size_t i) const {
    return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  template <typename Report>
  void scan(std::string_view text, Report&& report) const;
  template <typename Report>
  void scan_linked(std::string_view text, std::size_t begin, Report&& report) const;
  template <typename GoOn, typename Report>
  void try_all(std::uint32_t root, std::span<const Start> starts, std::size_t block,
               std::string_view text, GoOn&& go_on, Report&& report) const;
  template <typename Report>
  void try_short(std::uint32_t node, unsigned sizes, std::string_view text, std::size_t at,
                 Report&& report) const;
  template <typename Report>
  std::size_t walk(std::uint32_t child, std::string_view text, std::size_t begin,
                   Report&& report) const;
  template <typename Report>
  void try_group(std::uint32_t group, std::string_view text, std::size_t begin, std::size_t at,
                 Report&& report) const;
  template <typename Report>
  void report_entries(std::uint32_t entry, std::string_view text, std::size_t end,
                      Report&& report) const;
  void write(ArchiveWriter& archive) const;
  static Automaton read(ArchiveReader& archive);

  std::string text_;                    // the folded patterns, one behind the other
  std::vector<std::uint64_t> offsets_;  // size() + 1
  std::vector<MatchMode> modes_;

  std::vector<Entry> entries_;
  std::vector<std::int32_t> patterns_;

  // By node: bit s is set if there is an edge of s bytes. One of kStride bytes leads to node v >>
  // 1, or, if v is odd, to that group; a shorter one to the entry of the text that ends there.
  std::vector<std::uint8_t> sizes_;
  std::array<Root, 2> roots_;
  Table edges_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> group_entries_;  // kGroup for each

  std::vector<State> states_;  // empty if no substring is long enough
  Table state_edges_;

  // What a pattern may begin with, two bits each (substrings, words): by a hash of four bytes, and
  // for patterns shorter than that by their first two.
  std::vector<std::uint8_t> starts_;
  unsigned starts_shift_ = 0;
  std::vector<std::uint8_t> short_starts_;  // empty if there are none
};

}  // namespace toolroll
