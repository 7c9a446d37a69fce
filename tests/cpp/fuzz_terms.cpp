// Any bytes have terms: not empty, never more than their text can hold, the same when read again,
// and those of two texts are those of both with a separator between them.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "toolroll/bm25.hpp"
#include "toolroll/terms.hpp"

using namespace toolroll;

namespace {

std::vector<std::string> read(std::string_view text, Analysis analysis, Terms& terms) {
  terms.read(text, analysis);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < terms.size(); ++i) all.emplace_back(terms[i]);
  return all;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view left = text.substr(0, size / 2);
  const std::string_view right = text.substr(size / 2);
  static Terms reused;
  for (const Analysis analysis : {Analysis::kDefault, Analysis::kPlain}) {
    Terms fresh;
    const auto all = read(text, analysis, reused);
    require(all == read(text, analysis, fresh));
    require(all.size() <= size);
    for (const std::string& term : all) require(!term.empty());
    auto both = read(left, analysis, reused);
    for (std::string& term : read(right, analysis, reused)) both.push_back(std::move(term));
    require(read(std::string(left) + ' ' + std::string(right), analysis, reused) == both);
  }
  const std::vector<std::string_view> texts = {left, right, text};
  const Field field{texts, 1.0};
  const Bm25Index index = Bm25Index::build({&field, 1}, {});
  const Hits found = index.search(text, 3, nullptr);
  std::vector<float> scores(found.rows.size());
  index.scores(text, found.rows, scores);
  require(scores == found.scores);
  for (const float score : scores)
    require(static_cast<double>(score) <= index.ceiling(text) * (1 + 1e-4));
  return 0;
}
