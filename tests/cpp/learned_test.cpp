#include "toolroll/learned.hpp"

#include <random>
#include <thread>

#include "check.hpp"
#include "toolroll/archive.hpp"
#include "toolroll/slate.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kDim = 16;

std::vector<Delta> random_deltas(std::size_t n, std::uint32_t seed, std::int32_t vectors) {
  std::mt19937 random(seed);
  std::vector<Delta> deltas(n);
  for (Delta& delta : deltas) {
    const bool is_success = random() % 4 != 0;
    const std::uint64_t tool = random() % 40;
    delta = {1e9 + static_cast<double>(random() % 2'000'000),
             1,
             2 + random() % 5,
             10 + random() % 20,
             100 + random() % 3,
             1000 + tool,
             2000 + tool,
             tool % 7 == 0 ? 5000 + tool % 3 : 0,
             is_success ? 1.0 : 0.0,
             is_success ? 0.0 : 1.0,
             1.0,
             0.01 * static_cast<double>(random() % 100),
             vectors > 0 ? static_cast<std::int32_t>(random()) % vectors : -1,
             is_success ? 1 : -1,
             1.0,
             random() % 9};
    if (delta.vector < 0) delta.vector = -1;
  }
  return deltas;
}

std::vector<float> random_vectors(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(n * kDim);
  for (float& value : all) value = normal(random);
  return all;
}

TEST_CASE("a fold is the same whole or in pieces, and leaves what it came from as it was") {
  const auto deltas = random_deltas(3000, 1, 30);
  const auto vectors = random_vectors(30, 2);
  const Learned nothing(kDim);
  const Learned whole = nothing.fold(deltas, vectors);
  Learned pieces = nothing;
  std::vector<std::byte> half;
  Learned kept = nothing;
  for (std::size_t at = 0; at < deltas.size(); at += 100) {
    if (at == 1500) {
      kept = pieces;
      half = pieces.bytes();
    }
    pieces = pieces.fold(std::span(deltas).subspan(at, 100), vectors);
  }
  CHECK(pieces.revision() == 3000);
  CHECK(nothing.size() == 0);
  CHECK(kept.bytes() == half);
  CHECK(pieces.size() == whole.size());
  CHECK(pieces.vectors() == whole.vectors());
  const auto a = pieces.rows(nothing).cells;
  const auto b = whole.rows(nothing).cells;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    CHECK(a[i].second == b[i].second);
  }
}

TEST_CASE("bytes bring everything back, and damaged ones are refused") {
  const auto vectors = random_vectors(30, 3);
  const Learned learned = Learned(kDim).fold(random_deltas(2000, 4, 30), vectors);
  const std::vector<std::byte> bytes = learned.bytes();
  const Learned back = Learned::from_bytes(bytes);
  CHECK(back.bytes() == bytes);
  CHECK(back.size() == learned.size());
  CHECK(back.vectors() == learned.vectors());
  CHECK(back.revision() == learned.revision());
  for (std::size_t size = 0; size < bytes.size(); size += 97) {
    CHECK_THROWS_AS(
        Learned::from_bytes({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
        ArchiveError);
  }
}

TEST_CASE("the rows that folds changed make the same value anew, and damaged ones are refused") {
  const auto deltas = random_deltas(2000, 7, 30);
  const auto vectors = random_vectors(30, 8);
  const Learned nothing(kDim);
  Learned folded = nothing;
  Learned reader = nothing;
  for (std::size_t at = 0; at < deltas.size(); at += 100) {
    const Learned before = folded;
    folded = before.fold(std::span(deltas).subspan(at, 100), vectors);
    reader = reader.with_rows(folded.rows(before), folded.revision());
    REQUIRE(reader.bytes() == folded.bytes());
  }
  CHECK(folded.rows(folded).cells.empty());
  CHECK(folded.rows(reader).cells.empty());
  CHECK(reader.vectors() == folded.vectors());
  const LearnedRows all = folded.rows(nothing);
  CHECK(all.cells.size() == folded.size());
  CHECK(nothing.with_rows(all, folded.revision()).bytes() == folded.bytes());

  for (const RecordRow& record : all.records) {
    if (record.kind != RecordKind::kVector && record.key % 13 != 0) continue;
    for (std::size_t size = 1; size < record.state.size(); size += 61) {
      LearnedRows cut{{}, {record}};
      cut.records[0].state.resize(size);
      CHECK_THROWS_AS(nothing.with_rows(cut, 1), ArchiveError);
    }
    if (record.state.empty()) continue;
    for (std::size_t at = 0; at < record.state.size(); at += 7) {  // no crash, whatever it says
      LearnedRows changed{{}, {record}};
      changed.records[0].state[at] = std::byte{0xFF};
      try {
        (void)nothing.with_rows(changed, 1).fold(std::span(deltas).first(50), vectors).bytes();
      } catch (const ArchiveError&) {
      }
    }
  }
}

TEST_CASE("readers keep their value while others fold") {
  const auto vectors = random_vectors(30, 5);
  auto current =
      std::make_shared<const Learned>(Learned(kDim).fold(random_deltas(2000, 6, 30), vectors));
  std::vector<std::uint64_t> arm(40), intent(40), group(40);
  for (std::size_t i = 0; i < 40; ++i) {
    arm[i] = 1000 + i;
    intent[i] = 2000 + i;
  }
  const ToolKeys keys(arm, intent, group);
  const auto read = [&keys](const Learned& learned) {
    std::vector<std::int32_t> rows(40), order(40);
    std::vector<float> scores(40), score(40), mean(40), sd(40), show(40);
    std::vector<std::uint8_t> core(40);
    std::vector<Placement> placement(40);
    for (std::size_t i = 0; i < 40; ++i) rows[i] = static_cast<std::int32_t>(i);
    rank(learned, keys, {rows, scores, {}, core}, {1, 3, 12}, 1.01e9, 7, 7, 1.0, {},
         {order, score, mean, sd, show, placement});
    return order;
  };
  const auto expected = read(*current);
  std::vector<std::thread> threads;
  for (int reader = 0; reader < 4; ++reader) {
    threads.emplace_back([&, mine = current] {
      for (int i = 0; i < 200; ++i) CHECK(read(*mine) == expected);
    });
  }
  for (std::uint32_t i = 0; i < 200; ++i) {
    current = std::make_shared<const Learned>(current->fold(random_deltas(7, i, 30), vectors));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace toolroll
