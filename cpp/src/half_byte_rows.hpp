/// Rows in 4 bits, laid out in blocks for one sequential pass: see HalfByteQuery in dot.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "toolroll/archive.hpp"
#include "toolroll/dot.hpp"
#include "toolroll/row_changes.hpp"

namespace toolroll {

class HalfByteRows {
 public:
  /// The first stage of a scan over fewer rows gains too little (`python -m bench --only vectors`).
  static constexpr std::size_t kFewest = 10'000;

  HalfByteRows() = default;
  /// Unit rows (or zero) in 4 bits. No rows if there are fewer than kFewest, or if they are so
  /// uneven that 4 bits exclude few of them: the mean error is above 0.2, where a normal
  /// distribution has 0.11. O(rows * width), about 1 ns a number.
  static HalfByteRows of(const Rows<float>& rows);
  /// What of() makes of the changed rows; these are the 4-bit rows of the rows before. Kept rows
  /// are copied.
  HalfByteRows with_changes(const RowChanges& changes, const Rows<float>& rows) const;

  void save(ArchiveWriter& archive) const;
  /// The 4-bit form of n rows as it was saved; of a mapped archive a view. Throws ArchiveError
  /// unless it has their size and every scale and error is one that a kernel can take.
  static HalfByteRows load(ArchiveReader& archive, std::size_t n, std::size_t width);

  bool empty() const { return blocks_.size() == 0; }
  /// The mean error of the rows that are not zero.
  float mean_error() const { return mean_error_; }
  /// The block that begins with row `row`, a multiple of kBlockRows, and those behind it.
  const std::uint8_t* block(std::size_t row) const { return blocks_.row(row / kBlockRows); }
  /// The bytes of memory of its own; 0 for a view of a mapped file.
  std::size_t memory_bytes() const { return blocks_.memory_bytes(); }

 private:
  HalfByteRows(Rows<std::uint8_t> blocks, std::size_t width);

  Rows<std::uint8_t> blocks_;  // a block is a row of it
  float mean_error_ = 0;
};

}  // namespace toolroll
