#include "toolroll/row_changes.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "dot_scan.hpp"
#include "toolroll/bm25.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kDim = 7;

struct Change {
  std::vector<std::int32_t> sources;
  std::size_t added = 0;
};

Change change_of(std::size_t before, std::mt19937& random) {
  Change change;
  for (std::size_t row = 0; row <= before; ++row) {
    for (; random() % 4 == 0; ++change.added) change.sources.push_back(RowChanges::kNone);
    if (row < before && random() % 4 != 0) change.sources.push_back(static_cast<std::int32_t>(row));
  }
  return change;
}

std::vector<std::string> texts(std::size_t count, std::mt19937& random) {
  std::vector<std::string> all(count);
  for (std::string& text : all) {
    for (std::size_t i = random() % 9; i-- > 0;)
      text += std::string(3 + random() % 3, static_cast<char>('a' + random() % 12)) + ' ';
  }
  return all;
}

/// The slow and obvious way.
template <typename T>
std::vector<T> after(const std::vector<T>& old, const std::vector<T>& added, const Change& change) {
  std::vector<T> all;
  std::size_t next = 0;
  for (const std::int32_t source : change.sources) {
    all.push_back(source == RowChanges::kNone ? added[next++]
                                              : old[static_cast<std::size_t>(source)]);
  }
  return all;
}

Field field_of(const std::vector<std::string_view>& views) { return {views, 2.0}; }

TEST_CASE("an index with changes finds what one finds that is built whole") {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const std::size_t before = round == 0 ? 5000 : 1 + random() % 400;  // with block maxima, too
    const Change change = change_of(before, random);
    const RowChanges changes(before, change.sources);
    const auto old = texts(before, random);
    const auto added = texts(change.added, random);
    const auto whole = after(old, added, change);
    const std::vector<std::string_view> old_views(old.begin(), old.end());
    const std::vector<std::string_view> added_views(added.begin(), added.end());
    const std::vector<std::string_view> views(whole.begin(), whole.end());
    const Field first = field_of(old_views);
    const Field more = field_of(added_views);
    const Field all = field_of(views);
    const Bm25Index found =
        Bm25Index::build({&first, 1}, {}).with_changes(changes, std::span(&more, 1));
    const Bm25Index built = Bm25Index::build({&all, 1}, {});
    CHECK(found.terms() == built.terms());
    for (const std::string& text : texts(20, random)) {
      const Hits one = found.search(text, 30, nullptr);
      const Hits other = built.search(text, 30, nullptr);
      CHECK(one.rows == other.rows);
      CHECK(one.scores == other.scores);
      CHECK(testing::is_near(found.ceiling(text), built.ceiling(text)));
    }
  }
}

TEST_CASE("vectors with changes are those of their rows") {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 20; ++round) {
    const std::size_t before = 1 + random() % 300;
    const Change change = change_of(before, random);
    const auto numbers = [&](std::size_t count) {
      std::vector<float> some(count * kDim);
      for (float& number : some) number = normal(random);
      return some;
    };
    const std::vector<float> old = numbers(before);
    const std::vector<float> added = numbers(change.added);
    const VectorIndex first = VectorIndex::build(old, kDim);
    const VectorIndex more = VectorIndex::build(added, kDim);
    const VectorIndex found = first.with_changes(RowChanges(before, change.sources), added);
    REQUIRE(found.size() == change.sources.size());
    std::size_t next = 0;
    for (std::size_t row = 0; row < found.size(); ++row) {
      const std::int32_t source = change.sources[row];
      const auto wanted = source == RowChanges::kNone
                              ? more.vector(next++)
                              : first.vector(static_cast<std::size_t>(source));
      CHECK(std::ranges::equal(found.vector(row), wanted));
    }
  }
}

TEST_CASE("4-bit rows with changes are those of a whole build") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  constexpr std::size_t kWide = 64;  // of narrow rows, 4 bits exclude few
  constexpr std::size_t kRows = HalfByteRows::kFewest + 1000;
  for (const bool is_small : {false, true}) {
    // Changes far apart, so that rows move by whole blocks and by parts of them.
    Change change;
    for (std::size_t row = 0; row < kRows; ++row) {
      if (random() % 300 == 0) continue;
      for (; random() % 300 == 0; ++change.added) change.sources.push_back(RowChanges::kNone);
      if (is_small && row > kRows / 2) continue;  // fewer than have 4-bit rows
      change.sources.push_back(static_cast<std::int32_t>(row));
    }
    const auto numbers = [&](std::size_t count) {
      std::vector<float> some(count * kWide);
      for (float& number : some) number = normal(random);
      return some;
    };
    const std::vector<float> old = numbers(kRows);
    const std::vector<float> added = numbers(change.added);
    std::vector<float> whole;
    std::size_t next = 0;
    for (const std::int32_t source : change.sources) {
      const float* const row = source == RowChanges::kNone
                                   ? added.data() + kWide * next++
                                   : old.data() + kWide * static_cast<std::size_t>(source);
      whole.insert(whole.end(), row, row + kWide);
    }
    const VectorRows built = VectorRows::of(whole, kWide);
    const VectorRows found =
        VectorRows::of(old, kWide).with_changes(RowChanges(kRows, change.sources), added);
    CHECK(std::ranges::equal(found.full.span(), built.full.span()));
    CHECK(std::ranges::equal(found.small.span(), built.small.span()));
    CHECK(found.step == built.step);
    CHECK(found.error == built.error);
    REQUIRE(found.halves.empty() == is_small);
    REQUIRE(built.halves.empty() == is_small);
    CHECK(found.halves.mean_error() == built.halves.mean_error());
    for (std::size_t row = 0; !is_small && row < built.size(); row += kBlockRows) {
      CHECK(std::equal(found.halves.block(row),
                       found.halves.block(row) + block_bytes(built.width()),
                       built.halves.block(row)));
    }
  }
}

TEST_CASE("rows that do not ascend, or are not there, are refused") {
  const std::vector<std::int32_t> twice{0, 0};
  const std::vector<std::int32_t> beyond{3};
  CHECK_THROWS_AS(RowChanges(3, twice), std::invalid_argument);
  CHECK_THROWS_AS(RowChanges(3, beyond), std::invalid_argument);
  const std::vector<std::int32_t> one{-1};
  const RowChanges changes(2, one);
  CHECK_THROWS_AS(changes.check(3, 1), std::invalid_argument);
  CHECK_THROWS_AS(changes.check(2, 0), std::invalid_argument);
}

}  // namespace
}  // namespace toolroll
