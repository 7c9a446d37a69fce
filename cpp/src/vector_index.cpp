#include "toolroll/vector_index.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "dot_scan.hpp"
#include "hnsw_graph.hpp"
#include "hnsw_tuning.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

struct VectorIndex::Parts {
  VectorRows rows;
  std::optional<Bitset> with_direction;  // the rows that are not zero, if some are
  std::optional<HnswGraph> graph;
  Tuning tuning;
};

namespace {

constexpr char kKind[] = "vectors";
constexpr std::uint32_t kVersion = 1;

// The costs that expected_ns() adds up, measured on one core of 2021 with AVX2. One byte of a row
// is one number of its 8-bit copy.
constexpr double kScanNsPerByte = 0.06;
constexpr double kScoreNsPerNumber = 0.15;  // of a row that lies anywhere, in float32

void check_options(const GraphOptions& graph) {
  if (graph.m < 2 || graph.m > 128) {
    throw std::invalid_argument("graph: m is " + std::to_string(graph.m) + ", must be 2 to 128");
  }
  if (graph.ef_construction < graph.m || graph.ef_construction > 65536) {
    throw std::invalid_argument("graph: ef_construction is " +
                                std::to_string(graph.ef_construction) + ", must be m to 65536");
  }
  if (graph.threads < 1 || graph.threads > 256) {
    throw std::invalid_argument("graph: threads is " + std::to_string(graph.threads) +
                                ", must be 1 to 256");
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
  parts->rows = VectorRows(n, dim);
  for (std::size_t row = 0; row < n; ++row) {
    if (!parts->rows.assign(row, vectors.subspan(row * dim, dim))) {
      throw std::invalid_argument("vectors: row " + std::to_string(row) +
                                  " has a value that is not finite");
    }
  }
  parts->with_direction = rows_with_direction(parts->rows);
  if (graph.wanted) {
    parts->graph = HnswGraph::build(parts->rows, graph);
    parts->tuning = tune(parts->rows, *parts->graph, parts->with_direction);
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
  parts->rows = VectorRows(changes.size(), rows.dim);
  std::size_t next = 0;
  for (std::size_t row = 0; row < changes.size(); ++row) {
    const std::int32_t source = changes.sources()[row];
    if (source != RowChanges::kNone) {
      parts->rows.copy(row, rows, static_cast<std::size_t>(source));
    } else if (!parts->rows.assign(row, added.subspan(rows.dim * next++, rows.dim))) {
      throw std::invalid_argument("added: row " + std::to_string(next - 1) +
                                  " has a value that is not finite");
    }
  }
  parts->with_direction = rows_with_direction(parts->rows);
  return VectorIndex(std::move(parts));
}

VectorIndex VectorIndex::with_graph(const GraphOptions& graph) const {
  check_options(graph);
  auto parts = std::make_unique<Parts>();
  parts->rows = VectorRows(size(), dim());
  for (std::size_t row = 0; row < size(); ++row) parts->rows.copy(row, parts_->rows, row);
  parts->with_direction = parts_->with_direction;
  parts->graph = HnswGraph::build(parts->rows, graph);
  parts->tuning = tune(parts->rows, *parts->graph, parts->with_direction);
  return VectorIndex(std::move(parts));
}

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
  const bool walks =
      parts_->graph && method != Method::kExact &&
      (method == Method::kGraph || parts_->tuning.prefers_graph(rows.size(), count, k));
  if (walks) {
    ef = std::max(ef == 0 ? parts_->tuning.ef_for(k) : ef, k);
    if (search_graph(rows, *parts_->graph, unit, k, ef, allowed, count, best)) {
      best.take(hits.rows, hits.scores);
      if (method == Method::kGraph || parts_->tuning.is_familiar(hits.scores)) return hits;
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
  std::vector<float> out(wanted.size());
  Query& unit = query_of_thread();
  if (unit.set(query)) {
    dot_kernels().f32_at(unit.full(), rows.full.data(), wanted.data(), wanted.size(), rows.width(),
                         out.data());
  }
  return out;
}

std::size_t VectorIndex::size() const { return parts_->rows.size(); }
std::size_t VectorIndex::dim() const { return parts_->rows.dim; }
bool VectorIndex::has_graph() const { return parts_->graph.has_value(); }
std::size_t VectorIndex::default_ef() const { return has_graph() ? parts_->tuning.ef : 0; }

std::size_t VectorIndex::memory_bytes() const {
  return parts_->rows.memory_bytes() +
         (parts_->with_direction ? parts_->with_direction->words().size_bytes() : 0) +
         (parts_->graph ? parts_->graph->memory_bytes() : 0);
}

double VectorIndex::expected_ns(std::size_t k, std::size_t allowed) const {
  const std::size_t n = size();
  const std::size_t count = std::min(allowed, n);
  if (count == 0) return 0;
  const double row_ns = kScanNsPerByte * static_cast<double>(parts_->rows.width());
  const double scan_ns = row_ns * static_cast<double>(count);
  if (!has_graph() || !parts_->tuning.prefers_graph(n, count, k)) return scan_ns;
  const Tuning& tuning = parts_->tuning;
  const double visits = static_cast<double>(tuning.visits) * static_cast<double>(tuning.ef_for(k)) /
                        static_cast<double>(tuning.ef) * static_cast<double>(n) /
                        static_cast<double>(count);
  return visits * static_cast<double>(kScannedPerVisit) * row_ns;
}

double VectorIndex::expected_scores_ns(std::size_t rows) const {
  return kScoreNsPerNumber * static_cast<double>(parts_->rows.width()) * static_cast<double>(rows);
}

std::span<const float> VectorIndex::vector(std::size_t row) const {
  if (row >= size()) {
    throw std::invalid_argument("row " + std::to_string(row) + " is not in 0.." +
                                std::to_string(size()) + " (excluded)");
  }
  return {parts_->rows.full.row(row), dim()};
}

ArchiveWriter VectorIndex::archive() const {
  const VectorRows& rows = parts_->rows;
  ArchiveWriter out(kKind, kVersion);
  out.value<std::uint64_t>(rows.dim);
  if (rows.width() == rows.dim) {
    out.column(std::span<const float>(rows.full.data(), rows.size() * rows.dim));
  } else {
    std::vector<float> packed;
    packed.reserve(rows.size() * rows.dim);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      packed.insert(packed.end(), rows.full.row(row), rows.full.row(row) + rows.dim);
    }
    out.column(packed);
  }
  out.value<std::uint8_t>(has_graph() ? 1 : 0);
  if (parts_->graph) {
    parts_->graph->save(out);
    out.value<std::uint64_t>(parts_->tuning.ef);
    out.value<std::uint64_t>(parts_->tuning.visits);
    out.column(std::span<const float>(parts_->tuning.least));
  }
  return out;
}

VectorIndex VectorIndex::read(ArchiveReader in) {
  const auto dim = in.value<std::uint64_t>();
  if (dim == 0 || dim > kMaxDim) {
    throw ArchiveError("damaged vector index: it has " + std::to_string(dim) + " dimensions");
  }
  auto parts = std::make_unique<Parts>();
  {
    const std::vector<float> packed = in.column<float>();
    const std::size_t n = packed.size() / dim;
    if (packed.size() % dim != 0 ||
        n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      throw ArchiveError("damaged vector index: its rows are not of one width");
    }
    parts->rows = VectorRows(n, dim);
    for (std::size_t row = 0; row < n; ++row) {
      // The rows are scaled already. Scaling them again would change their last digits.
      float* const out = parts->rows.full.row(row);
      std::ranges::copy(std::span(packed).subspan(row * dim, dim), out);
      const double squares = dot_kernels().squares(out, parts->rows.width());
      if (!(squares == 0 || std::abs(squares - 1) < 1e-5)) {
        throw ArchiveError("damaged vector index: row " + std::to_string(row) +
                           " is not of length 1");
      }
      parts->rows.quantise(row);
    }
  }
  parts->with_direction = rows_with_direction(parts->rows);
  const auto with_graph = in.value<std::uint8_t>();
  if (with_graph > 1) throw ArchiveError("damaged vector index: unclear whether it has a graph");
  if (with_graph == 1) {
    parts->graph = HnswGraph::load(in, parts->rows.size());
    parts->tuning.ef = in.value<std::uint64_t>();
    parts->tuning.visits = in.value<std::uint64_t>();
    const std::vector<float> least = in.column<float>();
    if (least.size() != Tuning::kTunedFor) throw ArchiveError("damaged vector index: its tuning");
    std::ranges::copy(least, parts->tuning.least.begin());
    if (!parts->tuning.is_sound(parts->rows.size())) {
      throw ArchiveError("damaged vector index: its graph is to be searched in an impossible way");
    }
  }
  in.finish();
  return VectorIndex(std::move(parts));
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
