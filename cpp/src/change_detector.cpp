// The change detector of an arm, and the breaker that hides a broken one.
#include <algorithm>

#include "learned_records.hpp"
#include "portable.hpp"

namespace toolroll {
namespace {

// With a surer belief, two or three outcomes would raise an alarm.
constexpr double kLeastMean = 0.05;
constexpr double kMostMean = 0.97;
constexpr double kMostOfOne = 0.26;  // share of an alarm from one reporter: it takes at least four
// An arm with few successes: its mean falls with each failure, which then is less and less of a
// surprise. So each failure adds one, and a success takes two; kUnproven raise the alarm.
constexpr double kUnproven = 7.0;
constexpr double kMostUnprovenOfOne = 2.0;  // from one reporter: it takes at least four
constexpr double kDisproof = -2.0;
constexpr std::uint64_t kProven = 12;  // successes, not all of one reporter: the mean alone counts

/// Whether the verdict is evidence, and not the next of a flood.
bool counts(ChangeDetector& detector, const Verdict& verdict) {
  auto& [older, newer] = detector.recent;
  const std::uint64_t from = verdict.reporter;
  if (!verdict.is_within_quota && from != 0 && (from == older || from == newer)) return false;
  if (from != newer) {
    older = newer;
    newer = from;
  }
  return true;
}

/// Counts a success. While only one reporter has seen the arm work, further ones of that reporter
/// say nothing new.
void prove(ChangeDetector& detector, std::uint64_t reporter) {
  if (detector.successes >= kProven) return;
  if (detector.provers == 1 && reporter != 0 && reporter == detector.prover) return;
  if (detector.provers == 0) detector.prover = reporter;
  detector.provers = std::min<std::uint64_t>(detector.provers + 1, 2);
  ++detector.successes;
  detector.unproven.add(kDisproof, reporter, kMostUnprovenOfOne);
  if (detector.successes == kProven) detector.unproven = {};
}

/// Begins a new record.
void begin(ChangeDetector& detector, double now, int alarm) {
  detector.epoch = now;
  detector.alarm = alarm;
  detector.alarm_at = now;
  detector.worse = {};
  detector.better = {};
  detector.unproven = {};
  detector.successes = detector.provers = detector.prover = 0;
}

/// Updates an open breaker.
Change probe(ChangeDetector& detector, const Verdict& verdict, double now,
             const LearningRates& rates) {
  // The selection was before the alarm, so the outcome is no probe.
  if (verdict.at <= detector.opened_at) return {};
  if (!verdict.is_success) {
    detector.k = std::min(detector.k + 1.0, rates.most_k);
    detector.failed_at = now;
    return {};
  }
  // Beyond the quota, one reporter alone does not bring an arm back again and again.
  const bool is_again = verdict.reporter != 0 && verdict.reporter == detector.closer;
  if (is_again && !verdict.is_within_quota) return {};
  detector.k = 0.0;
  begin(detector, now, 1);
  prove(detector, verdict.reporter);
  detector.closer = verdict.reporter;
  return {true, 0.0};
}

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

Change observe(ChangeDetector& detector, const Verdict& verdict, double mean,
               const LearningRates& rates) {
  const double now = std::max(verdict.at, detector.latest);
  detector.latest = now;
  if (detector.k > 0.0) return probe(detector, verdict, now, rates);
  if (!counts(detector, verdict)) return {};

  const bool is_success = verdict.is_success;
  const double p0 = std::clamp(mean, kLeastMean, kMostMean);
  const double log_ratio = portable::log(rates.alarm_ratio);
  const double p_worse = rates.alarm_ratio * p0;
  const double most = kMostOfOne * rates.alarm_nats;
  const double added = detector.worse.add(
      is_success ? log_ratio : portable::log((1.0 - p_worse) / (1.0 - p0)), verdict.reporter, most);
  if (p0 < 0.5) {
    const double p_better = 1.0 - rates.alarm_ratio * (1.0 - p0);
    detector.better.add(is_success ? portable::log(p_better / p0) : log_ratio, verdict.reporter,
                        most);
  } else {
    detector.better = {};
  }
  if (is_success) {
    prove(detector, verdict.reporter);
  } else if (detector.successes < kProven) {
    detector.unproven.add(1.0, verdict.reporter, kMostUnprovenOfOne);
  }
  if (const double sign = is_success ? 1.0 : -1.0; detector.last != sign) {
    detector.run = 0.0;
    detector.last = sign;
  }
  if (is_success || added > 0.0) detector.run += 1.0;

  const bool is_unproven = rates.open_k > 0.0 && detector.unproven.sum >= kUnproven;
  const bool is_worse = detector.worse.sum >= rates.alarm_nats || is_unproven;
  if (!is_worse && detector.better.sum < rates.alarm_nats) return {};
  begin(detector, now, is_worse ? -1 : 1);
  if (!is_worse) detector.successes = kProven;
  if (is_worse && rates.open_k > 0.0) {
    detector.k = rates.open_k;
    detector.failed_at = now;
    detector.opened_at = now;
  }
  return {true, std::max(detector.run - 1.0, 0.0)};
}

}  // namespace toolroll
