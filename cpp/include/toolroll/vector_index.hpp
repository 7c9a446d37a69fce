/// Nearest vectors by cosine: an exact scan and a graph (HNSW) behind one search with a row filter.
///
/// The exact scan returns the best k float32 scores by construction: it bounds the scores of all
/// rows with 4-bit copies (from 10,000 rows on) or 8-bit ones, and then rescores every row that
/// could still be among the best. The graph search uses the same 8-bit copies and rescores the rows
/// that it finds. The number of rows that it must find for a recall of 0.99 is measured on the
/// index's own rows when it is built, because no fixed number is right for every kind of vector.
///
/// Any number of threads may search at once. The rows never change. The graph may come later
/// (GraphBuild): searches scan until it is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// How to build the graph. The same input gives the same graph. Source: Malkov & Yashunin,
/// "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small
/// World graphs", TPAMI 2020; built by hnswlib.
struct GraphOptions {
  bool wanted = false;
  std::size_t m = 16;                 ///< links a row, 2 to 128; twice as many on the lowest level
  std::size_t ef_construction = 200;  ///< candidates for a new row's links, at least m
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

  /// At least the cosine of the query with each of the rows, from their 8-bit copies: a quarter of
  /// the bytes that scores() reads. Throws as scores() does.
  std::vector<float> scores_at_most(std::span<const float> query,
                                    std::span<const std::int32_t> rows) const;

  std::size_t size() const;
  std::size_t dim() const;
  bool has_graph() const;
  /// The ef that a search with ef = 0 uses; 0 without a graph.
  std::size_t default_ef() const;
  std::size_t memory_bytes() const;
  /// The approximate duration of a search for the k nearest of `allowed` rows with this ef. O(1).
  double expected_ns(std::size_t k, std::size_t allowed, std::size_t ef = 0) const;
  /// The approximate duration of scores() for so many rows. O(1).
  double expected_scores_ns(std::size_t rows) const;
  /// The approximate duration of scores_at_most() for so many rows. O(1).
  double expected_bounds_ns(std::size_t rows) const;
  /// The row, scaled to length 1. Throws std::invalid_argument if it is not in 0..size()-1.
  std::span<const float> vector(std::size_t row) const;

  void save(const std::string& path) const;
  static VectorIndex load(const std::string& path);
  /// The archive in memory. Throws ArchiveError unless every row and every link is sound.
  std::vector<std::byte> bytes() const;
  static VectorIndex from_bytes(std::vector<std::byte> bytes);

  static constexpr std::string_view kKind = "vectors";
  static constexpr std::uint32_t kVersion = 2;
  /// The archive, which refers to this index.
  ArchiveWriter archive() const;
  /// An index whose rows and links are views of the archive's memory. Throws as from_bytes does.
  static VectorIndex read(ArchiveReader archive);
  /// The same as a part of another index's archive.
  void write_to(ArchiveWriter& archive) const;
  static VectorIndex read_from(ArchiveReader& archive);

 private:
  friend class GraphBuild;
  struct Parts;
  bool build_graph(const GraphOptions& options, const std::atomic<bool>& is_stopped,
                   std::atomic<std::size_t>& done) const;
  explicit VectorIndex(std::unique_ptr<Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

/// The build of an index's graph in a thread of its own, at the lowest priority that the system
/// has.
///
/// Searches scan meanwhile; those that begin after it may use the graph. A process that ends does
/// not wait for the thread. The child of a fork has no such thread: it makes another build.
class GraphBuild {
 public:
  /// Starts the thread. It takes 0.3 ms a row of 100,000 rows, and 400 bytes a row beside the
  /// graph. Throws std::invalid_argument if the index is missing or an option is out of its range,
  /// std::system_error if there is no thread.
  GraphBuild(std::shared_ptr<const VectorIndex> index, const GraphOptions& options);
  GraphBuild(const GraphBuild&) = delete;
  GraphBuild& operator=(const GraphBuild&) = delete;
  ~GraphBuild();  // as stop()

  /// Has the thread end soon, without a graph. Does not wait. From any thread.
  void stop();
  /// Whether the thread has work to do. Without, the index has a graph, unless it was stopped or
  /// there was no memory.
  bool is_running() const;
  /// Rows that are linked so far, of index.size().
  std::size_t done() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's, too
};

}  // namespace toolroll
