#include "toolroll/vector_index.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "dot_scan.hpp"
#include "hnsw_graph.hpp"
#include "hnsw_tuning.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

namespace {

/// The graph, and how to search it.
struct TunedGraph {
  HnswGraph links;
  Tuning tuning;
};

}  // namespace

struct VectorIndex::Parts {
  VectorRows rows;
  std::optional<Bitset> with_direction;  // the rows that are not zero, if some are

  /// nullptr as long as there is none.
  const TunedGraph* graph() const { return graph_.load(std::memory_order_acquire); }
  /// False if there is one already: a search may be using it.
  bool publish(std::unique_ptr<const TunedGraph> graph) const {
    const TunedGraph* none = nullptr;
    if (!graph_.compare_exchange_strong(none, graph.get(), std::memory_order_acq_rel)) return false;
    [[maybe_unused]] const TunedGraph* const owned = graph.release();
    return true;
  }
  ~Parts() { delete graph(); }

 private:
  mutable std::atomic<const TunedGraph*> graph_ = nullptr;  // owned; set once
};

namespace {

// The costs that expected_ns() adds up, for each number of a row, on one core of 2021 with
// AVX2 (`python -m bench --only vectors`). A scan in stages reads half a byte of each number; rows
// that outgrow the caches take twice as long as others.
constexpr double kScanNsPerByte = 0.06;  // in 8 bits
constexpr double kStagesNsPerNumber = 0.025;
constexpr double kScoreNsPerNumber = 0.15;  // of a row that lies anywhere, in float32
constexpr double kBoundNsPerByte = 0.08;    // of the same in 8 bits

void check_options(const GraphOptions& graph) {
  if (graph.m < 2 || graph.m > 128) {
    throw std::invalid_argument("graph: m is " + std::to_string(graph.m) + ", must be 2 to 128");
  }
  if (graph.ef_construction < graph.m || graph.ef_construction > 65536) {
    throw std::invalid_argument("graph: ef_construction is " +
                                std::to_string(graph.ef_construction) + ", must be m to 65536");
  }
}

std::optional<Bitset> rows_with_direction(const VectorRows& rows) {
  std::vector<std::int32_t> kept;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows.is_zero(row)) kept.push_back(static_cast<std::int32_t>(row));
  }
  if (kept.size() == rows.size()) return std::nullopt;
  return Bitset::of(rows.size(), kept);
}

/// nullptr if it was stopped.
std::unique_ptr<const TunedGraph> built(const VectorRows& rows,
                                        const std::optional<Bitset>& with_direction,
                                        const GraphOptions& options,
                                        const std::atomic<bool>& is_stopped,
                                        std::atomic<std::size_t>& done) {
  std::optional<HnswGraph> links = HnswGraph::build(rows, options, is_stopped, done);
  if (!links) return nullptr;
  const Tuning tuning = tune(rows, *links, with_direction, is_stopped);
  return std::make_unique<const TunedGraph>(TunedGraph{std::move(*links), tuning});
}

/// Of this thread. Where a system has no priority of a thread, nothing changes.
void lower_priority() {
#if defined(__linux__)
  // A thread inherits the real-time policy of the one that started it.
  const sched_param none = {};
  static_cast<void>(sched_setscheduler(0, SCHED_BATCH, &none));
  constexpr int kLowest = 19;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  static_cast<void>(setpriority(PRIO_PROCESS, thread, kLowest));
#endif
}

void check_rows(const VectorRows& rows, std::span<const float> query,
                std::span<const std::int32_t> wanted) {
  if (query.size() != rows.dim) {
    throw std::invalid_argument("query: has " + std::to_string(query.size()) +
                                " values, the index has " + std::to_string(rows.dim) +
                                " dimensions");
  }
  for (const std::int32_t row : wanted) {
    if (row < 0 || static_cast<std::size_t>(row) >= rows.size()) {
      throw std::invalid_argument("rows: row " + std::to_string(row) + " is not in 0.." +
                                  std::to_string(rows.size()) + " (excluded)");
    }
  }
}

/// The query of this thread. Its memory is reused from search to search.
Query& query_of_thread() {
  thread_local Query query;
  return query;
}

}  // namespace

VectorIndex::VectorIndex(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
VectorIndex::VectorIndex(VectorIndex&&) noexcept = default;
VectorIndex& VectorIndex::operator=(VectorIndex&&) noexcept = default;
VectorIndex::~VectorIndex() = default;

VectorIndex VectorIndex::build(std::span<const float> vectors, std::size_t dim,
                               const GraphOptions& graph) {
  if (dim == 0 || dim > kMaxDim) {
    throw std::invalid_argument("vectors: have " + std::to_string(dim) +
                                " dimensions, must be 1 to " + std::to_string(kMaxDim));
  }
  if (vectors.size() % dim != 0) {
    throw std::invalid_argument("vectors: " + std::to_string(vectors.size()) +
                                " values are no whole number of rows of " + std::to_string(dim));
  }
  check_options(graph);
  const std::size_t n = vectors.size() / dim;
  if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument("vectors: " + std::to_string(n) + " rows are too many");
  }
  auto parts = std::make_unique<Parts>();
  parts->rows = VectorRows::of(vectors, dim);
  parts->with_direction = rows_with_direction(parts->rows);
  if (graph.wanted) {
    const std::atomic<bool> is_stopped = false;
    std::atomic<std::size_t> done = 0;
    parts->publish(built(parts->rows, parts->with_direction, graph, is_stopped, done));
  }
  return VectorIndex(std::move(parts));
}

VectorIndex VectorIndex::with_changes(const RowChanges& changes,
                                      std::span<const float> added) const {
  const VectorRows& rows = parts_->rows;
  if (added.size() % rows.dim != 0) {
    throw std::invalid_argument("added: " + std::to_string(added.size()) +
                                " values are no whole number of rows of " +
                                std::to_string(rows.dim));
  }
  changes.check(rows.size(), added.size() / rows.dim);
  auto parts = std::make_unique<Parts>();
  parts->rows = rows.with_changes(changes, added);
  parts->with_direction = rows_with_direction(parts->rows);
  return VectorIndex(std::move(parts));
}

/// Hands the graph to the searches. False if it was stopped, or if there is one already.
bool VectorIndex::build_graph(const GraphOptions& options, const std::atomic<bool>& is_stopped,
                              std::atomic<std::size_t>& done) const {
  if (has_graph()) return false;
  auto graph = built(parts_->rows, parts_->with_direction, options, is_stopped, done);
  return graph != nullptr && !is_stopped && parts_->publish(std::move(graph));
}

struct GraphBuild::State {
  std::shared_ptr<const VectorIndex> index;
  GraphOptions options;
  std::atomic<bool> is_stopped = false;
  std::atomic<bool> is_running = true;
  std::atomic<std::size_t> done = 0;
};

GraphBuild::GraphBuild(std::shared_ptr<const VectorIndex> index, const GraphOptions& options)
    : state_(std::make_shared<State>()) {
  if (!index) throw std::invalid_argument("graph: the index is missing");
  check_options(options);
  state_->index = std::move(index);
  state_->options = options;
  std::thread([state = state_] {
    lower_priority();
    try {
      state->index->build_graph(state->options, state->is_stopped, state->done);
    } catch (...) {  // no memory: searches go on without a graph
    }
    state->index.reset();
    state->is_running = false;
  }).detach();
}

GraphBuild::~GraphBuild() { stop(); }

void GraphBuild::stop() { state_->is_stopped = true; }
bool GraphBuild::is_running() const { return state_->is_running; }
std::size_t GraphBuild::done() const { return state_->done; }

Hits VectorIndex::search(std::span<const float> query, std::size_t k, const Bitset* allowed,
                         Method method, std::size_t ef) const {
  const VectorRows& rows = parts_->rows;
  if (query.size() != rows.dim) {
    throw std::invalid_argument("query: has " + std::to_string(query.size()) +
                                " values, the index has " + std::to_string(rows.dim) +
                                " dimensions");
  }
  if (allowed != nullptr && allowed->size() != rows.size()) {
    throw std::invalid_argument("allowed: is a set over " + std::to_string(allowed->size()) +
                                " rows, the index has " + std::to_string(rows.size()));
  }
  if (method == Method::kGraph && !has_graph()) {
    throw std::invalid_argument("method: 'graph', but the index was built without one");
  }
  Hits hits;
  Query& unit = query_of_thread();
  if (!unit.set(query)) return hits;

  std::optional<Bitset> both;
  if (parts_->with_direction) {
    if (allowed != nullptr) both = *allowed & *parts_->with_direction;
    allowed = both ? &*both : &*parts_->with_direction;
  }
  const std::size_t count =
      allowed == nullptr ? rows.size()
                         : dot_kernels().ones(allowed->words().data(), allowed->words().size());
  k = std::min(k, count);
  if (k == 0) return hits;

  Best best(k);
  const TunedGraph* const graph = method == Method::kExact ? nullptr : parts_->graph();
  if (graph != nullptr &&
      (method == Method::kGraph ||
       graph->tuning.prefers_graph(rows.size(), count, ef == 0 ? graph->tuning.ef_for(k) : ef))) {
    ef = std::max(ef == 0 ? graph->tuning.ef_for(k) : ef, k);
    if (search_graph(rows, graph->links, unit, k, ef, allowed, count, best)) {
      best.take(hits.rows, hits.scores);
      if (method == Method::kGraph || graph->tuning.is_familiar(hits.scores)) return hits;
    }
    best = Best(k);
  }
  scan(rows, unit, k, allowed, count, best);
  best.take(hits.rows, hits.scores);
  return hits;
}

std::vector<float> VectorIndex::scores(std::span<const float> query,
                                       std::span<const std::int32_t> wanted) const {
  const VectorRows& rows = parts_->rows;
  check_rows(rows, query, wanted);
  std::vector<float> out(wanted.size());
  Query& unit = query_of_thread();
  if (unit.set(query)) {
    dot_kernels().f32_at(unit.full(), rows.full.data(), wanted.data(), wanted.size(), rows.width(),
                         out.data());
  }
  return out;
}

std::vector<float> VectorIndex::scores_at_most(std::span<const float> query,
                                               std::span<const std::int32_t> wanted) const {
  const VectorRows& rows = parts_->rows;
  check_rows(rows, query, wanted);
  std::vector<float> upper(wanted.size());
  Query& unit = query_of_thread();
  if (!unit.set(query)) return upper;
  constexpr std::size_t kBlock = 256;  // products of a block stay in the first-level cache
  std::array<std::int32_t, kBlock> products;
  std::array<float, kBlock> step;
  std::array<float, kBlock> error;
  std::array<float, kBlock> lower;
  const DotKernels& dot = dot_kernels();
  for (std::size_t first = 0; first < wanted.size(); first += kBlock) {
    const auto at = wanted.subspan(first, std::min(kBlock, wanted.size() - first));
    dot.i8_at(unit.small(), rows.small.data(), at.data(), at.size(), rows.width(), products.data());
    for (std::size_t i = 0; i < at.size(); ++i) {
      step[i] = rows.step[static_cast<std::size_t>(at[i])];
      error[i] = rows.error[static_cast<std::size_t>(at[i])];
    }
    dot.bounds(products.data(), step.data(), error.data(), at.size(), unit.terms(), lower.data(),
               upper.data() + first);
  }
  return upper;
}

std::size_t VectorIndex::size() const { return parts_->rows.size(); }
std::size_t VectorIndex::dim() const { return parts_->rows.dim; }
bool VectorIndex::has_graph() const { return parts_->graph() != nullptr; }
std::size_t VectorIndex::default_ef() const { return has_graph() ? parts_->graph()->tuning.ef : 0; }

std::size_t VectorIndex::memory_bytes() const {
  return parts_->rows.memory_bytes() +
         (parts_->with_direction ? parts_->with_direction->words().size_bytes() : 0) +
         (has_graph() ? parts_->graph()->links.memory_bytes() : 0);
}

double VectorIndex::expected_ns(std::size_t k, std::size_t allowed, std::size_t ef) const {
  const std::size_t n = size();
  const std::size_t count = std::min(allowed, n);
  if (count == 0) return 0;
  const double row_ns = kScanNsPerByte * static_cast<double>(parts_->rows.width());
  const double scan_ns =
      scans_in_stages(parts_->rows, count)
          ? kStagesNsPerNumber * static_cast<double>(parts_->rows.width()) * static_cast<double>(n)
          : row_ns * static_cast<double>(count);
  const TunedGraph* const graph = parts_->graph();
  if (graph == nullptr) return scan_ns;
  const Tuning& tuning = graph->tuning;
  if (ef == 0) ef = tuning.ef_for(k);
  if (!tuning.prefers_graph(n, count, ef)) return scan_ns;
  return tuning.visits_for(n, count, ef) * static_cast<double>(kScannedPerVisit) * row_ns;
}

double VectorIndex::expected_scores_ns(std::size_t rows) const {
  return kScoreNsPerNumber * static_cast<double>(parts_->rows.width()) * static_cast<double>(rows);
}

double VectorIndex::expected_bounds_ns(std::size_t rows) const {
  return kBoundNsPerByte * static_cast<double>(parts_->rows.width()) * static_cast<double>(rows);
}

std::span<const float> VectorIndex::vector(std::size_t row) const {
  if (row >= size()) {
    throw std::invalid_argument("row " + std::to_string(row) + " is not in 0.." +
                                std::to_string(size()) + " (excluded)");
  }
  return {parts_->rows.full.row(row), dim()};
}

void VectorIndex::write_to(ArchiveWriter& out) const {
  parts_->rows.save(out);
  const TunedGraph* const graph = parts_->graph();
  out.value<std::uint8_t>(graph == nullptr ? 0 : 1);
  if (graph != nullptr) {
    graph->links.save(out);
    out.value<std::uint64_t>(graph->tuning.ef);
    out.value<std::uint64_t>(graph->tuning.visits);
    out.column(std::span<const float>(graph->tuning.least));
  }
}

VectorIndex VectorIndex::read_from(ArchiveReader& in) {
  auto parts = std::make_unique<Parts>();
  parts->rows = VectorRows::load(in);
  parts->with_direction = rows_with_direction(parts->rows);
  const auto with_graph = in.value<std::uint8_t>();
  if (with_graph > 1) throw ArchiveError("damaged vector index: unclear whether it has a graph");
  if (with_graph == 1) {
    auto graph = std::make_unique<TunedGraph>();
    graph->links = HnswGraph::load(in, parts->rows.size());
    Tuning& tuning = graph->tuning;
    tuning.ef = in.value<std::uint64_t>();
    tuning.visits = in.value<std::uint64_t>();
    const std::vector<float> least = in.column<float>();
    if (least.size() != Tuning::kTunedFor) throw ArchiveError("damaged vector index: its tuning");
    std::ranges::copy(least, tuning.least.begin());
    if (!tuning.is_sound(parts->rows.size())) {
      throw ArchiveError("damaged vector index: its graph is to be searched in an impossible way");
    }
    parts->publish(std::move(graph));
  }
  return VectorIndex(std::move(parts));
}

ArchiveWriter VectorIndex::archive() const {
  ArchiveWriter out(kKind, kVersion);
  write_to(out);
  return out;
}

VectorIndex VectorIndex::read(ArchiveReader in) {
  VectorIndex index = read_from(in);
  in.finish();
  return index;
}

void VectorIndex::save(const std::string& path) const { archive().save(path); }

VectorIndex VectorIndex::load(const std::string& path) {
  return read(ArchiveReader::load(path, kKind, kVersion));
}

std::vector<std::byte> VectorIndex::bytes() const { return archive().bytes(); }

VectorIndex VectorIndex::from_bytes(std::vector<std::byte> bytes) {
  return read(ArchiveReader(std::move(bytes), kKind, kVersion));
}

}  // namespace toolroll
