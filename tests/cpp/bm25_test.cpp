#include "toolroll/bm25.hpp"

#include <cmath>
#include <iterator>
#include <new>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "allocation.hpp"
#include "check.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kRows = 5000;

std::vector<std::string> sentences(std::size_t count, std::size_t words, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> all(count);
  for (std::string& sentence : all) {
    for (std::size_t i = random() % words; i-- > 0;) {
      const std::uint32_t x = random() % 1000;  // squared: small numbers are frequent
      sentence += "word" + std::to_string(x * x / 1000) + ' ';
    }
  }
  return all;
}

Bm25Index index_of(const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Field field{views, 1.0};
  return Bm25Index::build({&field, 1}, {});
}

TEST_CASE("four threads that search one index get the single-threaded answer") {
  const Bm25Index index = index_of(sentences(kRows, 30, 1));
  const Bm25Index other = index_of(sentences(300, 30, 2));  // threads switch between sizes
  const auto messages = sentences(200, 9, 3);
  std::vector<std::int32_t> rows;
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(kRows); row += 3) rows.push_back(row);
  const Bitset allowed = Bitset::of(kRows, rows);

  const auto answers = [&] {
    std::vector<Hits> found;
    for (const std::string& message : messages) {
      found.push_back(index.search(message, 10, nullptr));
      found.push_back(other.search(message, 10, nullptr));
      found.push_back(index.search(message, 10, &allowed));
    }
    return found;
  };
  const std::vector<Hits> expected = answers();
  std::vector<std::vector<Hits>> found(4);
  std::vector<std::thread> threads;
  for (auto& of_thread : found) threads.emplace_back([&] { of_thread = answers(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : found) {
    REQUIRE(of_thread.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(of_thread[i].rows == expected[i].rows);
      CHECK(of_thread[i].scores == expected[i].scores);
    }
  }
}

TEST_CASE("scores before a background are those of one index over both") {
  const std::vector<std::string> all = sentences(kRows, 30, 1);
  for (const std::size_t split : {std::size_t{0}, std::size_t{300}, kRows - 200, kRows}) {
    CAPTURE(split);
    const auto background = std::make_shared<Bm25Index>(
        index_of({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(split)}));
    const std::vector<std::string> own(all.begin() + static_cast<std::ptrdiff_t>(split), all.end());
    const std::vector<std::string_view> views(own.begin(), own.end());
    const Field field{views, 1.0};
    const Bm25Index part = Bm25Index::build({&field, 1}, {}, background);
    const Bm25Index whole = index_of(all);
    std::vector<std::int32_t> rows(own.size());
    std::vector<std::int32_t> rows_of_whole(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      rows[i] = static_cast<std::int32_t>(i);
      rows_of_whole[i] = static_cast<std::int32_t>(split + i);
    }
    std::vector<float> scores(own.size());
    std::vector<float> expected(own.size());
    for (const std::string& message : sentences(50, 9, 3)) {
      part.scores(message, rows, scores);
      whole.scores(message, rows_of_whole, expected);
      for (std::size_t i = 0; i < own.size(); ++i) {
        CHECK(testing::is_near(scores[i], expected[i], 1e-5));
      }
      const std::string and_unknown = message + " nobody says this";
      CHECK(testing::is_near(part.ceiling(and_unknown), whole.ceiling(and_unknown)));
    }
  }
}

TEST_CASE("an index with a background is not saved, and has its options") {
  const auto background = std::make_shared<Bm25Index>(index_of({"one two", "two three"}));
  const std::vector<std::string_view> own = {"two four"};
  const Field field{own, 1.0};
  CHECK_THROWS_AS(Bm25Index::build({&field, 1}, {}, background).save("nowhere"),
                  std::invalid_argument);
  CHECK_THROWS_AS(Bm25Index::build({&field, 1}, {.k1 = 1.5}, background), std::invalid_argument);
}

TEST_CASE("a search that throws leaves nothing behind for the next") {
  const Bm25Index index = index_of(sentences(kRows, 30, 1));
  const Hits before = index.search("word1 word5 word100", 10, nullptr);
  CHECK_THROWS_AS(index.search("word1", 10, std::make_unique<Bitset>(7).get()),
                  std::invalid_argument);
  CHECK(index.search("word1 word5 word100", 10, nullptr).scores == before.scores);
}

TEST_CASE("a search that runs out of memory anywhere leaves nothing behind for the next") {
  for (const std::size_t rows : {std::size_t{300}, kRows}) {  // all sums scanned, and rows touched
    CAPTURE(rows);
    const Bm25Index index = index_of(sentences(rows, 30, 1));
    std::vector<std::int32_t> some;
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(rows); row += 101)
      some.push_back(row);
    const Bitset few = Bitset::of(rows, some);
    for (const std::string message : {"word1 word5 word100", "word0 word1 word2 word3 word4"}) {
      for (const Bitset* allowed : {static_cast<const Bitset*>(nullptr), &few}) {
        const Hits expected = index.search(message, 100, allowed);
        bool ran_through = false;
        for (std::size_t n = 0; !ran_through; ++n) {
          CAPTURE(n);
          fail_allocation(n);
          bool has_failed = false;
          try {
            static_cast<void>(index.search(message, 100, allowed));
          } catch (const std::bad_alloc&) {
            has_failed = true;
          }
          ran_through = allow_allocations();
          CHECK(has_failed != ran_through);
          const Hits after = index.search(message, 100, allowed);
          CHECK(after.rows == expected.rows);
          CHECK(after.scores == expected.scores);
        }
      }
    }
  }
}

TEST_CASE("the ceiling is the sum of what each term could add, and no row reaches it") {
  const std::vector<std::string> texts = sentences(400, 12, 7);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Field field{views, 1.0};
  const Bm25Index index = Bm25Index::build({&field, 1}, {.analysis = Analysis::kPlain});
  std::vector<std::set<std::string>> words(texts.size());
  const auto split = [](const std::string& text) {
    std::istringstream in(text);
    return std::set<std::string>(std::istream_iterator<std::string>(in), {});
  };
  for (std::size_t row = 0; row < texts.size(); ++row) words[row] = split(texts[row]);
  for (const std::string& message : sentences(60, 9, 8)) {
    double expected = 0;
    for (const std::string& word : split(message + " zebra")) {
      double df = 0;
      for (const auto& of_row : words) df += of_row.contains(word) ? 1 : 0;
      expected += 2.2 * std::log(1 + (400 - df + 0.5) / (df + 0.5));
    }
    const double ceiling = index.ceiling(message + " zebra");
    CHECK(testing::is_near(ceiling, expected));
    const Hits best = index.search(message + " zebra", 1, nullptr);
    if (!best.scores.empty()) CHECK(static_cast<double>(best.scores[0]) <= ceiling);
  }
  CHECK(index.ceiling("") == 0);
}

TEST_CASE("an index keeps as many scratches as searches ran at once, and threads keep none") {
  const Bm25Index index = index_of(sentences(300, 30, 1));
  CHECK(index.idle_scratch() == 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) static_cast<void>(index.search("word1 word5", 10, nullptr));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(index.idle_scratch() >= 1);
  CHECK(index.idle_scratch() <= 4);  // as many as searched at once, however many searches
}

TEST_CASE("a small index takes microseconds and a large one is worth other threads' while") {
  constexpr double kWorthReleasingNs = 200'000;
  CHECK(index_of(sentences(214, 30, 1)).expected_ns(100) < kWorthReleasingNs / 4);
  CHECK(index_of(sentences(214, 30, 1)).expected_ns(100'000) > kWorthReleasingNs);
  CHECK(index_of(sentences(60'000, 30, 1)).expected_ns(1'000) > kWorthReleasingNs);
}

TEST_CASE("ill-formed bytes in texts and messages are not a crash") {
  const std::vector<std::string> texts = {"weather \xFF\xFE tool", "\xC3", "\xED\xA0\x80"};
  const Bm25Index index = index_of(texts);
  CHECK(index.search("weather\xC0", 10, nullptr).rows == std::vector<std::int32_t>{0});
}

}  // namespace
}  // namespace toolroll
