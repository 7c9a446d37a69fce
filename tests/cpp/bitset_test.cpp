#include "toolroll/bitset.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"
#include "toolroll/stream.hpp"

namespace toolroll {
namespace {

std::vector<std::int32_t> rows_of(const Bitset& set) {
  std::vector<std::int32_t> rows;
  set.each([&](std::int32_t row) { rows.push_back(row); });
  return rows;
}

// About half of the rows, by the stream of this key.
std::set<std::int32_t> some_rows(std::size_t size, std::uint64_t key) {
  std::set<std::int32_t> rows;
  for (std::size_t row = 0; row < size; ++row) {
    if (Stream(1, key).bits(row) % 2 == 0) rows.insert(static_cast<std::int32_t>(row));
  }
  return rows;
}

Bitset bitset_of(std::size_t size, const std::set<std::int32_t>& rows) {
  const std::vector<std::int32_t> listed(rows.begin(), rows.end());
  return Bitset::of(size, listed);
}

TEST_CASE("operations agree with std::set at every size around the word boundaries") {
  for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 129U, 1000U}) {
    CAPTURE(size);
    const std::set<std::int32_t> x = some_rows(size, 1);
    const std::set<std::int32_t> y = some_rows(size, 2);
    std::vector<std::int32_t> both, either, only;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
    std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(either));
    std::set_difference(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(only));
    const Bitset a = bitset_of(size, x);
    const Bitset b = bitset_of(size, y);
    CHECK(rows_of(a & b) == both);
    CHECK(rows_of(a | b) == either);
    CHECK(rows_of(a - b) == only);
    CHECK((a | b).count() == either.size());
    CHECK(((a & b) | (a - b)) == a);
    for (std::size_t row = 0; row < size; ++row) {
      CHECK(a.contains(row) == (x.count(static_cast<std::int32_t>(row)) == 1));
    }
  }
}

TEST_CASE("a slice and what is joined to it are the set they came from") {
  for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 128U, 129U, 300U}) {
    const Bitset whole = bitset_of(size, some_rows(size, 3));
    for (std::size_t at = 0; at <= size; ++at) {
      const Bitset head = whole.slice(0, at);
      const Bitset tail = whole.slice(at, size);
      CHECK(head.size() == at);
      CHECK(head.count() + tail.count() == whole.count());
      CHECK(Bitset::join(head, tail) == whole);
      std::vector<std::int32_t> rows = rows_of(tail);
      for (std::int32_t& row : rows) row += static_cast<std::int32_t>(at);
      std::erase_if(rows, [&](std::int32_t row) { return row >= static_cast<std::int32_t>(size); });
      CHECK(rows.size() == tail.count());
      CHECK(Bitset::of(size, rows) == whole - bitset_of(size, [&] {
                                        std::set<std::int32_t> before;
                                        for (const std::int32_t row : rows_of(head))
                                          before.insert(row);
                                        return before;
                                      }()));
    }
  }
  CHECK_THROWS_AS(Bitset::full(3).slice(2, 4), std::invalid_argument);
  CHECK_THROWS_AS(Bitset::full(3).slice(2, 1), std::invalid_argument);
}

TEST_CASE("a full set holds every row and not one more") {
  for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 1000U}) {
    CAPTURE(size);
    const Bitset full = Bitset::full(size);
    CHECK(full.count() == size);
    CHECK((Bitset(size) | full) == full);
    CHECK((full - full) == Bitset(size));
  }
}

TEST_CASE("a row outside the catalog is refused") {
  for (const std::int32_t row : {-1, 64, 65, 1 << 30, std::int32_t{-2147483647} - 1}) {
    CAPTURE(row);
    const std::vector<std::int32_t> rows{0, row};
    CHECK_THROWS_AS(Bitset::of(64, rows), std::invalid_argument);
  }
}

TEST_CASE("sets of different catalogs don't mix") {
  CHECK_THROWS_AS(Bitset(64) & Bitset(65), std::invalid_argument);
  CHECK_THROWS_AS(Bitset(64) | Bitset(65), std::invalid_argument);
  CHECK_THROWS_AS(Bitset(64) - Bitset(65), std::invalid_argument);
}

TEST_CASE("four threads read one set") {
  const Bitset a = bitset_of(5000, some_rows(5000, 1));
  const Bitset b = bitset_of(5000, some_rows(5000, 2));
  const std::vector<std::int32_t> expected = rows_of(a & b);
  std::vector<std::thread> threads;
  std::vector<int> agreed(4);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] { agreed[t] = rows_of(a & b) == expected; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(agreed == std::vector<int>(4, 1));
}

}  // namespace
}  // namespace toolroll
