#include "toolroll/fusion.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "check.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kRows = 3000;
constexpr std::size_t kDim = 32;

std::vector<float> random_vectors(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(count * kDim);
  for (float& value : all) value = normal(random);
  return all;
}

std::vector<std::string> sentences(std::size_t count, std::size_t words, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> all(count);
  for (std::string& sentence : all) {
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint32_t x = random() % 1000;  // squared: small numbers are frequent
      sentence += "word" + std::to_string(x * x / 1000) + ' ';
    }
  }
  return all;
}

/// Cosines as they are, and nothing else.
Fusion dense_alone() {
  return {.dense = 1.0F,
          .dense_floor = 0.0F,
          .lexical = 0.0F,
          .lexical_saturation = 200.0F,
          .intents = 0.0F,
          .intent_floor = 0.3F,
          .clauses = 0.0F,
          .threshold = 0.0F};
}

/// Vectors, postings, up to two intents a row, and every fifth row damped.
Retriever retriever_of(std::size_t rows, std::uint32_t seed) {
  const std::vector<std::string> texts = sentences(rows, 12, seed);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Field field{views, 1.0};
  std::vector<std::int64_t> begins = {0};
  std::vector<float> damping(rows, 1.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    begins.push_back(begins.back() + static_cast<std::int64_t>(row % 3));
    if (row % 5 == 0) damping[row] = 0.5F;
  }
  const auto count = static_cast<std::size_t>(begins.back());
  const std::vector<float> weights(count, 0.8F);
  return Retriever(
      rows, std::make_shared<VectorIndex>(VectorIndex::build(random_vectors(rows, seed + 1), kDim)),
      std::make_shared<Bm25Index>(Bm25Index::build({&field, 1}, {})),
      std::make_shared<Intents>(
          Intents::build(begins, random_vectors(count, seed + 2), kDim, weights)),
      std::move(damping));
}

bool equal(const Retrieved& a, const Retrieved& b) {
  return a.rows == b.rows && a.scores == b.scores && a.dense == b.dense && a.intents == b.intents &&
         a.lexical == b.lexical && a.clauses == b.clauses && a.earlier == b.earlier &&
         a.evidence == b.evidence;
}

TEST_CASE("four threads that search one retriever get the single-threaded answer") {
  const Retriever retriever = retriever_of(kRows, 1);
  const Retriever other = retriever_of(300, 9);  // threads switch between sizes
  const Bitset everything = Bitset::full(kRows);
  const Bitset all_others = Bitset::full(300);
  std::vector<std::int32_t> rows;
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(kRows); row += 3) rows.push_back(row);
  const Bitset some = Bitset::of(kRows, rows);
  const std::vector<std::string> texts = sentences(150, 6, 4);
  const std::vector<float> vectors = random_vectors(texts.size(), 5);
  const std::vector<std::int32_t> known = {0, 3, 999};
  const std::vector<float> before = {0.5F, 0.25F, 0.125F};
  Fusion fusion = dense_alone();
  fusion.lexical = 0.05F;
  fusion.intents = 0.5F;
  fusion.clauses = 0.4F;

  const auto part = [&](std::size_t i, float trust, float weight) {
    i %= texts.size();
    return Part{texts[i], std::span(vectors).subspan(i * kDim, kDim), trust, weight};
  };
  const auto answers = [&] {
    std::vector<Retrieved> found;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<Part> clauses = {part(i + 1, 1.0F, 1.0F), part(i + 2, 0.5F, 1.0F)};
      const std::vector<Part> earlier = {part(i + 3, 1.0F, 0.7F)};
      const Part message = part(i, 1.0F, 1.0F);
      found.push_back(
          retriever.search({message, clauses, earlier, everything, known, before, 10}, fusion));
      found.push_back(retriever.search({message, clauses, {}, some, {}, {}, 10}, fusion));
      found.push_back(other.search({message, {}, earlier, all_others, {}, {}, 10}, fusion));
    }
    return found;
  };
  const std::vector<Retrieved> expected = answers();
  std::vector<std::vector<Retrieved>> found(4);
  std::vector<std::thread> threads;
  for (auto& of_thread : found) threads.emplace_back([&] { of_thread = answers(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : found) {
    REQUIRE(of_thread.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(equal(of_thread[i], expected[i]));
  }
}

TEST_CASE("a stack finds what its parts find, best first") {
  const auto shared = std::make_shared<Retriever>(retriever_of(500, 1));
  const auto own = std::make_shared<Retriever>(retriever_of(130, 9));
  const Retriever stacked = Retriever::stacked(shared, own);
  REQUIRE(stacked.size() == 630);
  const std::vector<std::string> texts = sentences(60, 6, 4);
  const std::vector<float> vectors = random_vectors(texts.size(), 5);
  std::vector<std::int32_t> rows;
  for (std::int32_t row = 1; row < 630; row += 2) rows.push_back(row);
  Fusion fusion = dense_alone();
  fusion.lexical = 0.05F;
  fusion.intents = 0.5F;
  fusion.clauses = 0.4F;
  for (const Bitset& in_play : {Bitset::full(630), Bitset::of(630, rows)}) {
    for (std::size_t i = 0; i + 1 < texts.size(); ++i) {
      const auto part = [&](std::size_t at) {
        return Part{texts[at], std::span(vectors).subspan(at * kDim, kDim), 1.0F, 1.0F};
      };
      const std::vector<Part> clauses = {part(i + 1)};
      const Retrieved found = stacked.search({part(i),
                                              clauses,
                                              {},
                                              in_play,
                                              std::vector<std::int32_t>{599, 499, 501},
                                              std::vector<float>{0.5F, 0.25F, 0.125F},
                                              10},
                                             fusion);
      Retrieved a = shared->search({part(i),
                                    clauses,
                                    {},
                                    in_play.slice(0, 500),
                                    std::vector<std::int32_t>{499},
                                    std::vector<float>{0.25F},
                                    10},
                                   fusion);
      const Retrieved b = own->search({part(i),
                                       clauses,
                                       {},
                                       in_play.slice(500, 630),
                                       std::vector<std::int32_t>{99, 1},
                                       std::vector<float>{0.5F, 0.125F},
                                       10},
                                      fusion);
      CHECK(found.evidence == std::max(a.evidence, b.evidence));
      std::vector<std::pair<float, std::int32_t>> both;  // minus the score, so that pairs ascend
      for (std::size_t j = 0; j < a.rows.size(); ++j) both.emplace_back(-a.scores[j], a.rows[j]);
      for (std::size_t j = 0; j < b.rows.size(); ++j) {
        both.emplace_back(-b.scores[j], b.rows[j] + 500);
      }
      std::sort(both.begin(), both.end());
      both.resize(std::min<std::size_t>(both.size(), 10));
      REQUIRE(found.rows.size() == both.size());
      for (std::size_t j = 0; j < both.size(); ++j) {
        CHECK(found.rows[j] == both[j].second);
        CHECK(found.scores[j] == -both[j].first);
        const Retrieved& source = found.rows[j] < 500 ? a : b;
        const std::int32_t row = found.rows[j] < 500 ? found.rows[j] : found.rows[j] - 500;
        const auto at = static_cast<std::size_t>(
            std::find(source.rows.begin(), source.rows.end(), row) - source.rows.begin());
        CHECK(found.dense[j] == source.dense[at]);
        CHECK(found.intents[j] == source.intents[at]);
        CHECK(found.lexical[j] == source.lexical[at]);
        CHECK(found.clauses[j] == source.clauses[at]);
        CHECK(found.earlier[j] == source.earlier[at]);
      }
    }
  }
  CHECK(stacked.search({{texts[0], {}}, {}, {}, Bitset(630), {}, {}, 10}, fusion).rows.empty());
  CHECK_THROWS_AS(Retriever::stacked(shared, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(Retriever::stacked(std::make_shared<Retriever>(stacked), own),
                  std::invalid_argument);
  CHECK_THROWS_AS(stacked.search({{texts[0], {}}, {}, {}, Bitset(629), {}, {}, 10}, fusion),
                  std::invalid_argument);
  for (const std::int32_t row : {-1, 630}) {
    CHECK_THROWS_AS(stacked.search({{texts[0], {}},
                                    {},
                                    {},
                                    Bitset(630),
                                    std::vector<std::int32_t>{row},
                                    std::vector<float>{1.0F},
                                    10},
                                   fusion),
                    std::invalid_argument);
  }
}

TEST_CASE("a search that throws leaves nothing behind for the next") {
  const Retriever retriever = retriever_of(300, 1);
  const Bitset everything = Bitset::full(300);
  const std::vector<float> vector = random_vectors(1, 3);
  Fusion fusion = dense_alone();
  fusion.lexical = 0.05F;
  fusion.clauses = 0.4F;
  const Part message{"word1 word5 word100", vector};
  const Retrieved before = retriever.search({message, {}, {}, everything, {}, {}, 10}, fusion);
  const std::vector<Part> narrow = {{"word1", std::span(vector).first(kDim - 1)}};
  CHECK_THROWS_AS(retriever.search({message, narrow, {}, everything, {}, {}, 10}, fusion),
                  std::invalid_argument);
  CHECK(equal(retriever.search({message, {}, {}, everything, {}, {}, 10}, fusion), before));
}

TEST_CASE("memory of intents grows with their vectors") {
  const auto of = [](std::size_t rows) {
    std::vector<std::int64_t> begins(rows + 1);
    for (std::size_t row = 0; row <= rows; ++row) begins[row] = static_cast<std::int64_t>(row);
    return Intents::build(begins, random_vectors(rows, 1), kDim, std::vector<float>(rows, 1.0F))
        .memory_bytes();
  };
  CHECK(of(4'000) - of(1) >= 3'999 * kDim * sizeof(float));
}

TEST_CASE("many known rows are ranked as if each of them was weighed") {
  // If k is the number of rows, nothing is left out. Only known rows are in play, so that every
  // row is weighed there, and a smaller k must give the first of them.
  const Retriever retriever = retriever_of(kRows, 1);
  const std::vector<std::string> texts = sentences(60, 4, 4);
  const std::vector<float> vectors = random_vectors(texts.size(), 5);
  std::mt19937 random(6);
  for (std::size_t i = 0; i + 2 < texts.size(); ++i) {
    std::vector<std::int32_t> known;
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(kRows); ++row) {
      if (random() % 4 == 0) known.push_back(row);
    }
    if (i % 3 == 0) std::ranges::shuffle(known, random);  // routes come before marks
    std::vector<float> before(known.size(), 0.15F);
    for (float& score : before) {
      if (random() % 8 == 0) score = i % 2 == 0 ? 0.3F : 0.0F;
    }
    const Bitset in_play = Bitset::of(kRows, known);
    Fusion fusion = dense_alone();
    fusion.lexical = i % 4 == 0 ? 0.0F : 0.05F;
    fusion.intents = i % 5 == 0 ? 0.5F : 0.0F;
    fusion.clauses = 0.4F;
    fusion.threshold = i % 7 == 0 ? 0.4F : 0.0F;
    const auto part = [&](std::size_t at, float weight) {
      return Part{texts[at], std::span(vectors).subspan(at * kDim, kDim), 1.0F, weight};
    };
    std::vector<Part> clauses;
    std::vector<Part> earlier;
    if (i % 2 == 0) clauses = {part(i + 1, 1.0F), part(i + 2, 1.0F)};
    if (i % 3 == 1) earlier = {part(i + 1, 0.7F)};
    const auto found = [&](std::size_t k) {
      return retriever.search({part(i, 1.0F), clauses, earlier, in_play, known, before, k}, fusion);
    };
    const Retrieved all = found(kRows);
    for (const std::size_t k : {std::size_t{1}, std::size_t{20}, std::size_t{90}}) {
      const Retrieved best = found(k);
      const std::size_t kept = std::min(k, all.rows.size());
      REQUIRE(best.rows.size() == kept);
      CHECK(std::equal(best.rows.begin(), best.rows.end(), all.rows.begin()));
      CHECK(std::equal(best.scores.begin(), best.scores.end(), all.scores.begin()));
      CHECK(std::equal(best.lexical.begin(), best.lexical.end(), all.lexical.begin()));
      CHECK(best.evidence == all.evidence);
    }
  }
}

TEST_CASE("a search of a small catalog takes microseconds, of a large one a thread's turn") {
  constexpr double kWorthReleasingNs = 200'000;
  const std::vector<float> vector = random_vectors(1, 5);
  const std::string text = sentences(1, 12, 6)[0];
  const std::vector<Part> clauses(2, {text, vector});
  const auto expected = [&](const Retriever& retriever, std::size_t k) {
    const std::vector<std::int32_t> known = {0, 1, 2, 3, 4};
    const Bitset everything = Bitset::full(retriever.size());
    return retriever.expected_ns({{text, vector}, clauses, {}, everything, known, {}, k});
  };
  const auto demonstration = retriever_of(214, 1);
  CHECK(expected(demonstration, 40) < kWorthReleasingNs / 2);
  CHECK(expected(retriever_of(100'000, 1), 40) > kWorthReleasingNs);
  CHECK(expected(retriever_of(10'000, 1), 10'000) >
        kWorthReleasingNs);  // few rows, but all of them

  // Rows out of play cost next to nothing.
  const auto large = retriever_of(100'000, 1);
  const Bitset few = Bitset::of(100'000, std::vector<std::int32_t>{1, 5, 99});
  CHECK(large.expected_ns({{text, vector}, {}, {}, few, {}, {}, 40}) <
        large.expected_ns({{text, vector}, {}, {}, Bitset::full(100'000), {}, {}, 40}) / 2);
}

}  // namespace
}  // namespace toolroll
