/// The statistics of an organisation's outcomes, as one immutable value.
///
/// It keeps three things:
///  - for each **arm** (a tool by its name): its successes and failures in each context, and a
///    change detector that hides the tool for a time after it broke;
///  - for each **subject** (a tool by name and text, or a declared group of interchangeable tools):
///    its calls, and the calls that similarity alone predicted, in each context;
///  - for each subject a **vector**: the sum of the messages that it solved.
///
/// Everything is a sum with exponential decay, which a read brings up to date. So nothing sweeps
/// over the records, and the order of the contributions does not change the sums. Only the change
/// detector depends on the order of outcomes.
///
/// A fold copies the records that it changes and shares the others with the value that it started
/// from. Readers keep their value, and nothing waits for them. The same deltas in the same order
/// give the same bits on every machine.
///
/// Sources: the decay is from discounted Thompson sampling (Qi et al., arXiv 2305.10718); the
/// detector a two-sided Bernoulli CUSUM (Page, Biometrika 1954); the vectors are Rocchio's (1971)
/// with a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "toolroll/posterior.hpp"

namespace toolroll {

/// A selection's contexts, widest first; 0 for one that does not exist and is left out.
struct Scopes {
  std::uint64_t everywhere = 0;
  std::uint64_t page = 0;
  std::uint64_t leaf = 0;
};

/// One report's addition to the sums of one tool. Same layout as the Python dtype: no gaps.
struct Delta {
  double at;                 ///< when the selection was made, UTC seconds
  std::uint64_t everywhere;  ///< the selection's contexts, as in Scopes
  std::uint64_t page;
  std::uint64_t leaf;
  std::uint64_t plain;   ///< context of the undecayed counts; 0 for none
  std::uint64_t arm;     ///< whose reliability
  std::uint64_t intent;  ///< whose lift and vector, unless a group is declared
  std::uint64_t group;   ///< declared group, 0 for none
  double successes;      ///< these four are negative where a revised report is taken back
  double failures;
  double calls;
  double expected;
  std::int32_t vector;  ///< row among the vectors passed to fold(), -1 for none
  /// +1 or -1: success or failure seen first-hand, for the detector; else 0. Without successes and
  /// failures: beyond the reporter's quota.
  std::int32_t verdict;
  double pull;             ///< weight of the vector
  std::uint64_t reporter;  ///< 0 is the application itself
};
static_assert(sizeof(Delta) == 120);

/// The constants of the statistics.
struct LearningRates {
  double reliability_half_s = 14 * 86400.0;  ///< half-lives of the sums, above 0
  double lift_half_s = 30 * 86400.0;
  double vector_half_s = 30 * 86400.0;
  double alarm_nats = 7.0;    ///< evidence of a change that raises an alarm, above 0
  double alarm_ratio = 0.35;  ///< the change looked for: failures (or successes) left, in (0, 1)
  double open_k = 3.0;        ///< a broken tool is shown with probability 2^-k; 0 never hides one
  double most_k = 4.0;        ///< each failed probe adds 1 to k, up to this
  double open_half_s = 3 * 86400.0;  ///< k halves in this time since the last failure
  /// Distinct reporters before an arm leaves the prior, at most 5. Before its reliability falls
  /// below the prior's mean, twice as many (at most 5) must have reported failures.
  std::uint64_t least_reporters = 2;
  double prior_mean = 0.85;  ///< of reliability, in (0, 1)
  double prior_strength = 3.0;
  double page_spread = 10.0;  ///< see Hierarchy
  double leaf_spread = 10.0;
  double lift_strength = 3.0;  ///< in expected calls; the mean is 1
  double lift_page_spread = 2.0;
  double lift_leaf_spread = 3.0;
  double vector_most = 0.95;     ///< weight of a learned vector, in [0, 1], with very many messages
  double vector_strength = 1.5;  ///< messages for half of that weight
};

/// Throws std::invalid_argument unless every rate is in its range.
void check(const LearningRates& rates);

/// The posteriors of one tool in one context. With too few reporters they are the prior.
struct Posterior {
  Shapes reliability;            ///< Beta
  Shapes lift;                   ///< Gamma
  double show = 1.0;             ///< probability that the breaker allows the tool
  bool has_reliability = false;  ///< false: the prior, which is the same for all tools
  bool has_lift = false;
};

/// A breaker as of some time.
struct Breaker {
  double k = 0.0;          ///< 0: closed
  double show = 1.0;       ///< probability of being shown
  double opened_at = 0.0;  ///< UTC seconds; 0 if it was never open
};

/// The last change of an arm that its detector found.
struct Alarm {
  std::uint64_t arm;
  std::int32_t direction;  ///< -1 worse, +1 better
  double at;
  bool is_open;  ///< the arm is hidden, except for probes
};

/// The effect of a fold on an arm's detector. Same layout as the Python dtype: no gaps.
struct Observation {
  double mean;      ///< the estimated reliability before it
  double evidence;  ///< of a break, after it; 0: none since the last time that it was 0
  double change;    ///< -1: this verdict raised the alarm, +1: it brought the arm back; else 0
};
static_assert(sizeof(Observation) == 24);

/// A learned vector of length 1, and the last few of the messages in it (exemplars). Their 8-bit
/// forms are step * codes, padded as in dot.hpp. Products of codes are exact, so they are the same
/// on every machine.
struct LearnedVector {
  std::span<const float> unit;
  std::span<const std::int8_t> codes;
  float step = 0.0F;
  double weight = 0.0;                     ///< number of messages, with decay
  std::span<const std::int8_t> exemplars;  ///< one after the other, each as long as `codes`
  std::span<const float> steps;            ///< of each exemplar
  std::span<const double> times;           ///< of each exemplar, UTC seconds
  float alike = 0.0F;                      ///< sum of the cosines of all ordered pairs of exemplars
  float pairs = 0.0F;                      ///< the number of these pairs
};

/// At most this many exemplars are kept for a subject, two of them from the same reporter.
inline constexpr std::size_t kMostExemplars = 8;

enum class CellKind : std::int32_t { kReliability = 0, kLift = 1, kPlain = 2 };

/// One pair of sums at the time `at`.
struct CellRow {
  CellKind kind;
  std::uint64_t scope;
  std::uint64_t key;  ///< arm, or subject of a lift
  double first;
  double second;
  double at;
};

enum class RecordKind : std::int32_t { kArm = 0, kSubject = 1, kVector = 2 };

/// The state of an arm or subject beside its sums: the reporters and the detector, or the vector.
/// Empty bytes: the vector was removed.
struct RecordRow {
  RecordKind kind;
  std::uint64_t key;
  std::vector<std::byte> state;
};

/// The statistics as rows for a store.
struct LearnedRows {
  std::vector<CellRow> cells;
  std::vector<RecordRow> records;
};

class Learned {
 public:
  /// No outcomes. dim: width of the vectors, 0 for none. Throws std::invalid_argument if a rate is
  /// out of its range.
  explicit Learned(std::size_t dim = 0, const LearningRates& rates = {});
  ~Learned();
  Learned(const Learned&);
  Learned(Learned&&) noexcept;
  Learned& operator=(const Learned&);
  Learned& operator=(Learned&&) noexcept;

  /// This value plus the deltas. vectors: row-major float32[v, dim]. Only the direction of a vector
  /// counts; zeros are ignored. O(deltas + cells of the tools in them). Throws
  /// std::invalid_argument, before it does anything, if a number is not finite, a vector's row or a
  /// verdict is out of its range, or the size of `vectors` is no multiple of dim.
  ///
  /// observations: empty, or one for each delta; those for deltas with a verdict are written.
  Learned fold(std::span<const Delta> deltas, std::span<const float> vectors,
               std::span<Observation> observations = {}) const;

  std::size_t dim() const { return dim_; }
  const LearningRates& rates() const { return rates_; }
  std::uint64_t revision() const { return revision_; }  ///< deltas folded
  std::size_t size() const { return cells_; }           ///< pairs of sums
  std::size_t memory_bytes() const;                     ///< O(size)

  /// Writes the posteriors of (arms[i], subjects[i]) to out[i]. The later `now`, the less evidence
  /// is left; a `now` before the last outcome counts as the time of that outcome. The spans have
  /// equal length.
  void posteriors(std::span<const std::uint64_t> arms, std::span<const std::uint64_t> subjects,
                  const Scopes& scopes, double now, std::span<Posterior> out) const;
  /// The posteriors of a tool without outcomes.
  Posterior prior(const Scopes& scopes) const;
  Shapes reliability(std::uint64_t arm, const Scopes& scopes, double now) const;
  Shapes lift(std::uint64_t subject, const Scopes& scopes, double now) const;
  /// Beta(1 + successes, 1 + failures) of the undecayed counts of all reporters.
  Shapes plain(std::uint64_t arm, std::uint64_t scope) const;
  Breaker breaker(std::uint64_t arm, double now) const;
  /// The last alarm of each arm that ever had one, by ascending key.
  std::vector<Alarm> alarms() const;

  /// The subject's vector; none if it has too few reporters.
  std::optional<LearnedVector> vector(std::uint64_t subject, double now) const;
  /// vector_most * weight / (weight + vector_strength).
  double vector_share(double weight) const;
  std::size_t vectors() const { return vectors_; }  ///< number of subjects with a vector
  /// Prefetches the memory that vector() reads for this subject.
  void ask_for_vector(std::uint64_t subject) const;
  /// Receives a subject and its score. Returns the score that further subjects must exceed.
  using VectorVisitor = std::function<float(std::uint64_t, float)>;
  /// Visits the subjects whose vector_share * cosine with the query is above 0, in no particular
  /// order. The query is step * codes, padded. The decay since the last fold is ignored, because it
  /// is about the same for all subjects.
  void nearest_vectors(std::span<const std::int8_t> codes, float step,
                       const VectorVisitor& visit) const;

  /// The rows of this value that differ in any bit from `since`. Records that only `since` has are
  /// left out. Of a value that was folded from `since`, these are the rows that the fold changed,
  /// in O(records changed and their cells).
  LearnedRows rows(const Learned& since) const;
  /// This value with these rows in place of its own. revision: of the result. The rows of a fold,
  /// put into a value that equals the one that it started from, give the bits of its result, in any
  /// number of steps. Throws ArchiveError unless every number is in its range, and before it does
  /// anything. O(rows, and the cells of their arms and subjects).
  Learned with_rows(const LearnedRows& rows, std::uint64_t revision) const;

  /// This value as an archive (archive.hpp), with its rates.
  std::vector<std::byte> bytes() const;
  /// The value that bytes() wrote. Throws ArchiveError unless every number is in its range.
  static Learned from_bytes(std::vector<std::byte> bytes);

 private:
  struct Records;
  struct Changes;
  struct Folding;

  Learned with(Changes&& changes, std::uint64_t revision) const;

  std::size_t dim_;
  LearningRates rates_;
  std::uint64_t revision_ = 0;
  std::size_t cells_ = 0;
  std::size_t vectors_ = 0;
  std::shared_ptr<const Records> records_;
};

}  // namespace toolroll
