#include "toolroll/inclusion.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "checks.hpp"
#include "portable.hpp"
#include "toolroll/slate.hpp"
#include "toolroll/stream.hpp"

namespace toolroll {
namespace {

constexpr double kWidth = 6.0;  // deviations to each side that are integrated over
constexpr double kStep = 0.8;   // of the least deviation that matters
constexpr std::size_t kMostPoints = 2049;
constexpr double kNever = 1e-13;
constexpr double kCertain = 7.5;  // deviations: beyond it a normal's share is below kNever

void check(const Odds& odds, std::size_t out) {
  const std::size_t n = odds.mean.size();
  check_length("sd", odds.sd.size(), n);
  check_length("show", odds.show.size(), n);
  check_length("guarded", odds.guarded.size(), n);
  check_length("group", odds.group.size(), n);
  check_length("out", out, n);
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(odds.mean[i])) refuse(entry("mean", i), odds.mean[i], "finite");
    if (!(odds.sd[i] >= 0.0) || !std::isfinite(odds.sd[i])) {
      refuse(entry("sd", i), odds.sd[i], "finite and not negative");
    }
    if (!(odds.show[i] >= 0.0 && odds.show[i] <= 1.0)) {
      refuse(entry("show", i), odds.show[i], "in [0, 1]");
    }
  }
}

/// Candidates by group. A candidate without a group forms its own.
struct Team {
  std::vector<std::size_t> members;
  bool is_guarded = false;
  double present = 0.0;  // probability that any member takes part
};

struct Teams {
  std::vector<Team> teams;
  std::vector<std::size_t> of;  // team of each candidate
};

Teams teams_of(const Odds& odds) {
  Teams all;
  const std::size_t n = odds.mean.size();
  all.of.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t team = all.teams.size();
    for (std::size_t j = 0; j < i && odds.group[i] != 0; ++j) {
      if (odds.group[j] == odds.group[i]) team = all.of[j];
    }
    if (team == all.teams.size()) all.teams.emplace_back();
    all.of[i] = team;
    all.teams[team].members.push_back(i);
    all.teams[team].is_guarded = all.teams[team].is_guarded || odds.guarded[i] != 0;
  }
  for (Team& team : all.teams) {
    double absent = 1.0;
    for (const std::size_t i : team.members) absent *= 1.0 - odds.show[i];
    team.present = 1.0 - absent;
  }
  return all;
}

/// Probability that candidate j takes part and its score is above x, the score of candidate i.
double above(const Odds& odds, std::size_t j, double x, std::size_t i) {
  const double sd = odds.sd[j];
  if (sd > 0.0) {
    const double z = (odds.mean[j] - x) / sd;
    if (z > kCertain) return odds.show[j];
    return z < -kCertain ? 0.0 : odds.show[j] * portable::normal_share(z);
  }
  const bool is_above = odds.mean[j] > x || (odds.mean[j] == x && j < i);
  return is_above ? odds.show[j] : 0.0;
}

/// Probability that candidate i is shown, given that it takes part with score x.
class Given {
 public:
  Given(const Odds& odds, const Teams& teams, std::size_t k)
      : odds_(odds), teams_(teams), at_most_(k) {}

  double operator()(std::size_t i, double x) {
    const std::size_t own = teams_.of[i];
    const bool is_guarded = teams_.teams[own].is_guarded;
    double best_of_own = 1.0;
    for (const std::size_t j : teams_.teams[own].members) {
      if (j != i) best_of_own *= 1.0 - above(odds_, j, x, i);
    }
    if (best_of_own < kNever) return 0.0;
    // at_most_[c]: probability that exactly c of the teams so far are above, for c below k.
    std::fill(at_most_.begin(), at_most_.end(), 0.0);
    at_most_[0] = 1.0;
    std::size_t highest = 0;  // the greatest count that has a probability
    std::size_t certain = 0;  // teams that are above for sure
    for (std::size_t t = 0; t < teams_.teams.size(); ++t) {
      if (t == own) continue;
      const Team& team = teams_.teams[t];
      if (is_guarded && !team.is_guarded) continue;
      const double p = team.is_guarded && !is_guarded ? team.present : above_of(team, x, i);
      if (p < kNever) continue;
      if (p >= 1.0) {
        if (++certain == at_most_.size()) return 0.0;
        continue;
      }
      if (highest + 1 < at_most_.size()) ++highest;
      for (std::size_t c = highest; c > 0; --c) {
        at_most_[c] = at_most_[c] * (1.0 - p) + at_most_[c - 1] * p;
      }
      at_most_[0] *= 1.0 - p;
    }
    double sum = 0.0;
    for (std::size_t c = 0; c + certain < at_most_.size(); ++c) sum += at_most_[c];
    return best_of_own * sum;
  }

 private:
  double above_of(const Team& team, double x, std::size_t i) const {
    if (team.members.size() == 1) return above(odds_, team.members[0], x, i);
    double none = 1.0;
    for (const std::size_t j : team.members) none *= 1.0 - above(odds_, j, x, i);
    return 1.0 - none;
  }

  const Odds& odds_;
  const Teams& teams_;
  std::vector<double> at_most_;
};

/// The distance of the points: a fraction of the least deviation that matters within reach.
std::size_t points_for(const Odds& odds, std::size_t i) {
  const double reach = kWidth * odds.sd[i];
  double step = 0.4 * odds.sd[i];
  for (std::size_t j = 0; j < odds.mean.size(); ++j) {
    const double distance = std::fabs(odds.mean[j] - odds.mean[i]);
    if (j == i || odds.show[j] == 0.0 || distance > reach + kWidth * odds.sd[j]) continue;
    step = std::min(step, kStep * odds.sd[j]);
  }
  const double intervals = 2.0 * reach / step;  // infinite if a score is certain
  return intervals < static_cast<double>(kMostPoints - 1)
             ? static_cast<std::size_t>(std::ceil(intervals)) + 1
             : kMostPoints;
}

}  // namespace

void inclusion(const Odds& odds, std::size_t k, std::span<double> out) {
  check(odds, out.size());
  const std::size_t n = odds.mean.size();
  if (k == 0) {
    std::fill(out.begin(), out.end(), 0.0);
    return;
  }
  const Teams teams = teams_of(odds);
  Given given(odds, teams, std::min(k, n));
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = odds.mean[i];
    const double sd = odds.sd[i];
    if (odds.show[i] == 0.0) {
      out[i] = 0.0;
      continue;
    }
    if (sd == 0.0) {
      out[i] = odds.show[i] * given(i, mean);
      continue;
    }
    // No integral is needed if even the best score is too low, or if even the worst one is enough.
    if (given(i, mean + kWidth * sd) < 1e-9) {
      out[i] = 0.0;
      continue;
    }
    if (const double worst = given(i, mean - kWidth * sd); worst > 1.0 - 1e-9) {
      out[i] = odds.show[i];
      continue;
    }
    // Trapezoids: nothing converges faster for a smooth function that is 0 at both ends.
    const std::size_t points = points_for(odds, i);
    double sum = 0.0;
    double weights = 0.0;
    for (std::size_t p = 0; p < points; ++p) {
      const double z =
          kWidth * (2.0 * static_cast<double>(p) / static_cast<double>(points - 1) - 1.0);
      const double weight = portable::exp(-0.5 * z * z);
      weights += weight;
      sum += weight * given(i, mean + sd * z);
    }
    out[i] = odds.show[i] * std::clamp(sum / weights, 0.0, 1.0);
  }
}

void inclusion_sampled(const Odds& odds, std::size_t k, double explore, std::uint64_t seed,
                       std::size_t draws, std::span<double> out, std::span<double> standard_error) {
  check(odds, out.size());
  const std::size_t n = odds.mean.size();
  check_length("standard_error", standard_error.size(), n);
  if (!(explore >= 0.0 && explore <= 1.0)) refuse("explore", explore, "in [0, 1]");
  if (draws == 0) refuse("draws", 0.0, "at least 1");
  std::vector<double> score(n);
  std::vector<std::uint8_t> hidden(n);
  std::vector<std::int32_t> order(n);
  std::vector<Placement> placement(n);
  std::vector<std::size_t> shown(n);
  for (std::size_t draw = 0; draw < draws; ++draw) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto words = Stream(seed, i).block(draw);
      score[i] =
          odds.mean[i] + odds.sd[i] * portable::normal_quantile(Stream::unit(words[0], words[1]));
      hidden[i] = Stream::unit(words[2], words[3]) >= odds.show[i] ? 1 : 0;
    }
    const bool explores = Stream(seed, n).uniform(2 * draw) < explore;
    const std::size_t size = pick({score, odds.mean, odds.sd, hidden, odds.guarded, {}, odds.group},
                                  k, explores, order, placement);
    for (std::size_t i = 0; i < size; ++i) ++shown[static_cast<std::size_t>(order[i])];
  }
  const auto count = static_cast<double>(draws);
  for (std::size_t i = 0; i < n; ++i) {
    const double p = static_cast<double>(shown[i]) / count;
    const double moderate = (static_cast<double>(shown[i]) + 1.0) / (count + 2.0);
    out[i] = p;
    standard_error[i] = std::sqrt(moderate * (1.0 - moderate) / count);
  }
}

}  // namespace toolroll
