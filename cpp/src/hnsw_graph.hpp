/// A hierarchical navigable small-world graph over the rows of an index, as flat lists.
///
/// hnswlib builds the graph, and this class searches it. So each search has its own ef, a filter, a
/// budget of visits and batched 8-bit products, and load() checks every link of a file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dot_scan.hpp"
#include "toolroll/archive.hpp"
#include "toolroll/bitset.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll {

class HnswGraph {
 public:
  /// Links the rows that are not zero. The same rows and one thread give the same graph. None if
  /// `is_stopped` becomes true meanwhile. done: counts the rows that are linked.
  static std::optional<HnswGraph> build(const VectorRows& rows, const GraphOptions& options,
                                        const std::atomic<bool>& is_stopped,
                                        std::atomic<std::size_t>& done);

  /// The result of a walk through the graph.
  struct Walk {
    bool finished;        ///< false: it used its budget up
    std::size_t visited;  ///< rows whose product was taken
  };
  /// Offers rows of `allowed` (nullptr: of all) by 8-bit product, until nothing near the query is
  /// better than the worst that `found` keeps; how many it keeps is the paper's ef.
  Walk walk(const VectorRows& rows, const Query& query, const Bitset* allowed, std::size_t budget,
            Best& found) const;

  std::size_t memory_bytes() const;
  void save(ArchiveWriter& archive) const;
  /// Throws ArchiveError unless every list is sound for n rows.
  static HnswGraph load(ArchiveReader& archive, std::size_t n);

 private:
  friend class HnswBuilder;
  static constexpr std::int32_t kNone = -1;  // ends a list that is not full

  std::size_t links(std::size_t level) const { return level == 0 ? 2 * m_ : m_; }
  const std::int32_t* list(std::int32_t row, std::size_t level) const {
    const auto at = static_cast<std::size_t>(row);
    return level == 0 ? base_.data() + at * 2 * m_
                      : upper_.data() + (upper_at_[at] + level - 1) * m_;
  }
  std::size_t level(std::size_t row) const { return upper_at_[row + 1] - upper_at_[row]; }
  void check(std::size_t n) const;

  std::size_t m_ = 0;
  std::int32_t entry_ = kNone;      // a row of the highest level
  SharedArray<std::int32_t> base_;  // 2 m neighbours of each row
  SharedArray<std::uint32_t>
      upper_at_;                     // of each row: its first list in upper_; one more at the end
  SharedArray<std::int32_t> upper_;  // m neighbours of each row on each level above the lowest
};

}  // namespace toolroll
