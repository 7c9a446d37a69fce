#include "toolroll/learned.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "checks.hpp"
#include "learned_records.hpp"
#include "toolroll/dot.hpp"

namespace toolroll {
namespace {

constexpr double kLeastRate = 1e-9;
constexpr double kMostRate = 1e12;
constexpr double kMostOfOne = 1e6;  // limit of what one outcome adds

void check_positive(const char* what, double number) {
  if (!(number >= kLeastRate && number <= kMostRate)) refuse(what, number, "in 1e-9..1e12");
}

void check_share(const char* what, double number) {
  if (!(number > 0.0 && number < 1.0)) refuse(what, number, "above 0 and below 1");
}

void check_all(std::span<const Delta> deltas, std::span<const float> vectors, std::size_t dim) {
  if (dim == 0 ? !vectors.empty() : vectors.size() % dim != 0) {
    throw std::invalid_argument("vectors: have " + std::to_string(vectors.size()) +
                                " numbers, must have a multiple of " + std::to_string(dim));
  }
  for (const float value : vectors) {
    if (!std::isfinite(value)) throw std::invalid_argument("vectors: must be finite");
  }
  const auto rows = static_cast<std::int64_t>(dim == 0 ? 0 : vectors.size() / dim);
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    const Delta& delta = deltas[i];
    const auto where = [i] { return "deltas[" + std::to_string(i) + "]."; };
    if (!(std::fabs(delta.at) <= kMostTime)) refuse(where() + "at", delta.at, "in -1e12..1e12");
    const std::pair<const char*, double> numbers[] = {{"successes", delta.successes},
                                                      {"failures", delta.failures},
                                                      {"calls", delta.calls},
                                                      {"expected", delta.expected},
                                                      {"pull", delta.pull}};
    for (const auto& [name, number] : numbers) {
      if (!(std::fabs(number) <= kMostOfOne)) refuse(where() + name, number, "in -1e6..1e6");
    }
    if (delta.vector < -1 || delta.vector >= rows) {
      refuse(where() + "vector", delta.vector, "in -1.." + std::to_string(rows - 1));
    }
    if (delta.verdict < -1 || delta.verdict > 1) {
      refuse(where() + "verdict", delta.verdict, "-1, 0 or 1");
    }
  }
}

/// The sums of a subject in its contexts. Until enough reporters have reported calls, calls count
/// only up to the expected number, so that nobody lifts a tool alone.
LevelCounts lift_levels(const Subject& subject, const Scopes& scopes, double now,
                        const LearningRates& rates) {
  const bool may_rise = subject.state.callers.are_enough(rates.least_reporters);
  LevelCounts levels;
  for (const std::uint64_t scope : {scopes.everywhere, scopes.page, scopes.leaf}) {
    if (scope == 0) continue;
    Counts& counts = levels.level[levels.size++];
    const Cell* const cell = subject.counts.find(scope);
    if (cell == nullptr) continue;
    counts = cell->read(now, rates.lift_half_s);
    if (!may_rise) counts.first = std::min(counts.first, counts.second);
  }
  return levels;
}

/// The reliability of an arm; none while it is that of the prior. It needs enough reporters, and
/// below the prior's mean twice as many of failures, so that a few people sink no tool.
std::optional<Shapes> believed(const Arm& arm, const Scopes& scopes, double now,
                               const LearningRates& rates) {
  if (!arm.state.reporters.are_enough(rates.least_reporters)) return std::nullopt;
  const Shapes shapes = beta_posterior(
      reliability_levels(arm, scopes, now, rates.reliability_half_s), reliability_hierarchy(rates));
  const bool is_worse = shapes.first < rates.prior_mean * (shapes.first + shapes.second);
  const std::uint64_t least = std::min<std::uint64_t>(2 * rates.least_reporters, kMostReporters);
  if (is_worse && !arm.state.failed.are_enough(least)) return std::nullopt;
  return shapes;
}

std::size_t levels_of(const Scopes& scopes) {
  return (scopes.everywhere != 0 ? 1U : 0U) + (scopes.page != 0 ? 1U : 0U) +
         (scopes.leaf != 0 ? 1U : 0U);
}

/// Empty counts.
LevelCounts nothing(const Scopes& scopes) {
  LevelCounts levels;
  levels.size = levels_of(scopes);
  return levels;
}

double showing(const ChangeDetector& detector, double now, const LearningRates& rates) {
  if (detector.k <= 0.0) return 1.0;
  const double k = detector.k * portable::decay(now - detector.failed_at, rates.open_half_s);
  return portable::decay(k, 1.0);
}

Posterior posterior_of(const Arm* arm, const Subject* subject, const Scopes& scopes, double now,
                       const LearningRates& rates) {
  Posterior posterior;
  if (arm != nullptr) {
    const ChangeDetector& detector = arm->state.detector;
    if (detector.k > 0.0) {
      // A probe is treated like a new tool: the mean of the prior, with little certainty.
      posterior.show = showing(detector, now, rates);
      posterior.reliability = {2.0 * rates.prior_mean, 2.0 * (1.0 - rates.prior_mean)};
      posterior.has_reliability = true;
    } else if (const std::optional<Shapes> known = believed(*arm, scopes, now, rates)) {
      posterior.reliability = *known;
      posterior.has_reliability = true;
    }
  }
  if (subject != nullptr && subject->state.reporters.are_enough(rates.least_reporters)) {
    posterior.lift =
        gamma_posterior(lift_levels(*subject, scopes, now, rates), lift_hierarchy(rates));
    posterior.has_lift = true;
  }
  return posterior;
}

}  // namespace

void check(const LearningRates& rates) {
  check_positive("reliability_half_s", rates.reliability_half_s);
  check_positive("lift_half_s", rates.lift_half_s);
  check_positive("vector_half_s", rates.vector_half_s);
  check_positive("alarm_nats", rates.alarm_nats);
  check_share("alarm_ratio", rates.alarm_ratio);
  check_positive("open_half_s", rates.open_half_s);
  check_share("prior_mean", rates.prior_mean);
  check_positive("prior_strength", rates.prior_strength);
  check_positive("page_spread", rates.page_spread);
  check_positive("leaf_spread", rates.leaf_spread);
  check_positive("lift_strength", rates.lift_strength);
  check_positive("lift_page_spread", rates.lift_page_spread);
  check_positive("lift_leaf_spread", rates.lift_leaf_spread);
  check_positive("vector_strength", rates.vector_strength);
  if (!(rates.open_k >= 0.0 && rates.open_k <= 60.0)) refuse("open_k", rates.open_k, "in 0..60");
  if (!(rates.most_k >= rates.open_k && rates.most_k <= 60.0)) {
    refuse("most_k", rates.most_k, "at least open_k and at most 60");
  }
  if (!(rates.vector_most >= 0.0 && rates.vector_most <= 1.0)) {
    refuse("vector_most", rates.vector_most, "in 0..1");
  }
  if (rates.least_reporters > kMostReporters) {
    refuse("least_reporters", static_cast<double>(rates.least_reporters), "at most 5");
  }
}

/// One fold: copies of the records that it changes, which it puts into the maps at the end.
struct Learned::Folding {
  const Learned& from;
  const LearningRates& rates;
  std::span<const float> vectors;
  Changes changes;
  std::unordered_map<std::uint64_t, std::shared_ptr<SubjectVector>> changed_vectors;
  Observation* observation = nullptr;  // where that of the next delta goes

  void add(const Delta& delta) {
    if (delta.successes != 0.0 || delta.failures != 0.0 || delta.verdict != 0) add_to_arm(delta);
    if (delta.calls != 0.0 || delta.expected != 0.0 || delta.pull != 0.0) add_to_subject(delta);
  }

  void add_to_arm(const Delta& delta) {
    Arm& arm = Changes::copied(delta.arm, from.records_->arms, changes.arms);
    ArmState& state = arm.state;
    state.reporters.note(delta.reporter);
    if (delta.failures > 0.0 || delta.verdict < 0) state.failed.note(delta.reporter);
    double at = delta.at;
    const Scopes scopes{delta.everywhere, delta.page, delta.leaf};
    const auto add_everywhere = [&](double first, double second) {
      for (const std::uint64_t scope : {scopes.everywhere, scopes.page, scopes.leaf}) {
        if (scope == 0) continue;
        add_after_cut(arm.counts.at(scope, changes.made), state.detector.epoch, at,
                      rates.reliability_half_s, first, second);
      }
    };
    if (delta.verdict != 0) {
      const double now = std::max(at, state.detector.latest);
      const Shapes believed =
          beta_posterior(reliability_levels(arm, scopes, now, rates.reliability_half_s),
                         reliability_hierarchy(rates));
      const double mean = believed.first / (believed.first + believed.second);
      const bool has_weight = delta.successes != 0.0 || delta.failures != 0.0;
      const Change change = observe(
          state.detector, {delta.verdict > 0, delta.at, delta.reporter, has_weight}, mean, rates);
      if (observation != nullptr) {
        const double evidence = state.detector.worse.sum + state.detector.unproven.sum;
        *observation = {mean, evidence, change.is_new ? state.detector.alarm : 0.0};
      }
      if (change.is_new) {
        // The outcomes that raised the alarm are the evidence for the time after the change.
        at = state.detector.epoch;
        if (change.run > 0.0) {
          add_everywhere(delta.verdict > 0 ? change.run : 0.0,
                         delta.verdict > 0 ? 0.0 : change.run);
        }
      }
    }
    // Outcomes before the last change count as one observation at most, which is there already.
    if (delta.successes == 0.0 && delta.failures == 0.0) return;
    if (at >= state.detector.epoch) add_everywhere(delta.successes, delta.failures);
    if (delta.plain != 0) {
      Cell& cell = arm.plain.at(delta.plain, changes.made);
      cell.first += delta.successes;
      cell.second += delta.failures;
      cell.at = std::max(cell.at, delta.at);
    }
  }

  void add_to_subject(const Delta& delta) {
    const std::uint64_t key = delta.group != 0 ? delta.group : delta.intent;
    Subject& subject = Changes::copied(key, from.records_->subjects, changes.subjects);
    subject.state.reporters.note(delta.reporter);
    if (delta.calls != 0.0 || delta.pull != 0.0) subject.state.callers.note(delta.reporter);
    if (delta.calls != 0.0 || delta.expected != 0.0) {
      for (const std::uint64_t scope : {delta.everywhere, delta.page, delta.leaf}) {
        if (scope == 0) continue;
        subject.counts.at(scope, changes.made)
            .add(delta.at, rates.lift_half_s, delta.calls, delta.expected);
      }
    }
    if (delta.pull != 0.0 && delta.vector >= 0) add_vector(key, subject, delta);
  }

  void add_vector(std::uint64_t key, const Subject& subject, const Delta& delta) {
    const std::size_t dim = from.dim_;
    const std::span<const float> message =
        vectors.subspan(static_cast<std::size_t>(delta.vector) * dim, dim);
    double squares = 0.0;
    for (const float value : message) squares += static_cast<double>(value) * value;
    if (squares == 0.0) return;
    std::shared_ptr<SubjectVector>& vector = changed_vectors[key];
    if (vector == nullptr) {
      vector = subject.vector ? std::make_shared<SubjectVector>(*subject.vector)
                              : std::make_shared<SubjectVector>();
      vector->sum.resize(dim);
    }
    std::vector<float> unit(padded_width(dim), 0.0F);
    const double length = std::sqrt(squares);
    for (std::size_t i = 0; i < dim; ++i) unit[i] = static_cast<float>(message[i] / length);
    if (delta.pull > 0.0) {
      vector->keep(unit, delta.at, delta.reporter);
    } else {
      vector->drop(unit);
    }
    if (delta.at > vector->at) {
      const double left = vector->at == kLongAgo
                              ? 0.0
                              : portable::decay(delta.at - vector->at, rates.vector_half_s);
      for (float& value : vector->sum) value = static_cast<float>(value * left);
      vector->weight *= left;
      vector->at = delta.at;
    }
    const double weight = delta.pull * portable::decay(vector->at - delta.at, rates.vector_half_s);
    const double scale = weight / length;
    for (std::size_t i = 0; i < dim; ++i) {
      vector->sum[i] = static_cast<float>(vector->sum[i] + scale * message[i]);
    }
    vector->weight += weight;
    if (vector->is_gone()) {  // now, not at the end: where a fold is cut must make no difference
      *vector = {};
      vector->sum.resize(dim);
    }
  }

  void finish_vectors() {
    for (auto& [key, vector] : changed_vectors) {
      changes.subjects.at(key)->vector = directed(std::move(vector));
    }
  }
};

Learned::Learned(std::size_t dim, const LearningRates& rates)
    : dim_(dim), rates_(rates), records_(std::make_shared<const Records>()) {
  check(rates_);
  if (dim > kMaxDim) refuse("dim", static_cast<double>(dim), "at most 65536");
}
Learned::~Learned() = default;
Learned::Learned(const Learned&) = default;
Learned::Learned(Learned&&) noexcept = default;
Learned& Learned::operator=(const Learned&) = default;
Learned& Learned::operator=(Learned&&) noexcept = default;

Learned Learned::fold(std::span<const Delta> deltas, std::span<const float> vectors,
                      std::span<Observation> observations) const {
  check_all(deltas, vectors, dim_);
  if (!observations.empty() && observations.size() != deltas.size()) {
    throw std::invalid_argument("observations: has " + std::to_string(observations.size()) +
                                " entries, must have " + std::to_string(deltas.size()));
  }
  Folding folding{*this, rates_, vectors, {}, {}};
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    folding.observation = observations.empty() ? nullptr : &observations[i];
    folding.add(deltas[i]);
  }
  folding.finish_vectors();
  return with(std::move(folding.changes), revision_ + deltas.size());
}

Learned Learned::with(Changes&& changes, std::uint64_t revision) const {
  auto records = std::make_shared<Records>(*records_);
  Learned next(*this);
  next.revision_ = revision;
  next.cells_ += changes.made;
  // Vectors that changed, and those of subjects that now have enough reporters.
  std::vector<VectorMap::Change> vectors;
  for (const auto& [key, subject] : changes.subjects) {
    if (!subject->state.callers.are_enough(rates_.least_reporters)) continue;
    const SubjectVector* const vector = subject->vector.get();
    const VectorMap::Item* const known = records_->vectors.find(key, padded_width(dim_)).item;
    const float* const before = known == nullptr ? nullptr : known->unit;
    if (before == (vector == nullptr ? nullptr : vector->unit.data())) continue;
    vectors.push_back(
        {key, subject->vector,
         vector == nullptr ? 0.0F : static_cast<float>(vector_share(vector->weight))});
  }
  if (!vectors.empty()) {
    records->vectors.put(std::move(vectors), padded_width(dim_));
    next.vectors_ = records->vectors.size();
  }
  records->arms.put(std::move(changes.arms));
  records->subjects.put(std::move(changes.subjects));
  next.records_ = std::move(records);
  return next;
}

std::size_t Learned::memory_bytes() const {
  return sizeof *this + records_->arms.memory_bytes() + records_->subjects.memory_bytes() +
         records_->vectors.memory_bytes();
}

Shapes Learned::reliability(std::uint64_t arm, const Scopes& scopes, double now) const {
  const Arm* const known = records_->arms.find(arm);
  const std::optional<Shapes> shapes =
      known == nullptr ? std::nullopt : believed(*known, scopes, now, rates_);
  return shapes ? *shapes : beta_posterior(nothing(scopes), reliability_hierarchy(rates_));
}

Shapes Learned::lift(std::uint64_t subject, const Scopes& scopes, double now) const {
  const Subject* const known = records_->subjects.find(subject);
  const bool counts = known != nullptr && known->state.reporters.are_enough(rates_.least_reporters);
  return gamma_posterior(counts ? lift_levels(*known, scopes, now, rates_) : nothing(scopes),
                         lift_hierarchy(rates_));
}

void Learned::posteriors(std::span<const std::uint64_t> arms,
                         std::span<const std::uint64_t> subjects, const Scopes& scopes, double now,
                         std::span<Posterior> out) const {
  // Reading a tool's record follows two pointers, and reading its cells a third. Waiting for one
  // tool after the other takes longer than all the arithmetic, so all are prefetched first.
  const std::size_t n = arms.size();
  std::vector<const Arm*> of_arm(n);
  std::vector<const Subject*> of_subject(n);
  for (std::size_t i = 0; i < n; ++i) {
    records_->arms.ask_for(arms[i]);
    records_->subjects.ask_for(subjects[i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    of_arm[i] = records_->arms.find(arms[i]);
    of_subject[i] = records_->subjects.find(subjects[i]);
    if (of_arm[i] != nullptr) {
      prefetch(of_arm[i]);
      prefetch(&of_arm[i]->state.detector);
    }
    if (of_subject[i] != nullptr) {
      prefetch(of_subject[i]);
      prefetch(&of_subject[i]->state.callers);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (const std::uint64_t scope : {scopes.everywhere, scopes.page, scopes.leaf}) {
      if (of_arm[i] != nullptr) of_arm[i]->counts.ask_for(scope);
      if (of_subject[i] != nullptr) of_subject[i]->counts.ask_for(scope);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = posterior_of(of_arm[i], of_subject[i], scopes, now, rates_);
  }
}

Posterior Learned::prior(const Scopes& scopes) const {
  return {beta_posterior(nothing(scopes), reliability_hierarchy(rates_)),
          gamma_posterior(nothing(scopes), lift_hierarchy(rates_)), 1.0, false, false};
}

Shapes Learned::plain(std::uint64_t arm, std::uint64_t scope) const {
  const Arm* const known = records_->arms.find(arm);
  const Cell* const cell = known == nullptr ? nullptr : known->plain.find(scope);
  if (cell == nullptr) return {1.0, 1.0};
  return {1.0 + std::max(cell->first, 0.0), 1.0 + std::max(cell->second, 0.0)};
}

Breaker Learned::breaker(std::uint64_t arm, double now) const {
  const Arm* const known = records_->arms.find(arm);
  if (known == nullptr) return {};
  const ChangeDetector& detector = known->state.detector;
  return {detector.k, showing(detector, now, rates_), detector.opened_at};
}

std::vector<Alarm> Learned::alarms() const {
  std::vector<Alarm> all;
  records_->arms.each([&](std::uint64_t key, const Arm& arm) {
    const ChangeDetector& detector = arm.state.detector;
    if (detector.alarm == 0.0) return;
    all.push_back({key, detector.alarm < 0.0 ? -1 : 1, detector.alarm_at, detector.k > 0.0});
  });
  std::sort(all.begin(), all.end(), [](const Alarm& a, const Alarm& b) { return a.arm < b.arm; });
  return all;
}

double Learned::vector_share(double weight) const {
  return weight > 0.0 ? rates_.vector_most * weight / (weight + rates_.vector_strength) : 0.0;
}

}  // namespace toolroll
