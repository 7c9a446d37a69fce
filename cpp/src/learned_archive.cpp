// Learned as bytes, and back. Every number is checked, because a checksum is no signature.
#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "learned_records.hpp"
#include "toolroll/archive.hpp"
#include "toolroll/dot.hpp"

namespace toolroll {
namespace {

constexpr std::string_view kKind = "learned";
constexpr std::uint32_t kVersion = 4;

static_assert(std::is_trivially_copyable_v<ArmState> && sizeof(ArmState) == 8 * (2 * 6 + 3 * 18 + 15));
static_assert(std::is_trivially_copyable_v<SubjectState> && sizeof(SubjectState) == 8 * 12);
static_assert(std::is_trivially_copyable_v<Cell> && sizeof(Cell) == 8 * 3);
static_assert(std::is_trivially_copyable_v<LearningRates> && sizeof(LearningRates) == 8 * 18);

[[noreturn]] void damaged(const char* what) {
  throw ArchiveError(std::string("damaged learned state: ") + what);
}

void check_sum(double number) {
  if (!(std::fabs(number) <= kMostSum)) damaged("a sum is out of its range");
}

void check_time(double at) {
  if (!(std::fabs(at) <= kMostTime) && at != kLongAgo) damaged("a time is out of its range");
}

/// Cells of many records, end to end.
struct CellColumns {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> scopes;
  std::vector<Cell> cells;

  void add(const Cells& record) {
    sizes.push_back(record.size());
    record.each([this](std::uint64_t scope, const Cell& cell) {
      scopes.push_back(scope);
      cells.push_back(cell);
    });
  }
  void write(ArchiveWriter& writer) const {
    writer.column(sizes);
    writer.column(scopes);
    writer.column(cells);
  }
  static CellColumns read(ArchiveReader& reader, std::size_t records) {
    CellColumns columns{reader.column<std::uint64_t>(), reader.column<std::uint64_t>(),
                        reader.column<Cell>()};
    std::size_t left = columns.scopes.size();
    if (columns.sizes.size() != records || columns.cells.size() != left) damaged("sizes differ");
    for (const std::uint64_t size : columns.sizes) {
      if (size > left) damaged("a record has more cells than there are");
      left -= static_cast<std::size_t>(size);
    }
    if (left != 0) damaged("cells belong to no record");
    for (const Cell& cell : columns.cells) {
      check_sum(cell.first);
      check_sum(cell.second);
      check_time(cell.at);
    }
    return columns;
  }
  /// The cells of the next record.
  Cells next(std::size_t record, std::size_t& from) const {
    Cells own;
    std::size_t made = 0;
    for (std::uint64_t i = 0; i < sizes[record]; ++i, ++from) {
      if (scopes[from] == 0) damaged("a scope is 0");
      own.at(scopes[from], made) = cells[from];
    }
    if (made != sizes[record]) damaged("a scope is there twice");
    return own;
  }
};

void check(const Reporters& reporters) {
  if (reporters.count > kMostReporters) damaged("too many reporters");
}

void check(const CusumSide& side) {
  if (side.reporters > CusumSide::kShares) damaged("too many reporters");
  check_sum(side.sum);
  for (const double share : side.share) check_sum(share);
  if (side.sum < 0.0) damaged("a detector is out of its range");
}

void check(const ArmState& state, const LearningRates& rates) {
  check(state.reporters);
  check(state.failed);
  const ChangeDetector& detector = state.detector;
  check(detector.worse);
  check(detector.better);
  check(detector.unproven);
  for (const double number : {detector.run, detector.last, detector.alarm}) check_sum(number);
  for (const double at : {detector.latest, detector.epoch, detector.failed_at, detector.opened_at,
                          detector.alarm_at}) {
    check_time(at);
  }
  if (detector.provers > 2) damaged("too many reporters");
  if (!(detector.k >= 0.0 && detector.k <= rates.most_k)) damaged("a breaker is out of its range");
}

void check_exemplars(std::span<const std::uint64_t> sizes, std::span<const double> times,
                     std::span<const std::uint64_t> reporters, std::span<const float> units,
                     std::size_t vectors, std::size_t dim) {
  std::size_t all = 0;
  for (const std::uint64_t size : sizes) {
    if (size > kMostExemplars) damaged("a vector has too many exemplars");
    all += static_cast<std::size_t>(size);
  }
  if (sizes.size() != vectors || times.size() != all || reporters.size() != all ||
      units.size() != all * dim) {
    damaged("sizes differ");
  }
  for (const double time : times) check_time(time);
  for (std::size_t begin = 0; begin < units.size(); begin += dim) {
    double squares = 0.0;
    for (const float value : units.subspan(begin, dim))
      squares += static_cast<double>(value) * value;
    if (!(squares > 0.999 && squares < 1.001)) damaged("an exemplar is no unit vector");
  }
}

void check_keys(const std::vector<std::uint64_t>& keys, std::size_t states) {
  if (keys.size() != states) damaged("sizes differ");
}

}  // namespace

std::vector<std::byte> Learned::bytes() const {
  ArchiveWriter writer(kKind, kVersion);
  writer.value<std::uint64_t>(dim_);
  writer.value<std::uint64_t>(revision_);
  writer.column(std::span<const LearningRates>(&rates_, 1));

  std::vector<std::uint64_t> keys;
  std::vector<ArmState> arms;
  CellColumns counts;
  CellColumns plain;
  records_->arms.each([&](std::uint64_t key, const Arm& arm) {
    keys.push_back(key);
    arms.push_back(arm.state);
    counts.add(arm.counts);
    plain.add(arm.plain);
  });
  writer.column(keys);
  writer.column(arms);
  counts.write(writer);
  plain.write(writer);

  keys.clear();
  std::vector<SubjectState> subjects;
  CellColumns lifts;
  std::vector<std::uint64_t> has_vector;  // places of the subjects with a vector
  std::vector<Counts> weights;            // weight and time
  std::vector<float> sums;
  std::vector<std::uint64_t> exemplars;  // how many of each vector
  std::vector<double> times;
  std::vector<std::uint64_t> reporters;
  std::vector<float> units;  // without padding
  records_->subjects.each([&](std::uint64_t key, const Subject& subject) {
    if (subject.vector) {
      has_vector.push_back(keys.size());
      weights.push_back({subject.vector->weight, subject.vector->at});
      const SubjectVector& vector = *subject.vector;
      sums.insert(sums.end(), vector.sum.begin(), vector.sum.end());
      exemplars.push_back(vector.times.size());
      times.insert(times.end(), vector.times.begin(), vector.times.end());
      reporters.insert(reporters.end(), vector.reporters.begin(), vector.reporters.end());
      for (std::size_t i = 0; i < vector.times.size(); ++i) {
        const auto begin =
            vector.exemplars.begin() + static_cast<std::ptrdiff_t>(i * padded_width(dim_));
        units.insert(units.end(), begin, begin + static_cast<std::ptrdiff_t>(dim_));
      }
    }
    keys.push_back(key);
    subjects.push_back(subject.state);
    lifts.add(subject.counts);
  });
  writer.column(keys);
  writer.column(subjects);
  lifts.write(writer);
  writer.column(has_vector);
  writer.column(weights);
  writer.column(sums);
  writer.column(exemplars);
  writer.column(times);
  writer.column(reporters);
  writer.column(units);
  return writer.bytes();
}

Learned Learned::from_bytes(std::vector<std::byte> bytes) {
  ArchiveReader reader(std::move(bytes), kKind, kVersion);
  const auto dim = static_cast<std::size_t>(reader.value<std::uint64_t>());
  const auto revision = reader.value<std::uint64_t>();
  const auto rates = reader.column<LearningRates>();
  if (rates.size() != 1) damaged("it has no rates");
  Learned learned;
  try {
    learned = Learned(dim, rates[0]);
  } catch (const std::invalid_argument& error) {
    damaged(error.what());
  }
  learned.revision_ = revision;

  auto records = std::make_shared<Records>();
  auto keys = reader.column<std::uint64_t>();
  const auto arms = reader.column<ArmState>();
  check_keys(keys, arms.size());
  const CellColumns counts = CellColumns::read(reader, arms.size());
  const CellColumns plain = CellColumns::read(reader, arms.size());
  PersistentMap<Arm>::Changes all_arms;
  all_arms.reserve(keys.size());
  std::size_t from_counts = 0;
  std::size_t from_plain = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check(arms[i], learned.rates_);
    auto arm =
        std::make_shared<Arm>(Arm{counts.next(i, from_counts), arms[i], plain.next(i, from_plain)});
    if (!all_arms.emplace(keys[i], std::move(arm)).second) damaged("an arm is there twice");
  }
  learned.cells_ = counts.cells.size() + plain.cells.size();
  records->arms.put(std::move(all_arms));

  keys = reader.column<std::uint64_t>();
  const auto subjects = reader.column<SubjectState>();
  check_keys(keys, subjects.size());
  const CellColumns lifts = CellColumns::read(reader, subjects.size());
  const auto has_vector = reader.column<std::uint64_t>();
  const auto weights = reader.column<Counts>();
  const auto sums = reader.column<float>();
  const auto exemplars = reader.column<std::uint64_t>();
  const auto times = reader.column<double>();
  const auto reporters = reader.column<std::uint64_t>();
  const auto units = reader.column<float>();
  reader.finish();
  check_exemplars(exemplars, times, reporters, units, has_vector.size(), dim);
  if (weights.size() != has_vector.size() ||
      (dim == 0 ? !weights.empty()
                : sums.size() / dim != weights.size() || sums.size() % dim != 0)) {
    damaged("sizes differ");
  }
  PersistentMap<Subject>::Changes all_subjects;
  all_subjects.reserve(keys.size());
  std::vector<VectorMap::Change> vectors;
  std::size_t from_lifts = 0;
  std::size_t next = 0;
  std::size_t exemplar = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check(subjects[i].callers);
    check(subjects[i].reporters);
    auto subject =
        std::make_shared<Subject>(Subject{lifts.next(i, from_lifts), subjects[i], nullptr});
    if (next < has_vector.size() && has_vector[next] == i) {
      check_sum(weights[next].first);
      check_time(weights[next].second);
      const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(next * dim);
      auto vector = std::make_shared<SubjectVector>();
      vector->sum.assign(begin, begin + static_cast<std::ptrdiff_t>(dim));
      vector->weight = weights[next].first;
      vector->at = weights[next].second;
      for (std::uint64_t one = 0; one < exemplars[next]; ++one, ++exemplar) {
        vector->times.push_back(times[exemplar]);
        vector->reporters.push_back(reporters[exemplar]);
        const std::size_t padded = vector->exemplars.size() + padded_width(dim);
        const auto unit = units.begin() + static_cast<std::ptrdiff_t>(exemplar * dim);
        vector->exemplars.insert(vector->exemplars.end(), unit,
                                 unit + static_cast<std::ptrdiff_t>(dim));
        vector->exemplars.resize(padded, 0.0F);
      }
      subject->vector = directed(std::move(vector));
      if (!subject->vector) damaged("a vector has no direction");
      if (subject->state.callers.are_enough(learned.rates_.least_reporters)) {
        vectors.push_back({keys[i], subject->vector,
                           static_cast<float>(learned.vector_share(weights[next].first))});
      }
      ++next;
    }
    if (!all_subjects.emplace(keys[i], std::move(subject)).second) {
      damaged("a subject is there twice");
    }
  }
  if (next != has_vector.size()) damaged("a vector belongs to no subject");
  learned.cells_ += lifts.cells.size();
  learned.vectors_ = vectors.size();
  records->vectors.put(std::move(vectors), padded_width(dim));
  records->subjects.put(std::move(all_subjects));
  learned.records_ = std::move(records);
  return learned;
}

}  // namespace toolroll
