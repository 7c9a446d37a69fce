// Nothing is written where the columns do not fit.
#include "toolroll/expected_calls.hpp"

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "check.hpp"

namespace toolroll {
namespace {

constexpr CallShares kShares{0.1, 0.9, 0.1};

TEST_CASE("columns of different lengths are refused, and nothing is written") {
  const std::vector<std::int32_t> rows{3, 1, 2};
  const std::vector<float> scores{0.5F, 0.4F};
  std::vector<double> out(3, -1);
  CHECK_THROWS_AS(expected_calls(rows, rows, scores, kShares, out), std::invalid_argument);
  out.resize(2);
  CHECK_THROWS_AS(expected_calls(rows, {}, {}, kShares, out), std::invalid_argument);
  CHECK(out == std::vector<double>{-1, -1});
}

TEST_CASE("a tool that was not found is not expected to be called") {
  const std::vector<std::int32_t> shown{7, 2}, found{2, 9};
  const std::vector<float> scores{0.5F, 0.4F};
  std::vector<double> out(2);
  expected_calls(shown, found, scores, kShares, out);
  CHECK(out[0] == 0);
  CHECK(testing::is_near(out[1], 0.9 / 1.1));
  expected_calls(shown, {}, {}, kShares, out);
  CHECK(out == std::vector<double>{0, 0});
}

}  // namespace
}  // namespace toolroll
