#include "half_byte_rows.hpp"

#include <bit>
#include <cstring>
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
  const DotKernels& dot = dot_kernels();
  const std::size_t width = rows.width();
  Rows<std::uint8_t> blocks(blocks_of(rows.size()), block_bytes(width));
  std::vector<std::uint8_t> values(width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::uint8_t* const block = blocks.mutable_row(i / kBlockRows);
    const std::size_t place = 4 * (i % kBlockRows);
    const std::uint32_t number = dot.quantise4(rows.row(i), width, values.data());
    pack(values.data(), width, block + place);
    std::memcpy(block + width / 2 * kBlockRows + place, &number, sizeof number);
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
