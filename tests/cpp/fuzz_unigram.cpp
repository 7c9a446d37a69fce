// Any bytes have pieces and a vector, and the pieces of a word are the best of all ways to cut it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "encode_check.hpp"
#include "toolroll/multilingual_table.hpp"
#include "toolroll/unigram.hpp"

using namespace toolroll;

namespace {

// Of the letters a, b, c; a bar stands for the mark of a word's beginning.
constexpr std::array<std::string_view, 8> kPlain = {"|", "a", "b", "|a", "ab", "bab", "|aba", "ca"};
constexpr std::array<float, 8> kScores = {-3, -4, -4, -5, -6, -9, -10, -6};

std::vector<std::string> with_marks() {
  std::vector<std::string> pieces;
  for (const std::string_view piece : kPlain) {
    const bool begins = piece.front() == '|';
    pieces.push_back((begins ? "\xE2\x96\x81" : "") + std::string(piece.substr(begins ? 1 : 0)));
  }
  return pieces;
}

// The best score of each beginning of the word.
double best_score(const std::string& word, double unknown) {
  std::vector<double> best(word.size() + 1, -std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (std::size_t end = 1; end <= word.size(); ++end) {
    best[end] = best[end - 1] + unknown;
    for (std::size_t at = 0; at < kPlain.size(); ++at) {
      const std::string_view piece = kPlain[at];
      if (piece.size() <= end && word.compare(end - piece.size(), piece.size(), piece) == 0) {
        best[end] =
            std::max(best[end], best[end - piece.size()] + static_cast<double>(kScores[at]));
      }
    }
  }
  return best.back();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> owned = with_marks();
  static const std::vector<std::string_view> vocabulary(owned.begin(), owned.end());
  static const Unigram pieces(vocabulary, kScores);
  static const std::array<std::string_view, 3> english = {"[UNK]", "a", "##b"};
  static const std::vector<std::int8_t> rows(vocabulary.size() * 5, 3);
  static const std::vector<float> scale(vocabulary.size(), 1.0F);
  static const std::array<float, 5> gate = {0, 1, -1, 1, -2};
  static const MultilingualTable table(
      std::make_shared<const TokenTable>(english, std::span(rows).first(15),
                                         std::span(scale).first(3), 5),
      vocabulary, kScores, rows, scale, gate);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_encode(pieces, text);
  std::array<float, 5> vector;
  table.embed(text, vector);

  std::string word(text.substr(0, 60));
  if (word.empty()) return 0;
  for (char& c : word) c = "abc"[static_cast<unsigned char>(c) % 3];
  std::vector<std::int32_t> ids;
  pieces.encode(word, 0, ids);
  constexpr double kUnknown = -20;
  double score = 0;
  std::size_t known = 0;
  for (const std::int32_t id : ids) {
    score += static_cast<double>(kScores[static_cast<std::size_t>(id)]);
    known += kPlain[static_cast<std::size_t>(id)].size();
  }
  score += kUnknown * static_cast<double>(word.size() + 1 - known);
  require(score == best_score('|' + word, kUnknown));
  return 0;
}
