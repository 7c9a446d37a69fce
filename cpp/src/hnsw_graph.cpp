#include "hnsw_graph.hpp"

#include <algorithm>
#include <string>

#include "prefetch.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kMaxLevel = 32;
constexpr std::size_t kLine = 64;       // bytes of a cache line
constexpr std::size_t kMaxLinks = 256;  // of a row on the lowest level

/// What a walk needs besides the graph; one for each thread, kept from walk to walk.
struct Scratch {
  std::vector<std::uint64_t> seen;  // a bit for each row
  std::vector<std::uint64_t>
      queue;  // heap of ranks, best in front: rows whose links were not followed
};

bool mark(std::vector<std::uint64_t>& seen, std::int32_t row) {
  const auto at = static_cast<std::size_t>(row);
  const std::uint64_t bit = std::uint64_t{1} << (at % 64);
  const bool is_new = (seen[at / 64] & bit) == 0;
  seen[at / 64] |= bit;
  return is_new;
}

/// 8-bit products of the query with up to kMaxLinks rows, scaled; the query's own step left out.
class Products {
 public:
  Products(const VectorRows& rows, const Query& query) : rows_(rows), query_(query) {}

  /// Asks for what the product with a row reads.
  void prefetch(std::int32_t at) const {
    const auto row = static_cast<std::size_t>(at);
    const std::int8_t* const values = rows_.small.row(row);
    for (std::size_t i = 0; i < rows_.width(); i += kLine) toolroll::prefetch(values + i);
    toolroll::prefetch(&rows_.step[row]);
  }

  const float* operator()(const std::int32_t* at, std::size_t count) {
    dot_.i8_at(query_.small(), rows_.small.data(), at, count, rows_.width(), exact_);
    for (std::size_t i = 0; i < count; ++i) {
      scores_[i] = static_cast<float>(exact_[i]) * rows_.step[static_cast<std::size_t>(at[i])];
    }
    return scores_;
  }

 private:
  const VectorRows& rows_;
  const Query& query_;
  const DotKernels& dot_ = dot_kernels();
  std::int32_t exact_[kMaxLinks];
  float scores_[kMaxLinks];
};

[[noreturn]] void damaged(const std::string& what) {
  throw ArchiveError("damaged vector index: " + what);
}

}  // namespace

HnswGraph::Walk HnswGraph::walk(const VectorRows& rows, const Query& query, const Bitset* allowed,
                                std::size_t budget, Best& found) const {
  if (entry_ == kNone) return {true, 0};
  Products products(rows, query);
  std::size_t visited = 1;
  std::int32_t here = entry_;
  float score = *products(&here, 1);

  // Down to the lowest level: step to the best neighbour while it is better.
  for (std::size_t level = this->level(static_cast<std::size_t>(entry_)); level > 0; --level) {
    for (bool moved = true; moved;) {
      moved = false;
      const std::int32_t* const list = this->list(here, level);
      std::size_t count = 0;
      while (count < m_ && list[count] != kNone) ++count;
      const float* const scores = products(list, count);
      visited += count;
      for (std::size_t i = 0; i < count; ++i) {
        if (scores[i] > score) {
          score = scores[i];
          here = list[i];
          moved = true;
        }
      }
    }
  }

  // On the lowest level: follow the best row that was not followed yet, until it is worse than the
  // ef best allowed ones. Rows that the filter forbids lead on, but are never found.
  thread_local Scratch scratch;
  auto& [seen, queue] = scratch;
  seen.assign((rows.size() + 63) / 64, 0);
  queue.clear();
  const auto is_allowed = [&](std::int32_t row) {
    return allowed == nullptr || allowed->contains(static_cast<std::size_t>(row));
  };
  mark(seen, here);
  queue.push_back(rank(score, here));
  if (is_allowed(here)) found.offer(score, here);
  const auto prefetch_list = [&](std::int32_t row) {
    const std::int32_t* const list = this->list(row, 0);
    for (std::size_t i = 0; i < 2 * m_; i += kLine / sizeof *list) prefetch(list + i);
  };
  std::int32_t fresh[kMaxLinks];
  while (!queue.empty() && ranked_score(queue.front()) >= found.threshold()) {
    if (visited > budget) return {false, visited};
    here = ranked_row(queue.front());
    std::ranges::pop_heap(queue);
    queue.pop_back();
    if (!queue.empty()) prefetch_list(ranked_row(queue.front()));
    const std::int32_t* const list = this->list(here, 0);
    std::size_t count = 0;
    for (std::size_t i = 0; i < 2 * m_ && list[i] != kNone; ++i) {
      if (!mark(seen, list[i])) continue;
      products.prefetch(list[i]);
      fresh[count++] = list[i];
    }
    const float* const scores = products(fresh, count);
    visited += count;
    for (std::size_t i = 0; i < count; ++i) {
      if (scores[i] < found.threshold()) continue;
      queue.push_back(rank(scores[i], fresh[i]));
      std::ranges::push_heap(queue);
      if (is_allowed(fresh[i])) found.offer(scores[i], fresh[i]);
    }
  }
  return {true, visited};
}

std::size_t HnswGraph::memory_bytes() const {
  return base_.memory_bytes() + upper_at_.memory_bytes() + upper_.memory_bytes();
}

void HnswGraph::save(ArchiveWriter& archive) const {
  archive.value<std::uint32_t>(static_cast<std::uint32_t>(m_));
  archive.value<std::int32_t>(entry_);
  archive.array(base_);
  archive.array(upper_at_);
  archive.array(upper_);
}

HnswGraph HnswGraph::load(ArchiveReader& archive, std::size_t n) {
  HnswGraph graph;
  graph.m_ = archive.value<std::uint32_t>();
  graph.entry_ = archive.value<std::int32_t>();
  graph.base_ = archive.array<std::int32_t>();
  graph.upper_at_ = archive.array<std::uint32_t>();
  graph.upper_ = archive.array<std::int32_t>();
  graph.check(n);
  return graph;
}

/// What walk relies on: lists of the stated length, only links to rows, only to rows that are on
/// that level too, and an entry on the highest level.
void HnswGraph::check(std::size_t n) const {
  if (m_ < 2 || 2 * m_ > kMaxLinks) damaged("its graph has " + std::to_string(m_) + " links a row");
  if (base_.size() != n * 2 * m_ || upper_at_.size() != n + 1) {
    damaged("its graph is not one of " + std::to_string(n) + " rows");
  }
  if (upper_at_.front() != 0 || upper_.size() != std::size_t{upper_at_.back()} * m_) {
    damaged("the upper levels of its graph are not as long as stated");
  }
  std::size_t highest = 0;
  for (std::size_t row = 0; row < n; ++row) {
    if (upper_at_[row] > upper_at_[row + 1] || level(row) > kMaxLevel) {
      damaged("row " + std::to_string(row) + " is on an impossible level");
    }
    highest = std::max(highest, level(row));
  }
  if (entry_ != kNone && (entry_ < 0 || static_cast<std::size_t>(entry_) >= n ||
                          level(static_cast<std::size_t>(entry_)) != highest)) {
    damaged("the entry of its graph is not on the highest level");
  }
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t at = 0; at <= level(row); ++at) {
      const std::int32_t* const list = this->list(static_cast<std::int32_t>(row), at);
      bool ended = false;
      for (std::size_t i = 0; i < links(at); ++i) {
        if (list[i] == kNone) {
          ended = true;
        } else if (ended || list[i] < 0 || static_cast<std::size_t>(list[i]) >= n ||
                   level(static_cast<std::size_t>(list[i])) < at) {
          damaged("row " + std::to_string(row) + " links to " + std::to_string(list[i]));
        }
      }
    }
  }
}

}  // namespace toolroll
