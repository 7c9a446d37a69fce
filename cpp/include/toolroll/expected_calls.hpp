/// The expected calls of a shown tool if only similarity counted.
#pragma once

#include <cstdint>
#include <span>

namespace toolroll {

/// The behaviour of a model with its shown tools.
struct CallShares {
  double temperature;  ///< of the scores, above 0
  double calls;        ///< the share of messages on which some tool is called, if all are similar
  double elsewhere;    ///< the weight of calling none, beside 1 for the best tool that was found
};

/// out[i] = the expected share of calls of shown[i]: a softmax over the scores of the tools that
/// were found; 0 for a tool that was not found. scores: one for each of `found`. O((n + m) log m).
/// Throws std::invalid_argument, before anything is written, if columns differ in length, or if the
/// temperature is not above 0.
void expected_calls(std::span<const std::int32_t> shown, std::span<const std::int32_t> found,
                    std::span<const float> scores, const CallShares& shares, std::span<double> out);

}  // namespace toolroll
