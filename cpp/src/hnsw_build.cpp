#include <hnswlib/hnswlib.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "hnsw_graph.hpp"

namespace toolroll {
namespace {

/// hnswlib's view of an 8-bit row: its values, then its step. Its own metrics are compiled for the
/// baseline in a portable build; this one is our dispatched kernel.
class SmallSpace : public hnswlib::SpaceInterface<float> {
 public:
  explicit SmallSpace(std::size_t width) : metric_{width, dot_kernels().i8} {}

  std::size_t get_data_size() override { return metric_.width + sizeof(float); }
  hnswlib::DISTFUNC<float> get_dist_func() override { return distance; }
  void* get_dist_func_param() override { return &metric_; }

 private:
  struct Metric {
    std::size_t width;
    decltype(DotKernels::i8) dot;
  };
  static float distance(const void* a, const void* b, const void* parameter) {
    const auto& metric = *static_cast<const Metric*>(parameter);
    const auto* const first = static_cast<const std::int8_t*>(a);
    const auto* const second = static_cast<const std::int8_t*>(b);
    std::int32_t product;
    metric.dot(first, second, 1, metric.width, &product);
    float step_a;
    float step_b;
    std::memcpy(&step_a, first + metric.width, sizeof step_a);
    std::memcpy(&step_b, second + metric.width, sizeof step_b);
    return 1.0F - static_cast<float>(product) * step_a * step_b;
  }
  Metric metric_;
};

/// SplitMix64's finaliser: levels depend on the row number alone, on every platform.
/// Source: Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
double uniform(std::uint64_t row) {
  std::uint64_t x = (row + 1) * 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  x ^= x >> 31;
  return static_cast<double>((x >> 11) + 1) * 0x1p-53;  // in (0, 1]
}

}  // namespace

/// Inserts with hnswlib's search and linking, but not with its addPoint.
///
/// addPoint draws levels from a generator of its own. Here a row's level follows from its number,
/// and the rows of the upper levels come first, highest first, so that the entry never changes and
/// the same rows give the same graph.
class HnswBuilder {
 public:
  HnswBuilder(const VectorRows& rows, const GraphOptions& options,
              const std::atomic<bool>& is_stopped, std::atomic<std::size_t>& done)
      : rows_(rows), options_(options), is_stopped_(is_stopped), done_(done), space_(rows.width()) {
    const double scale = 1.0 / std::log(static_cast<double>(options.m));
    levels_.resize(rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.is_zero(row)) continue;
      order_.push_back(static_cast<std::int32_t>(row));
      levels_[row] = static_cast<int>(std::min(-std::log(uniform(row)) * scale, kHighest));
    }
    std::ranges::stable_sort(order_, [this](std::int32_t a, std::int32_t b) {
      return levels_[static_cast<std::size_t>(a)] > levels_[static_cast<std::size_t>(b)];
    });
  }

  std::optional<HnswGraph> run() {
    if (!order_.empty()) {
      prepare();
      ++done_;
      for (std::size_t i = 1; i < order_.size(); ++i) insert(i);  // the first row is the entry
    }
    if (is_stopped_) return std::nullopt;
    return flatten();
  }

 private:
  static constexpr double kHighest = 16.0;  // 16^16 rows

  int level(std::size_t i) const { return levels_[static_cast<std::size_t>(order_[i])]; }

  /// Gives hnswlib all rows at once, unlinked: its row i is the i-th of order_.
  void prepare() {
    graph_ = std::make_unique<hnswlib::HierarchicalNSW<float>>(&space_, order_.size(), options_.m,
                                                               options_.ef_construction);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto row = static_cast<std::size_t>(order_[i]);
      const auto id = static_cast<hnswlib::tableint>(i);
      char* const element = graph_->data_level0_memory_ + i * graph_->size_data_per_element_;
      std::memset(element, 0, graph_->size_data_per_element_);
      char* const payload = graph_->getDataByInternalId(id);
      std::memcpy(payload, rows_.small.row(row), rows_.width());
      std::memcpy(payload + rows_.width(), &rows_.step[row], sizeof(float));
      if (level(i) > 0) {
        // hnswlib prefetches by reading one link behind the last list.
        const std::size_t bytes =
            graph_->size_links_per_element_ * static_cast<std::size_t>(level(i)) +
            sizeof(hnswlib::tableint);
        graph_->linkLists_[i] = static_cast<char*>(std::calloc(1, bytes));  // hnswlib calls free
        if (graph_->linkLists_[i] == nullptr) throw std::bad_alloc();
      }
      graph_->element_levels_[i] = level(i);
      graph_->cur_element_count = i + 1;
    }
    graph_->enterpoint_node_ = 0;
    graph_->maxlevel_ = level(0);
  }

  void insert(std::size_t i) {
    if (is_stopped_) return;
    const auto id = static_cast<hnswlib::tableint>(i);
    const char* const payload = graph_->getDataByInternalId(id);
    hnswlib::tableint here = descend(payload, level(i));
    for (int at = level(i); at >= 0; --at) {
      auto nearest = graph_->searchBaseLayer(here, payload, at);
      // "Update" makes hnswlib take the row's own lock while it writes its links.
      here = graph_->mutuallyConnectNewElement(payload, id, nearest, at, true);
    }
    ++done_;
  }

  /// From the entry to the nearest row on the level above `last`, greedily.
  hnswlib::tableint descend(const char* payload, int last) const {
    hnswlib::tableint here = 0;
    float nearest = distance(payload, here);
    for (int at = level(0); at > last; --at) {
      for (bool moved = true; moved;) {
        moved = false;
        const hnswlib::linklistsizeint* const list = graph_->get_linklist(here, at);
        const std::size_t count = *reinterpret_cast<const unsigned short*>(list);
        for (std::size_t j = 1; j <= count; ++j) {
          const float far = distance(payload, list[j]);
          if (far < nearest) {
            nearest = far;
            here = list[j];
            moved = true;
          }
        }
      }
    }
    return here;
  }

  float distance(const char* payload, hnswlib::tableint other) const {
    return graph_->fstdistfunc_(payload, graph_->getDataByInternalId(other),
                                graph_->dist_func_param_);
  }

  HnswGraph flatten() const {
    const std::size_t n = rows_.size();
    HnswGraph flat;
    flat.m_ = options_.m;
    std::vector<std::int32_t> base(n * 2 * options_.m, HnswGraph::kNone);
    std::vector<std::uint32_t> upper_at(n + 1, 0);
    for (std::size_t row = 0; row < n; ++row) {
      upper_at[row + 1] = upper_at[row] + static_cast<std::uint32_t>(levels_[row]);
    }
    std::vector<std::int32_t> upper(std::size_t{upper_at.back()} * options_.m, HnswGraph::kNone);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto row = static_cast<std::size_t>(order_[i]);
      for (int at = 0; at <= level(i); ++at) {
        const auto id = static_cast<hnswlib::tableint>(i);
        const hnswlib::linklistsizeint* const list = graph_->get_linklist_at_level(id, at);
        const std::size_t count = *reinterpret_cast<const unsigned short*>(list);
        std::int32_t* const out =
            at == 0
                ? base.data() + row * 2 * options_.m
                : upper.data() + (upper_at[row] + static_cast<std::size_t>(at) - 1) * options_.m;
        for (std::size_t j = 0; j < count; ++j) out[j] = order_[list[j + 1]];
      }
    }
    flat.base_ = std::move(base);
    flat.upper_at_ = std::move(upper_at);
    flat.upper_ = std::move(upper);
    if (!order_.empty()) flat.entry_ = order_.front();
    return flat;
  }

  const VectorRows& rows_;
  const GraphOptions& options_;
  const std::atomic<bool>& is_stopped_;
  std::atomic<std::size_t>& done_;
  SmallSpace space_;
  std::vector<int> levels_;          // of each row
  std::vector<std::int32_t> order_;  // rows that are not zero, as they are inserted
  std::unique_ptr<hnswlib::HierarchicalNSW<float>> graph_;
};

std::optional<HnswGraph> HnswGraph::build(const VectorRows& rows, const GraphOptions& options,
                                          const std::atomic<bool>& is_stopped,
                                          std::atomic<std::size_t>& done) {
  return HnswBuilder(rows, options, is_stopped, done).run();
}

}  // namespace toolroll
