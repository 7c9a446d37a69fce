#include "toolroll/slate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "checks.hpp"
#include "portable.hpp"
#include "toolroll/stream.hpp"

namespace toolroll {
namespace {

constexpr double kReach = 4.0;  // deviations; with a scale of 0.25, one unscaled deviation

void check_range(const char* what, double number, double most) {
  if (!(number >= 0.0 && number <= most)) {
    refuse(what, number, "in 0.." + std::to_string(most));
  }
}

void check_all(const ToolKeys& keys, const Candidates& candidates) {
  const std::size_t m = candidates.rows.size();
  check_length("scores", candidates.scores.size(), m);
  check_length("core", candidates.core.size(), m);
  for (std::size_t i = 0; i < m; ++i) {
    const std::int32_t row = candidates.rows[i];
    if (row < 0 || static_cast<std::size_t>(row) >= keys.size()) {
      refuse(entry("rows", i), row, "in 0.." + std::to_string(keys.size()) + " (exclusive)");
    }
    if (!std::isfinite(candidates.scores[i])) {
      refuse(entry("scores", i), candidates.scores[i], "finite");
    }
  }
}

double mean_of(const Shapes& beta) { return beta.first / (beta.first + beta.second); }

/// The columns of one call. The thread keeps their memory for the next call.
struct Scratch {
  std::vector<double> score, mean, sd, works;
  std::vector<std::uint64_t> arm, subject, group;
  std::vector<std::uint8_t> hidden, guarded;
  std::vector<Posterior> posterior;

  void resize(std::size_t m) {
    for (auto* column : {&score, &mean, &sd, &works}) column->resize(m);
    for (auto* column : {&arm, &subject, &group}) column->resize(m);
    posterior.resize(m);
    hidden.assign(m, 0);
    guarded.assign(m, 0);
  }
};

}  // namespace

void check(const Weights& weights) {
  constexpr double kMost = 1000.0;
  check_range("reliability", weights.reliability, kMost);
  check_range("lift", weights.lift, kMost);
  check_range("exploration_scale", weights.exploration_scale, kMost);
  check_range("sd_max", weights.sd_max, kMost);
  check_range("most_up", weights.most_up, kMost);
  check_range("most_down", weights.most_down, kMost);
  check_range("reliability_in_order", weights.reliability_in_order, kMost);
  check_range("explore", weights.explore, 1.0);
}

std::size_t pick(const SlateInput& input, std::size_t k, bool explores,
                 std::span<std::int32_t> order, std::span<Placement> placement) {
  const std::size_t n = input.score.size();
  thread_local std::vector<std::uint8_t> rank_of;
  thread_local std::vector<std::uint8_t> guarded;
  rank_of.assign(n, 2);  // 0 shown, 2 behind, 3 beaten, 4 hidden
  guarded.assign(input.guarded.begin(), input.guarded.end());
  const auto is_core = [&](std::size_t i) { return !input.core.empty() && input.core[i] != 0; };
  const auto place = [](std::int32_t at) { return static_cast<std::size_t>(at); };
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_hidden = input.hidden[i] != 0 && !is_core(i);
    placement[i] = is_hidden ? Placement::kHidden : Placement::kRanked;
    order[i] = static_cast<std::int32_t>(i);
  }

  for (std::size_t i = 0; i < n; ++i) {  // the first member of a group decides for all
    const std::uint64_t group = input.group[i];
    if (group == 0) continue;
    bool is_first = true;
    for (std::size_t j = 0; j < i && is_first; ++j) is_first = input.group[j] != group;
    if (!is_first) continue;
    std::size_t best = n;
    bool has_core = false;
    bool is_guarded = false;
    for (std::size_t j = i; j < n; ++j) {
      if (input.group[j] != group) continue;
      has_core = has_core || is_core(j);
      is_guarded = is_guarded || guarded[j] != 0;
      guarded[j] = 0;
      if (placement[j] == Placement::kHidden || is_core(j)) continue;
      if (best == n || input.score[j] > input.score[best]) best = j;
    }
    for (std::size_t j = i; j < n; ++j) {
      if (input.group[j] == group && placement[j] == Placement::kRanked && !is_core(j) &&
          (has_core || j != best)) {
        placement[j] = Placement::kBeaten;
      }
    }
    if (best != n && !has_core) guarded[best] = is_guarded ? 1 : 0;
  }

  for (std::size_t i = 0; i < n; ++i) {
    if (placement[i] == Placement::kBeaten) rank_of[i] = 3;
    if (placement[i] == Placement::kHidden) rank_of[i] = 4;
    if (is_core(i)) rank_of[i] = 0;
  }
  const auto is_better = [&](std::int32_t a, std::int32_t b) {
    const double x = input.score[place(a)];
    const double y = input.score[place(b)];
    return x != y ? x > y : a < b;
  };
  std::sort(order.begin(), order.end(), is_better);
  std::size_t left = k;
  for (const bool wants_guarded : {true, false}) {
    for (const std::int32_t at : order) {
      if (left == 0) break;
      if (rank_of[place(at)] != 2 || (guarded[place(at)] != 0) != wants_guarded) continue;
      rank_of[place(at)] = 0;
      --left;
    }
  }

  if (explores && left == 0) {
    std::size_t last = n;
    for (const std::int32_t at : order) {
      const std::size_t i = place(at);
      if (rank_of[i] == 0 && guarded[i] == 0 && !is_core(i)) last = i;
    }
    std::size_t least_known = n;
    for (const std::int32_t at : order) {
      const std::size_t i = place(at);
      if (last == n || rank_of[i] != 2) continue;
      if (input.mean[i] + kReach * input.sd[i] < input.score[last]) continue;
      if (least_known == n || input.sd[i] > input.sd[least_known]) least_known = i;
    }
    if (least_known != n) std::swap(rank_of[last], rank_of[least_known]);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return rank_of[place(a)] < rank_of[place(b)];
  });
  return static_cast<std::size_t>(std::count(rank_of.begin(), rank_of.end(), 0));
}

std::size_t rank(const Learned& learned, const ToolKeys& keys, const Candidates& candidates,
                 const Scopes& scopes, double now, std::uint64_t seed, std::size_t k,
                 double temperature, const Weights& weights, const Ranked& out) {
  const std::size_t m = candidates.rows.size();
  check(weights);
  check_all(keys, candidates);
  check_length("order", out.order.size(), m);
  for (const auto& column : {out.score, out.mean, out.sd, out.show}) {
    check_length("answer", column.size(), m);
  }
  check_length("placement", out.placement.size(), m);
  if (!(std::fabs(now) <= 1e12)) refuse("now", now, "in -1e12..1e12");
  if (!(temperature > 0.0 && temperature <= 1e12)) {
    refuse("temperature", temperature, "above 0 and at most 1e12");
  }

  thread_local Scratch at;
  at.resize(m);
  // Without outcomes the order stays that of retrieval: draws from equal posteriors would only
  // shuffle it.
  const double exploration_scale = learned.revision() == 0 ? 0.0 : weights.exploration_scale;
  const Posterior unknown = learned.prior(scopes);
  const LogMoments prior_reliability = log_moments_of_beta(unknown.reliability);
  const LogMoments prior_lift = log_moments_of_gamma(unknown.lift);
  const double wr = weights.reliability;
  const double wl = weights.lift;

  for (std::size_t i = 0; i < m; ++i) {
    const auto row = static_cast<std::size_t>(candidates.rows[i]);
    at.arm[i] = keys.arm(row);
    at.subject[i] = keys.subject(row);
    at.group[i] = keys.group(row);
    at.score[i] = candidates.scores[i];
  }
  for (std::size_t i = 0; i < m; ++i) {  // a member's wording must not count against it
    if (at.group[i] == 0) continue;
    double best = at.score[i];
    for (std::size_t j = 0; j < m; ++j) {
      if (at.group[j] == at.group[i]) best = std::max<double>(best, candidates.scores[j]);
    }
    at.score[i] = best;
  }
  const double best = m == 0 ? 0.0 : *std::max_element(at.score.begin(), at.score.end());
  learned.posteriors(at.arm, at.subject, scopes, now, at.posterior);
  for (std::size_t i = 0; i < m; ++i) {
    const Posterior& posterior = at.posterior[i];
    const Shapes reliability =
        posterior.has_reliability ? posterior.reliability : unknown.reliability;
    const Shapes lift = posterior.has_lift ? posterior.lift : unknown.lift;
    const LogMoments r =
        posterior.has_reliability ? log_moments_of_beta(reliability) : prior_reliability;
    const LogMoments l = posterior.has_lift ? log_moments_of_gamma(lift) : prior_lift;
    // Calls lift a tool only as far as they succeed.
    const double works = mean_of(reliability) / mean_of(unknown.reliability);
    const double more = l.mean - prior_lift.mean;
    const double lifted = more > 0.0 ? more * std::min(works, 1.0) : more;
    double learnt = std::clamp(wr * (r.mean - prior_reliability.mean) + wl * lifted,
                               -weights.most_down, weights.most_up);
    // Outcomes lift a tool only in proportion to how well it fits the message.
    if (learnt > 0.0) learnt *= best > 0.0 ? std::clamp(at.score[i] / best, 0.0, 1.0) : 0.0;
    const double deviation =
        std::min(std::sqrt(wr * wr * r.variance + wl * wl * l.variance), weights.sd_max);
    at.mean[i] = at.score[i] + temperature * learnt;
    at.works[i] = r.mean - prior_reliability.mean;
    at.sd[i] = temperature * exploration_scale * deviation;
    out.show[i] = static_cast<float>(posterior.show);
    const Stream stream(seed, at.arm[i]);
    const auto words = stream.block(kSlatePurpose << 32);
    at.score[i] = at.mean[i];
    if (at.sd[i] > 0.0) {
      at.score[i] += at.sd[i] * portable::normal_quantile(Stream::unit(words[0], words[1]));
    }
    if (posterior.show < 1.0) {
      at.hidden[i] = Stream::unit(words[2], words[3]) >= posterior.show ? 1 : 0;
    }
  }

  const std::size_t guards =
      std::min<std::size_t>(weights.protected_leaders, candidates.raw_best.size());
  for (const std::int32_t best : candidates.raw_best.first(guards)) {
    for (std::size_t i = 0; i < m; ++i) {
      if (candidates.rows[i] == best) at.guarded[i] = 1;
    }
  }
  const Stream chance(seed, 0);
  const bool explores =
      weights.explore > 0.0 && chance.uniform(kExplorePurpose << 33) < weights.explore;
  const std::size_t shown =
      pick({at.score, at.mean, at.sd, at.hidden, at.guarded, candidates.core, at.group}, k,
           explores, out.order, out.placement);
  const auto listed = [&](std::int32_t place) {
    const auto i = static_cast<std::size_t>(place);
    return at.score[i] + temperature * weights.reliability_in_order * at.works[i];
  };
  std::stable_sort(out.order.begin(), out.order.begin() + static_cast<std::ptrdiff_t>(shown),
                   [&](std::int32_t a, std::int32_t b) { return listed(a) > listed(b); });
  for (std::size_t i = 0; i < m; ++i) {
    out.score[i] = static_cast<float>(at.score[i]);
    out.mean[i] = static_cast<float>(at.mean[i]);
    out.sd[i] = static_cast<float>(at.sd[i]);
  }
  return shown;
}

}  // namespace toolroll
