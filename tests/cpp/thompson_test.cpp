#include "toolroll/thompson.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "toolroll/stream.hpp"

namespace toolroll {
namespace {

struct Columns {
  std::vector<std::uint64_t> key;
  std::vector<double> alpha, beta;

  // Shapes over ten orders of magnitude, above and below 1.
  explicit Columns(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const Stream stream(99, i);
      key.push_back(stream.bits(0));
      alpha.push_back(std::exp(20 * stream.uniform(1) - 7));
      beta.push_back(std::exp(20 * stream.uniform(2) - 7));
    }
  }
  operator Arms() const { return {key, alpha, beta}; }
};

std::string error_of(const Arms& arms, std::span<double> out) {
  try {
    thompson_sample(arms, 1, out);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a wrong shape is named and nothing is written") {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(bad);
    Columns columns(300);
    columns.beta[271] = bad;
    std::vector<double> out(300, -7.0);
    CHECK(error_of(columns, out).starts_with("beta[271]: is "));
    CHECK(out == std::vector<double>(300, -7.0));
  }
}

TEST_CASE("columns of different lengths are refused") {
  const Columns columns(4);
  const Arms arms = columns;
  std::vector<double> out(4);
  CHECK(error_of({arms.key, arms.alpha.first(3), arms.beta}, out) != "");
  CHECK(error_of({arms.key, arms.alpha, arms.beta.first(3)}, out) != "");
  CHECK(error_of(arms, std::span(out).first(3)) != "");
}

}  // namespace
}  // namespace toolroll
