#include "toolroll/string_table.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <stdexcept>

#include "toolroll/archive.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kFirstSlots = 64;
constexpr std::size_t kMost = std::size_t{1} << 31;

std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

}  // namespace

std::uint64_t StringTable::Hash::random() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::uint32_t StringTable::find(std::string_view text, Hash hash) const {
  if (slots_.empty()) return kMissing;
  const std::uint64_t value = hash.value();
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = value & mask;; at = (at + 1) & mask) {
    const Slot slot = slots_[at];
    if (slot.number == kMissing) return kMissing;
    if (slot.tag == tag_of(value) && (*this)[slot.number] == text) return slot.number;
  }
}

std::uint32_t StringTable::add(std::string_view text) {
  const Hash known = hash(text);
  if (const std::uint32_t number = find(text, known); number != kMissing) return number;
  if (ends_.size() >= kMost) throw std::length_error("string table: more than 2^31 strings");
  if (2 * (ends_.size() + 1) > slots_.size()) {
    resize(slots_.empty() ? kFirstSlots : 2 * slots_.size());
  }
  const auto number = static_cast<std::uint32_t>(ends_.size());
  bytes_ += text;
  ends_.push_back(bytes_.size());
  const std::uint64_t value = known.value();
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = value & mask;
  while (slots_[at].number != kMissing) at = (at + 1) & mask;
  slots_[at] = {tag_of(value), number};
  return number;
}

void StringTable::write(ArchiveWriter& archive) const {
  archive.text(bytes_);
  archive.column(ends_);
}

StringTable StringTable::read(ArchiveReader& archive) {
  const std::string bytes = archive.text();
  const auto ends = archive.column<std::uint64_t>();
  if (ends.size() > kMost) throw ArchiveError("damaged strings: they are too many");
  StringTable table;
  table.reserve(ends.size());
  table.bytes_.reserve(bytes.size());
  std::uint64_t begin = 0;
  for (const std::uint64_t end : ends) {
    if (end < begin || end > bytes.size()) {
      throw ArchiveError("damaged strings: their ends are out of order");
    }
    const std::size_t before = table.size();
    if (table.add(std::string_view(bytes).substr(begin, end - begin)) != before) {
      throw ArchiveError("damaged strings: one is there twice");
    }
    begin = end;
  }
  if (begin != bytes.size()) throw ArchiveError("damaged strings: bytes behind the last one");
  return table;
}

void StringTable::reserve(std::size_t strings) {
  ends_.reserve(strings);
  const std::size_t slots = std::bit_ceil(std::max(2 * (strings + 1), kFirstSlots));
  if (slots > slots_.size()) resize(slots);
}

void StringTable::resize(std::size_t slots) {
  std::vector<Slot> wider(slots, Slot{0, kMissing});
  const std::size_t mask = slots - 1;
  for (std::size_t number = 0; number < ends_.size(); ++number) {
    const std::uint64_t value = hash((*this)[number]).value();
    std::size_t at = value & mask;
    while (wider[at].number != kMissing) at = (at + 1) & mask;
    wider[at] = {tag_of(value), static_cast<std::uint32_t>(number)};
  }
  slots_ = std::move(wider);
}

}  // namespace toolroll
