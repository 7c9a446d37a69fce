/// What Learned keeps of one arm and one subject, and the persistent shelf that it stands on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "portable.hpp"
#include "toolroll/learned.hpp"

namespace toolroll {

inline constexpr double kLongAgo = std::numeric_limits<double>::lowest();

/// Two sums with decay, as of `at`.
struct Cell {
  double first = 0.0;
  double second = 0.0;
  double at = kLongAgo;

  /// The sums at a time not before `at`, decayed.
  Counts read(double now, double half_life) const {
    const double left = portable::decay(now - at, half_life);
    return {first * left, second * left};
  }
  /// Adds what was seen at a time: late or early, the sums are the same but for rounding.
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

/// Cells by scope, ascending.
struct Cells {
  std::vector<std::uint64_t> scopes;
  std::vector<Cell> cells;

  const Cell* find(std::uint64_t scope) const {
    const auto at = std::lower_bound(scopes.begin(), scopes.end(), scope);
    if (at == scopes.end() || *at != scope) return nullptr;
    return &cells[static_cast<std::size_t>(at - scopes.begin())];
  }
  /// The scope's cell, made if there is none; counts what is made.
  Cell& at(std::uint64_t scope, std::size_t& made) {
    const auto found = std::lower_bound(scopes.begin(), scopes.end(), scope);
    const auto place = found - scopes.begin();
    if (found == scopes.end() || *found != scope) {
      scopes.insert(found, scope);
      cells.insert(cells.begin() + place, Cell{});
      ++made;
    }
    return cells[static_cast<std::size_t>(place)];
  }
  std::size_t memory_bytes() const {
    return scopes.capacity() * sizeof(std::uint64_t) + cells.capacity() * sizeof(Cell);
  }
};

inline constexpr std::size_t kMostReporters = 5;

/// Distinct reporters, as far as anyone asks. Only eight-byte members, so that there are no gaps in
/// an archive; the same goes for the next three.
struct Reporters {
  std::array<std::uint64_t, kMostReporters> known{};
  std::uint64_t count = 0;

  void note(std::uint64_t reporter) {
    if (count == kMostReporters) return;
    if (reporter == 0) {  // the application itself: nothing is left to ask
      known.fill(0);
      count = kMostReporters;
      return;
    }
    const auto end = known.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::find(known.begin(), end, reporter) == end) known[count++] = reporter;
  }
  bool are_enough(std::uint64_t least) const { return count >= least; }
};

/// One side of the CUSUM: the evidence of a change since it was last nothing.
///
/// No reporter alone can raise the alarm: what one of them adds ends at `most`, a little over half.
struct Excursion {
  static constexpr std::size_t kShares = 4;
  double nats = 0.0;
  std::array<std::uint64_t, kShares> reporter{};
  std::array<double, kShares> share{};
  std::uint64_t reporters = 0;

  void add(double more, std::uint64_t from, double most) {
    if (more <= 0.0) {
      nats += more;
      if (nats <= 0.0) *this = {};
      return;
    }
    if (from != 0) more = limited(more, from, most);
    nats += more;
  }

 private:
  double limited(double more, std::uint64_t from, double most) {
    std::size_t i = 0;
    while (i < reporters && reporter[i] != from) ++i;
    if (i == kShares) return std::min(more, most);  // four have spoken before: it is not one alone
    if (i == reporters) {
      reporter[i] = from;
      ++reporters;
    }
    more = std::min(more, most - share[i]);
    share[i] += more;
    return more;
  }
};

/// What the detector and the breaker know of an arm.
struct Watch {
  Excursion worse;
  Excursion better;
  double run = 0.0;             // equal verdicts in a row
  double last = 0.0;            // +1, -1; 0 before the first
  double latest = kLongAgo;     // time of the latest verdict
  double epoch = kLongAgo;      // what was seen before it counts as one observation at most
  double k = 0.0;               // breaker; 0 is closed
  double failed_at = kLongAgo;  // of the alarm or the last failed probe
  double opened_at = 0.0;
  double alarm = 0.0;  // direction of the last alarm, 0 for none
  double alarm_at = 0.0;
};

struct ArmState {
  Reporters reporters;
  Watch watch;
};

struct Arm {
  ArmState state;
  Cells counts;
  Cells plain;

  std::size_t memory_bytes() const {
    return sizeof *this + counts.memory_bytes() + plain.memory_bytes();
  }
};

/// A decayed sum of unit vectors, and its direction.
struct Pull {
  std::vector<float> sum;   // dim
  std::vector<float> unit;  // padded width, of length 1
  double weight = 0.0;
  double at = kLongAgo;
};

/// The sum with its direction; nullptr where nothing of it is left but rounding.
std::shared_ptr<const Pull> pull_of(std::vector<float> sum, double weight, double at);

struct SubjectState {
  Reporters callers;    // who reported calls
  Reporters reporters;  // who reported anything
};

struct Subject {
  SubjectState state;
  Cells counts;
  std::shared_ptr<const Pull> pull;

  std::size_t memory_bytes() const {
    return sizeof *this + counts.memory_bytes() +
           (pull ? sizeof(Pull) + (pull->sum.capacity() + pull->unit.capacity()) * sizeof(float)
                 : 0);
  }
};

/// Records by key, in 256 drawers. A change copies the drawers it touches, not the records in them.
template <typename T>
class Shelf {
 public:
  struct Drawer {
    std::vector<std::uint64_t> keys;  // ascending
    std::vector<std::shared_ptr<const T>> records;
  };
  /// Records to put in, new or in place of those of the same key.
  using Changes = std::unordered_map<std::uint64_t, std::shared_ptr<T>>;

  const T* find(std::uint64_t key) const {
    const Drawer* const drawer = drawers_[number(key)].get();
    if (drawer == nullptr) return nullptr;
    const auto at = std::lower_bound(drawer->keys.begin(), drawer->keys.end(), key);
    if (at == drawer->keys.end() || *at != key) return nullptr;
    return drawer->records[static_cast<std::size_t>(at - drawer->keys.begin())].get();
  }

  void put(Changes&& changes) {
    std::vector<std::pair<std::uint64_t, std::shared_ptr<const T>>> sorted(
        std::make_move_iterator(changes.begin()), std::make_move_iterator(changes.end()));
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      const std::size_t x = number(a.first);
      const std::size_t y = number(b.first);
      return x != y ? x < y : a.first < b.first;
    });
    for (std::size_t begin = 0; begin < sorted.size();) {
      const std::size_t here = number(sorted[begin].first);
      std::size_t end = begin;
      while (end < sorted.size() && number(sorted[end].first) == here) ++end;
      drawers_[here] = merged(drawers_[here].get(), sorted, begin, end);
      begin = end;
    }
  }

  /// Calls visit(key, record) by drawer, then by key.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& drawer : drawers_) {
      if (!drawer) continue;
      for (std::size_t i = 0; i < drawer->keys.size(); ++i) {
        visit(drawer->keys[i], *drawer->records[i]);
      }
    }
  }

  std::size_t memory_bytes() const {
    std::size_t bytes = sizeof *this;
    for (const auto& drawer : drawers_) {
      if (!drawer) continue;
      bytes += sizeof(Drawer) + drawer->keys.capacity() * sizeof(std::uint64_t) +
               drawer->records.capacity() * sizeof(std::shared_ptr<const T>);
    }
    each([&](std::uint64_t, const T& record) { bytes += record.memory_bytes(); });
    return bytes;
  }

 private:
  static std::size_t number(std::uint64_t key) {
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> 56);  // small keys spread too
  }

  template <typename Sorted>
  static std::shared_ptr<const Drawer> merged(const Drawer* old, Sorted& sorted, std::size_t begin,
                                              std::size_t end) {
    auto drawer = std::make_shared<Drawer>();
    const std::size_t before = old == nullptr ? 0 : old->keys.size();
    drawer->keys.reserve(before + end - begin);
    drawer->records.reserve(before + end - begin);
    std::size_t i = 0;
    const auto keep_below = [&](std::uint64_t key) {
      for (; i < before && old->keys[i] < key; ++i) {
        drawer->keys.push_back(old->keys[i]);
        drawer->records.push_back(old->records[i]);
      }
    };
    for (; begin < end; ++begin) {
      keep_below(sorted[begin].first);
      if (i < before && old->keys[i] == sorted[begin].first) ++i;
      drawer->keys.push_back(sorted[begin].first);
      drawer->records.push_back(std::move(sorted[begin].second));
    }
    for (; i < before; ++i) {
      drawer->keys.push_back(old->keys[i]);
      drawer->records.push_back(old->records[i]);
    }
    return drawer;
  }

  std::array<std::shared_ptr<const Drawer>, 256> drawers_;
};

struct Learned::Records {
  Shelf<Arm> arms;
  Shelf<Subject> subjects;
};

/// An arm's counts in a context, with what was seen before its epoch cut to one observation.
LevelCounts reliability_levels(const Arm& arm, const Scopes& scopes, double now, double half_life);

/// Adds to one context, after the cut.
void add_after_cut(Cell& cell, double epoch, double when, double half_life, double first,
                   double second);

/// What a verdict changed: the run to be entered anew as evidence, 0 for none.
struct Change {
  bool is_new = false;  // the epoch moved
  double run = 0.0;     // verdicts like this one that came just before it
};

/// Tells the detector and the breaker of a verdict (+1, -1), given the mean that was believed.
Change watch(Watch& arm, int verdict, double at, std::uint64_t reporter, double mean,
             const LearningRates& rates);

/// The reliability that a hierarchy begins with, and that of lift.
inline Hierarchy reliability_hierarchy(const LearningRates& rates) {
  return {rates.prior_mean, rates.prior_strength, {rates.page_spread, rates.leaf_spread}};
}
inline Hierarchy lift_hierarchy(const LearningRates& rates) {
  return {1.0, rates.lift_strength, {rates.lift_page_spread, rates.lift_leaf_spread}};
}

}  // namespace toolroll
