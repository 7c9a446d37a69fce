#include <algorithm>
#include <cmath>
#include <compare>
#include <optional>
#include <utility>
#include <vector>

#include "selector_turn.hpp"

namespace toolroll {
namespace {

using Set = RowMap;

constexpr double kBatch = 1.0 / 3.0;  // of a full list goes at once

}  // namespace

void Selector::Turn::keep_list() {
  if (!stages_.list || !ask_.conversation) return;
  const ListStage& stage = *stages_.list;
  const ConversationRows& conversation = *ask_.conversation;
  const Rows found = rows_;
  const Sent sent = sent_rows(conversation);
  Set ahead_set(found.size() + conversation.loaded.size() + conversation.recent.size());
  Rows ahead;
  for (const std::int32_t row : found) {
    if (is_core(row) && ahead_set.add(row)) ahead.push_back(row);
  }
  for (const std::int32_t row : held(found)) {
    if (allows(row) && ahead_set.add(row)) ahead.push_back(row);
  }
  Rows counted;
  for (const std::int32_t row : found) {
    if (!ahead_set.holds(row)) counted.push_back(row);
  }
  const std::optional<std::size_t> k = places(stages_.cap.k);
  std::optional<std::size_t> most;
  if (k && stage.growth != 0.0 && !conversation.is_whole) {
    most = rounded_up(static_cast<double>(*k) * stage.growth);
  }
  if (most && !sent.rows.empty()) {
    const auto room = static_cast<std::size_t>(std::min(
        std::nearbyint(static_cast<double>(*k) * stage.newcomers), static_cast<double>(kMost)));
    Rows kept;
    for (std::size_t i = 0; i < counted.size(); ++i) {
      if (i < room || sent.place.holds(counted[i])) kept.push_back(counted[i]);
    }
    counted = std::move(kept);
  }
  Rows picked = ahead;
  picked.insert(picked.end(), counted.begin(), counted.end());
  Rows order = ordered(picked, sent, most.has_value());

  const std::optional<std::size_t> limit = this->limit();
  const bool is_full = most && order.size() > *most + ahead.size();
  if (is_full || ask_.budget || (limit && order.size() > *limit)) {
    Rows back = latest(order, picked, sent);
    if (is_full) {
      const double room = std::floor(static_cast<double>(*most) * (1.0 - kBatch));
      const double left = room - static_cast<double>(counted.size());
      if (left < static_cast<double>(back.size())) {
        back.resize(static_cast<std::size_t>(std::max(left, 0.0)));
      }
    }
    order = bounded(order, picked, back, conversation.is_whole ? 0.0 : kBatch);
  }
  if (order == found) return;
  picked_.before_list = found;
  arrange(std::move(order));
  step(Verb::kArrange, Reason::kListed, Found::kBeforeList);
}

void Selector::Turn::keep_order() {
  if (!stages_.has_order || ask_.sent.empty()) return;
  RowMap place(ask_.sent.size());
  for (std::size_t i = 0; i < ask_.sent.size(); ++i) {
    if (ask_.sent[i] >= 0) place.add(ask_.sent[i], static_cast<std::int32_t>(i));
  }
  const auto behind = static_cast<std::int32_t>(place.size());
  Rows ranks, order(rows_.size());
  for (const std::int32_t row : rows_) {
    const std::int32_t* const at = place.find(row);
    ranks.push_back(at != nullptr ? *at : behind);
  }
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return ranks[static_cast<std::size_t>(a)] < ranks[static_cast<std::size_t>(b)];
  });
  reorder(order);
  step(Verb::kReorder, Reason::kSentFirst);
}

auto Selector::Turn::sent_rows(const ConversationRows& conversation) const -> Sent {
  Sent sent{{}, RowMap(conversation.listed.size())};
  for (std::size_t i = 0; i < conversation.listed.size(); ++i) {
    const std::int32_t row = conversation.listed[i];
    if (row < 0 || !allows(row)) continue;
    if (sent.place.add(row, static_cast<std::int32_t>(i))) {
      sent.rows.push_back(row);
    } else {
      *sent.place.find(row) = static_cast<std::int32_t>(i);
    }
  }
  return sent;
}

Rows Selector::Turn::held(const Rows& selected) const {
  const ConversationRows& conversation = *ask_.conversation;
  const ListStage& stage = *stages_.list;
  Rows rows;
  for (const std::int32_t row : conversation.loaded) {
    if (row >= 0) rows.push_back(row);
  }
  const Set is_selected = RowMap::of(selected);
  std::size_t left = stage.sticky_tools;
  for (const std::int32_t row : conversation.recent) {
    const bool is_free = stage.counts_added && row >= 0 && is_selected.holds(row);
    if (!is_free) {
      if (left == 0) {
        if (!stage.counts_added) break;
        continue;
      }
      --left;
    }
    if (row >= 0) rows.push_back(row);
  }
  return rows;
}

Rows Selector::Turn::ordered(const Rows& picked, const Sent& sent, bool grows) const {
  const bool is_whole = ask_.conversation->is_whole;
  const std::size_t most = is_whole ? ask_.allowed.count() : sent.rows.size() + picked.size();
  Rows order;
  order.reserve(most);
  if (!is_whole && !grows) {
    const Set stays = RowMap::of(picked);
    for (const std::int32_t row : sent.rows) {
      if (stays.holds(row)) order.push_back(row);
    }
    for (const std::int32_t row : picked) {
      if (!sent.place.holds(row)) order.push_back(row);
    }
    return order;
  }
  Set there(most);
  const auto add = [&](std::int32_t row) {
    if (there.add(row)) order.push_back(row);
  };
  std::ranges::for_each(sent.rows, add);
  std::ranges::for_each(picked, add);
  if (is_whole) ask_.allowed.each(add);
  return order;
}

Rows Selector::Turn::latest(const Rows& order, const Rows& picked, const Sent& sent) const {
  struct Back {
    std::int64_t turn;
    std::int64_t place;
    std::int32_t row;
    auto operator<=>(const Back&) const = default;
  };
  const Set is_picked = RowMap::of(picked);
  std::vector<Back> back;
  for (const std::int32_t row : order) {
    if (is_picked.holds(row)) continue;
    if (const std::int32_t* const at = sent.place.find(row)) {
      back.push_back({-ask_.conversation->picked[static_cast<std::size_t>(*at)], *at, row});
    } else {
      back.push_back({0, row, row});
    }
  }
  std::sort(back.begin(), back.end());
  Rows rows;
  rows.reserve(back.size());
  for (const Back& one : back) rows.push_back(one.row);
  return rows;
}

Rows Selector::Turn::bounded(const Rows& order, Rows picked, Rows back, double batch) const {
  if (const auto most = limit(); most && picked.size() + back.size() > *most) {
    if (picked.size() > *most) picked.resize(*most);
    const double room = std::floor(static_cast<double>(*most) * (1.0 - batch));
    const double left = std::max(room - static_cast<double>(picked.size()), 0.0);
    if (left < static_cast<double>(back.size())) back.resize(static_cast<std::size_t>(left));
  }
  if (ask_.budget) {
    std::int64_t left = *ask_.budget;
    picked = affordable(picked, left);
    std::int64_t costs = 0;
    for (const std::int32_t row : back) costs += cost(row);
    if (costs > left) {
      left -= static_cast<std::int64_t>(std::floor(static_cast<double>(*ask_.budget) * batch));
      back = affordable(back, left);
    }
  }
  Set stays(picked.size() + back.size());
  for (const std::int32_t row : picked) stays.add(row);
  for (const std::int32_t row : back) stays.add(row);
  Rows kept;
  for (const std::int32_t row : order) {
    if (stays.holds(row)) kept.push_back(row);
  }
  return kept;
}

Rows Selector::Turn::affordable(const Rows& rows, std::int64_t& left) const {
  Rows chosen;
  for (const std::int32_t row : rows) {
    if (cost(row) > left) continue;
    left -= cost(row);
    chosen.push_back(row);
  }
  return chosen;
}

void Selector::Turn::count_turns() {
  if (!stages_.list || !ask_.conversation) return;
  const ConversationRows& conversation = *ask_.conversation;
  const std::size_t sticky = std::min(conversation.recent.size(), stages_.list->sticky_tools);
  const Rows& selected = picked_.before_list ? *picked_.before_list : rows_;
  Set is_picked(selected.size() + conversation.loaded.size() + sticky);
  const auto add = [&](std::int32_t row) {
    if (row >= 0) is_picked.add(row);
  };
  std::ranges::for_each(selected, add);
  std::ranges::for_each(conversation.loaded, add);
  std::ranges::for_each(conversation.recent.first(sticky), add);
  RowMap listed(conversation.listed.size());
  for (std::size_t i = 0; i < conversation.listed.size(); ++i) {
    const std::int32_t row = conversation.listed[i];
    const auto place = static_cast<std::int32_t>(i);
    if (row >= 0 && !listed.add(row, place)) *listed.find(row) = place;
  }
  std::vector<std::int64_t>& turns = picked_.list_turns.emplace();
  for (const std::int32_t row : rows_) {
    const std::int32_t* const at = is_picked.holds(row) ? nullptr : listed.find(row);
    turns.push_back(at == nullptr ? conversation.turn
                                  : conversation.picked[static_cast<std::size_t>(*at)]);
  }
}

}  // namespace toolroll
