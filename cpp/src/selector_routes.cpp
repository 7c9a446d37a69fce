#include <algorithm>
#include <cstdint>

#include "selector_turn.hpp"

namespace toolroll {

void Selector::Turn::route() {
  if (!stages_.routes) return;
  switch (stages_.routes->mode) {
    case RouteMode::kFavour:
      return favour_routes();
    case RouteMode::kNarrow:
    case RouteMode::kFill:
      return narrow_to_routes();
    case RouteMode::kIgnore:
      if (!stages_.routes->no_hit) return;
      return narrow_to(Bitset::of(selector_.size_, *stages_.routes->no_hit), Reason::kRouteIgnore);
  }
}

void Selector::Turn::narrow_to_routes() {
  const RoutesStage& stage = *stages_.routes;
  const Bitset hits = hit_rows();
  if (picked_.routed.empty()) {
    if (!stage.no_hit) return;
    return narrow_to(Bitset::of(selector_.size_, *stage.no_hit), Reason::kRouteDefault);
  }
  if (!stage.scores) return narrow_to(hits, Reason::kRouteHit, Found::kRouted);
  narrow_to(hits, Reason::kRouteHit);
  rows_.clear();
  pool().each([this](std::int32_t row) { rows_.push_back(row); });
  scores_.assign(rows_.size(), 0.0F);
  for (const std::int32_t hit : picked_.routed) {
    const ToolkitRows& toolkit = ask_.routed[static_cast<std::size_t>(hit)];
    const auto strength = static_cast<float>(toolkit.weight);
    for (const std::int32_t row : toolkit.rows) {
      const auto at = std::ranges::lower_bound(rows_, row) - rows_.begin();
      if (at == std::ssize(rows_) || rows_[static_cast<std::size_t>(at)] != row) continue;
      float& score = scores_[static_cast<std::size_t>(at)];
      score = std::max(score, strength);
    }
  }
  step(Verb::kRescore, Reason::kRouteScore, Found::kRouted);
}

void Selector::Turn::fill() {
  const RoutesStage& stage = *stages_.routes;
  Bitset rows = hit_rows();
  const bool has_hit = !picked_.routed.empty();
  if (!has_hit) {
    if (!stage.no_hit) return;
    rows = Bitset::of(selector_.size_, *stage.no_hit);
  }
  put_core_first();  // a tool that is cut here may come back behind
  cut_to_k();
  const RowMap there = RowMap::of(rows_);
  const std::size_t before = rows_.size();
  (rows & pool()).each([&](std::int32_t row) {
    if (!there.holds(row)) rows_.push_back(row);
  });
  if (rows_.size() == before && !has_hit) return;
  scores_.resize(rows_.size(), 0.0F);
  step(Verb::kAdmit, has_hit ? Reason::kRouteFill : Reason::kRouteDefault,
       has_hit ? Found::kRouted : Found::kNothing);
}

Bitset Selector::Turn::hit_rows() {
  // A toolkit without a tool in play is not hit: a keyword of one that is denied says nothing.
  const auto is_in_play = [this](std::int32_t row) {
    return pool().contains(static_cast<std::size_t>(row));
  };
  Rows rows;
  for (std::size_t i = 0; i < ask_.routed.size(); ++i) {
    const ToolkitRows& toolkit = ask_.routed[i];
    if (std::ranges::none_of(toolkit.rows, is_in_play)) continue;
    picked_.routed.push_back(static_cast<std::int32_t>(i));
    rows.insert(rows.end(), toolkit.rows.begin(), toolkit.rows.end());
  }
  return Bitset::of(selector_.size_, rows);
}

}  // namespace toolroll
