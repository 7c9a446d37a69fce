#include "toolroll/expected_calls.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

namespace toolroll {

void expected_calls(std::span<const std::int32_t> shown, std::span<const std::int32_t> found,
                    std::span<const float> scores, const CallShares& shares,
                    std::span<double> out) {
  if (found.size() != scores.size() || shown.size() != out.size()) {
    throw std::invalid_argument("expected_calls: columns differ in length");
  }
  if (!(shares.temperature > 0)) {
    throw std::invalid_argument("temperature: must be above 0");
  }
  if (found.empty()) {
    std::ranges::fill(out, 0.0);
    return;
  }
  const double best = *std::ranges::max_element(scores);
  std::vector<std::pair<std::int32_t, float>> by_row;
  by_row.reserve(found.size());
  for (std::size_t at = 0; at < found.size(); ++at) by_row.emplace_back(found[at], scores[at]);
  std::ranges::sort(by_row);
  double sum = 0;
  for (std::size_t at = 0; at < shown.size(); ++at) {
    const auto place =
        std::ranges::lower_bound(by_row, shown[at], {}, &std::pair<std::int32_t, float>::first);
    const bool is_found = place != by_row.end() && place->first == shown[at];
    out[at] = is_found ? std::exp((place->second - best) / shares.temperature) : 0.0;
    sum += out[at];
  }
  for (double& share : out) share = shares.calls * share / (sum + shares.elsewhere);
}

}  // namespace toolroll
