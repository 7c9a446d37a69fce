// The change detector of an arm, and the breaker that hides a broken one.
#include <algorithm>

#include "learned_records.hpp"
#include "portable.hpp"

namespace toolroll {
namespace {

// With a surer belief, two or three outcomes would raise an alarm.
constexpr double kLeastMean = 0.05;
constexpr double kMostMean = 0.97;
constexpr double kMostOfOne = 0.4;  // share of an alarm from one reporter: it takes at least three

}  // namespace

LevelCounts reliability_levels(const Arm& arm, const Scopes& scopes, double now, double half_life) {
  LevelCounts levels;
  for (const std::uint64_t scope : {scopes.everywhere, scopes.page, scopes.leaf}) {
    if (scope == 0) continue;
    Counts& counts = levels.level[levels.size++];
    const Cell* const cell = arm.counts.find(scope);
    if (cell == nullptr) continue;
    counts = cell->read(now, half_life);
    const double total = counts.first + counts.second;
    if (cell->at < arm.state.detector.epoch && total > 1.0) {
      counts.first /= total;
      counts.second /= total;
    }
  }
  return levels;
}

void add_after_cut(Cell& cell, double epoch, double when, double half_life, double first,
                   double second) {
  if (cell.at < epoch) {
    const Counts counts = cell.at == kLongAgo ? Counts{} : cell.read(epoch, half_life);
    const double total = std::max(counts.first + counts.second, 1.0);
    cell = {counts.first / total, counts.second / total, epoch};
  }
  cell.add(when, half_life, first, second);
}

Change observe(ChangeDetector& detector, int verdict, double at, std::uint64_t reporter,
               double mean, const LearningRates& rates) {
  const double now = std::max(at, detector.latest);
  detector.latest = now;
  const bool is_success = verdict > 0;
  detector.run = detector.last == verdict ? detector.run + 1.0 : 1.0;
  detector.last = verdict;

  if (detector.k > 0.0) {
    // The selection was before the alarm, so the outcome is no probe.
    if (at <= detector.opened_at) return {};
    if (!is_success) {
      detector.k = std::min(detector.k + 1.0, rates.most_k);
      detector.failed_at = now;
      return {};
    }
    detector.k = 0.0;
    detector.epoch = now;
    detector.alarm = 1.0;
    detector.alarm_at = now;
    detector.worse = {};
    detector.better = {};
    return {true, 0.0};
  }

  const double p0 = std::clamp(mean, kLeastMean, kMostMean);
  const double log_ratio = portable::log(rates.alarm_ratio);
  const double p_worse = rates.alarm_ratio * p0;
  detector.worse.add(is_success ? log_ratio : portable::log((1.0 - p_worse) / (1.0 - p0)), reporter,
                     kMostOfOne * rates.alarm_nats);
  if (p0 < 0.5) {
    const double p_better = 1.0 - rates.alarm_ratio * (1.0 - p0);
    detector.better.add(is_success ? portable::log(p_better / p0) : log_ratio, reporter,
                        kMostOfOne * rates.alarm_nats);
  } else {
    detector.better = {};
  }
  const bool is_worse = detector.worse.nats >= rates.alarm_nats;
  if (!is_worse && detector.better.nats < rates.alarm_nats) return {};
  detector.epoch = now;
  detector.alarm = is_worse ? -1.0 : 1.0;
  detector.alarm_at = now;
  detector.worse = {};
  detector.better = {};
  if (is_worse && rates.open_k > 0.0) {
    detector.k = rates.open_k;
    detector.failed_at = now;
    detector.opened_at = now;
  }
  return {true, detector.run - 1.0};
}

}  // namespace toolroll
