#include "toolroll/tool_keys.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace toolroll {

ToolKeys::ToolKeys(std::vector<std::uint64_t> arm, std::vector<std::uint64_t> intent,
                   std::vector<std::uint64_t> group)
    : arm_(std::move(arm)), group_(std::move(group)), subject_(std::move(intent)) {
  const std::size_t n = arm_.size();
  if (subject_.size() != n || group_.size() != n) {
    throw std::invalid_argument("tool keys: has " + std::to_string(n) + " arms, " +
                                std::to_string(subject_.size()) + " intents and " +
                                std::to_string(group_.size()) + " groups, must be as many of each");
  }
  for (std::size_t row = 0; row < n; ++row) {
    if (group_[row] != 0) subject_[row] = group_[row];
  }
  rows_.resize(n);
  std::iota(rows_.begin(), rows_.end(), 0);
  std::stable_sort(rows_.begin(), rows_.end(), [this](std::int32_t a, std::int32_t b) {
    return subject_[static_cast<std::size_t>(a)] < subject_[static_cast<std::size_t>(b)];
  });
  if (n == 0) return;
  slots_.resize(std::bit_ceil(2 * n));
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t begin = 0; begin < n;) {
    const std::uint64_t subject = subject_[static_cast<std::size_t>(rows_[begin])];
    std::size_t end = begin + 1;
    while (end < n && subject_[static_cast<std::size_t>(rows_[end])] == subject) ++end;
    std::size_t at = home(subject) & mask;
    while (slots_[at].size != 0) at = (at + 1) & mask;
    slots_[at] = {subject, static_cast<std::uint32_t>(begin),
                  static_cast<std::uint32_t>(end - begin)};
    begin = end;
  }
}

ToolKeys ToolKeys::with_changes(const RowChanges& changes, std::vector<std::uint64_t> arm,
                                std::vector<std::uint64_t> intent,
                                std::vector<std::uint64_t> group) const {
  if (shared_) throw std::invalid_argument("tool keys: are stacked, must be of one catalog");
  const ToolKeys added(std::move(arm), std::move(intent), std::move(group));
  changes.check(size(), added.size());
  std::vector<std::uint64_t> arms(changes.size());
  std::vector<std::uint64_t> subjects(changes.size());
  std::vector<std::uint64_t> groups(changes.size());
  std::size_t next = 0;
  for (std::size_t row = 0; row < changes.size(); ++row) {
    const std::int32_t source = changes.sources()[row];
    const bool is_added = source == RowChanges::kNone;
    const ToolKeys& from = is_added ? added : *this;
    const std::size_t at = is_added ? next++ : static_cast<std::size_t>(source);
    arms[row] = from.arm_[at];
    subjects[row] = from.subject_[at];  // where there is a group, that is the subject
    groups[row] = from.group_[at];
  }
  return ToolKeys(std::move(arms), std::move(subjects), std::move(groups));
}

ToolKeys ToolKeys::stacked(std::shared_ptr<const ToolKeys> shared,
                           std::shared_ptr<const ToolKeys> own) {
  if (!shared || !own) throw std::invalid_argument("tool keys: a part is missing");
  if (shared->shared_ || own->shared_) {
    throw std::invalid_argument("tool keys: a part is stacked itself, must be of one catalog");
  }
  ToolKeys both;
  both.behind_ = shared->size();
  both.shared_ = std::move(shared);
  both.own_ = std::move(own);
  return both;
}

}  // namespace toolroll
