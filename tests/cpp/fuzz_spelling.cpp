// Any bytes can be read: corrections are in order and within the text, they never make well-formed
// text ill-formed, and each puts a known word in the place of an unknown one. A lexicon can be made
// of any bytes, and then knows their words.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "toolroll/spelling.hpp"
#include "toolroll/unicode.hpp"

using namespace toolroll;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_well_formed(std::string_view text) { return encode(decode(text)) == text; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t half = size / 2;
  const std::string_view text = input.substr(half);
  const std::string_view tools[] = {input.substr(0, half), "abcd babab the"};
  const std::string_view words[] = {"the", "abba", "caba", tools[0]};
  const float weights[] = {1, 2, 3, 4};
  const auto catalog = std::make_shared<Lexicon>(Lexicon::of_texts(tools, {weights, 2}));
  const auto general = std::make_shared<Lexicon>(Lexicon::of_words(words, weights));
  require(catalog->knows("babab") && catalog->memory_bytes() > 0);
  const Speller speller(catalog, general);

  const auto found = speller.corrections(text);
  require(found.size() <= Speller::kMostUnknown);
  std::size_t at = 0;
  for (const Speller::Correction& one : found) {
    require(at <= one.begin && one.begin < one.end && one.end <= text.size());
    require(catalog->weight(one.word) > 0 || general->weight(one.word) > 0);
    const std::string_view before = text.substr(one.begin, one.end - one.begin);
    require(catalog->weight(before) == 0 && general->weight(before) == 0);
    at = one.end;
  }
  const std::string mended = corrected(text, found);
  static const std::string_view pieces[] = {"[UNK]", "the", "a", "b", "##a", "##b"};
  static const float gate[] = {0, -1, 1, -2, 2, -1, 1, 0};
  static const auto of_english =
      std::make_shared<LanguageGate>(std::make_shared<WordPiece>(pieces), gate);
  const auto gated = Speller(catalog, general, of_english).corrections(text);
  require(of_english->is_foreign(mended) || gated.size() == found.size());
  for (const Speller::Correction& one : gated) {
    require(!of_english->is_foreign(mended) || !general->knows(one.word));
  }
  if (found.empty()) require(mended == text);
  if (is_well_formed(text)) require(is_well_formed(mended));
  require(Speller(general, catalog).corrections(mended).size() <= Speller::kMostUnknown);
  return 0;
}
