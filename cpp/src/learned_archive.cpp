// Learned as bytes, and back with every number checked: a checksum is no signature.
#include <algorithm>
#include <cmath>
#include <functional>
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
constexpr std::uint32_t kVersion = 1;

static_assert(std::is_trivially_copyable_v<ArmState> && sizeof(ArmState) == 8 * (6 + 2 * 10 + 9));
static_assert(std::is_trivially_copyable_v<SubjectState> && sizeof(SubjectState) == 8 * 12);
static_assert(std::is_trivially_copyable_v<Cell> && sizeof(Cell) == 8 * 3);
static_assert(std::is_trivially_copyable_v<LearningRates> && sizeof(LearningRates) == 8 * 18);

[[noreturn]] void damaged(const char* what) {
  throw ArchiveError(std::string("damaged learned state: ") + what);
}

/// Cells of many records, end to end.
struct CellColumns {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> scopes;
  std::vector<Cell> cells;

  void add(const Cells& record) {
    sizes.push_back(record.scopes.size());
    scopes.insert(scopes.end(), record.scopes.begin(), record.scopes.end());
    cells.insert(cells.end(), record.cells.begin(), record.cells.end());
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
      if (!std::isfinite(cell.first) || !std::isfinite(cell.second) || !std::isfinite(cell.at)) {
        damaged("a cell is not finite");
      }
    }
    return columns;
  }
  /// The cells of the next record.
  Cells next(std::size_t record, std::size_t& from) const {
    const auto begin = static_cast<std::ptrdiff_t>(from);
    const auto end = begin + static_cast<std::ptrdiff_t>(sizes[record]);
    from = static_cast<std::size_t>(end);
    Cells own{{scopes.begin() + begin, scopes.begin() + end},
              {cells.begin() + begin, cells.begin() + end}};
    if (std::adjacent_find(own.scopes.begin(), own.scopes.end(), std::greater_equal<>()) !=
        own.scopes.end()) {
      damaged("scopes do not ascend");
    }
    return own;
  }
};

void check(const Reporters& reporters) {
  if (reporters.count > kMostReporters) damaged("too many reporters");
}

void check(const Excursion& excursion) {
  if (excursion.reporters > Excursion::kShares) damaged("too many reporters");
  bool is_finite = std::isfinite(excursion.nats);
  for (const double share : excursion.share) is_finite = is_finite && std::isfinite(share);
  if (!is_finite || excursion.nats < 0.0) damaged("a detector is not finite");
}

void check(const ArmState& state, const LearningRates& rates) {
  check(state.reporters);
  const Watch& watch = state.watch;
  check(watch.worse);
  check(watch.better);
  for (const double number : {watch.run, watch.last, watch.latest, watch.epoch, watch.k,
                              watch.failed_at, watch.opened_at, watch.alarm, watch.alarm_at}) {
    if (!std::isfinite(number)) damaged("a detector is not finite");
  }
  if (!(watch.k >= 0.0 && watch.k <= rates.most_k)) damaged("a breaker is out of its range");
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
  std::vector<std::uint64_t> pulled;  // places of the subjects with a vector
  std::vector<Counts> pulls;          // weight and time
  std::vector<float> sums;
  records_->subjects.each([&](std::uint64_t key, const Subject& subject) {
    if (subject.pull) {
      pulled.push_back(keys.size());
      pulls.push_back({subject.pull->weight, subject.pull->at});
      sums.insert(sums.end(), subject.pull->sum.begin(), subject.pull->sum.end());
    }
    keys.push_back(key);
    subjects.push_back(subject.state);
    lifts.add(subject.counts);
  });
  writer.column(keys);
  writer.column(subjects);
  lifts.write(writer);
  writer.column(pulled);
  writer.column(pulls);
  writer.column(sums);
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
  Shelf<Arm>::Changes all_arms;
  all_arms.reserve(keys.size());
  std::size_t from_counts = 0;
  std::size_t from_plain = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check(arms[i], learned.rates_);
    auto arm = std::make_shared<Arm>(
        Arm{arms[i], counts.next(i, from_counts), plain.next(i, from_plain)});
    if (!all_arms.emplace(keys[i], std::move(arm)).second) damaged("an arm is there twice");
  }
  learned.cells_ = counts.cells.size() + plain.cells.size();
  records->arms.put(std::move(all_arms));

  keys = reader.column<std::uint64_t>();
  const auto subjects = reader.column<SubjectState>();
  check_keys(keys, subjects.size());
  const CellColumns lifts = CellColumns::read(reader, subjects.size());
  const auto pulled = reader.column<std::uint64_t>();
  const auto pulls = reader.column<Counts>();
  const auto sums = reader.column<float>();
  reader.finish();
  if (pulls.size() != pulled.size() ||
      (dim == 0 ? !pulls.empty()
                : sums.size() / dim != pulls.size() || sums.size() % dim != 0)) {
    damaged("sizes differ");
  }
  Shelf<Subject>::Changes all_subjects;
  all_subjects.reserve(keys.size());
  std::size_t from_lifts = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check(subjects[i].callers);
    check(subjects[i].reporters);
    auto subject =
        std::make_shared<Subject>(Subject{subjects[i], lifts.next(i, from_lifts), nullptr});
    if (next < pulled.size() && pulled[next] == i) {
      const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(next * dim);
      subject->pull = pull_of({begin, begin + static_cast<std::ptrdiff_t>(dim)},
                              pulls[next].first, pulls[next].second);
      if (!subject->pull) damaged("a vector has no direction");
      ++next;
    }
    if (!all_subjects.emplace(keys[i], std::move(subject)).second) {
      damaged("a subject is there twice");
    }
  }
  if (next != pulled.size()) damaged("a vector belongs to no subject");
  learned.cells_ += lifts.cells.size();
  learned.vectors_ = pulled.size();
  records->subjects.put(std::move(all_subjects));
  learned.records_ = std::move(records);
  return learned;
}

}  // namespace toolroll
