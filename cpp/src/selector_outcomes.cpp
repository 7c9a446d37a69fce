#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "selector_turn.hpp"
#include "toolroll/thompson.hpp"

namespace toolroll {
namespace {

// Posterior mean below which a tool loses its place in the stage Thompson.
constexpr double kFailing = 0.125;

}  // namespace

void Selector::Turn::rank() {
  if (!stages_.learning || ask_.learned == nullptr || rows_.empty()) return;
  const LearningStage& stage = *stages_.learning;
  const std::size_t n = rows_.size();
  const std::optional<std::size_t> k = places(stage.k);
  Reranked& found = picked_.reranked.emplace();
  found.places = k ? std::min(*k, n) : n;
  found.core.resize(n);
  for (std::size_t i = 0; i < n; ++i) found.core[i] = stage.core.holds(rows_[i]) ? 1 : 0;
  const FoundTools& retrieved = picked_.by_words ? *picked_.by_words : *picked_.retrieved;
  const std::vector<std::int32_t>& leaders = retrieved.columns.raw_best;
  const std::size_t guards =
      std::min<std::size_t>({stage.weights.protected_leaders, found.places / 3, leaders.size()});
  found.guarded.assign(leaders.begin(), leaders.begin() + static_cast<std::ptrdiff_t>(guards));
  std::vector<std::int32_t> order(n);
  for (std::vector<float>* column : {&found.scores, &found.mean, &found.spread, &found.show}) {
    column->resize(n);
  }
  std::vector<Placement> placement(n);
  toolroll::rank(*ask_.learned, *ask_.keys, {rows_, scores_, found.guarded, found.core},
                 ask_.scopes, ask_.now, ask_.seed, found.places, stage.temperature, stage.weights,
                 {order, found.scores, found.mean, found.spread, found.show, placement});
  found.rows = rows_;
  found.learnt.resize(n);
  for (std::size_t i = 0; i < n; ++i) found.learnt[i] = found.scores[i] - scores_[i];
  scores_ = found.scores;
  step(Verb::kRescore, Reason::kDraw, Found::kReranked);
  reorder(order);
  step(Verb::kReorder, Reason::kLearnt);
}

void Selector::Turn::draw() {
  if (!stages_.thompson || ask_.learned == nullptr || rows_.empty()) return;
  const ThompsonStage& stage = *stages_.thompson;
  const std::size_t n = rows_.size();
  std::vector<std::uint64_t> arms(n);
  std::vector<double> alpha(n), beta(n), draws(n);
  bool has_counts = false;
  for (std::size_t i = 0; i < n; ++i) {
    arms[i] = ask_.keys->arm(static_cast<std::size_t>(rows_[i]));
    const Shapes shapes = ask_.learned->plain(arms[i], ask_.plain);
    alpha[i] = shapes.first;
    beta[i] = shapes.second;
    has_counts = has_counts || alpha[i] + beta[i] > 2.0;
  }
  if (!has_counts) return;
  thompson_sample({arms, alpha, beta}, ask_.seed, draws);
  std::vector<std::uint8_t> is_behind(n, 0);
  if (const std::optional<std::size_t> k = places(stage.k)) {
    std::size_t left = *k > 0 ? *k - 1 : 0;
    std::size_t best = n;  // of those behind, the best draw
    for (std::size_t i = 0; i < n; ++i) {
      if (stage.core.holds(rows_[i])) continue;
      if (left > 0 && alpha[i] >= kFailing * (alpha[i] + beta[i])) {
        --left;
        continue;
      }
      is_behind[i] = 1;
      if (best == n || draws[i] > draws[best]) best = i;
    }
    if (*k > 0 && best < n) is_behind[best] = 0;
  }
  Rows order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int32_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int32_t one, std::int32_t other) {
    const auto a = static_cast<std::size_t>(one), b = static_cast<std::size_t>(other);
    if (is_behind[a] != is_behind[b]) return is_behind[a] < is_behind[b];
    return draws[a] != draws[b] ? draws[a] > draws[b] : rows_[a] < rows_[b];
  });
  scores_.assign(draws.begin(), draws.end());
  Reranked& found = picked_.reranked.emplace();
  found.rows = rows_;
  found.scores = scores_;
  step(Verb::kRescore, Reason::kThompson, Found::kDrawn);
  reorder(order);
  step(Verb::kReorder, Reason::kLearnt);
}

void Selector::Turn::order_by_reliability() {
  if (!stages_.no_match->learns || ask_.learned == nullptr) return;
  std::vector<std::pair<double, std::int32_t>> order;
  order.reserve(rows_.size());
  for (const std::int32_t row : rows_) {
    const std::uint64_t arm = ask_.keys->arm(static_cast<std::size_t>(row));
    const Shapes beta = ask_.learned->reliability(arm, ask_.scopes, ask_.now);
    order.emplace_back(-beta.first / (beta.first + beta.second), row);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) rows_[i] = order[i].second;
}

}  // namespace toolroll
