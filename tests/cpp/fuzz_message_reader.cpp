// Any bytes can be read: pieces stand in the message in their order, clauses are never one, the
// query is the text with the corrections that the caller may see, and well-formed text stays so.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "encode_check.hpp"
#include "toolroll/message_reader.hpp"
#include "toolroll/unicode.hpp"

using namespace toolroll;

namespace {

constexpr std::array<std::string_view, 4> kEnglish = {"[UNK]", "a", "##b", "the"};
constexpr std::array<std::string_view, 2> kPieces = {"a", "\xE6\x98\xBE"};
constexpr std::array<float, 2> kScores = {-3, -4};
constexpr std::array<std::string_view, 3> kMarks = {", and ", "\xE3\x80\x82", "the wether "};

MultilingualTable table() {
  static const std::vector<std::int8_t> rows(kEnglish.size() * 5, 3);
  static const std::vector<float> scale(kEnglish.size(), 1.0F);
  static const std::array<float, 6> gate = {0, 1, -1, 1, 1, -2};
  return {std::make_shared<const TokenTable>(kEnglish, rows, scale, 5),
          kPieces,
          kScores,
          std::span(rows).first(10),
          std::span(scale).first(2),
          gate};
}

std::shared_ptr<const Speller> speller() {
  constexpr std::array<std::string_view, 2> kTools = {"weather forecast", "babab"};
  constexpr std::array<std::string_view, 2> kWords = {"the", "whether"};
  constexpr std::array<float, 2> kOnes = {1, 1};
  return std::make_shared<Speller>(std::make_shared<Lexicon>(Lexicon::of_texts(kTools, kOnes)),
                                   std::make_shared<Lexicon>(Lexicon::of_words(kWords, kOnes)));
}

// Some bytes stand for what parts messages, which they would seldom spell.
std::string message_of(std::string_view bytes) {
  std::string message;
  for (const char byte : bytes) {
    const auto at = static_cast<unsigned char>(byte);
    if (at < kMarks.size()) {
      message += kMarks[at];
    } else {
      message += byte;
    }
  }
  return message;
}

bool is_well_formed(std::string_view text) { return encode(decode(text)) == text; }

// The pieces stand in the text in their order, without overlap.
void check_pieces(std::string_view text, const std::vector<std::string_view>& pieces) {
  const char* at = text.data();
  for (const std::string_view piece : pieces) {
    require(!piece.empty() && at <= piece.data());
    at = piece.data() + piece.size();
  }
  require(at <= text.data() + text.size());
}

void check_passage(const Passage& passage, bool is_well_formed_input) {
  require(!is_well_formed_input || is_well_formed(passage.text));
  require(passage.trust >= 0 && passage.trust <= 1);
  require(passage.weight >= 0.05 && passage.weight <= 1);
  require(passage.vector.size() == 5);
  double squared = 0;
  for (const float x : passage.vector) squared += static_cast<double>(x) * static_cast<double>(x);
  require(squared == 0 || std::abs(squared - 1) < 1e-5);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MultilingualTable tables = table();
  static const std::shared_ptr<const Speller> words = speller();
  static const MessageReader reader(words, true);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string message = message_of(input.substr(size / 4));
  const std::string before = message_of(input.substr(0, size / 4));

  const auto parts = parts_of(message);
  check_pieces(message, parts);
  const auto clauses = clauses_of(message);
  check_pieces(message, clauses);
  require(clauses.size() != 1 && clauses.size() <= MessageReader::kMostClauses);
  require(clauses.size() <= parts.size());

  const std::array<EarlierTurn, 4> earlier = {EarlierTurn{true, message}, EarlierTurn{true, before},
                                              EarlierTurn{true, "a b"}, EarlierTurn{false, before}};
  Reading reading = reader.read(message, earlier, {}, true);
  require(reading.text == message);
  require(reading.query.text == corrected(message, words->corrections(message)));
  require(reading.clauses.size() == clauses_of(reading.query.text).size());
  require(reading.earlier.size() <= 3);
  embed(tables, reading);
  const bool is_valid = is_well_formed(message) && is_well_formed(before);
  check_passage(reading.query, is_valid);
  for (const Passage& clause : reading.clauses) check_passage(clause, is_valid);
  for (const Passage& turn : reading.earlier) check_passage(turn, is_valid);

  const MessageReader::MayShow nothing = [](std::string_view) { return false; };
  const Reading limited = reader.read(message, {}, nothing, false);
  for (const Speller::Correction& one : words->corrections(message)) {
    if (words->general().knows(one.word)) continue;
    require(limited.query.text != reading.query.text);
    break;
  }
  require(limited.earlier.empty() && limited.query.trust == 1);
  return 0;
}
