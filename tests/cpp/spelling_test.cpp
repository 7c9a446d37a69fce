#include "toolroll/spelling.hpp"

#include <array>
#include <string>
#include <thread>

#include "check.hpp"

namespace toolroll {
namespace {

constexpr std::array<std::string_view, 2> kTools = {"get_weather: the weather forecast",
                                                    "listGitHub repositories"};
constexpr std::array<float, 2> kOnes = {1, 1};
constexpr std::array<std::string_view, 4> kEnglish = {"the", "whether", "what", "tomorrow"};
constexpr std::array<float, 4> kWeights = {4, 3, 2, 1};

Speller speller() {
  return Speller(std::make_shared<Lexicon>(Lexicon::of_texts(kTools, kOnes)),
                 std::make_shared<Lexicon>(Lexicon::of_words(kEnglish, kWeights)));
}

std::string read(const Speller& speller, std::string_view text) {
  return corrected(text, speller.corrections(text));
}

TEST_CASE("ill-formed bytes separate words and stay") {
  CHECK(read(speller(), "the wether\xFFwe\xC3 forcast\xED\xA0\x80") ==
        "the weather\xFFwe\xC3 forecast\xED\xA0\x80");
}

TEST_CASE("corrections say which bytes they replace") {
  const auto found = speller().corrections("das \xC3\xA9t\xC3\xA9 wether");
  REQUIRE(found.size() == 1);
  CHECK(found[0].begin == 10);
  CHECK(found[0].end == 16);
  CHECK(found[0].word == "weather");
}

TEST_CASE("empty lexicons know nothing and correct nothing") {
  const auto empty = std::make_shared<Lexicon>(Lexicon::of_texts({}, {}));
  CHECK(Speller(empty, empty).corrections("the wether forcast").empty());
  CHECK_THROWS_AS(Speller(empty, nullptr), std::invalid_argument);
}

TEST_CASE("own words are known beside the catalog's, and only to whom they belong") {
  constexpr std::array<std::string_view, 1> kOwn = {"the frobnicator reloads a weather station"};
  const Speller shared = speller();
  const Speller own =
      shared.with_own(std::make_shared<Lexicon>(Lexicon::of_texts(kOwn, std::array<float, 1>{1})));
  CHECK(read(own, "the frobnicater and the wether") == "the frobnicator and the weather");
  CHECK(read(shared, "the frobnicater and the wether") == "the frobnicater and the weather");
  CHECK(read(own, "frobnicators reloading") == "frobnicators reloading");
  CHECK(read(own, "list my repositries") == "list my repositories");
}

TEST_CASE("four threads that read with one speller read the same") {
  const Speller shared = speller();
  std::array<std::string, 4> found;
  std::vector<std::thread> threads;
  for (std::string& text : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        text = read(shared, "the " + std::to_string(i) + " zzzz tomorow");
        text = read(shared, "what is the wether forcast tomorrw in my repositries");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : found) {
    CHECK(text == "what is the weather forecast tomorrow in my repositories");
  }
}

}  // namespace
}  // namespace toolroll
