#include "toolroll/automaton.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "toolroll/archive.hpp"
#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::string_view kKind = "KEYWORDS";
constexpr std::uint32_t kVersion = 1;

// The roots of the two tries are the first two slots.
constexpr std::uint32_t kSubstringRoot = 0;
constexpr std::uint32_t kWordRoot = 1;
constexpr std::uint32_t kRoots = 2;
constexpr std::uint32_t kNoParent = ~std::uint32_t{0};

constexpr unsigned kSubstringBit = 1;
constexpr unsigned kWordBit = 2;
constexpr std::size_t kWindow = 4;  // bytes the filter sees
constexpr std::size_t kShort = 2;   // ... for patterns shorter than the window

std::uint32_t root_of(MatchMode mode) {
  return mode == MatchMode::kSubstring ? kSubstringRoot : kWordRoot;
}

std::uint32_t window_at(const char* at) {
  std::uint32_t window;
  std::memcpy(&window, at, kWindow);
  return window;
}

// Two bits of a packed table.
unsigned bits_at(const std::uint8_t* table, std::uint32_t i) {
  return static_cast<unsigned>(table[i >> 2] >> (2 * (i & 3))) & 3U;
}
void set_bits(std::vector<std::uint8_t>& table, std::size_t i, unsigned bits) {
  table[i >> 2] = static_cast<std::uint8_t>(table[i >> 2] | bits << (2 * (i & 3)));
}

std::uint32_t hashed(std::uint32_t window, unsigned shift) {
  return (window * 0x9E3779B1U) >> shift;  // Fibonacci hashing: 2^32 / golden ratio
}

constexpr bool is_ascii_word(unsigned c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
constexpr auto kAsciiWord = [] {
  std::array<std::uint8_t, 256> table{};
  for (unsigned c = 0; c < table.size(); ++c) table[c] = is_ascii_word(c) ? 1 : 0;
  return table;
}();

// Characters of one kind stick together, but those of the first and the last stand alone.
enum class Kind { kOther, kSpaced, kHangul, kUnspaced };

Kind kind(char32_t c) {
  const std::uint32_t found = unicode::properties(c);
  if ((found & unicode::kWord) == 0) return Kind::kOther;
  if ((found & unicode::kUnspaced) != 0) return Kind::kUnspaced;
  return (found & unicode::kHangul) != 0 ? Kind::kHangul : Kind::kSpaced;
}

// True unless a word runs across this offset of well-formed text.
bool is_boundary(std::string_view text, std::size_t at) {
  if (at == 0 || at == text.size()) return true;
  const auto last = static_cast<unsigned char>(text[at - 1]);
  const auto next = static_cast<unsigned char>(text[at]);
  if ((last | next) < 0x80) return (kAsciiWord[last] & kAsciiWord[next]) == 0;
  std::size_t before = at - 1;
  while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  const Kind left = kind(decode(text, before).code_point);
  return left == Kind::kOther || left == Kind::kUnspaced ||
         left != kind(decode(text, at).code_point);
}

// Gives out slots of the double array: for each set of children the first place where all fit.
class Slots {
 public:
  explicit Slots(std::uint32_t taken) : free_(taken) { grow(taken + 256); }

  // A base such that base + c is free for every class; takes those slots.
  std::uint32_t place(std::span<const std::uint8_t> classes) {
    std::uint32_t slot = free_;
    for (int tries = 0;; ++tries) {
      if (tries == kTries)
        slot = static_cast<std::uint32_t>(next_.size());  // all free from here on
      grow(std::size_t{slot} + 256);
      if (slot >= classes[0] && fits(slot - classes[0], classes)) break;
      slot = next_[slot];
    }
    const std::uint32_t base = slot - classes[0];
    for (const std::uint8_t c : classes) take(base + c);
    return base;
  }

  std::size_t size() const { return next_.size(); }

 private:
  // A set that fits nowhere near is put at the end: the build stays linear and few slots are lost.
  static constexpr int kTries = 64;
  static constexpr std::uint32_t kTaken = 0;

  bool fits(std::uint32_t base, std::span<const std::uint8_t> classes) const {
    return std::all_of(classes.begin(), classes.end(),
                       [&](std::uint8_t c) { return next_[base + c] != kTaken; });
  }

  // Free slots form a list, ascending, through next_ and last_; it ends at the size of the array.
  void take(std::uint32_t slot) {
    const std::uint32_t next = next_[slot];
    const std::uint32_t last = last_[slot];
    if (slot == free_) {
      free_ = next;
    } else {
      next_[last] = next;
    }
    if (next < last_.size())
      last_[next] = last;
    else
      tail_ = last;
    next_[slot] = kTaken;
  }

  void grow(std::size_t size) {
    while (next_.size() < size) {
      const auto slot = static_cast<std::uint32_t>(next_.size());
      next_.push_back(slot < free_ ? kTaken : slot + 1);
      last_.push_back(tail_);
      if (slot >= free_) tail_ = slot;
    }
  }

  std::vector<std::uint32_t> next_;  // kTaken for a slot in use
  std::vector<std::uint32_t> last_;
  std::uint32_t free_;      // the first free slot
  std::uint32_t tail_ = 0;  // the last one
};

// What a search writes while it runs, kept by each thread from one search to the next.
struct Scratch {
  static constexpr std::size_t kKept = std::size_t{1} << 20;  // bytes of folded text

  std::string folded;
  std::vector<std::uint64_t> seen;   // a bit for each entry; all zero between searches
  std::vector<std::uint32_t> found;  // the entries whose bit is set
};

// Leaves the thread's scratch as it found it, also when a search ends by an exception.
class Search {
 public:
  explicit Search(std::size_t entries) : scratch_(mine()) {
    const std::size_t words = entries / 64 + 1;
    if (scratch_.seen.size() < words) scratch_.seen.resize(words);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search() {
    for (const std::uint32_t entry : scratch_.found) scratch_.seen[entry / 64] = 0;
    scratch_.found.clear();
    if (scratch_.folded.size() > Scratch::kKept) std::string().swap(scratch_.folded);
  }

  std::string_view folded(std::string_view text) {
    std::string& buffer = scratch_.folded;
    const std::size_t size = fold(text, buffer);
    if (buffer.size() < size + kWindow) buffer.resize(size + kWindow);
    std::memset(buffer.data() + size, 0, kWindow);
    return {buffer.data(), size};
  }

  // True the first time.
  bool add(std::uint32_t entry) {
    std::uint64_t& word = scratch_.seen[entry / 64];
    const std::uint64_t bit = std::uint64_t{1} << (entry % 64);
    if ((word & bit) != 0) return false;
    scratch_.found.push_back(entry);  // first: if it throws no bit stays behind
    word |= bit;
    return true;
  }
  const std::vector<std::uint32_t>& found() const { return scratch_.found; }

 private:
  static Scratch& mine() {
    thread_local Scratch scratch;
    return scratch;
  }
  Scratch& scratch_;
};

}  // namespace

Automaton::Automaton(std::span<const std::string> patterns, std::span<const MatchMode> modes)
    : modes_(modes.begin(), modes.end()) {
  if (patterns.size() != modes.size()) {
    throw std::invalid_argument("modes: has " + std::to_string(modes.size()) +
                                " of them, must be " + std::to_string(patterns.size()) +
                                ", one for each pattern");
  }
  constexpr std::size_t kLimit = std::size_t{1} << 30;  // slots and offsets fit 32 bits
  offsets_.reserve(patterns.size() + 1);
  offsets_.push_back(0);
  std::string folded;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::size_t size = fold(patterns[i], folded);
    if (size == 0) throw std::invalid_argument("pattern " + std::to_string(i) + ": is empty");
    if (modes[i] != MatchMode::kSubstring && size > kLongestWord) {
      throw std::invalid_argument("pattern " + std::to_string(i) + ": has " + std::to_string(size) +
                                  " bytes, a word or prefix may have " +
                                  std::to_string(kLongestWord));
    }
    if (text_.size() + size >= kLimit) {
      throw std::invalid_argument("patterns: more than 1 GiB in all, from pattern " +
                                  std::to_string(i));
    }
    text_.append(folded, 0, size);
    offsets_.push_back(text_.size());
  }
  build();
}

void Automaton::build() {
  // Sorted, the patterns of a trie node lie side by side.
  std::vector<std::uint32_t> order(size());
  std::iota(order.begin(), order.end(), 0U);
  const auto rank = [&](std::uint32_t i) {
    return std::make_tuple(root_of(modes_[i]), pattern(i), modes_[i], i);
  };
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });

  std::vector<std::string_view> keys;  // of each entry
  std::uint32_t word_keys = 0;         // where those of the second trie begin
  for (const std::uint32_t i : order) {
    const auto at = static_cast<std::uint32_t>(patterns_.size());
    patterns_.push_back(static_cast<std::int32_t>(i));
    if (entries_.empty() || keys.back() != pattern(i) || entries_.back().mode != modes_[i]) {
      keys.push_back(pattern(i));
      entries_.push_back({at, at, static_cast<std::uint32_t>(pattern(i).size()), modes_[i], false});
      if (modes_[i] == MatchMode::kSubstring) ++word_keys;
    }
    entries_.back().end = at + 1;
  }

  // Neighbouring letters get neighbouring classes, and with them neighbouring slots.
  std::array<bool, 256> used{};
  for (const char byte : text_) used[static_cast<unsigned char>(byte)] = true;
  std::uint8_t classes = 0;  // folded text is well-formed UTF-8, which has at most 243 bytes
  for (std::size_t byte = 0; byte < used.size(); ++byte) {
    if (used[byte]) class_[byte] = ++classes;
  }

  // Breadth first: the nodes near the roots, where searches spend their time, get the first slots.
  struct Node {
    std::uint32_t slot;
    std::uint32_t begin, end;  // of its keys
    std::uint32_t depth;
  };
  const auto all = static_cast<std::uint32_t>(keys.size());
  std::vector<Node> nodes{{kSubstringRoot, 0, word_keys, 0}, {kWordRoot, word_keys, all, 0}};
  std::vector<std::uint32_t> substring_slots;
  Slots slots(kRoots);
  units_.assign(slots.size(), {0, kNoParent});
  entry_of_.assign(slots.size(), 0);
  std::vector<std::uint8_t> branches;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node node = nodes[n];
    std::uint32_t at = node.begin;
    while (at < node.end && entries_[at].length == node.depth) {
      if (at == node.begin)
        entry_of_[node.slot] = at + 1;
      else
        entries_[at - 1].more = true;
      ++at;
    }
    const bool ends = at != node.begin;
    branches.clear();
    const std::size_t first_child = nodes.size();
    while (at < node.end) {
      const char byte = keys[at][node.depth];
      const std::uint32_t begin = at;
      while (at < node.end && keys[at][node.depth] == byte) ++at;
      branches.push_back(class_[static_cast<unsigned char>(byte)]);
      nodes.push_back({0, begin, at, node.depth + 1});
    }
    std::uint32_t base = 0;  // of a leaf: no slot there has it as its parent
    if (!branches.empty()) {
      base = slots.place(branches);
      units_.resize(slots.size(), {0, kNoParent});
      entry_of_.resize(slots.size(), 0);
    }
    units_[node.slot].base = base << 1 | (ends ? 1U : 0U);
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const std::uint32_t slot = base + branches[i];
      nodes[first_child + i].slot = slot;
      units_[slot].parent = node.slot;
      if (node.end <= word_keys) substring_slots.push_back(slot);
    }
  }
  units_.shrink_to_fit();
  entry_of_.shrink_to_fit();
  build_links(substring_slots);
  build_filter(keys);
}

// slots: those of the substring trie, shallow ones first, without the root.
void Automaton::build_links(std::span<const std::uint32_t> slots) {
  if (slots.empty()) return;
  failure_.assign(units_.size(), kSubstringRoot);
  suffix_.assign(units_.size(), 0);
  for (const std::uint32_t slot : slots) {
    const std::uint32_t parent = units_[slot].parent;
    const std::uint32_t branch = slot - (units_[parent].base >> 1);
    for (std::uint32_t from = parent; from != kSubstringRoot;) {
      from = failure_[from];
      const std::uint32_t target = (units_[from].base >> 1) + branch;
      if (units_[target].parent == from) {
        failure_[slot] = target;
        break;
      }
    }
    const std::uint32_t failure = failure_[slot];
    suffix_[slot] = entry_of_[failure] != 0 ? failure : suffix_[failure];
  }
}

void Automaton::build_filter(std::span<const std::string_view> keys) {
  const auto bits = std::clamp(static_cast<unsigned>(std::bit_width(keys.size() * 8)), 10U, 20U);
  starts_shift_ = 32 - bits;
  starts_.assign(std::size_t{1} << (bits - 2), 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const unsigned bit = entries_[i].mode == MatchMode::kSubstring ? kSubstringBit : kWordBit;
    const std::string_view key = keys[i];
    if (key.size() >= kWindow) {
      set_bits(starts_, hashed(window_at(key.data()), starts_shift_), bit);
      continue;
    }
    short_starts_.resize((std::size_t{1} << 16) / 4);
    const std::size_t first = static_cast<unsigned char>(key[0]);
    if (key.size() >= kShort) {
      set_bits(short_starts_, first | std::size_t{static_cast<unsigned char>(key[1])} << 8, bit);
    } else {
      for (std::size_t second = 0; second < 256; ++second) {
        set_bits(short_starts_, first | second << 8, bit);
      }
    }
  }
}

// Reports every pattern that begins at an offset; returns the steps it took.
template <typename Report>
std::size_t Automaton::walk(std::uint32_t root, std::string_view text, std::size_t begin,
                            Report&& report) const {
  const Unit* const units = units_.data();
  std::uint32_t slot = root;
  std::uint32_t base = units[root].base;
  std::size_t at = begin;
  while (at < text.size()) {
    const std::uint32_t next = (base >> 1) + class_[static_cast<unsigned char>(text[at])];
    if (units[next].parent != slot) break;
    slot = next;
    base = units[next].base;
    ++at;
    if ((base & 1) == 0) continue;
    for (std::uint32_t entry = entry_of_[slot] - 1;; ++entry) {
      if (entries_[entry].mode != MatchMode::kWord || is_boundary(text, at)) report(entry, at);
      if (!entries_[entry].more) break;
    }
  }
  return at - begin;
}

// Reports every substring that begins at an offset or later, in linear time. report returns false
// to say that what ends with the same entry has been reported before.
template <typename Report>
void Automaton::scan_linked(std::string_view text, std::size_t begin, Report&& report) const {
  const Unit* const units = units_.data();
  std::uint32_t slot = kSubstringRoot;
  for (std::size_t at = begin; at < text.size();) {
    const std::uint32_t branch = class_[static_cast<unsigned char>(text[at])];
    ++at;
    for (;;) {
      const std::uint32_t next = (units[slot].base >> 1) + branch;
      if (units[next].parent == slot) {
        slot = next;
        break;
      }
      if (slot == kSubstringRoot) break;
      slot = failure_[slot];
    }
    std::uint32_t ending = (units[slot].base & 1) != 0 ? slot : suffix_[slot];
    while (ending != 0 && report(entry_of_[ending] - 1, at)) ending = suffix_[ending];
  }
}

// Reports every match as (entry, end). kWindow zero bytes stand behind the text.
template <typename Report>
void Automaton::scan(std::string_view text, Report&& report) const {
  // Positions are filtered in blocks, without a branch on what is found, then tried.
  constexpr std::size_t kBlock = 256;
  struct Start {
    std::uint16_t offset;
    std::uint16_t bits;
  };
  std::array<Start, kBlock> starts;
  const char* const bytes = text.data();
  const std::uint8_t* const long_starts = starts_.data();
  const std::uint8_t* const short_starts = short_starts_.empty() ? nullptr : short_starts_.data();
  const unsigned shift = starts_shift_;
  std::size_t budget = 16 * text.size() + 4096;  // steps in the substring trie
  bool linked = false;
  std::uint8_t last_word = 0;

  for (std::size_t block = 0; block < text.size(); block += kBlock) {
    const std::size_t end = std::min(kBlock, text.size() - block);
    std::size_t count = 0;
    const auto filter = [&](auto more) {
      for (std::size_t i = 0; i < end; ++i) {
        const std::uint32_t window = window_at(bytes + block + i);
        unsigned bits = bits_at(long_starts, hashed(window, shift));
        if constexpr (more) bits |= bits_at(short_starts, window & 0xFFFF);
        const std::uint8_t word = kAsciiWord[window & 0xFF];
        bits &= ~((unsigned{last_word} & word) * kWordBit);  // inside an ASCII word no word begins
        last_word = word;
        starts[count] = {static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(bits)};
        count += bits != 0 ? 1 : 0;
      }
    };
    if (short_starts == nullptr)
      filter(std::false_type{});
    else
      filter(std::true_type{});

    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = block + starts[i].offset;
      if ((starts[i].bits & kSubstringBit) != 0 && !linked) {
        const std::size_t steps = walk(kSubstringRoot, text, at, report);
        if (steps > budget) {
          linked = true;
          scan_linked(text, at + 1, report);
        }
        budget -= std::min(budget, steps);
      }
      if ((starts[i].bits & kWordBit) != 0 && is_boundary(text, at)) {
        walk(kWordRoot, text, at, report);
      }
    }
  }
}

std::vector<std::int32_t> Automaton::find(std::string_view text) const {
  Search search(entries_.size());
  scan(search.folded(text), [&](std::uint32_t entry, std::size_t) { return search.add(entry); });
  std::vector<std::int32_t> found;
  for (const std::uint32_t entry : search.found()) {
    const Entry& ids = entries_[entry];
    found.insert(found.end(), patterns_.begin() + ids.begin, patterns_.begin() + ids.end);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Match> Automaton::matches(std::string_view text) const {
  Folded folded = fold(text);
  const std::size_t size = folded.text.size();
  folded.text.append(kWindow, '\0');
  std::vector<Match> matches;
  scan(std::string_view(folded.text).substr(0, size), [&](std::uint32_t entry, std::size_t end) {
    const Entry& ids = entries_[entry];
    const std::size_t from = folded.source(end - ids.length);
    const std::size_t to = folded.source_end(end);
    for (std::uint32_t i = ids.begin; i < ids.end; ++i) matches.push_back({patterns_[i], from, to});
    return true;
  });
  std::sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) {
    return std::tie(a.start, a.end, a.pattern) < std::tie(b.start, b.end, b.pattern);
  });
  matches.erase(std::unique(matches.begin(), matches.end()), matches.end());  // "s", twice in "ß"
  return matches;
}

std::size_t Automaton::memory_bytes() const {
  const auto bytes = [](const auto& column) { return column.capacity() * sizeof column[0]; };
  return sizeof *this + bytes(text_) + bytes(offsets_) + bytes(modes_) + bytes(units_) +
         bytes(entry_of_) + bytes(failure_) + bytes(suffix_) + bytes(entries_) + bytes(patterns_) +
         bytes(starts_) + bytes(short_starts_);
}

void Automaton::write(ArchiveWriter& archive) const {
  archive.text(text_);
  archive.column(offsets_);
  archive.column(modes_);
}

Automaton Automaton::read(ArchiveReader& archive) {
  const std::string text = archive.text();
  const auto offsets = archive.column<std::uint64_t>();
  const auto modes = archive.column<MatchMode>();
  archive.finish();
  if (offsets.size() != modes.size() + 1 || offsets.front() != 0 || offsets.back() != text.size() ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    throw ArchiveError("damaged keywords: their offsets do not divide their text");
  }
  std::vector<std::string> patterns;
  patterns.reserve(modes.size());
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (modes[i] > MatchMode::kPrefix) throw ArchiveError("damaged keywords: an unknown mode");
    patterns.push_back(text.substr(offsets[i], offsets[i + 1] - offsets[i]));
  }
  try {
    return Automaton(patterns, modes);
  } catch (const std::invalid_argument& error) {
    throw ArchiveError("damaged keywords: " + std::string(error.what()));
  }
}

void Automaton::save(const std::string& path) const {
  ArchiveWriter archive(kKind, kVersion);
  write(archive);
  archive.save(path);
}

std::vector<std::byte> Automaton::bytes() const {
  ArchiveWriter archive(kKind, kVersion);
  write(archive);
  return archive.bytes();
}

Automaton Automaton::load(const std::string& path) {
  ArchiveReader archive = ArchiveReader::load(path, kKind, kVersion);
  return read(archive);
}

Automaton Automaton::from_bytes(std::vector<std::byte> bytes) {
  ArchiveReader archive(std::move(bytes), kKind, kVersion);
  return read(archive);
}

}  // namespace toolroll
