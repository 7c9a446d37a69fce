// Learned as rows, and back: a fold writes the rows that it changed, and a reader puts them in
// place. An archive is all rows. Every number is checked, because a checksum is no signature.
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "learned_records.hpp"
#include "toolroll/archive.hpp"

namespace toolroll {
namespace {

constexpr std::string_view kKind = "learned";
constexpr std::uint32_t kVersion = 5;

static_assert(std::is_trivially_copyable_v<Cell> && sizeof(Cell) == 8 * 3);
static_assert(std::is_trivially_copyable_v<LearningRates> && sizeof(LearningRates) == 8 * 18);
// As a store keeps them: without gaps.
static_assert(std::is_trivially_copyable_v<ArmState> &&
              sizeof(ArmState) == 8 * (2 * 6 + 3 * 18 + 15));
static_assert(std::is_trivially_copyable_v<SubjectState> && sizeof(SubjectState) == 8 * 12);

[[noreturn]] void damaged(const char* what) {
  throw ArchiveError(std::string("damaged learned state: ") + what);
}

void check_kind(std::int32_t kind) {
  if (kind < 0 || kind > 2) damaged("a row is of no known kind");
}

void check_sum(double number) {
  if (!(std::fabs(number) <= kMostSum)) damaged("a sum is out of its range");
}

void check_time(double at) {
  if (!(std::fabs(at) <= kMostTime) && at != kLongAgo) damaged("a time is out of its range");
}

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

void check_exemplars(std::span<const double> times, std::span<const float> units, std::size_t dim) {
  for (const double time : times) check_time(time);
  for (std::size_t begin = 0; begin < units.size(); begin += dim) {
    double squares = 0.0;
    for (const float value : units.subspan(begin, dim))
      squares += static_cast<double>(value) * value;
    if (!(squares > 0.999 && squares < 1.001)) damaged("an exemplar is no unit vector");
  }
}

template <typename T>
std::vector<std::byte> bytes_of(const T& state) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&state);
  return {bytes, bytes + sizeof state};
}

template <typename T>
T state_of(const RecordRow& row) {
  if (row.state.size() != sizeof(T)) damaged("a record has another size");
  T state;
  std::memcpy(&state, row.state.data(), sizeof state);
  return state;
}

template <typename T>
bool are_same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// The numbers of a vector, one column behind the other.
struct VectorHead {
  double weight;
  double at;
  std::uint64_t exemplars;
};

std::vector<std::byte> bytes_of(const SubjectVector& vector) {
  std::vector<std::byte> all = bytes_of(VectorHead{vector.weight, vector.at, vector.times.size()});
  const auto add = [&all](const auto* numbers, std::size_t size) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(numbers);
    all.insert(all.end(), bytes, bytes + size * sizeof *numbers);
  };
  add(vector.times.data(), vector.times.size());
  add(vector.reporters.data(), vector.reporters.size());
  add(vector.sum.data(), vector.sum.size());
  for (std::size_t i = 0; i < vector.times.size(); ++i) {
    add(vector.exemplars.data() + i * vector.unit.size(), vector.sum.size());
  }
  return all;
}

std::shared_ptr<const SubjectVector> vector_of(const RecordRow& row, std::size_t dim) {
  if (row.state.empty()) return nullptr;
  VectorHead head;
  if (row.state.size() < sizeof head) damaged("a vector is too short");
  std::memcpy(&head, row.state.data(), sizeof head);
  if (head.exemplars > kMostExemplars) damaged("a vector has too many exemplars");
  const auto n = static_cast<std::size_t>(head.exemplars);
  std::vector<double> times(n);
  std::vector<std::uint64_t> reporters(n);
  std::vector<float> units(n * dim);
  auto vector = std::make_shared<SubjectVector>();
  vector->sum.resize(dim);
  if (row.state.size() !=
      sizeof head + n * (sizeof(double) + sizeof(std::uint64_t)) + (n + 1) * dim * sizeof(float)) {
    damaged("a vector has another size");
  }
  std::size_t at = sizeof head;
  const auto take = [&](auto& numbers) {
    const std::size_t size = numbers.size() * sizeof numbers[0];
    if (size != 0) std::memcpy(numbers.data(), row.state.data() + at, size);
    at += size;
  };
  take(times);
  take(reporters);
  take(vector->sum);
  take(units);
  check_sum(head.weight);
  check_time(head.at);
  check_exemplars(times, units, dim);
  vector->weight = head.weight;
  vector->at = head.at;
  for (std::size_t i = 0; i < n; ++i) {
    vector->add_exemplar(times[i], reporters[i], std::span(units).subspan(i * dim, dim));
  }
  auto made = directed(std::move(vector));
  if (!made) damaged("a vector has no direction");
  return made;
}

void add_changed(std::vector<CellRow>& rows, CellKind kind, std::uint64_t key, const Cells& cells,
                 const Cells* before) {
  cells.each([&](std::uint64_t scope, const Cell& cell) {
    const Cell* const old = before == nullptr ? nullptr : before->find(scope);
    if (old != nullptr && are_same(*old, cell)) return;
    rows.push_back({kind, scope, key, cell.first, cell.second, cell.at});
  });
}

}  // namespace

LearnedRows Learned::rows(const Learned& since) const {
  LearnedRows rows;
  const auto add_record = [&rows](RecordKind kind, std::uint64_t key,
                                  std::vector<std::byte> state) {
    rows.records.push_back({kind, key, std::move(state)});
  };
  records_->arms.each_changed(since.records_->arms,
                              [&](std::uint64_t key, const Arm& arm, const Arm* before) {
                                add_changed(rows.cells, CellKind::kReliability, key, arm.counts,
                                            before == nullptr ? nullptr : &before->counts);
                                add_changed(rows.cells, CellKind::kPlain, key, arm.plain,
                                            before == nullptr ? nullptr : &before->plain);
                                if (before == nullptr || !are_same(arm.state, before->state)) {
                                  add_record(RecordKind::kArm, key, bytes_of(arm.state));
                                }
                              });
  records_->subjects.each_changed(
      since.records_->subjects,
      [&](std::uint64_t key, const Subject& subject, const Subject* before) {
        add_changed(rows.cells, CellKind::kLift, key, subject.counts,
                    before == nullptr ? nullptr : &before->counts);
        if (before == nullptr || !are_same(subject.state, before->state)) {
          add_record(RecordKind::kSubject, key, bytes_of(subject.state));
        }
        const SubjectVector* const old = before == nullptr ? nullptr : before->vector.get();
        if (subject.vector.get() == old) return;
        add_record(RecordKind::kVector, key,
                   subject.vector ? bytes_of(*subject.vector) : std::vector<std::byte>());
      });
  return rows;
}

Learned Learned::with_rows(const LearnedRows& rows, std::uint64_t revision) const {
  Changes changes;
  const auto arm_of = [&](std::uint64_t key) -> Arm& {
    return Changes::copied(key, records_->arms, changes.arms);
  };
  const auto subject_of = [&](std::uint64_t key) -> Subject& {
    return Changes::copied(key, records_->subjects, changes.subjects);
  };
  for (const CellRow& row : rows.cells) {
    if (row.scope == 0) damaged("a scope is 0");
    check_kind(static_cast<std::int32_t>(row.kind));
    check_sum(row.first);
    check_sum(row.second);
    check_time(row.at);
    Cells& cells = row.kind == CellKind::kReliability ? arm_of(row.key).counts
                   : row.kind == CellKind::kPlain     ? arm_of(row.key).plain
                                                      : subject_of(row.key).counts;
    cells.at(row.scope, changes.made) = {row.first, row.second, row.at};
  }
  for (const RecordRow& row : rows.records) {
    check_kind(static_cast<std::int32_t>(row.kind));
    if (row.kind == RecordKind::kArm) {
      const auto state = state_of<ArmState>(row);
      check(state, rates_);
      arm_of(row.key).state = state;
    } else if (row.kind == RecordKind::kSubject) {
      const auto state = state_of<SubjectState>(row);
      check(state.reporters);
      check(state.callers);
      subject_of(row.key).state = state;
    } else {
      subject_of(row.key).vector = vector_of(row, dim_);
    }
  }
  return with(std::move(changes), revision);
}

std::vector<std::byte> Learned::bytes() const {
  const LearnedRows rows = this->rows(Learned(dim_, rates_));
  std::vector<std::int32_t> kinds;
  std::vector<std::uint64_t> keys;
  std::vector<std::uint64_t> scopes;
  std::vector<Cell> cells;
  for (const CellRow& row : rows.cells) {
    kinds.push_back(static_cast<std::int32_t>(row.kind));
    keys.push_back(row.key);
    scopes.push_back(row.scope);
    cells.push_back({row.first, row.second, row.at});
  }
  std::vector<std::int32_t> record_kinds;
  std::vector<std::uint64_t> record_keys;
  std::vector<std::uint64_t> sizes;
  std::vector<std::byte> states;
  for (const RecordRow& row : rows.records) {
    record_kinds.push_back(static_cast<std::int32_t>(row.kind));
    record_keys.push_back(row.key);
    sizes.push_back(row.state.size());
    states.insert(states.end(), row.state.begin(), row.state.end());
  }
  ArchiveWriter writer(kKind, kVersion);
  writer.value<std::uint64_t>(dim_);
  writer.value<std::uint64_t>(revision_);
  writer.column(std::span<const LearningRates>(&rates_, 1));
  writer.column(kinds);
  writer.column(keys);
  writer.column(scopes);
  writer.column(cells);
  writer.column(record_kinds);
  writer.column(record_keys);
  writer.column(sizes);
  writer.column(states);
  return writer.bytes();
}

Learned Learned::from_bytes(std::vector<std::byte> bytes) {
  ArchiveReader reader(std::move(bytes), kKind, kVersion);
  const auto dim = static_cast<std::size_t>(reader.value<std::uint64_t>());
  const auto revision = reader.value<std::uint64_t>();
  const auto rates = reader.column<LearningRates>();
  const auto kinds = reader.column<std::int32_t>();
  const auto keys = reader.column<std::uint64_t>();
  const auto scopes = reader.column<std::uint64_t>();
  const auto cells = reader.column<Cell>();
  const auto record_kinds = reader.column<std::int32_t>();
  const auto record_keys = reader.column<std::uint64_t>();
  const auto sizes = reader.column<std::uint64_t>();
  const auto states = reader.column<std::byte>();
  reader.finish();
  if (rates.size() != 1) damaged("it has no rates");
  if (kinds.size() != cells.size() || keys.size() != cells.size() ||
      scopes.size() != cells.size() || record_kinds.size() != sizes.size() ||
      record_keys.size() != sizes.size()) {
    damaged("sizes differ");
  }
  LearnedRows rows;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    rows.cells.push_back({static_cast<CellKind>(kinds[i]), scopes[i], keys[i], cells[i].first,
                          cells[i].second, cells[i].at});
  }
  std::span<const std::byte> left(states);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > left.size()) damaged("a record has more bytes than there are");
    const auto state = left.first(static_cast<std::size_t>(sizes[i]));
    left = left.subspan(state.size());
    rows.records.push_back(
        {static_cast<RecordKind>(record_kinds[i]), record_keys[i], {state.begin(), state.end()}});
  }
  try {
    return Learned(dim, rates[0]).with_rows(rows, revision);
  } catch (const ArchiveError&) {
    throw;
  } catch (const std::invalid_argument& error) {  // a rate
    damaged(error.what());
  }
}

}  // namespace toolroll
