#include "toolroll/english.hpp"

#include <random>
#include <string>
#include <string_view>

#include "check.hpp"

namespace toolroll {
namespace {

std::string stem(std::string word) {
  word.resize(stem_english(word));
  return word;
}

struct Stem {
  const char* word;
  const char* stem;
};

// From the published vocabulary of the English (Porter2) stemmer, Snowball 3.1.
constexpr Stem kStems[] = {{"consistency", "consist"},
                           {"consigned", "consign"},
                           {"knack", "knack"},
                           {"knightly", "knight"},
                           {"skies", "sky"},
                           {"dying", "die"},
                           {"lying", "lie"},
                           {"news", "news"},
                           {"proceed", "proceed"},
                           {"exceeding", "exceed"},
                           {"succeeds", "succeed"},
                           {"outing", "outing"},
                           {"evening", "evening"},
                           {"add", "add"},
                           {"egged", "egg"},
                           {"offing", "off"},
                           {"hopping", "hop"},
                           {"hoping", "hope"},
                           {"filing", "file"},
                           {"failing", "fail"},
                           {"tied", "tie"},
                           {"cries", "cri"},
                           {"gas", "gas"},
                           {"this", "this"},
                           {"gaps", "gap"},
                           {"kiwis", "kiwi"},
                           {"luxuriated", "luxuri"},
                           {"generate", "generat"},
                           {"generic", "generic"},
                           {"communism", "communism"},
                           {"arsenal", "arsenal"},
                           {"internal", "internal"},
                           {"university", "universiti"},
                           {"organization", "organiz"},
                           {"past", "past"},
                           {"pasted", "paste"},
                           {"searching", "search"},
                           {"indices", "indic"},
                           {"databases", "databas"},
                           {"invoices", "invoic"},
                           {"scheduled", "schedul"},
                           {"meetings", "meet"},
                           {"apologist", "apolog"},
                           {"conditional", "condit"},
                           {"relational", "relat"},
                           {"vietnamization", "vietnam"},
                           {"sensibility", "sensibl"},
                           {"hopefulness", "hope"},
                           {"electricity", "electr"},
                           {"adjustment", "adjust"},
                           {"replacement", "replac"},
                           {"adoption", "adopt"},
                           {"controller", "control"},
                           {"roll", "roll"},
                           {"rate", "rate"},
                           {"sky", "sky"},
                           {"yes", "yes"},
                           {"youth", "youth"},
                           {"boyish", "boyish"},
                           {"flying", "fli"},
                           {"agreed", "agre"},
                           {"feed", "feed"}};

TEST_CASE("English words have their published stems") {
  for (const Stem& one : kStems) {
    CAPTURE(one.word);
    CHECK(stem(one.word) == one.stem);
  }
}

TEST_CASE("a stem is never longer than its word") {
  constexpr std::string_view kLetters = "abcdefghilmnorstuvwyz";
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string word(random() % 13, 'a');
    for (char& letter : word) letter = kLetters[random() % kLetters.size()];
    CHECK(stem_english(word) <= word.size());
  }
}

}  // namespace
}  // namespace toolroll
