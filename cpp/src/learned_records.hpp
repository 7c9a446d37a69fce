/// The records of Learned for one arm and one subject, and the persistent maps that hold them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "portable.hpp"
#include "prefetch.hpp"
#include "toolroll/learned.hpp"

namespace toolroll {

/// Limits of the numbers in an archive. Sums within them stay finite in every formula.
inline constexpr double kMostTime = 1e12;  // UTC seconds
inline constexpr double kMostSum = 1e18;

inline constexpr double kLongAgo = std::numeric_limits<double>::lowest();

/// Two sums with decay, at the time `at`.
struct Cell {
  double first = 0.0;
  double second = 0.0;
  double at = kLongAgo;

  /// The sums at a time not before `at`, decayed.
  Counts read(double now, double half_life) const {
    const double left = portable::decay(now - at, half_life);
    return {first * left, second * left};
  }
  /// Adds what happened at the time `when`. The order of additions does not matter, except for
  /// rounding.
  void add(double when, double half_life, double more_first, double more_second) {
    if (when > at) {
      const double left = at == kLongAgo ? 0.0 : portable::decay(when - at, half_life);
      first *= left;
      second *= left;
      at = when;
    }
    const double left = portable::decay(at - when, half_life);
    first += more_first * left;
    second += more_second * left;
  }
};

/// Scatters keys, which need not be hashes, over all 64 bits. One to one.
inline std::uint64_t scattered(std::uint64_t key) { return key * 0x9E3779B97F4A7C15U; }

/// Cells by scope, in a hash table with open addressing: a reader needs three of them, and each
/// costs one cache line. No scope is 0.
class Cells {
 public:
  struct Slot {
    std::uint64_t scope = 0;  // 0: free
    Cell cell;
  };

  const Cell* find(std::uint64_t scope) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place(scope)];
    return slot.scope == scope ? &slot.cell : nullptr;
  }
  /// The scope's cell. If there is none, adds one and increments `made`.
  Cell& at(std::uint64_t scope, std::size_t& made) {
    if (slots_.empty() || slots_[place(scope)].scope != scope) {
      if (3 * slots_.size() < 4 * (size_ + 1)) grow();
      slots_[place(scope)].scope = scope;
      ++size_;
      ++made;
    }
    return slots_[place(scope)].cell;
  }
  void ask_for(std::uint64_t scope) const {
    if (!slots_.empty()) prefetch(&slots_[home(scope)]);
  }

  std::size_t size() const { return size_; }
  /// Calls visit(scope, cell), by ascending scope.
  template <typename Visit>
  void each(Visit visit) const {
    std::vector<const Slot*> taken;
    taken.reserve(size_);
    for (const Slot& slot : slots_) {
      if (slot.scope != 0) taken.push_back(&slot);
    }
    std::sort(taken.begin(), taken.end(),
              [](const Slot* a, const Slot* b) { return a->scope < b->scope; });
    for (const Slot* slot : taken) visit(slot->scope, slot->cell);
  }
  std::size_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  std::size_t home(std::uint64_t scope) const {
    return static_cast<std::size_t>(scattered(scope) >> 32) & (slots_.size() - 1);
  }
  /// Where the scope is, or the free slot where it would be.
  std::size_t place(std::uint64_t scope) const {
    std::size_t at = home(scope);
    while (slots_[at].scope != scope && slots_[at].scope != 0) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(4, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.scope != 0) slots_[place(slot.scope)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most three quarters taken
  std::size_t size_ = 0;
};

inline constexpr std::size_t kMostReporters = 5;

/// Distinct reporters, up to the greatest number that a rule needs. This and the next three structs
/// have only eight-byte members, so that an archive has no gaps.
struct Reporters {
  std::uint64_t count = 0;
  std::array<std::uint64_t, kMostReporters> known{};

  void note(std::uint64_t reporter) {
    if (count == kMostReporters) return;
    if (reporter == 0) {  // the application itself counts as enough reporters
      known.fill(0);
      count = kMostReporters;
      return;
    }
    const auto end = known.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::find(known.begin(), end, reporter) == end) known[count++] = reporter;
  }
  bool are_enough(std::uint64_t least) const { return count >= least; }
};

/// One side of the CUSUM: the evidence of a change since it was last 0.
///
/// No single reporter can raise the alarm: each adds `most` at most, less than half of it. Of more
/// than kShares reporters, the share of the one whose last addition is the oldest becomes nobody's.
struct CusumSide {
  static constexpr std::size_t kShares = 8;
  double sum = 0.0;
  std::array<std::uint64_t, kShares> reporter{};  // the latest addition last
  std::array<double, kShares> share{};
  std::uint64_t reporters = 0;

  /// Returns the part of `more` that was added.
  double add(double more, std::uint64_t from, double most) {
    if (more <= 0.0) {
      sum += more;
      if (sum <= 0.0) *this = {};
      return more;
    }
    if (from != 0) more = limited(more, from, most);
    sum += more;
    return more;
  }

 private:
  double limited(double more, std::uint64_t from, double most) {
    std::size_t i = 0;
    while (i < reporters && reporter[i] != from) ++i;
    const double before = i < reporters ? share[i] : 0.0;
    if (i < reporters || reporters == kShares) {
      if (i == reporters) i = 0;
      std::copy(reporter.begin() + static_cast<std::ptrdiff_t>(i) + 1, reporter.end(),
                reporter.begin() + static_cast<std::ptrdiff_t>(i));
      std::copy(share.begin() + static_cast<std::ptrdiff_t>(i) + 1, share.end(),
                share.begin() + static_cast<std::ptrdiff_t>(i));
      --reporters;
    }
    more = std::min(more, most - before);
    reporter[reporters] = from;
    share[reporters] = before + more;
    ++reporters;
    return more;
  }
};

/// The state of an arm's change detector and of its breaker.
struct ChangeDetector {
  double epoch = kLongAgo;      // earlier outcomes count as one observation at most
  double k = 0.0;               // breaker; 0 is closed
  double failed_at = kLongAgo;  // of the alarm or the last failed probe
  double opened_at = 0.0;
  CusumSide worse;
  CusumSide better;
  CusumSide unproven;                     // failures of an arm with few successes
  std::uint64_t successes = 0;            // since the epoch, up to the number that is enough
  std::uint64_t provers = 0;              // their reporters, up to 2
  std::uint64_t prover = 0;               // the first of them
  std::uint64_t closer = 0;               // reporter of the success that closed the breaker last
  std::array<std::uint64_t, 2> recent{};  // reporters of the last two verdicts that counted
  double run = 0.0;                       // equal verdicts in a row
  double last = 0.0;                      // +1, -1; 0 before the first
  double latest = kLongAgo;               // time of the latest verdict
  double alarm = 0.0;                     // direction of the last alarm, 0 for none
  double alarm_at = 0.0;
};

struct ArmState {
  Reporters reporters;  // who reported anything
  Reporters failed;     // who reported failures
  ChangeDetector detector;
};

struct Arm {
  Cells counts;
  ArmState state;
  Cells plain;

  std::size_t memory_bytes() const {
    return sizeof *this + counts.memory_bytes() + plain.memory_bytes();
  }
};

/// A decayed sum of unit vectors, its direction, and the last few of the vectors (exemplars).
struct SubjectVector {
  std::vector<float> sum;   // dim
  std::vector<float> unit;  // padded width, of length 1
  double weight = 0.0;
  double at = kLongAgo;
  std::vector<float> exemplars;          // padded width each, of length 1
  std::vector<double> times;             // of each exemplar
  std::vector<std::uint64_t> reporters;  // of each exemplar
  std::vector<std::int8_t> codes;        // the exemplars in 8 bits
  std::vector<float> steps;              // of each exemplar's codes
  float alike = 0.0F;                    // sum of the cosines of all ordered pairs of exemplars
  float pairs = 0.0F;                    // the number of those pairs

  /// Keeps a message as an exemplar. It replaces the reporter's oldest exemplar if the reporter has
  /// its full share, or else the oldest of all if there is no room.
  void keep(std::span<const float> unit_vector, double time, std::uint64_t reporter);
  /// Removes the exemplar of this message, if there is one.
  void drop(std::span<const float> unit_vector);
  /// Adds an exemplar that a store has kept. unit_vector: without padding.
  void add_exemplar(double time, std::uint64_t reporter, std::span<const float> unit_vector);
  /// Whether only a rounding error is left of the sum.
  bool is_gone() const;
};

/// Computes the direction of the sum and the codes of the exemplars. Returns nullptr if the vector
/// is gone.
std::shared_ptr<const SubjectVector> directed(std::shared_ptr<SubjectVector> vector);

struct SubjectState {
  Reporters reporters;  // who reported anything
  Reporters callers;    // who reported calls
};

struct Subject {
  Cells counts;
  SubjectState state;
  std::shared_ptr<const SubjectVector> vector;

  std::size_t memory_bytes() const {
    return sizeof *this + counts.memory_bytes() +
           (vector ? sizeof(SubjectVector) +
                         (vector->sum.capacity() + vector->unit.capacity() +
                          vector->exemplars.capacity()) *
                             sizeof(float) +
                         vector->codes.capacity() + vector->steps.capacity() * sizeof(float) +
                         vector->times.capacity() * (sizeof(double) + sizeof(std::uint64_t))
                   : 0);
  }
};

/// Records by key, in 256 buckets. A change copies the buckets that it changes, not their records.
template <typename T>
class PersistentMap {
 public:
  /// Records to add, or to put in place of those with the same key.
  using Changes = std::unordered_map<std::uint64_t, std::shared_ptr<T>>;

  const T* find(std::uint64_t key) const {
    const std::uint64_t wanted = scattered(key);
    const Bucket& bucket = buckets_[number(wanted)];
    if (bucket.size == 0) return nullptr;
    // Scattered keys are evenly spread, so a key's place is known to within a few.
    std::size_t at = guess(wanted, bucket.size);
    const Entry* const entries = bucket.entries.get();
    while (at > 0 && entries[at].scattered > wanted) --at;
    while (at + 1 < bucket.size && entries[at].scattered < wanted) ++at;
    return entries[at].scattered == wanted ? entries[at].record.get() : nullptr;
  }
  void ask_for(std::uint64_t key) const {
    const std::uint64_t wanted = scattered(key);
    const Bucket& bucket = buckets_[number(wanted)];
    if (bucket.size != 0) prefetch(bucket.entries.get() + guess(wanted, bucket.size));
  }

  void put(Changes&& changes) {
    std::vector<Entry> sorted;
    sorted.reserve(changes.size());
    for (auto& [key, record] : changes) sorted.push_back({scattered(key), key, std::move(record)});
    std::sort(sorted.begin(), sorted.end(),
              [](const Entry& a, const Entry& b) { return a.scattered < b.scattered; });
    for (std::size_t begin = 0; begin < sorted.size();) {
      const std::size_t here = number(sorted[begin].scattered);
      std::size_t end = begin;
      while (end < sorted.size() && number(sorted[end].scattered) == here) ++end;
      buckets_[here] = merged(buckets_[here], sorted, begin, end);
      begin = end;
    }
  }

  /// Calls visit(key, record), in one order for the same keys.
  template <typename Visit>
  void each(Visit visit) const {
    for (const Bucket& bucket : buckets_) {
      const Entry* const entries = bucket.entries.get();
      for (std::size_t i = 0; i < bucket.size; ++i) visit(entries[i].key, *entries[i].record);
    }
  }

  /// Calls visit(key, record, its record in `old` or nullptr) for each record that is not the same
  /// object as in `old`, in one order for the same keys. O(buckets, and the records of those that
  /// changed).
  template <typename Visit>
  void each_changed(const PersistentMap& old, Visit visit) const {
    for (std::size_t number = 0; number < buckets_.size(); ++number) {
      const Bucket& bucket = buckets_[number];
      const Bucket& before = old.buckets_[number];
      if (bucket.entries == before.entries) continue;
      std::size_t at = 0;
      for (std::size_t i = 0; i < bucket.size; ++i) {
        const Entry& entry = bucket.entries[static_cast<std::ptrdiff_t>(i)];
        const Entry* const entries = before.entries.get();
        while (at < before.size && entries[at].scattered < entry.scattered) ++at;
        const bool is_known = at < before.size && entries[at].scattered == entry.scattered;
        if (is_known && entries[at].record == entry.record) continue;
        visit(entry.key, *entry.record, is_known ? entries[at].record.get() : nullptr);
      }
    }
  }

  std::size_t memory_bytes() const {
    std::size_t bytes = sizeof *this;
    for (const Bucket& bucket : buckets_) bytes += bucket.size * sizeof(Entry);
    each([&](std::uint64_t, const T& record) { bytes += record.memory_bytes(); });
    return bytes;
  }

 private:
  struct Entry {
    std::uint64_t scattered = 0;
    std::uint64_t key = 0;
    std::shared_ptr<const T> record;
  };
  struct Bucket {
    std::shared_ptr<const Entry[]> entries;  // ascending by scattered
    std::size_t size = 0;
  };

  static std::size_t number(std::uint64_t scattered) {
    return static_cast<std::size_t>(scattered >> 56);
  }
  static std::size_t guess(std::uint64_t scattered, std::size_t size) {
    return static_cast<std::size_t>((scattered >> 24 & 0xFFFFFFFFU) * size >> 32);
  }

  static Bucket merged(const Bucket& old, std::vector<Entry>& sorted, std::size_t begin,
                       std::size_t end) {
    std::vector<Entry> both;
    both.reserve(old.size + end - begin);
    const Entry* const known = old.entries.get();
    std::size_t i = 0;
    for (; begin < end; ++begin) {
      for (; i < old.size && known[i].scattered < sorted[begin].scattered; ++i) {
        both.push_back(known[i]);
      }
      if (i < old.size && known[i].scattered == sorted[begin].scattered) ++i;
      both.push_back(std::move(sorted[begin]));
    }
    for (; i < old.size; ++i) both.push_back(known[i]);
    std::shared_ptr<Entry[]> entries(new Entry[both.size()]);
    std::move(both.begin(), both.end(), entries.get());
    return {std::move(entries), both.size()};
  }

  std::array<Bucket, 256> buckets_;
};

/// The vectors of subjects with enough reporters, in 8 bits, contiguous because a search reads all.
class VectorMap {
 public:
  struct Item {
    std::uint64_t scattered;
    std::uint64_t subject;
    const float* unit;  // of the vector
    float step;         // of the codes
    double weight;
    double at;
    const SubjectVector* vector;
  };
  /// A vector of nullptr removes the subject's vector.
  struct Change {
    std::uint64_t subject;
    std::shared_ptr<const SubjectVector> vector;
    float share;
  };

  struct Found {
    const Item* item = nullptr;  // nullptr: it has none
    const std::int8_t* codes = nullptr;
  };
  Found find(std::uint64_t subject, std::size_t width) const;
  void ask_for(std::uint64_t subject) const;
  void put(std::vector<Change> changes, std::size_t width);
  std::size_t size() const;
  std::size_t memory_bytes() const;

  /// Calls visit(items, codes, factors) for runs of vectors: width codes each, one behind the
  /// other, and step * share of each.
  template <typename Visit>
  void each_run(Visit visit) const {
    for (const auto& bucket : buckets_) {
      if (bucket && !bucket->items.empty()) visit(bucket->items, bucket->codes, bucket->factors);
    }
  }

 private:
  struct Bucket {
    std::vector<Item> items;  // ascending by scattered
    std::vector<std::int8_t> codes;
    std::vector<float> factors;
    std::vector<std::shared_ptr<const SubjectVector>> vectors;
  };
  static std::size_t number(std::uint64_t scattered) {
    return static_cast<std::size_t>(scattered >> 58);
  }
  static std::size_t guess(std::uint64_t scattered, std::size_t size) {
    return static_cast<std::size_t>((scattered >> 26 & 0xFFFFFFFFU) * size >> 32);
  }

  std::array<std::shared_ptr<const Bucket>, 64> buckets_;
};

struct Learned::Records {
  PersistentMap<Arm> arms;
  PersistentMap<Subject> subjects;
  VectorMap vectors;
};

/// Records that take the place of those with the same keys.
struct Learned::Changes {
  PersistentMap<Arm>::Changes arms;
  PersistentMap<Subject>::Changes subjects;
  std::size_t made = 0;  // cells that are new

  /// The copy of a record that may be changed.
  template <typename T>
  static T& copied(std::uint64_t key, const PersistentMap<T>& map,
                   typename PersistentMap<T>::Changes& changes) {
    std::shared_ptr<T>& record = changes[key];
    if (record == nullptr) {
      const T* const old = map.find(key);
      record = old == nullptr ? std::make_shared<T>() : std::make_shared<T>(*old);
    }
    return *record;
  }
};

/// An arm's counts in its contexts. Counts from before the detector's epoch are scaled down to one
/// observation.
LevelCounts reliability_levels(const Arm& arm, const Scopes& scopes, double now, double half_life);

/// Adds to the cell of one context, after scaling down counts from before the epoch.
void add_after_cut(Cell& cell, double epoch, double when, double half_life, double first,
                   double second);

/// One verdict on an arm.
struct Verdict {
  bool is_success;
  double at;
  std::uint64_t reporter;
  bool is_within_quota;  // the outcome has weight in the sums
};

/// The effect of a verdict on the detector.
struct Change {
  bool is_new = false;  // the epoch moved
  double run = 0.0;     // verdicts like this one that came just before it
};

/// Updates the detector and the breaker with a verdict. mean: the reliability that was believed
/// before the verdict.
///
/// A verdict beyond its reporter's quota counts only if two other reporters' verdicts came since
/// the reporter's last: then a flood of one reporter's verdicts is at most a third of all, and the
/// share of failures among those that count is that of all verdicts.
Change observe(ChangeDetector& detector, const Verdict& verdict, double mean,
               const LearningRates& rates);

/// The prior of the reliability hierarchy, and that of the lift hierarchy.
inline Hierarchy reliability_hierarchy(const LearningRates& rates) {
  return {rates.prior_mean, rates.prior_strength, {rates.page_spread, rates.leaf_spread}};
}
inline Hierarchy lift_hierarchy(const LearningRates& rates) {
  return {1.0, rates.lift_strength, {rates.lift_page_spread, rates.lift_leaf_spread}};
}

}  // namespace toolroll
