#include "dot_scan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "check.hpp"
#include "toolroll/dot.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {
namespace {

constexpr Isa kEvery[] = {Isa::kBaseline, Isa::kNeon, Isa::kAvx2, Isa::kAvx512};

using Vector = std::vector<float>;

Vector normal_vector(std::size_t dim, std::mt19937& bits, float power = 1) {
  std::normal_distribution<float> normal;
  Vector x(dim);
  for (float& value : x) {
    const float drawn = normal(bits);
    value = std::copysign(std::pow(std::abs(drawn), power), drawn);
  }
  return x;
}

double product(std::span<const float> x, const float* y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += double{x[i]} * double{y[i]};
  return sum;
}

/// The rows of a kind, in every form.
VectorRows rows_of(const std::string& kind, std::size_t n, std::size_t dim) {
  std::mt19937 bits(7);
  Vector all;
  all.reserve(n * dim);
  const Vector common = normal_vector(dim, bits);
  for (std::size_t i = 0; i < n; ++i) {
    Vector x = normal_vector(dim, bits, kind == "heavy-tailed" ? 2.0F : 1.0F);
    if (kind == "alike") {
      for (std::size_t j = 0; j < dim; ++j) x[j] = common[j] + 0.5F * x[j];
    } else if (kind == "nearly equal") {
      for (std::size_t j = 0; j < dim; ++j) x[j] = common[j] + 1e-4F * x[j];
    } else if (kind == "duplicates" && i % 3 != 0) {
      x.assign(all.end() - static_cast<std::ptrdiff_t>(dim), all.end());
    } else if (kind == "few values") {
      for (float& value : x) value = std::clamp(std::round(value), -1.0F, 1.0F);
    }
    if (kind != "random" && i % 97 == 5) x.assign(dim, 0.0F);
    all.insert(all.end(), x.begin(), x.end());
  }
  return VectorRows::of(all, dim);
}

/// Row i as its 4-bit form has it.
Vector in_halves(const VectorRows& rows, std::size_t i) {
  const std::uint8_t* const block = rows.halves.block(i / kBlockRows * kBlockRows);
  const std::size_t place = i % kBlockRows;
  std::uint32_t number;
  std::memcpy(&number, block + rows.width() / 2 * kBlockRows + 4 * place, sizeof number);
  const auto scale = std::bit_cast<float>(number & 0xFFFF0000U);
  Vector x(rows.width());
  for (std::size_t j = 0; j < x.size(); ++j) {
    const std::uint8_t byte = block[j / 8 * 4 * kBlockRows + 4 * place + j % 4];
    x[j] = scale * (static_cast<float>(j % 8 < 4 ? byte & 15 : byte >> 4) - 7.5F);
  }
  return x;
}

Vector in_bytes(const VectorRows& rows, std::size_t i) {
  Vector x(rows.width());
  for (std::size_t j = 0; j < x.size(); ++j) {
    x[j] = rows.step[i] * static_cast<float>(rows.small.row(i)[j]);
  }
  return x;
}

/// near + far * the part of row i that its rounded form leaves out, both of length 1.
Vector along_error(const VectorRows& rows, std::size_t i, const Vector& rounded, double near,
                   double far) {
  Vector rest(rows.dim);
  double squares = 0;
  double length = 0;
  for (std::size_t j = 0; j < rest.size(); ++j) {
    rest[j] = rows.full.row(i)[j] - rounded[j];
    squares += double{rest[j]} * double{rest[j]};
    length += double{rounded[j]} * double{rounded[j]};
  }
  squares = squares == 0 ? 1 : squares;  // a row that has no error
  for (std::size_t j = 0; j < rest.size(); ++j) {
    rest[j] = static_cast<float>(near * double{rounded[j]} / std::sqrt(length) +
                                 far * double{rest[j]} / std::sqrt(squares));
  }
  return rest;
}

TEST_CASE("every instruction set bounds 8-bit rows as the formula does") {
  std::mt19937 bits(1);
  std::uniform_int_distribution<int> value(-127, 127);
  for (const Isa isa : kEvery) {
    const DotKernels* const kernels = dot_kernels(isa);
    if (kernels == nullptr) continue;
    for (const std::size_t width : {64U, 128U, 384U}) {
      for (const std::size_t n : {1U, 3U, 4U, 7U, 8U, 15U, 16U, 17U, 50U}) {
        Rows<std::int8_t> rows(n, width);
        Rows<std::int8_t> query(2, width);
        Vector step(n), error(n);
        for (std::size_t i = 0; i < n; ++i) {
          step[i] = 0.01F * static_cast<float>(i + 1);
          error[i] = 0.001F * static_cast<float>(i);
          for (std::size_t j = 0; j < width; ++j) {
            rows.mutable_row(i)[j] = static_cast<std::int8_t>(n % 2 == 0 ? 127 : value(bits));
          }
        }
        for (std::size_t j = 0; j < width; ++j) {
          query.mutable_row(0)[j] = static_cast<std::int8_t>(n % 2 == 0 ? -127 : value(bits));
          query.mutable_row(1)[j] = static_cast<std::int8_t>(value(bits));
        }
        for (const bool fine : {false, true}) {
          const ByteQuery terms{query.row(0), fine ? query.row(1) : nullptr, 0.02F, 0.0003F, 1.5F,
                                0.25F};
          std::vector<std::int32_t> at(n);
          std::iota(at.rbegin(), at.rend(), 0);
          Vector upper(n + 1, -7.0F), listed(n + 1, -7.0F);
          kernels->i8_upper(terms, rows.data(), step.data(), error.data(), n, width, upper.data());
          kernels->i8_upper_at(terms, rows.data(), step.data(), error.data(), at.data(), n, width,
                               listed.data());
          CHECK(upper[n] == -7.0F);  // nothing behind the last one is written
          CHECK(listed[n] == -7.0F);
          for (std::size_t i = 0; i < n; ++i) {
            int sum = 0, rest = 0;
            for (std::size_t j = 0; j < width; ++j) {
              sum += rows.row(i)[j] * query.row(0)[j];
              rest += rows.row(i)[j] * query.row(1)[j];
            }
            const double expected =
                (sum * double{terms.step} + (fine ? rest * double{terms.fine_step} : 0)) *
                    double{step[i]} +
                double{error[i]} * double{terms.per_error} + double{terms.constant};
            CHECK(testing::is_near(double{upper[i]}, expected, 1e-5));
            CHECK(listed[n - 1 - i] == upper[i]);
          }
        }
      }
    }
  }
}

TEST_CASE("every instruction set bounds 4-bit rows as the formula does") {
  std::mt19937 bits(2);
  for (const Isa isa : kEvery) {
    const DotKernels* const kernels = dot_kernels(isa);
    if (kernels == nullptr) continue;
    const auto share = double{kernels->half_byte_form.share};
    const int limit = static_cast<int>(kernels->half_byte_form.limit);
    for (const std::size_t width : {64U, 128U, 384U}) {
      for (const std::size_t n : {1U, 2U, 3U, 5U}) {
        for (const bool extreme : {false, true}) {
          std::vector<std::uint8_t> blocks(n * block_bytes(width));
          for (std::uint8_t& byte : blocks) {
            byte = extreme ? 0xFF : static_cast<std::uint8_t>(bits());
          }
          for (std::size_t i = 0; i < n * kBlockRows; ++i) {
            const float form[2] = {0.01F * static_cast<float>(i + 1), 0.5F};
            const std::uint32_t number = (std::bit_cast<std::uint32_t>(form[0]) & 0xFFFF0000U) |
                                         std::bit_cast<std::uint32_t>(form[1]) >> 16;
            std::memcpy(blocks.data() + i / kBlockRows * block_bytes(width) +
                            width / 2 * kBlockRows + 4 * (i % kBlockRows),
                        &number, sizeof number);
          }
          std::vector<std::int8_t> low(width / 2), high(width / 2);
          std::uniform_int_distribution<int> value(-limit, limit);
          for (std::size_t j = 0; j < width / 2; ++j) {
            high[j] = static_cast<std::int8_t>(extreme ? limit : value(bits));
            low[j] = static_cast<std::int8_t>(extreme ? 126 : value(bits));
          }
          const HalfByteQuery query{low.data(), high.data(), 0.01F, -3.0F, 1.25F, 0.5F, 0.125F};
          Vector upper(n * kBlockRows);
          kernels->i4_upper(query, blocks.data(), n, width, upper.data());
          for (std::size_t i = 0; i < upper.size(); ++i) {
            const std::uint8_t* const block = blocks.data() + i / kBlockRows * block_bytes(width);
            double sum = 0;
            for (std::size_t j = 0; j < width / 2; ++j) {
              const std::uint8_t byte =
                  block[j / 4 * 4 * kBlockRows + 4 * (i % kBlockRows) + j % 4];
              sum += (byte & 15) * (low[j] + share * high[j]) + (byte >> 4) * high[j];
            }
            std::uint32_t number;
            std::memcpy(&number, block + width / 2 * kBlockRows + 4 * (i % kBlockRows),
                        sizeof number);
            const double scale = std::bit_cast<float>(number & 0xFFFF0000U);
            const double error = std::bit_cast<float>(number << 16);
            const double p = scale * (sum * double{query.step} + double{query.bias});
            const double expected = p + double{query.constant} +
                                    error * (double{query.slack} - double{query.slope} * p);
            CHECK(testing::is_near(double{upper[i]}, expected, 1e-4));
          }
        }
      }
    }
  }
}

TEST_CASE("the form of a vector in 4 bits keeps what the proof of its bound needs") {
  std::mt19937 bits(3);
  for (const Isa isa : kEvery) {
    const DotKernels* const kernels = dot_kernels(isa);
    if (kernels == nullptr) continue;
    for (const std::size_t dim : {1U, 3U, 64U, 100U, 384U, 4096U, 65536U}) {
      for (const float power : {0.0F, 1.0F, 3.0F, 9.0F}) {
        Rows<float> x(1, dim);
        std::ranges::copy(normal_vector(dim, bits, power), x.mutable_row(0));
        kernels->scale(x.data(), 1.0 / std::sqrt(kernels->squares(x.data(), x.width())), x.width(),
                       x.mutable_row(0));
        std::vector<std::uint8_t> values(x.width());
        const std::uint32_t number = kernels->quantise4(x.data(), x.width(), values.data());
        const double scale = std::bit_cast<float>(number & 0xFFFF0000U);
        double off = 0, along = 0, squares = 0;
        for (std::size_t j = 0; j < x.width(); ++j) {
          REQUIRE(values[j] <= 15);
          const double value = values[j] - 7.5;
          off += std::pow(double{x.row(0)[j]} - scale * value, 2);
          along += double{x.row(0)[j]} * value;
          squares += value * value;
        }
        CHECK(double{std::bit_cast<float>(number << 16)} >= std::sqrt(off));
        CHECK(double{std::bit_cast<float>(number << 16)} <= 1.02 * std::sqrt(off) + 2e-6);
        CHECK(scale >= along / squares);
        CHECK(scale * std::sqrt(squares) <= 1.009);
      }
    }
    Rows<float> zero(1, 70);
    std::vector<std::uint8_t> values(zero.width());
    CHECK(kernels->quantise4(zero.data(), zero.width(), values.data()) == 0);
  }
}

TEST_CASE("no bound is below the product of float64, wherever the query points") {
  for (const std::string kind : {"random", "alike", "heavy-tailed", "few values", "nearly equal"}) {
    for (const std::size_t dim : {60U, 384U}) {
      const std::size_t n = HalfByteRows::kFewest;
      const VectorRows rows = rows_of(kind, n, dim);
      if (kind != "heavy-tailed") REQUIRE(!rows.halves.empty());
      const std::size_t tried = std::min<std::size_t>(n, 640);  // rows, of the blocks in front
      std::mt19937 bits(11);
      Query query;
      Vector upper(tried), fine(tried), halves(tried);
      for (unsigned i = 0; i < 60; ++i) {
        const std::size_t row = bits() % tried;
        if (rows.is_zero(row)) continue;
        const double near = i % 10 * 0.11;
        const double far = (i % 4 == 1 ? -1 : 1) * std::sqrt(1 - near * near);
        Vector x = normal_vector(dim, bits, i % 2 == 0 ? 1.0F : 5.0F);
        if (i % 3 == 0 && !rows.halves.empty()) {
          x = along_error(rows, row, in_halves(rows, row), near, far);
        } else if (i % 3 == 1) {
          x = along_error(rows, row, in_bytes(rows, row), near, far);
        }
        if (!query.set(x)) continue;  // a row without an error
        query.set_stages();
        const std::span<const float> unit(query.full(), dim);
        const DotKernels& dot = dot_kernels();
        dot.i8_upper(query.coarse(), rows.small.data(), rows.step.data(), rows.error.data(), tried,
                     rows.width(), upper.data());
        dot.i8_upper(query.fine(), rows.small.data(), rows.step.data(), rows.error.data(), tried,
                     rows.width(), fine.data());
        for (std::size_t j = 0; j < tried; ++j) {
          const double exact = product(unit, rows.full.row(j));
          REQUIRE(double{upper[j]} >= exact);
          REQUIRE(double{fine[j]} >= exact);
        }
        if (rows.halves.empty()) continue;
        for (const double t0 : {0.0, 0.3, near, 0.95}) {
          dot.i4_upper(query.halves(static_cast<float>(std::min(t0, 0.95))), rows.halves.block(0),
                       tried / kBlockRows, rows.width(), halves.data());
          double least = 1;
          for (std::size_t j = 0; j < tried; ++j) {
            const double exact = product(unit, rows.full.row(j));
            REQUIRE(double{halves[j]} >= exact);
            least = std::min(least, double{halves[j]} - exact);
          }
          // Along the error of a row and with the right t0, the bound has little to spare.
          if (i % 3 == 0 && t0 == near && far > 0) CHECK(least < 0.03);
        }
      }
    }
  }
}

TEST_CASE("rows are in 4 bits from a size on, and only if they exclude much there") {
  CHECK(rows_of("random", HalfByteRows::kFewest - 1, 20).halves.empty());
  CHECK(!rows_of("random", HalfByteRows::kFewest, 64).halves.empty());
  std::mt19937 bits(5);
  Vector uneven;
  for (std::size_t i = 0; i < HalfByteRows::kFewest; ++i) {
    const Vector x = normal_vector(384, bits, 7);
    uneven.insert(uneven.end(), x.begin(), x.end());
  }
  CHECK(VectorRows::of(uneven, 384).halves.empty());
  const Vector zeros(HalfByteRows::kFewest * 64);
  CHECK(VectorRows::of(zeros, 64).halves.mean_error() == 0);
}

TEST_CASE("the scan in stages finds the rows of the float32 scan, ties included") {
  const std::size_t dim = 64;
  for (const std::string kind :
       {"random", "alike", "heavy-tailed", "few values", "nearly equal", "duplicates"}) {
    for (const std::size_t n : {10'000U, 10'001U, 10'239U, 10'240U, 10'241U, 10'271U}) {
      if (n != 10'000 && n != 10'271 && kind != "random" && kind != "duplicates") continue;
      const VectorRows rows = rows_of(kind, n, dim);
      std::mt19937 bits(13);
      Query query;
      for (unsigned i = 0; i < 6; ++i) {
        Vector x = normal_vector(dim, bits);
        const std::size_t row = bits() % n;
        if (i % 3 == 1) x.assign(rows.full.row(row), rows.full.row(row) + dim);
        if (i % 3 == 2 && !rows.halves.empty() && !rows.is_zero(row)) {
          x = along_error(rows, row, in_halves(rows, row), 0.5, 0.87);
        }
        if (!query.set(x)) continue;  // zeros
        Vector scores(n);
        dot_kernels().f32(query.full(), rows.full.data(), n, rows.width(), scores.data());
        for (const std::size_t k : {1U, 10U, 100U, 2100U}) {
          for (const std::size_t skipped : {0U, 3U}) {  // every so many-th row is not allowed
            Bitset mask = Bitset::full(n);
            std::vector<std::int32_t> kept;
            for (std::size_t j = 0; j < n; ++j) {
              if (skipped == 0 || j % skipped != 0) kept.push_back(static_cast<std::int32_t>(j));
            }
            mask = Bitset::of(n, kept);
            Best expected(k), found(k);
            for (const std::int32_t j : kept)
              expected.offer(scores[static_cast<std::size_t>(j)], j);
            sweep(rows, query, k, skipped == 0 ? nullptr : &mask, found);
            Hits want, have;
            expected.take(want.rows, want.scores);
            found.take(have.rows, have.scores);
            REQUIRE(have.rows == want.rows);
            REQUIRE(have.scores == want.scores);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace toolroll
