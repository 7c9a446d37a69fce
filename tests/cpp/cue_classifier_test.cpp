// Cue words at the ends of a text and beside bytes that are no letters. Other texts:
// tests/unit/core.
#include "toolroll/cue_classifier.hpp"

#include <string>
#include <vector>

#include "check.hpp"

namespace toolroll {
namespace {

/// Two classes and one dimension; a cue counts for the second class.
CueClassifier classifier() {
  const std::vector<std::string> cues{"a", "don't", "^go"};
  const std::vector<std::string> opening{"please"};
  return CueClassifier({0, 0}, {0, 0}, cues, {0, 1, 0, 10, 0, 100}, 1, opening);
}

float second(std::string_view text) {
  const std::vector<float> vector{1};
  return classifier().logits(text, vector)[1];
}

TEST_CASE("a word may be the whole text, and end with it") {
  CHECK(second("") == 0);
  CHECK(second("a") == 1);
  CHECK(second("aa") == 0);
  CHECK(second("a a,a") == 1);
  CHECK(second("x don't") == 10);
  CHECK(second("x don\xE2\x80\x99t") == 10);
  CHECK(second("x don'") == 0);
  CHECK(second("x don\xE2\x80") == 0);
  CHECK(second("\xFF\xE2\x80\x99t") == 0);
}

TEST_CASE("only the first word that is not an opening one begins the request") {
  CHECK(second("please go") == 100);
  CHECK(second("go, don't go") == 110);
  CHECK(second("x go") == 0);
}

TEST_CASE("nothing is known of a text without a vector") {
  const std::vector<float> zero{0}, one{1};
  CHECK(!classifier().classify("go", zero, 0).has_value());
  CHECK(classifier().classify("go", one, 0.9) == 1);
  CHECK(!classifier().classify("x", one, 0.9).has_value());
}

}  // namespace
}  // namespace toolroll
