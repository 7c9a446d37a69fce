// The change detector of an arm, seen through Learned: when it raises its alarm, how long the
// breaker hides the arm, and what lets it back.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.hpp"
#include "toolroll/learned.hpp"

namespace toolroll {
namespace {

constexpr std::uint64_t kArm = 100;
constexpr Scopes kScopes{1, 2, 20};
constexpr double kStart = 1.7e9;
constexpr double kDay = 86400.0;

Delta outcome(bool works, double at, std::uint64_t reporter = 0, std::uint64_t arm = kArm) {
  Delta delta{};
  delta.at = at;
  delta.everywhere = kScopes.everywhere;
  delta.page = kScopes.page;
  delta.leaf = kScopes.leaf;
  delta.arm = arm;
  delta.successes = works ? 1.0 : 0.0;
  delta.failures = works ? 0.0 : 1.0;
  delta.vector = -1;
  delta.verdict = works ? 1 : -1;
  delta.reporter = reporter;
  return delta;
}

Learned with(const Learned& learned, const std::vector<Delta>& deltas) {
  return learned.fold(deltas, {});
}

/// An outcome beyond its reporter's quota.
Delta unweighted(bool works, double at, std::uint64_t reporter) {
  Delta delta = outcome(works, at, reporter);
  delta.successes = delta.failures = 0.0;
  return delta;
}

/// `n` equal outcomes, a second apart.
std::vector<Delta> repeated(bool works, std::size_t n, double at, std::uint64_t reporter = 0,
                            std::uint64_t arm = kArm) {
  std::vector<Delta> deltas;
  for (std::size_t i = 0; i < n; ++i) {
    deltas.push_back(outcome(works, at + static_cast<double>(i), reporter, arm));
  }
  return deltas;
}

bool is_open(const Learned& learned, std::uint64_t arm = kArm) {
  return learned.breaker(arm, kStart).k > 0.0;
}

double mean_of(const Learned& learned, double now) {
  const Shapes beta = learned.reliability(kArm, kScopes, now);
  return beta.first / (beta.first + beta.second);
}

/// A tool that worked, up to the failure that opened its breaker.
Learned broken() {
  Learned learned = with(Learned(0), repeated(true, 10, kStart));
  for (double at = kStart + kDay; !is_open(learned); at += 60.0) {
    learned = with(learned, {outcome(false, at)});
  }
  return learned;
}

TEST_CASE("the alarm comes when the CUSUM of the definition reaches it") {
  std::mt19937 random(1);
  int alarms = 0;
  for (int round = 0; round < 300; ++round) {
    LearningRates rates;
    rates.prior_mean = std::vector{0.5, 0.85, 0.95}[random() % 3];
    rates.alarm_nats = random() % 2 == 0 ? 3.0 : 6.0;
    rates.least_reporters = 0;
    const auto works_of_ten = random() % 11;
    Learned learned(0, rates);
    double worse = 0.0;
    double better = 0.0;
    double unproven = 0.0;
    int successes = 0;
    for (int i = 0; i < 60; ++i) {
      const bool works = random() % 10 < works_of_ten;
      const double now = kStart + 60.0 * i;
      const double p0 = std::clamp(mean_of(learned, now), 0.05, 0.97);  // believed beforehand
      double p1 = rates.alarm_ratio * p0;
      worse = std::max(0.0, worse + std::log(works ? p1 / p0 : (1 - p1) / (1 - p0)));
      p1 = 1 - rates.alarm_ratio * (1 - p0);
      better =
          p0 >= 0.5 ? 0.0 : std::max(0.0, better + std::log(works ? p1 / p0 : (1 - p1) / (1 - p0)));
      if (works) ++successes;
      unproven = successes >= 12 ? 0.0 : std::max(0.0, unproven + (works ? -2.0 : 1.0));
      learned = with(learned, {outcome(works, now)});
      const std::vector<Alarm> found = learned.alarms();
      const bool is_worse = worse >= rates.alarm_nats || unproven >= 7.0;
      const int expected = is_worse ? -1 : better >= rates.alarm_nats ? 1 : 0;
      REQUIRE(found.size() == (expected == 0 ? 0 : 1));
      if (expected == 0) continue;
      CHECK(found[0].arm == kArm);
      CHECK(found[0].direction == expected);
      CHECK(found[0].at == now);
      CHECK(found[0].is_open == (expected < 0));
      ++alarms;
      break;
    }
  }
  CHECK(alarms > 50);
}

TEST_CASE("a good tool is hidden after so many failures in a row") {
  const auto after = [](double prior, std::size_t failures) {
    LearningRates rates;
    rates.prior_mean = prior;
    rates.prior_strength = rates.page_spread = rates.leaf_spread = 1e6;  // nothing is learnt
    rates.least_reporters = 0;
    const Learned known = with(Learned(0, rates), repeated(true, 12, kStart));
    return with(known, repeated(false, failures, kStart + 60));
  };
  CHECK(!is_open(after(0.95, 2)));
  CHECK(is_open(after(0.95, 3)));
  CHECK(!is_open(after(0.85, 4)));
  CHECK(is_open(after(0.85, 5)));
  CHECK(!is_open(after(0.6, 10)));
  CHECK(is_open(after(0.6, 11)));
}

TEST_CASE("a well-known tool is hidden within eight failures, and back with its first success") {
  std::mt19937 random(1);
  std::vector<int> calls;
  for (int round = 0; round < 60; ++round) {
    std::vector<Delta> known;
    for (int i = 0; i < 80; ++i) {
      known.push_back(outcome(random() % 10 != 0, kStart + 60 * i, 1 + random() % 200));
    }
    Learned learned = with(Learned(0), known);
    int n = 0;
    for (; !is_open(learned) && n < 50; ++n) {
      learned = with(learned, {outcome(false, kStart + 60.0 * (100 + n), 1 + random() % 200)});
    }
    calls.push_back(n);
    CHECK(!is_open(with(learned, {outcome(true, kStart + kDay, 5)})));
  }
  std::sort(calls.begin(), calls.end());
  CHECK(calls[30] <= 8);
}

TEST_CASE("after an alarm the old record counts for one observation and the run for itself") {
  LearningRates rates;
  rates.least_reporters = 0;
  rates.prior_strength = 2.0;
  Learned learned = with(Learned(0, rates), repeated(true, 50, kStart));
  double now = kStart + 3600.0;
  CHECK(mean_of(learned, now) > 0.95);
  int calls = 0;
  while (!is_open(learned)) {
    ++calls;
    learned = with(learned, {outcome(false, ++now)});
  }
  const Shapes beta = learned.reliability(kArm, {1, 0, 0}, now);
  CHECK(std::fabs(beta.first - (2 * rates.prior_mean + 1)) <= 0.1);
  CHECK(std::fabs(beta.second - (2 * (1 - rates.prior_mean) + calls)) <= 0.2);
}

TEST_CASE("three reporters do not hide a tool and a fourth one does") {
  const Learned known = with(Learned(0), repeated(true, 30, kStart));
  CHECK(is_open(with(known, repeated(false, 5, kStart + 3600))));  // the application itself
  Learned reported = with(known, repeated(false, 15, kStart + 3600, 6));
  CHECK(!is_open(reported));
  reported = with(reported, repeated(false, 5, kStart + 3700, 7));
  CHECK(!is_open(reported));
  reported = with(reported, repeated(false, 5, kStart + 3750, 8));
  CHECK(!is_open(reported));
  CHECK(is_open(with(reported, repeated(false, 3, kStart + 3800, 9))));
}

/// How many failures hide an arm, if the reporters fail in turn; at most `most`.
std::size_t failures_until_hidden(Learned learned, std::uint64_t reporters,
                                  std::size_t most = 100) {
  for (std::size_t n = 1; n <= most; ++n) {
    const double at = kStart + kDay + static_cast<double>(n);
    learned = with(learned, {n <= 3 * reporters ? outcome(false, at, n % reporters + 1)
                                                : unweighted(false, at, n % reporters + 1)});
    if (is_open(learned)) return n;
  }
  return most + 1;
}

TEST_CASE("a tool that never worked is hidden after seven failures of four reporters") {
  for (const std::uint64_t reporters : {4, 5, 10, 100}) {
    CHECK(failures_until_hidden(Learned(0), reporters) == 7);
  }
  for (const std::uint64_t reporters : {1, 2, 3}) {
    CHECK(failures_until_hidden(Learned(0), reporters) == 101);
  }
}

TEST_CASE("a tool that worked for one reporter only is treated like one that never worked") {
  const Learned once = with(Learned(0), {outcome(true, kStart, 1)});
  CHECK(failures_until_hidden(once, 10) <= 8);
  Learned praised = once;  // by the same reporter, again and again, and between the failures
  std::size_t failures = 0;
  for (double at = kStart + kDay; !is_open(praised) && failures < 20; at += 60.0) {
    ++failures;
    praised = with(praised, {outcome(false, at, 10 + failures)});
    if (!is_open(praised)) praised = with(praised, {unweighted(true, at + 1, 1)});
  }
  CHECK(failures == 7);
}

/// A tool that works half of the time, for sure, and that has worked for two reporters.
Learned middling() {
  LearningRates rates;
  rates.prior_mean = 0.5;
  rates.prior_strength = rates.page_spread = rates.leaf_spread = 1e6;
  Learned learned(0, rates);
  for (int i = 0; i < 12; ++i) learned = with(learned, {outcome(true, kStart + i, 1 + i % 2)});
  return learned;
}

TEST_CASE("of a tool with a record, seven failures do not say that it never worked") {
  CHECK(failures_until_hidden(middling(), 10) == 14);
}

TEST_CASE("a tool with few successes is hidden within eight failures") {
  for (int successes = 0; successes <= 15; ++successes) {
    Learned learned(0);
    for (int i = 0; i < successes; ++i) {
      learned = with(learned, {outcome(true, kStart + i, 1 + i % 10)});
    }
    CHECK(failures_until_hidden(learned, 10) <= 8);
  }
}

TEST_CASE("failures beyond the quotas of their reporters hide a tool that worked") {
  for (const std::uint64_t reporters : {4, 5, 10}) {
    Learned learned(0);
    for (int i = 0; i < 20; ++i) {
      learned = with(learned, {outcome(true, kStart + i, 1 + i % reporters)});
    }
    int failures = 0;
    for (; !is_open(learned) && failures < 50; ++failures) {
      learned =
          with(learned, {unweighted(false, kStart + 100 + failures, 1 + failures % reporters)});
    }
    CHECK(failures <= 5);
  }
}

TEST_CASE("a thousand failures of one reporter do not hide a tool that works for others") {
  Learned learned(0);
  for (int i = 0; i < 1000; ++i) {
    const double at = kStart + 60.0 * i;
    learned = with(learned, {i < 3 ? outcome(false, at, 99) : unweighted(false, at, 99)});
    if (i % 4 == 0) learned = with(learned, {outcome(true, at + 1, 1 + i % 20)});
    REQUIRE(!is_open(learned));
  }
}

TEST_CASE("of more reporters than the detector knows, each adds as little as the first") {
  Learned learned = middling();  // half a nat a failure
  for (std::uint64_t reporter = 1; reporter <= 8; ++reporter) {
    learned = with(learned, {outcome(false, kStart + 60, reporter)});
  }
  learned = with(learned, repeated(false, 30, kStart + 120, 99));
  for (const std::uint64_t reporter : {10, 11}) {
    learned = with(learned, {outcome(false, kStart + 180, reporter)});
  }
  CHECK(!is_open(learned));
  CHECK(is_open(with(learned, {outcome(false, kStart + 180, 12)})));
}

TEST_CASE("one reporter who praises a broken tool does not hold it") {
  Learned learned(0);
  for (int i = 0; i < 20; ++i) learned = with(learned, {outcome(true, kStart + i, 1 + i % 5)});
  int failures = 0;
  for (; !is_open(learned) && failures < 50; ++failures) {
    const double at = kStart + 100 + 60 * failures;
    learned = with(learned, {unweighted(false, at, 1 + failures % 5)});
    if (is_open(learned)) continue;
    for (int i = 1; i <= 10; ++i) learned = with(learned, {unweighted(true, at + i, 99)});
  }
  CHECK(failures <= 8);
}

TEST_CASE(
    "beyond the quota, the reporter whose success brought a tool back does not bring it back "
    "again") {
  const Learned closed = with(broken(), {outcome(true, kStart + 10 * kDay, 7)});
  REQUIRE(!is_open(closed));
  Learned learned = closed;
  for (int i = 1; !is_open(learned); ++i) {
    REQUIRE(i <= 8);
    learned = with(learned, {outcome(false, kStart + 11 * kDay + i)});
  }
  CHECK(is_open(with(learned, {unweighted(true, kStart + 12 * kDay, 7)})));
  CHECK(!is_open(with(learned, {unweighted(true, kStart + 12 * kDay, 8)})));
  CHECK(!is_open(with(learned, {outcome(true, kStart + 12 * kDay, 7)})));  // another day
}

/// Alarms in 1,000 calls of a tool whose success rate does not change, and how often it is hidden.
struct FalseAlarms {
  double tools = 0.0;   // share with at least one alarm
  double hidden = 0.0;  // share of the selections that hide the tool
};

FalseAlarms false_alarms(double success, std::uint64_t reporters, bool has_quota) {
  std::mt19937_64 random(1);
  const auto chance = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  FalseAlarms found;
  double selections = 0.0;
  constexpr int kTools = 60;
  for (int tool = 0; tool < kTools; ++tool) {
    Learned learned(0);
    std::vector<int> today(reporters);
    bool alarmed = false;
    double at = kStart;
    for (int call = 0; call < 1000;) {
      at += 60.0;
      ++selections;
      if (chance() >= learned.breaker(kArm, at).show) {
        found.hidden += 1.0;
        continue;
      }
      ++call;
      const std::uint64_t who = random() % reporters;
      const bool works = chance() < success;
      const bool has_weight = !has_quota || ++today[who] <= 3;
      learned = with(learned,
                     {has_weight ? outcome(works, at, who + 1) : unweighted(works, at, who + 1)});
      alarmed = alarmed || is_open(learned);
    }
    found.tools += alarmed ? 1.0 / kTools : 0.0;
  }
  found.hidden /= selections;
  return found;
}

TEST_CASE("a tool that works as well as ever is rarely hidden") {
  struct Case {
    double success;
    std::uint64_t reporters;
    bool has_quota;
    double most_hidden;
  };
  for (const Case& one :
       {Case{0.95, 1000, false, 0.004}, Case{0.8, 1000, false, 0.01}, Case{0.5, 1000, false, 0.02},
        Case{0.95, 5, true, 0.004}, Case{0.8, 5, true, 0.01}, Case{0.5, 5, true, 0.04}}) {
    const FalseAlarms found = false_alarms(one.success, one.reporters, one.has_quota);
    CAPTURE(one.success);
    CAPTURE(one.reporters);
    CAPTURE(found.tools);
    CAPTURE(found.hidden);
    CHECK(found.hidden <= one.most_hidden);
  }
}

TEST_CASE("an open breaker backs off with each failed probe, and one success closes it") {
  const LearningRates rates;
  Learned learned = broken();
  const double opened_at = learned.alarms().at(0).at;
  double now = opened_at;
  double last_show = 1.0;
  for (int probe = 0; probe < 6; ++probe) {
    now = opened_at + 10'000 * (probe + 1);
    learned = with(learned, {outcome(false, now)});
    const Breaker breaker = learned.breaker(kArm, now);
    CHECK(breaker.opened_at == opened_at);
    CHECK(breaker.k == std::min(4.0 + probe, rates.most_k));
    CHECK(testing::is_near(breaker.show, std::exp2(-breaker.k)));
    const double show = learned.breaker(kArm, now + rates.open_half_s).show;
    CHECK(testing::is_near(show, std::exp2(-breaker.k / 2)));
    CHECK(show <= last_show);
    last_show = show;
  }
  now += 10;
  const Learned closed = with(learned, {outcome(true, now)});
  CHECK(closed.breaker(kArm, now).k == 0.0);
  CHECK(closed.breaker(kArm, now).show == 1.0);
  CHECK(closed.alarms().at(0).direction == 1);
  CHECK(!closed.alarms().at(0).is_open);
  CHECK(mean_of(closed, now) > mean_of(learned, now));
}

TEST_CASE("a call from before the alarm is no probe") {
  const Learned learned = broken();
  const Breaker before = learned.breaker(kArm, kStart);
  std::vector<Delta> late;
  for (const bool works : {true, false, false}) {
    late.push_back(outcome(works, before.opened_at - 60));
  }
  const Breaker after = with(learned, late).breaker(kArm, kStart);
  CHECK(after.k == before.k);
  CHECK(after.show == before.show);
  CHECK(after.opened_at == before.opened_at);
}

TEST_CASE("a tool that works again after a bad time raises an alarm too") {
  LearningRates rates;
  rates.open_k = rates.most_k = 0.0;
  rates.least_reporters = 0;
  Learned learned = with(Learned(0, rates), repeated(false, 40, kStart));
  const double low = mean_of(learned, kStart + kDay);
  learned = with(learned, repeated(true, 6, kStart + kDay));
  CHECK(learned.alarms().at(0).direction == 1);
  CHECK(mean_of(learned, kStart + kDay + 10) > low + 0.4);
}

TEST_CASE("verdicts of 0 tell the detector nothing") {
  std::vector<Delta> deltas = repeated(false, 50, kStart);
  for (Delta& delta : deltas) delta.verdict = 0;
  CHECK(with(Learned(0), deltas).alarms().empty());
}

TEST_CASE("one tool's outcomes do not touch another's breaker") {
  const Learned learned = broken();
  Learned other = with(learned, repeated(true, 20, kStart, 0, kArm + 1));
  other = with(other, repeated(false, 9, kStart + kDay, 0, kArm + 1));
  CHECK(other.breaker(kArm, kStart + kDay).k == learned.breaker(kArm, kStart + kDay).k);
  CHECK(other.breaker(kArm, kStart + kDay).show == learned.breaker(kArm, kStart + kDay).show);
  CHECK(is_open(other, kArm + 1));
  REQUIRE(other.alarms().size() == 2);
  CHECK(other.alarms()[0].arm == kArm);
  CHECK(other.alarms()[1].arm == kArm + 1);
}

}  // namespace
}  // namespace toolroll
