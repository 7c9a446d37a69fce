/// From candidates and what was learnt of them to the few that are shown: one draw for each.
///
/// A candidate's score is retrieval's plus, in nats over a temperature, the weighted logarithms of
/// its reliability and of its lift, each drawn from its posterior. What nothing is known of adds
/// nothing: both are measured from the prior. Retrieval's score belongs to message and tool, the
/// posteriors to the tool; pooled into one Beta, as in the naive form, the second washes out the
/// first as counts grow.
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

enum class Draw {
  kNormal,  ///< one normal in log space, of the posterior's mean and deviation
  kExact,   ///< the logarithms of a Beta and of a Gamma draw
};

/// The profile's numbers; it alone has defaults.
struct Weights {
  double reliability;
  double lift;
  double exploration_scale;  ///< factor of the deviation; 0 draws nothing
  double sd_max;             ///< the most that the deviation is, in nats, before the factor
  double most_up;  ///< bounds of what learning adds to a score or takes from it, in nats; of what
                   ///< it adds, a tool gets the share that its score is of the best one
  double most_down;
  std::uint64_t protected_leaders;  ///< so many of retrieval's best stay whatever is learnt
  double
      reliability_in_order;  ///< reliability's further weight in the order of those that are shown
  double explore;            ///< probability that the last place goes to who is least known
  Draw draw;
};

/// Why a candidate is where it is.
enum class Placement : std::uint8_t {
  kRanked = 0,  ///< by its score, in the slate or behind it
  kHidden = 1,  ///< its breaker is open, and this is no probe
  kBeaten = 2,  ///< another tool of its group is in its place
};

/// Who competes for the slate, in columns. Ties go to the lower place.
struct SlateInput {
  std::span<const double> score;         ///< drawn, on any scale
  std::span<const double> mean;          ///< on that scale
  std::span<const double> sd;            ///< on that scale
  std::span<const std::uint8_t> hidden;  ///< 1: takes no part
  std::span<const std::uint8_t> guarded;
  std::span<const std::uint8_t> core;    ///< always shown, in no one's place; empty for none
  std::span<const std::uint64_t> group;  ///< 0: none
};

/// Writes the places (0..n-1) in the order of the answer and each one's placement. First those that
/// are shown, core and the best k others, best first; then the rest by score, then beaten and
/// hidden ones. Returns how many are shown.
///
/// Of a group the best member that is not hidden competes, guarded if any member is; if a member is
/// core, no other competes. If `explores`, the last shown one that is neither guarded nor core
/// makes room for the candidate of the greatest deviation whose mean is within four deviations of
/// its score.
std::size_t pick(const SlateInput& input, std::size_t k, bool explores,
                 std::span<std::int32_t> order, std::span<Placement> placement);

/// One turn's candidates.
struct Candidates {
  std::span<const std::int32_t> rows;
  std::span<const float> scores;           ///< retrieval's, best first
  std::span<const std::int32_t> raw_best;  ///< rows that retrieval alone puts first, best first
  std::span<const std::uint8_t> core;      ///< 1: always selected; takes no place
};

/// Where the answer is written: columns by candidate, and the order of pick().
struct Ranked {
  std::span<std::int32_t> order;
  std::span<float> score;  ///< drawn, on the scale of the candidates' scores
  std::span<float> mean;
  std::span<float> sd;
  std::span<float> show;  ///< probability with which the breaker lets it be shown
  std::span<Placement> placement;
};

/// Ranks candidates for a slate of k. Members of a declared group count with the best of their
/// retrieval scores. `temperature`: what a nat is on the scale of the scores, above 0. Who is shown
/// is decided by the score alone; among them reliability counts more, since models call what they
/// read first.
///
/// A tool's draw is a function of (seed, arm, its posteriors) alone. Of nothing learnt comes
/// retrieval's own order. Returns how many are shown. O(m log m), no allocation but scratch that
/// stays with the thread.
///
/// Throws std::invalid_argument, before anything is written, if columns differ in length, a row is
/// not in 0..size-1 or a number out of its range.
std::size_t rank(const Learned& learned, const ToolKeys& keys, const Candidates& candidates,
                 const Scopes& scopes, double now, std::uint64_t seed, std::size_t k,
                 double temperature, const Weights& weights, const Ranked& out);

/// Throws std::invalid_argument unless every weight is in its range.
void check(const Weights& weights);

/// Purposes of blocks of a stream (stream.hpp) beside those of thompson.hpp, 0 and 1.
inline constexpr std::uint64_t kSlatePurpose = 2;
inline constexpr std::uint64_t kExplorePurpose = 3;

}  // namespace toolroll
