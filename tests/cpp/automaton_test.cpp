#include "toolroll/automaton.hpp"

#include <random>
#include <thread>

#include "check.hpp"
#include "toolroll/archive.hpp"

using namespace toolroll;

namespace {

struct Keywords {
  std::vector<std::string> patterns;
  std::vector<MatchMode> modes;
};

Keywords keywords(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Keywords made;
  for (std::size_t i = 0; i < count; ++i) {
    std::string pattern;
    for (std::size_t size = 1 + random() % 9; pattern.size() < size;) {
      pattern += static_cast<char>('a' + random() % 4);
    }
    made.patterns.push_back(pattern);
    made.modes.push_back(static_cast<MatchMode>(random() % 3));
  }
  return made;
}

}  // namespace

TEST_CASE("threads that share an automaton get the answers of one alone") {
  const Keywords made = keywords(3000, 1);
  const Automaton automaton(made.patterns, made.modes);
  std::vector<std::string> texts;
  std::mt19937 random(2);
  for (int i = 0; i < 50; ++i) {
    std::string text;
    for (std::size_t size = random() % 900; text.size() < size;)
      text += "abcd abcde"[random() % 10];
    texts.push_back(text);
  }
  std::vector<std::vector<std::int32_t>> found;
  std::vector<std::vector<Match>> matches;
  for (const std::string& text : texts) {
    found.push_back(automaton.find(text));
    matches.push_back(automaton.matches(text));
  }
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        wrong[t] += automaton.find(texts[i]) != found[i];
        wrong[t] += automaton.matches(texts[i]) != matches[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("one thread can search several automatons in turn") {
  const Keywords many = keywords(1000, 3);
  const Keywords few = keywords(3, 4);
  const Automaton large(many.patterns, many.modes);
  const Automaton small(few.patterns, few.modes);
  const auto expected = large.find("abcdabcd dcba");
  for (int i = 0; i < 10; ++i) {
    small.find("abcdabcd");
    CHECK(large.find("abcdabcd dcba") == expected);
  }
}

TEST_CASE("matches are byte ranges of the source") {
  const std::vector<std::string> patterns{"strasse"};
  const std::vector<MatchMode> modes{MatchMode::kWord};
  const Automaton automaton(patterns, modes);
  CHECK(automaton.matches("\xC3\x89 Stra\xC3\x9F"
                          "e!") == std::vector<Match>{{0, 3, 10}});
}

TEST_CASE("a crafted archive with a right checksum is refused") {
  const auto archive = [](std::string_view text, std::vector<std::uint64_t> offsets,
                          std::vector<std::uint8_t> modes) {
    ArchiveWriter writer("KEYWORDS", 1);
    writer.text(text);
    writer.column(offsets);
    writer.column(modes);
    return writer.bytes();
  };
  CHECK(Automaton::from_bytes(archive("ab", {0, 1, 2}, {0, 2})).size() == 2);
  CHECK(Automaton::from_bytes(archive("\xFF\xFE", {0, 2}, {0})).find("x\xEF\xBF\xBD\xEF\xBF\xBD") ==
        std::vector<std::int32_t>{0});
  CHECK_THROWS_AS(Automaton::from_bytes(archive("ab", {}, {})), ArchiveError);
  CHECK_THROWS_AS(Automaton::from_bytes(archive("ab", {0, 2}, {3})), ArchiveError);
  CHECK_THROWS_AS(Automaton::from_bytes(archive("ab", {0, 2}, {0, 0})), ArchiveError);
  CHECK_THROWS_AS(Automaton::from_bytes(archive("ab", {0, 3}, {0})), ArchiveError);
  CHECK_THROWS_AS(Automaton::from_bytes(archive("ab", {0, 9, 2}, {0, 0})), ArchiveError);
  CHECK_THROWS_AS(Automaton::from_bytes(archive("ab", {0, 2, 2}, {0, 0})), ArchiveError);
  CHECK_THROWS_AS(Automaton::from_bytes(archive("ab", {1, 2}, {0})), ArchiveError);
  CHECK_THROWS_AS(Automaton::from_bytes(archive(std::string(600, 'a'), {0, 600}, {1})),
                  ArchiveError);
}
