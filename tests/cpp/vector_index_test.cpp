#include "toolroll/vector_index.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "check.hpp"
#include "toolroll/dot.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {
namespace {

std::vector<float> random_vectors(std::size_t n, std::size_t dim, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n * dim);
  for (float& value : values) value = normal(bits);
  return values;
}

/// All scores, sorted: what search must return.
Hits full_scan(const VectorIndex& index, std::span<const float> query, std::size_t k,
               const Bitset* allowed) {
  std::vector<std::int32_t> rows(index.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::erase_if(rows, [&](std::int32_t row) {
    return allowed != nullptr && !allowed->contains(static_cast<std::size_t>(row));
  });
  const std::vector<float> scores = index.scores(query, rows);
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  Hits hits;
  for (std::size_t i = 0; i < std::min(k, order.size()); ++i) {
    hits.rows.push_back(rows[order[i]]);
    hits.scores.push_back(scores[order[i]]);
  }
  return hits;
}

Bitset every(std::size_t n, std::size_t step) {
  std::vector<std::int32_t> rows;
  for (std::size_t row = 0; row < n; row += step) rows.push_back(static_cast<std::int32_t>(row));
  return Bitset::of(n, rows);
}

TEST_CASE("every instruction set multiplies as the reference does") {
  const DotKernels& reference = *dot_kernels(Isa::kBaseline);
  std::mt19937 bits(1);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> extreme(-127, 127);
  for (const Isa isa : {Isa::kBaseline, Isa::kNeon, Isa::kAvx2, Isa::kAvx512}) {
    const DotKernels* const kernels = dot_kernels(isa);
    if (kernels == nullptr) continue;
    for (const std::size_t dim : {1U, 64U, 65U, 384U, 1000U}) {
      for (std::size_t n = 0; n < 11; ++n) {
        Rows<float> rows(n, dim);
        Rows<std::int8_t> small(n, dim);
        Rows<float> query(1, dim);
        Rows<std::int8_t> small_query(1, dim);
        for (std::size_t j = 0; j < dim; ++j) {
          query.mutable_row(0)[j] = normal(bits);
          small_query.mutable_row(0)[j] =
              static_cast<std::int8_t>(n % 2 == 0 ? extreme(bits) : -127);
          for (std::size_t i = 0; i < n; ++i) {
            rows.mutable_row(i)[j] = normal(bits);
            small.mutable_row(i)[j] = static_cast<std::int8_t>(n % 2 == 0 ? extreme(bits) : 127);
          }
        }
        std::vector<std::int32_t> at(n);
        std::iota(at.rbegin(), at.rend(), 0);
        std::vector<float> expected(n), found(n), found_at(n);
        std::vector<std::int32_t> exact(n), small_found(n), small_at(n);
        reference.f32(query.data(), rows.data(), n, rows.width(), expected.data());
        kernels->f32(query.data(), rows.data(), n, rows.width(), found.data());
        kernels->f32_at(query.data(), rows.data(), at.data(), n, rows.width(), found_at.data());
        reference.i8(small_query.data(), small.data(), n, small.width(), exact.data());
        kernels->i8(small_query.data(), small.data(), n, small.width(), small_found.data());
        kernels->i8_at(small_query.data(), small.data(), at.data(), n, small.width(),
                       small_at.data());
        CHECK(small_found == exact);
        for (std::size_t i = 0; i < n; ++i) {
          CHECK(std::abs(found[i] - expected[i]) < 1e-3F);
          CHECK(found_at[n - 1 - i] == found[i]);  // bit by bit, wherever the row stands
          CHECK(small_at[n - 1 - i] == exact[i]);
        }
      }
    }
  }
}

TEST_CASE("the interval of an 8-bit product holds the float32 product") {
  for (const Isa isa : {Isa::kBaseline, Isa::kNeon, Isa::kAvx2, Isa::kAvx512}) {
    const DotKernels* const kernels = dot_kernels(isa);
    if (kernels == nullptr) continue;
    for (const std::size_t dim : {3U, 384U, 4096U}) {
      const std::vector<float> values = random_vectors(1, dim, 3);
      Rows<float> x(1, dim);
      std::ranges::copy(values, x.mutable_row(0));
      kernels->scale(x.data(), 1.0 / std::sqrt(kernels->squares(x.data(), x.width())), x.width(),
                     x.mutable_row(0));
      Rows<std::int8_t> small(1, dim);
      const Quantised form = kernels->quantise(x.data(), x.width(), small.mutable_row(0));
      double off = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        off += std::pow(double{x.row(0)[i]} - double{form.step} * small.row(0)[i], 2);
      }
      CHECK(std::sqrt(off) <= double{form.error});
      CHECK(double{form.error} <= 1.01 * std::sqrt(off) + 2e-6);
    }
  }
}

TEST_CASE("top_k ranks by score, then by ascending row") {
  std::mt19937 bits(2);
  std::uniform_int_distribution<int> few(-3, 3);
  for (const std::size_t k : {0U, 1U, 10U, 64U, 65U, 300U}) {
    std::vector<float> scores(300);
    for (float& score : scores)
      score = static_cast<float>(few(bits)) * 0.0F + static_cast<float>(few(bits));
    std::vector<std::int32_t> expected(scores.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(expected, [&](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    expected.resize(k);
    std::vector<std::int32_t> best(k);
    top_k(scores, best);
    CHECK(best == expected);
  }
  std::vector<std::int32_t> too_many(3);
  CHECK_THROWS_AS(top_k(std::vector<float>{1, 2}, too_many), std::invalid_argument);
}

TEST_CASE("the exact search is the float32 scan") {
  for (const std::size_t n : {1U, 63U, 200U, 1500U}) {
    const std::size_t dim = 48;
    const VectorIndex index = VectorIndex::build(random_vectors(n, dim, 4), dim);
    for (unsigned i = 0; i < 10; ++i) {
      const std::vector<float> query = random_vectors(1, dim, 100 + i);
      for (const std::size_t step : {0U, 1U, 2U, 30U}) {
        const Bitset some = every(n, step == 0 ? 1 : step);
        const Bitset* const allowed = step == 0 ? nullptr : &some;
        const Hits found = index.search(query, 10, allowed, Method::kExact);
        const Hits expected = full_scan(index, query, 10, allowed);
        CHECK(found.rows == expected.rows);
        CHECK(found.scores == expected.scores);
      }
    }
  }
}

TEST_CASE("four threads that search one index get what one gets") {
  const std::size_t n = 2000, dim = 32;
  const VectorIndex index = VectorIndex::build(random_vectors(n, dim, 5), dim, {.wanted = true});
  const Bitset some = every(n, 3);
  std::vector<std::vector<float>> queries;
  std::vector<std::vector<std::int32_t>> expected;
  const auto answer = [&](std::size_t i) {
    const Method method = i % 2 == 0 ? Method::kGraph : Method::kExact;
    return index.search(queries[i], 10, i % 3 == 0 ? &some : nullptr, method).rows;
  };
  for (unsigned i = 0; i < 40; ++i) queries.push_back(random_vectors(1, dim, 200 + i));
  for (std::size_t i = 0; i < queries.size(); ++i) expected.push_back(answer(i));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < queries.size(); ++i) wrong[t] += answer(i) != expected[i] ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("an archive with a right checksum and wrong content is an error or harmless") {
  const std::size_t n = 60, dim = 8;
  const VectorIndex index = VectorIndex::build(random_vectors(n, dim, 6), dim, {.wanted = true});
  const std::vector<std::byte> whole = index.bytes();
  const std::vector<float> query = random_vectors(1, dim, 7);
  std::mt19937 bits(8);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> crafted = whole;
    const std::size_t at = 32 + bits() % (crafted.size() - 40);
    crafted[at] = static_cast<std::byte>(i % 3 == 0 ? 0xFF : bits());
    const std::size_t end = crafted.size() - 8;
    const std::uint64_t sum = xxh64(std::span(crafted).first(end));
    std::memcpy(crafted.data() + end, &sum, sizeof sum);
    try {
      const VectorIndex loaded = VectorIndex::from_bytes(std::move(crafted));
      for (const std::int32_t row : loaded.search(query, 10, nullptr, Method::kAuto).rows) {
        CHECK(row < static_cast<std::int32_t>(loaded.size()));
      }
      if (loaded.has_graph()) loaded.search(query, 10, nullptr, Method::kGraph);
    } catch (const std::invalid_argument&) {
    }
  }
}

}  // namespace
}  // namespace toolroll
