/// When to walk the graph, and how far. Both are measured on the index itself when it is built.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dot_scan.hpp"
#include "hnsw_graph.hpp"

namespace toolroll {

/// A visited row costs as much as this many scanned ones: its product waits for memory, and the
/// walk keeps two heaps. Measured by `python -m bench --only vectors`.
inline constexpr std::size_t kScannedPerVisit = 8;

struct Tuning {
  std::size_t ef = 0;      ///< found rows that give a recall of 0.99 at k <= kTunedFor
  std::size_t visits = 0;  ///< what such a walk visits, on average

  static constexpr std::size_t kTunedFor = 10;

  /// The least i-th best cosine of a generated query. A query below it is unlike all measured ones:
  /// nearly equally far from everything, so that a walk of this length misses rows (recall
  /// 0.89 for random directions over 100,000 clustered rows).
  std::array<float, kTunedFor> least{};

  /// Whether the answer (k best cosines, best first) is that of a query like the measured ones.
  bool is_familiar(const std::vector<float>& scores) const {
    return scores.empty() || scores[std::min(scores.size(), kTunedFor) - 1] >=
                                 least[std::min(scores.size(), kTunedFor) - 1];
  }

  std::size_t ef_for(std::size_t k) const { return k <= kTunedFor ? ef : ef * k / kTunedFor; }
  /// Rows that a walk with this ef visits. One that keeps ef allowed rows, `count` out of n, looks
  /// at n / count times as many.
  double visits_for(std::size_t n, std::size_t count, std::size_t walk_ef) const;
  /// Whether such a walk should be faster than scanning the allowed rows.
  bool prefers_graph(std::size_t n, std::size_t count, std::size_t walk_ef) const;
  /// Whether tune() could have given these numbers, which come from a file.
  bool is_sound(std::size_t n) const;

  static constexpr std::size_t kMaxEf = 4096;
};

/// Raises ef until the graph finds 99 % of the scan's rows for generated queries. Ends early, with
/// a result of no use, once `is_stopped` is true.
Tuning tune(const VectorRows& rows, const HnswGraph& graph, const std::optional<Bitset>& allowed,
            const std::atomic<bool>& is_stopped);

/// Offers the float32 products of what a walk found. False if the walk was about to visit more than
/// a scan of the `count` allowed rows costs: best is then as it was.
bool search_graph(const VectorRows& rows, const HnswGraph& graph, const Query& query, std::size_t k,
                  std::size_t ef, const Bitset* allowed, std::size_t count, Best& best);

}  // namespace toolroll
