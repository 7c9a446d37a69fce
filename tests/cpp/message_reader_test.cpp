#include "toolroll/message_reader.hpp"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.hpp"

namespace toolroll {
namespace {

using Views = std::vector<std::string_view>;

constexpr std::array<std::string_view, 1> kTools = {"weather forecast"};
constexpr std::array<std::string_view, 2> kEnglish = {"the", "calendar"};
constexpr std::array<float, 2> kOnes = {1, 1};

MessageReader reader() {
  return {std::make_shared<Speller>(
              std::make_shared<Lexicon>(Lexicon::of_texts(kTools, std::span(kOnes).first(1))),
              std::make_shared<Lexicon>(Lexicon::of_words(kEnglish, kOnes))),
          true};
}

TEST_CASE("a message falls into clauses that may each ask for something") {
  CHECK(clauses_of("book me a table, then tell Ann about it") ==
        Views{"book me a table", "tell Ann about it"});
  CHECK(clauses_of("yes, at 8").empty());
  CHECK(parts_of("yes, at 8") == Views{"yes", "at 8"});
}

TEST_CASE("ill-formed bytes are parts of words") {
  CHECK(parts_of("a\xFF, b\xE3\x80, \xED\xA0\x80") == Views{"a\xFF", "b\xE3\x80", "\xED\xA0\x80"});
  CHECK(clauses_of("a \xFF b, c \xE3\x80 d") == Views{"a \xFF b", "c \xE3\x80 d"});
}

TEST_CASE("a document has no clauses") {
  const std::string document(MessageReader::kLongestClaused, 'x');
  CHECK(parts_of(document).size() == 1);
  CHECK(parts_of(document + "x").empty());
  std::string wide;
  for (std::size_t i = 0; i < MessageReader::kLongestClaused; ++i) wide += "\xC3\xA9";
  CHECK(parts_of(wide).size() == 1);
}

TEST_CASE("a correction is shown to whom its word may be shown") {
  const MessageReader::MayShow nothing = [](std::string_view) { return false; };
  const std::string_view message = "the wether in the calender";
  CHECK(reader().read(message, {}, {}, false).query.text == "the weather in the calendar");
  CHECK(reader().read(message, {}, nothing, false).query.text == "the wether in the calendar");
}

TEST_CASE("an exception of the question leaves nothing behind") {
  const MessageReader::MayShow fails = [](std::string_view) -> bool { throw 7; };
  const MessageReader one = reader();
  CHECK_THROWS_AS(one.read("the wether", {}, fails, false), int);
  CHECK(one.read("the wether", {}, {}, false).query.text == "the weather");
}

TEST_CASE("four threads that read with one reader get the same texts") {
  const MessageReader one = reader();
  const std::array<EarlierTurn, 1> earlier = {EarlierTurn{true, "book a table"}};
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::string& query : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) query = one.read("the wether", earlier, {}, true).query.text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& query : found) CHECK(query == "the weather");
}

}  // namespace
}  // namespace toolroll
