#include "half_byte_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace toolroll {
namespace {

constexpr float kMostError = 0.2F;
constexpr std::size_t kLine = 4 * kBlockRows;  // bytes of a block for eight dimensions

/// A block is a row of bytes without padding.
static_assert(block_bytes(kWidthUnit) == padded_width(block_bytes(kWidthUnit)));

std::size_t blocks_of(std::size_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

float scale_of(std::uint32_t number) { return std::bit_cast<float>(number & 0xFFFF0000U); }
float error_of(std::uint32_t number) { return std::bit_cast<float>(number << 16); }

/// Writes values from 0 to 15 into a row of a block.
void pack(const std::uint8_t* values, std::size_t width, std::uint8_t* row) {
  for (std::size_t j = 0; j < width; j += 8, row += kLine) {
    std::uint32_t low;
    std::uint32_t high;
    std::memcpy(&low, values + j, sizeof low);
    std::memcpy(&high, values + j + 4, sizeof high);
    low |= high << 4;
    std::memcpy(row, &low, sizeof low);
  }
}

/// Writes a row as the `at`-th of a block. values: scratch memory of the row's width.
void write(const float* row, std::size_t width, std::uint8_t* values, std::uint8_t* block,
           std::size_t at) {
  const std::uint32_t number = dot_kernels().quantise4(row, width, values);
  pack(values, width, block + 4 * at);
  std::memcpy(block + width / 2 * kBlockRows + 4 * at, &number, sizeof number);
}

}  // namespace

HalfByteRows::HalfByteRows(Rows<std::uint8_t> blocks, std::size_t width)
    : blocks_(std::move(blocks)) {
  double errors = 0;
  std::size_t count = 0;
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    std::uint32_t numbers[kBlockRows];
    std::memcpy(numbers, blocks_.row(block) + width / 2 * kBlockRows, sizeof numbers);
    for (const std::uint32_t number : numbers) {
      if (number == 0) continue;
      const float scale = scale_of(number);
      const float error = error_of(number);
      if (!(scale > 0 && scale < 3 && error >= 0 && error <= 1.02F)) {
        throw ArchiveError("damaged vector index: the 4-bit form of a row is none");
      }
      errors += static_cast<double>(error);
      ++count;
    }
  }
  if (count != 0) mean_error_ = static_cast<float>(errors / static_cast<double>(count));
}

HalfByteRows HalfByteRows::of(const Rows<float>& rows) {
  if (rows.size() < kFewest) return {};
  const std::size_t width = rows.width();
  Rows<std::uint8_t> blocks(blocks_of(rows.size()), block_bytes(width));
  std::vector<std::uint8_t> values(width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    write(rows.row(i), width, values.data(), blocks.mutable_row(i / kBlockRows), i % kBlockRows);
  }
  HalfByteRows made(std::move(blocks), width);
  if (made.mean_error_ > kMostError) return {};
  return made;
}

HalfByteRows HalfByteRows::with_changes(const RowChanges& changes, const Rows<float>& rows) const {
  if (empty() || rows.size() < kFewest) return of(rows);
  const std::size_t width = rows.width();
  Rows<std::uint8_t> blocks(blocks_of(rows.size()), block_bytes(width));
  std::vector<std::uint8_t> values(width);
  const std::span<const std::int32_t> sources = changes.sources();
  for (std::size_t i = 0; i < rows.size();) {
    std::uint8_t* const block = blocks.mutable_row(i / kBlockRows);
    const std::size_t at = i % kBlockRows;
    if (sources[i] == RowChanges::kNone) {
      write(rows.row(i++), width, values.data(), block, at);
      continue;
    }
    // Rows that stay neighbours, within one block before and after: all bytes of one line at once.
    const auto row = static_cast<std::size_t>(sources[i]);
    const std::size_t from = row % kBlockRows;
    const std::size_t most = std::min(kBlockRows - std::max(at, from), rows.size() - i);
    std::size_t count = 1;
    while (count < most && sources[i + count] == sources[i] + static_cast<std::int32_t>(count)) {
      ++count;
    }
    const std::uint8_t* const old = blocks_.row(row / kBlockRows);
    for (std::size_t line = 0; line < block_bytes(width); line += kLine) {
      std::memcpy(block + line + 4 * at, old + line + 4 * from, 4 * count);
    }
    i += count;
  }
  HalfByteRows made(std::move(blocks), width);
  if (made.mean_error_ > kMostError) return {};
  return made;
}

void HalfByteRows::save(ArchiveWriter& archive) const { archive.array(blocks_.span()); }

HalfByteRows HalfByteRows::load(ArchiveReader& archive, std::size_t n, std::size_t width) {
  const auto bytes = archive.array<std::uint8_t>();
  if (bytes.empty()) return {};
  if (bytes.size() != blocks_of(n) * block_bytes(width)) {
    throw ArchiveError("damaged vector index: its 4-bit rows are not of one width");
  }
  return {Rows<std::uint8_t>(blocks_of(n), block_bytes(width), bytes), width};
}

}  // namespace toolroll
