/// Nearest vectors by cosine: an exact scan and a graph (HNSW) behind one search with a row filter.
///
/// The exact scan returns the best k float32 scores by construction: it scores 8-bit copies first
/// and then rescores every row that could still be among the best. The graph search uses the same
/// 8-bit copies and rescores the rows that it finds. The number of rows that it must find for a
/// recall of 0.99 is measured on the index's own rows when it is built, because no fixed number is
/// right for every kind of vector.
///
/// Immutable once built; any number of threads may search at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toolroll/archive.hpp"
#include "toolroll/bitset.hpp"
#include "toolroll/row_changes.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

enum class Method {
  kAuto,   ///< the faster of the two at a recall of at least 0.99, by estimate
  kExact,  ///< the scan
  kGraph,  ///< the graph, or the scan if a filter makes the graph slower
};

/// How to build the graph. Source: Malkov & Yashunin, "Efficient and robust approximate nearest
/// neighbor search using Hierarchical Navigable Small World graphs", TPAMI 2020; built by hnswlib.
struct GraphOptions {
  bool wanted = false;
  std::size_t m = 16;                 ///< links a row, 2 to 128; twice as many on the lowest level
  std::size_t ef_construction = 200;  ///< candidates for a new row's links, at least m
  std::size_t threads = 1;            ///< with 1 the same input gives the same graph
};

class VectorIndex {
 public:
  /// vectors: row-major float32[n, dim]. Each row is scaled to length 1; a row of zeros has no
  /// direction, scores 0 and is in no result. Throws std::invalid_argument if dim is not in
  /// 1..65536, the size is no multiple of it, a value is not finite, or an option out of range.
  static VectorIndex build(std::span<const float> vectors, std::size_t dim,
                           const GraphOptions& graph = {});
  /// The index that build() makes without a graph of the kept rows and of the added ones: every
  /// search gives the same rows and scores. added: row-major float32[added, dim]. Throws
  /// std::invalid_argument as build does, or if the sizes do not fit. O(rows * dim) copied.
  VectorIndex with_changes(const RowChanges& changes, std::span<const float> added) const;
  /// The same rows with a graph. Throws std::invalid_argument for an option out of range.
  VectorIndex with_graph(const GraphOptions& graph) const;
  VectorIndex(VectorIndex&&) noexcept;
  VectorIndex& operator=(VectorIndex&&) noexcept;
  ~VectorIndex();

  /// The k rows of `allowed` (nullptr: of all) with the highest cosine; fewer if there are fewer;
  /// none if the query is all zeros. ef: rows the graph search keeps, 0 for the measured one.
  /// Throws std::invalid_argument if the query's or the filter's size does not fit, a value is not
  /// finite, or the graph is asked for where there is none.
  Hits search(std::span<const float> query, std::size_t k, const Bitset* allowed = nullptr,
              Method method = Method::kAuto, std::size_t ef = 0) const;

  /// Cosine of the query with each of the rows: the same numbers that search gives. 0 for zeros.
  /// Throws std::invalid_argument as search does, or if a row is not in 0..size()-1.
  std::vector<float> scores(std::span<const float> query, std::span<const std::int32_t> rows) const;

  std::size_t size() const;
  std::size_t dim() const;
  bool has_graph() const;
  /// The ef that a search with ef = 0 uses; 0 without a graph.
  std::size_t default_ef() const;
  std::size_t memory_bytes() const;
  /// The approximate duration of a search for the k nearest of `allowed` rows. O(1).
  double expected_ns(std::size_t k, std::size_t allowed) const;
  /// The approximate duration of scores() for so many rows. O(1).
  double expected_scores_ns(std::size_t rows) const;
  /// The row, scaled to length 1. Throws std::invalid_argument if it is not in 0..size()-1.
  std::span<const float> vector(std::size_t row) const;

  void save(const std::string& path) const;
  static VectorIndex load(const std::string& path);
  /// The archive in memory. Throws ArchiveError unless every row and every link is sound.
  std::vector<std::byte> bytes() const;
  static VectorIndex from_bytes(std::vector<std::byte> bytes);

 private:
  struct Parts;
  explicit VectorIndex(std::unique_ptr<Parts> parts);
  ArchiveWriter archive() const;
  static VectorIndex read(ArchiveReader reader);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace toolroll
