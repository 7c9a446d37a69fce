#include "toolroll/automaton.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "toolroll/archive.hpp"
#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr std::string_view kKind = "KEYWORDS";
constexpr std::uint32_t kVersion = 1;

// The tries: node 0 is the root of the substrings, node 1 of the words and prefixes.
constexpr std::uint32_t kSubstringRoot = 0;
constexpr std::uint32_t kWordRoot = 1;
constexpr std::uint32_t kRoots = 2;

constexpr unsigned kSubstringBit = 1;
constexpr unsigned kWordBit = 2;
constexpr unsigned kShortShift = 2;                // the same for patterns shorter than a stride
constexpr std::size_t kStride = 4;                 // bytes a trie's edge takes
constexpr std::size_t kTail = 8;                   // bytes a group compares
constexpr std::size_t kPadding = kStride + kTail;  // zero bytes behind a text that is scanned

// The search walks for substrings up to this length at every position: at most this many bytes,
// divided by the stride, for each. Longer ones need failure links for the promise of linear time.
constexpr std::size_t kLongestWalk = 64;

std::uint32_t root_of(MatchMode mode) {
  return mode == MatchMode::kSubstring ? kSubstringRoot : kWordRoot;
}

template <typename Word>
Word word_at(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");

// The lowest bytes of a word.
constexpr std::uint64_t low_bytes(std::size_t count) {
  return count >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * count)) - 1;
}

constexpr unsigned low_bits(std::size_t count) { return (1U << count) - 1; }

// The edge of a trie's node by `size` bytes: kStride leads to a child, less to the pattern's end.
constexpr std::uint64_t edge(std::uint32_t node, std::size_t size, std::uint32_t window) {
  return std::uint64_t{node} << 35 | std::uint64_t{size} << 32 | (window & low_bytes(size));
}

// The edge of a state of the Aho-Corasick automaton.
constexpr std::uint64_t edge(std::uint32_t state, char byte) {
  return std::uint64_t{state} << 8 | static_cast<unsigned char>(byte);
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

// The buffers of a search. Each thread keeps them from one search to the next.
struct Scratch {
  static constexpr std::size_t kKept = std::size_t{1} << 20;  // bytes of folded text

  std::string folded;
  std::vector<std::uint64_t> seen;   // a bit for each entry; all zero between searches
  std::vector<std::uint32_t> found;  // the entries whose bit is set
};

// Restores the thread's scratch buffers, also after an exception.
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
    if (buffer.size() < size + kPadding) buffer.resize(size + kPadding);
    std::memset(buffer.data() + size, 0, kPadding);
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

// A table at most half full, and at least so that its hash has a bit.
void Automaton::Table::reserve(std::size_t count) {
  const auto bits = std::max(static_cast<unsigned>(std::bit_width(count * 2)), 1U);
  shift = 64 - bits;
  slots.assign(std::size_t{1} << bits, {0, kNone});
}

std::size_t Automaton::Table::position(std::uint64_t key) const {
  std::size_t i = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift);
  while (slots[i].key != key && slots[i].value != kNone) i = (i + 1) & (slots.size() - 1);
  return i;
}

std::uint32_t Automaton::Root::find(std::uint32_t window, std::size_t slot) const {
  while (slots[slot].window != window && slots[slot].child != kNone) {
    slot = (slot + 1) & (slots.size() - 1);
  }
  return slots[slot].child;
}

void Automaton::Root::build(std::span<const Edge> edges) {
  // A quarter full at most: most looks meet the edge or an empty slot at once.
  const auto bits = static_cast<unsigned>(std::bit_width(edges.size() * 2)) + 1;
  shift = 32 - bits;
  slots.assign(std::size_t{1} << bits, {0, kNone});
  for (const Edge& edge : edges) {
    std::size_t slot = hashed(edge.window, shift);
    while (slots[slot].child != kNone) slot = (slot + 1) & (slots.size() - 1);
    slots[slot] = edge;
  }
}

void Automaton::build() {
  // Sorted, the patterns of a trie's node lie side by side.
  std::vector<std::uint32_t> order(size());
  std::iota(order.begin(), order.end(), 0U);
  const auto rank = [&](std::uint32_t i) {
    return std::make_tuple(root_of(modes_[i]), pattern(i), modes_[i], i);
  };
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });

  std::vector<Key> keys;
  std::size_t words = 0;  // where the keys of the second trie begin
  std::size_t longest = 0;
  for (const std::uint32_t i : order) {
    const auto at = static_cast<std::uint32_t>(patterns_.size());
    const bool same_trie = !keys.empty() && root_of(entries_.back().mode) == root_of(modes_[i]);
    const bool same_text = same_trie && keys.back().text == pattern(i);
    patterns_.push_back(static_cast<std::int32_t>(i));
    if (!same_text || entries_.back().mode != modes_[i]) {
      if (same_text) {
        entries_.back().more = true;
      } else {
        keys.push_back({pattern(i), static_cast<std::uint32_t>(entries_.size())});
      }
      entries_.push_back({at, at, static_cast<std::uint32_t>(pattern(i).size()), modes_[i], false});
    }
    entries_.back().end = at + 1;
    if (modes_[i] == MatchMode::kSubstring) {
      words = keys.size();
      longest = std::max(longest, pattern(i).size());
    }
  }
  const std::span<const Key> all(keys);
  build_filter(all);
  build_tries(all.first(words), all.subspan(words));
  if (longest > kLongestWalk) build_links(all.first(words));
}

void Automaton::build_filter(std::span<const Key> keys) {
  const auto bits = std::clamp(static_cast<unsigned>(std::bit_width(keys.size() * 8)), 10U, 20U);
  starts_shift_ = 32 - bits;
  starts_.assign(std::size_t{1} << (bits - 2), 0);
  for (const auto& [text, entry] : keys) {
    const unsigned bit = entries_[entry].mode == MatchMode::kSubstring ? kSubstringBit : kWordBit;
    if (text.size() >= kStride) {
      set_bits(starts_, hashed(word_at<std::uint32_t>(text.data()), starts_shift_), bit);
      continue;
    }
    short_starts_.resize((std::size_t{1} << 16) / 4);
    const std::size_t first = static_cast<unsigned char>(text[0]);
    if (text.size() >= 2) {
      set_bits(short_starts_, first | std::size_t{static_cast<unsigned char>(text[1])} << 8, bit);
    } else {
      for (std::size_t second = 0; second < 256; ++second) {
        set_bits(short_starts_, first | second << 8, bit);
      }
    }
  }
}

void Automaton::build_tries(std::span<const Key> substrings, std::span<const Key> words) {
  struct Node {
    std::uint32_t id;
    std::span<const Key> keys;
    std::size_t depth;
  };
  std::vector<std::pair<std::uint64_t, std::uint32_t>> edges;
  std::array<std::vector<Root::Edge>, kRoots> from_root;
  std::vector<Node> nodes{{kSubstringRoot, substrings, 0}, {kWordRoot, words, 0}};
  sizes_.assign(kRoots, 0);
  while (!nodes.empty()) {
    const Node node = nodes.back();
    nodes.pop_back();
    for (std::size_t i = 0; i < node.keys.size();) {
      const std::string_view rest = node.keys[i].text.substr(node.depth);
      const std::size_t size = std::min(rest.size(), kStride);
      std::uint32_t window = 0;
      std::memcpy(&window, rest.data(), size);
      sizes_[node.id] = static_cast<std::uint8_t>(sizes_[node.id] | 1U << size);
      std::size_t end = i + 1;
      if (size < kStride) {
        edges.emplace_back(edge(node.id, size, window), node.keys[i].entry);
      } else {
        const std::string_view begin = rest.substr(0, kStride);
        while (end < node.keys.size() && node.keys[end].text.substr(node.depth, kStride) == begin) {
          ++end;
        }
        const auto below = node.keys.subspan(i, end - i);
        const std::size_t depth = node.depth + kStride;
        std::uint32_t child;
        if (below.size() <= kGroup) {
          child = static_cast<std::uint32_t>(groups_.size()) << 1 | 1;
          add_group(below, depth);
        } else {
          const auto id = static_cast<std::uint32_t>(sizes_.size());
          child = id << 1;
          sizes_.push_back(0);
          nodes.push_back({id, below, depth});
        }
        if (node.id < kRoots) {
          from_root[node.id].push_back({window, child});
        } else {
          edges.emplace_back(edge(node.id, kStride, window), child);
        }
      }
      i = end;
    }
  }
  edges_.reserve(edges.size());
  for (const auto& [key, value] : edges) edges_.slots[edges_.position(key)] = {key, value};
  for (std::size_t root = 0; root < kRoots; ++root) roots_[root].build(from_root[root]);
}

void Automaton::add_group(std::span<const Key> keys, std::size_t depth) {
  Group group;
  group.mask.fill(0);
  group.value.fill(1);  // nothing & 0 is 1
  group_entries_.resize(group_entries_.size() + kGroup, 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string_view rest = keys[i].text.substr(depth, kTail);
    group.mask[i] = low_bytes(rest.size());
    group.value[i] = 0;
    std::memcpy(&group.value[i], rest.data(), rest.size());
    group_entries_[groups_.size() * kGroup + i] = keys[i].entry;
  }
  groups_.push_back(group);
}

void Automaton::build_links(std::span<const Key> keys) {
  std::size_t most = 0;
  for (const Key& key : keys) most += key.text.size();
  state_edges_.reserve(most);
  struct Edge {
    std::uint32_t from;
    char byte;
  };
  std::vector<std::vector<std::uint32_t>> by_depth;
  std::vector<Edge> into{{0, 0}};  // by state: the edge that leads to it
  states_.assign(1, {0, 0, 0});
  for (const auto& [text, entry] : keys) {
    std::uint32_t state = 0;
    by_depth.resize(std::max(by_depth.size(), text.size()));
    for (std::size_t depth = 0; depth < text.size(); ++depth) {
      const std::uint64_t key = edge(state, text[depth]);
      Table::Slot& slot = state_edges_.slots[state_edges_.position(key)];
      if (slot.value == kNone) {
        slot = {key, static_cast<std::uint32_t>(states_.size())};
        by_depth[depth].push_back(slot.value);
        into.push_back({state, text[depth]});
        states_.push_back({0, 0, 0});
      }
      state = slot.value;
    }
    states_[state].entry = entry + 1;
  }
  for (const auto& level : by_depth) {  // what a link leads to is on a level above
    for (const std::uint32_t state : level) {
      std::uint32_t from = into[state].from;
      while (from != 0) {
        from = states_[from].failure;
        const std::uint32_t target = state_edges_.find(edge(from, into[state].byte));
        if (target != kNone) {
          states_[state].failure = target;
          break;
        }
      }
      const std::uint32_t failure = states_[state].failure;
      states_[state].suffix = states_[failure].entry != 0 ? failure : states_[failure].suffix;
    }
  }
}

// Reports the entries of one text, found in [begin, end), in the modes that allow it there.
template <typename Report>
void Automaton::report_entries(std::uint32_t entry, std::string_view text, std::size_t end,
                               Report&& report) const {
  if (end > text.size()) return;  // reaches into the padding
  for (;; ++entry) {
    if (entries_[entry].mode != MatchMode::kWord || is_boundary(text, end)) report(entry, end);
    if (!entries_[entry].more) return;
  }
}

// Reports the keys of a group that match the text. Their first bytes were found in [begin, at).
template <typename Report>
void Automaton::try_group(std::uint32_t group, std::string_view text, std::size_t begin,
                          std::size_t at, Report&& report) const {
  const auto tail = word_at<std::uint64_t>(text.data() + at);
  const Group& keys = groups_[group];
  unsigned hits = 0;
  for (std::size_t i = 0; i < kGroup; ++i) {
    hits |= static_cast<unsigned>((tail & keys.mask[i]) == keys.value[i]) << i;
  }
  for (; hits != 0; hits &= hits - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(hits));
    const std::uint32_t entry = group_entries_[group * kGroup + i];
    const std::size_t end = begin + entries_[entry].length;
    if (end > text.size()) continue;  // reaches into the padding
    if (end > at + kTail) {           // the group has seen its first bytes only
      const auto id = static_cast<std::size_t>(patterns_[entries_[entry].begin]);
      const std::string_view rest = pattern(id).substr(at + kTail - begin);
      if (text.compare(at + kTail, rest.size(), rest) != 0) continue;
    }
    report_entries(entry, text, end, report);
  }
}

// Reports the texts that end less than a stride below a node; sizes: the lengths there are.
template <typename Report>
void Automaton::try_short(std::uint32_t node, unsigned sizes, std::string_view text, std::size_t at,
                          Report&& report) const {
  const auto window = word_at<std::uint32_t>(text.data() + at);
  for (std::size_t size = 0; size < kStride; ++size) {
    if ((sizes >> size & 1) == 0) continue;
    const std::uint32_t entry = edges_.find(edge(node, size, window));
    if (entry != kNone) report_entries(entry, text, at + size, report);
  }
}

// Reports the texts below a root's child that begin at an offset. Returns the offset at which the
// trie and the text differ.
template <typename Report>
std::size_t Automaton::walk(std::uint32_t child, std::string_view text, std::size_t begin,
                            Report&& report) const {
  for (std::size_t at = begin + kStride;; at += kStride) {
    if (at > text.size()) return text.size();
    if ((child & 1) != 0) {
      try_group(child >> 1, text, begin, at, report);
      return at;
    }
    const std::uint32_t node = child >> 1;
    if ((sizes_[node] & low_bits(kStride)) != 0) try_short(node, sizes_[node], text, at, report);
    child = edges_.find(edge(node, kStride, word_at<std::uint32_t>(text.data() + at)));
    if (child == kNone) return at;
  }
}

// Reports every substring that begins at an offset or later, in linear time. report returns false
// if all texts that end with the same entry were reported before.
template <typename Report>
void Automaton::scan_linked(std::string_view text, std::size_t begin, Report&& report) const {
  std::uint32_t state = 0;
  for (std::size_t at = begin; at < text.size();) {
    const char byte = text[at];
    ++at;
    std::uint32_t next = state_edges_.find(edge(state, byte));
    while (next == kNone && state != 0) {
      state = states_[state].failure;
      next = state_edges_.find(edge(state, byte));
    }
    state = next == kNone ? 0 : next;
    std::uint32_t ending = states_[state].entry != 0 ? state : states_[state].suffix;
    while (ending != 0 && report(states_[ending].entry - 1, at)) ending = states_[ending].suffix;
  }
}

// Tries one trie at the starts of a block. go_on(at, steps) is asked after each of them.
template <typename GoOn, typename Report>
void Automaton::try_all(std::uint32_t root, std::span<const Start> starts, std::size_t block,
                        std::string_view text, GoOn&& go_on, Report&& report) const {
  const Root& edges = roots_[root];
  const unsigned bit = root == kSubstringRoot ? kSubstringBit : kWordBit;
  // Again without a branch: whether an edge may fit is a look at one slot.
  struct Try {
    std::uint32_t offset;
    std::uint32_t slot;
  };
  std::array<Try, kBlock> tries;
  std::size_t count = 0;
  for (const Start start : starts) {
    const auto window = word_at<std::uint32_t>(text.data() + block + start.offset);
    const std::uint32_t slot = hashed(window, edges.shift);
    const bool is_short = (start.bits & bit << kShortShift) != 0;
    tries[count] = {start.offset | std::uint32_t{is_short} << 16, slot};
    const bool is_edge = edges.slots[slot].child != kNone;
    count += ((start.bits & bit) != 0) & (is_short | is_edge) ? 1 : 0;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = block + (tries[i].offset & 0xFFFF);
    if (root == kWordRoot && !is_boundary(text, at)) continue;
    if (tries[i].offset >> 16 != 0) try_short(root, sizes_[root], text, at, report);
    const std::uint32_t child = edges.find(word_at<std::uint32_t>(text.data() + at), tries[i].slot);
    if (child == kNone) continue;
    if (!go_on(at, walk(child, text, at, report) - at)) return;
  }
}

// Reports every match as (entry, end). kPadding zero bytes stand behind the text.
template <typename Report>
void Automaton::scan(std::string_view text, Report&& report) const {
  // Positions are filtered in blocks, without a branch on the result, and then tried.
  std::array<Start, kBlock> starts;
  const char* const bytes = text.data();
  const std::uint8_t* const long_starts = starts_.data();
  const std::uint8_t* const short_starts = short_starts_.empty() ? nullptr : short_starts_.data();
  const unsigned shift = starts_shift_;
  // Walks for substrings may take this many bytes before the search changes to failure links.
  std::size_t budget =
      states_.empty() ? std::numeric_limits<std::size_t>::max() : kLongestWalk * text.size();
  bool linked = false;
  std::uint8_t last_word = 0;

  for (std::size_t block = 0; block < text.size(); block += kBlock) {
    const std::size_t end = std::min(kBlock, text.size() - block);
    std::size_t count = 0;
    const auto filter = [&](auto has_short) {
      for (std::size_t i = 0; i < end; ++i) {
        const auto window = word_at<std::uint32_t>(bytes + block + i);
        unsigned bits = bits_at(long_starts, hashed(window, shift));
        if constexpr (has_short) {
          const unsigned found = bits_at(short_starts, window & 0xFFFF);
          bits |= found | found << kShortShift;
        }
        const std::uint8_t word = kAsciiWord[window & 0xFF];
        bits &= ~((unsigned{last_word} & word) * kWordBit);  // inside an ASCII word no word begins
        last_word = word;
        starts[count] = {static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(bits)};
        count += (bits & (kSubstringBit | kWordBit)) != 0 ? 1 : 0;
      }
    };
    if (short_starts == nullptr) {
      filter(std::false_type{});
    } else {
      filter(std::true_type{});
    }

    const std::span<const Start> filtered(starts.data(), count);
    if (!linked) {
      try_all(
          kSubstringRoot, filtered, block, text,
          [&](std::size_t at, std::size_t steps) {
            linked = steps > budget;
            budget -= std::min(budget, steps);
            if (linked) scan_linked(text, at + 1, report);
            return !linked;
          },
          report);
    }
    try_all(
        kWordRoot, filtered, block, text, [](std::size_t, std::size_t) { return true; }, report);
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
  folded.text.append(kPadding, '\0');
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
  const auto bytes = [](const auto& column) { return column.capacity() * sizeof(column[0]); };
  return sizeof *this + text_.capacity() + bytes(offsets_) + bytes(modes_) + bytes(entries_) +
         bytes(patterns_) + bytes(starts_) + bytes(short_starts_) + bytes(edges_.slots) +
         bytes(roots_[0].slots) + bytes(roots_[1].slots) + bytes(sizes_) + bytes(groups_) +
         bytes(group_entries_) + bytes(states_) + bytes(state_edges_.slots);
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
