/// Ranks candidates by retrieval and by outcomes, and picks those that are shown (the slate).
///
/// A candidate's score is the retrieval score plus the weighted logarithms of its reliability and
/// of its lift, in nats over a temperature. Their sum is one normal draw with the mean and the
/// deviation of the posteriors, measured from the prior: a tool without outcomes gains and loses
/// nothing. The retrieval score depends on the message and the tool, the posteriors on the tool
/// alone. The naive form puts both into one Beta distribution; then the tool's counts outweigh the
/// message as they grow.
///
/// Sources: Chapelle & Li, "An Empirical Evaluation of Thompson Sampling", 2011, for the draws and
/// for scaling their deviation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "toolroll/learned.hpp"
#include "toolroll/tool_keys.hpp"

namespace toolroll {

/// The profile's numbers; it alone has defaults.
struct Weights {
  double reliability;
  double lift;
  double exploration_scale;  ///< factor of a draw's deviation; 0: no randomness
  double sd_max;             ///< limit of the deviation, in nats, before that factor
  /// Limits of the outcomes' change of a score, in nats. An addition is scaled by the
  /// tool's score over the best score.
  double most_up;
  double most_down;
  std::uint64_t protected_leaders;  ///< this many of retrieval's best are always shown
  double reliability_in_order;  ///< additional weight of reliability in the order of shown tools
  double explore;  ///< probability that the last place goes to the tool with the widest posterior
};

/// The reason for a candidate's place.
enum class Placement : std::uint8_t {
  kRanked = 0,  ///< its score; it is in the slate or behind it
  kHidden = 1,  ///< its breaker is open, and this selection does not probe it
  kBeaten = 2,  ///< another tool of its group takes the group's place
};

/// The candidates for the slate, in columns. Of equal scores the lower place comes first.
struct SlateInput {
  std::span<const double> score;         ///< drawn, on any scale
  std::span<const double> mean;          ///< on that scale
  std::span<const double> sd;            ///< on that scale
  std::span<const std::uint8_t> hidden;  ///< 1: does not compete
  std::span<const std::uint8_t> guarded;
  std::span<const std::uint8_t> core;    ///< 1: always shown, beside the k; empty for none
  std::span<const std::uint64_t> group;  ///< 0: none
};

/// Writes the places (0..n-1) in the order of the answer, and the placement of each. First come the
/// shown candidates (core and the best k others), best first, then the rest by score, then beaten
/// and hidden ones. Returns the number of shown candidates.
///
/// Only the best member of a group that is not hidden competes. It is guarded if any member is. If
/// a member is core, no other member competes. If `explores`, one more candidate replaces the last
/// shown one that is neither guarded nor core: the candidate with the greatest deviation among
/// those whose mean is within four deviations of that score.
std::size_t pick(const SlateInput& input, std::size_t k, bool explores,
                 std::span<std::int32_t> order, std::span<Placement> placement);

/// One turn's candidates.
struct Candidates {
  std::span<const std::int32_t> rows;
  std::span<const float> scores;           ///< retrieval's, best first
  std::span<const std::int32_t> raw_best;  ///< rows that retrieval alone puts first, best first
  std::span<const std::uint8_t> core;      ///< 1: always selected, beside the k
};

/// Where rank() writes its answer: columns by candidate, and the order of pick().
struct Ranked {
  std::span<std::int32_t> order;
  std::span<float> score;  ///< drawn, on the scale of the candidates' scores
  std::span<float> mean;
  std::span<float> sd;
  std::span<float> show;  ///< probability that the breaker allows the tool
  std::span<Placement> placement;
};

/// Ranks candidates for a slate of k. Each member of a declared group has the best retrieval score
/// of the group's members. `temperature`: the size of a nat on the scale of the scores, above 0.
/// The score alone decides which tools are shown. In their order reliability has additional weight,
/// because models prefer the tools that they read first.
///
/// A tool's draw is a function of (seed, arm, its posteriors) alone. Without outcomes the order is
/// retrieval's. Returns the number of shown tools. O(m log m); allocates only scratch memory
/// that the thread keeps.
///
/// Throws std::invalid_argument, before anything is written, if columns differ in length, a row is
/// not in 0..size-1 or a number out of its range.
std::size_t rank(const Learned& learned, const ToolKeys& keys, const Candidates& candidates,
                 const Scopes& scopes, double now, std::uint64_t seed, std::size_t k,
                 double temperature, const Weights& weights, const Ranked& out);

/// Throws std::invalid_argument unless every weight is in its range.
void check(const Weights& weights);

/// Purposes of blocks of a stream (stream.hpp). The purpose of thompson.hpp is 0.
inline constexpr std::uint64_t kSlatePurpose = 2;
inline constexpr std::uint64_t kExplorePurpose = 3;

}  // namespace toolroll
