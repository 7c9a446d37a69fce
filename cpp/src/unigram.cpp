#include "toolroll/unigram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "toolroll/unicode.hpp"

namespace toolroll {
namespace {

constexpr double kUnknownBelow = 10;  // as in SentencePiece: below the least probable piece
constexpr std::size_t kFirstEdges = 64;
constexpr std::uint32_t kRoot = 0;

constexpr char32_t kFullWidth = 0xFF01;  // of '!'
constexpr char32_t kFullWidthEnd = 0xFF5F;
constexpr char32_t kHalfWidth = 0xFF66;  // of katakana
constexpr char32_t kHalfWidthEnd = 0xFFA0;
constexpr char32_t kKatakana[kHalfWidthEnd - kHalfWidth] = {
    0x30F2, 0x30A1, 0x30A3, 0x30A5, 0x30A7, 0x30A9, 0x30E3, 0x30E5, 0x30E7, 0x30C3, 0x30FC, 0x30A2,
    0x30A4, 0x30A6, 0x30A8, 0x30AA, 0x30AB, 0x30AD, 0x30AF, 0x30B1, 0x30B3, 0x30B5, 0x30B7, 0x30B9,
    0x30BB, 0x30BD, 0x30BF, 0x30C1, 0x30C4, 0x30C6, 0x30C8, 0x30CA, 0x30CB, 0x30CC, 0x30CD, 0x30CE,
    0x30CF, 0x30D2, 0x30D5, 0x30D8, 0x30DB, 0x30DE, 0x30DF, 0x30E0, 0x30E1, 0x30E2, 0x30E4, 0x30E6,
    0x30E8, 0x30E9, 0x30EA, 0x30EB, 0x30EC, 0x30ED, 0x30EF, 0x30F3, 0x3099, 0x309A,
};

char32_t ordinary_width(char32_t c) {
  if (c >= kFullWidth && c < kFullWidthEnd) return c - kFullWidth + U'!';
  if (c >= kHalfWidth && c < kHalfWidthEnd) return kKatakana[c - kHalfWidth];
  return c;
}

// The text with ordinary forms of the characters that exist in two widths.
std::string_view with_ordinary_widths(std::string_view text, std::string& buffer) {
  constexpr char kLead = '\xEF';  // of all of them in UTF-8
  if (text.find(kLead) == std::string_view::npos) return text;
  buffer.clear();
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, size] = decode(text, at);
    const char32_t ordinary = ordinary_width(c);
    if (ordinary == c) {
      buffer.append(text, at, size);
    } else {
      encode(ordinary, buffer);
    }
    at += size;
  }
  return buffer;
}

std::string_view beginning_of(std::string_view text) {
  if (text.size() <= Unigram::kMostBytes) return text;
  std::size_t end = Unigram::kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c | 0x20) >= U'a' && (c | 0x20) <= U'z';
  return is_word(c);
}

}  // namespace

Unigram::Unigram(std::span<const std::string_view> vocabulary, std::span<const float> scores)
    : scores_(scores.begin(), scores.end()), piece_{-1}, edges_(kFirstEdges, Edge{0, 0}) {
  if (scores.size() != vocabulary.size()) {
    throw std::invalid_argument("scores: has " + std::to_string(scores.size()) +
                                " numbers, must have " + std::to_string(vocabulary.size()));
  }
  if (vocabulary.size() > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("vocabulary: has more than 2^31 - 1 pieces");
  }
  if (!std::all_of(scores.begin(), scores.end(), [](float s) { return std::isfinite(s); })) {
    throw std::invalid_argument("scores: has a number that is not finite");
  }
  // A piece adds some two edges, and slots are at most half full.
  edges_.assign(std::bit_ceil(std::max(4 * vocabulary.size(), kFirstEdges)), Edge{0, 0});
  piece_.reserve(2 * vocabulary.size());
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view piece = vocabulary[id];
    std::uint32_t node = kRoot;
    for (std::size_t at = 0; at < piece.size();) {
      const auto [c, size] = decode(piece, at);
      node = add_child(node, c);
      at += size;
    }
    if (node == kRoot || piece_[node] >= 0) {
      throw std::invalid_argument("vocabulary: piece " + std::to_string(id) + ", '" +
                                  std::string(piece) + "', is empty or occurs twice");
    }
    piece_[node] = static_cast<std::int32_t>(id);
  }
  const double least = scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = least - kUnknownBelow;
}

std::size_t Unigram::memory_bytes() const {
  return scores_.capacity() * sizeof scores_[0] + piece_.capacity() * sizeof piece_[0] +
         edges_.capacity() * sizeof edges_[0];
}

// Where the edge is, or the free slot where it would be.
std::size_t Unigram::slot_of(std::uint64_t key) const {
  const std::size_t mask = edges_.size() - 1;
  std::uint64_t mixed = key * 0x9E3779B97F4A7C15U;
  mixed ^= mixed >> 32;
  std::size_t at = static_cast<std::size_t>(mixed) & mask;
  while (edges_[at].child != 0 && edges_[at].key != key) at = (at + 1) & mask;
  return at;
}

std::uint32_t Unigram::child(std::uint32_t node, char32_t c) const {
  return edges_[slot_of(key_of(node, c))].child;
}

std::uint32_t Unigram::add_child(std::uint32_t node, char32_t c) {
  if (const std::uint32_t known = child(node, c)) return known;
  if (2 * (piece_.size() + 1) > edges_.size()) grow();
  const auto made = static_cast<std::uint32_t>(piece_.size());
  piece_.push_back(-1);
  const std::uint64_t key = key_of(node, c);
  edges_[slot_of(key)] = {key, made};
  return made;
}

void Unigram::grow() {
  std::vector<Edge> before(2 * edges_.size(), Edge{0, 0});
  before.swap(edges_);
  for (const Edge& edge : before) {
    if (edge.child != 0) edges_[slot_of(edge.key)] = edge;
  }
}

void Unigram::encode(std::string_view text, std::size_t max_tokens,
                     std::vector<std::int32_t>& ids) const {
  thread_local std::string ordinary;
  thread_local std::string buffer;
  ids.clear();
  if (max_tokens == 0) max_tokens = std::numeric_limits<std::size_t>::max();
  const std::size_t size = fold(with_ordinary_widths(beginning_of(text), ordinary), buffer);
  const std::string_view folded(buffer.data(), size);
  Run run;
  for (std::size_t at = 0; at < folded.size() && ids.size() < max_tokens;) {
    const auto [c, bytes] = decode(folded, at);
    at += bytes;
    if (!is_letter(c)) {
      cut(run, ids);
      continue;
    }
    const bool is_unspaced = c >= 0x80 && is_cjk(c);
    if (run.size > 0 && is_unspaced != run.is_unspaced) cut(run, ids);
    if (run.size == kLongestRun) {
      cut(run, ids);
    } else if (run.size == 0 && !is_unspaced) {
      run.characters[run.size++] = kBeginning;
    }
    run.is_unspaced = is_unspaced;
    run.characters[run.size++] = c;
  }
  cut(run, ids);
  if (ids.size() > max_tokens) ids.resize(max_tokens);
}

void Unigram::cut(Run& run, std::vector<std::int32_t>& ids) const {
  const std::size_t n = run.size;
  if (n == 0) return;
  run.size = 0;
  // [end]: the best way to that place, and its last piece.
  std::array<double, kLongestRun + 1> best;
  std::array<std::uint32_t, kLongestRun + 1> begin;
  std::array<std::int32_t, kLongestRun + 1> last;
  std::fill_n(best.begin(), n + 1, -std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (std::size_t start = 0; start < n; ++start) {
    std::uint32_t node = kRoot;
    for (std::size_t end = start; end < n;) {
      node = child(node, run.characters[end++]);
      if (node == kRoot) break;
      const std::int32_t piece = piece_[node];
      if (piece < 0) continue;
      const double score = best[start] + scores_[static_cast<std::size_t>(piece)];
      if (score > best[end]) {
        best[end] = score;
        begin[end] = static_cast<std::uint32_t>(start);
        last[end] = piece;
      }
    }
    if (const double score = best[start] + unknown_score_; score > best[start + 1]) {
      best[start + 1] = score;
      begin[start + 1] = static_cast<std::uint32_t>(start);
      last[start + 1] = -1;
    }
  }
  const std::size_t before = ids.size();
  for (std::size_t end = n; end > 0; end = begin[end]) {
    if (last[end] >= 0) ids.push_back(last[end]);
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
}

}  // namespace toolroll
