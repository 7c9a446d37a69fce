#include "hnsw_tuning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace toolroll {
namespace {

constexpr std::size_t kQueries = 200;
// Real queries differ from the generated ones, so the target is above the promise.
constexpr double kRecall = 0.995;

bool walk_and_rescore(const VectorRows& rows, const HnswGraph& graph, const Query& query,
                      std::size_t k, std::size_t ef, const Bitset* allowed, std::size_t budget,
                      std::size_t& visited, Best& best) {
  Best found(ef);
  const HnswGraph::Walk walk = graph.walk(rows, query, allowed, budget, found);
  visited = walk.visited;
  if (!walk.finished) return false;

  thread_local std::vector<std::int32_t> at;
  thread_local std::vector<float> products;
  thread_local std::vector<Candidate> candidates;
  found.take(at, products);
  candidates.clear();
  Best floor(std::min(k, at.size()));
  for (std::size_t i = 0; i < at.size(); ++i) {
    const float about = products[i] * query.step();
    const float slack = query.slack(rows.error[static_cast<std::size_t>(at[i])]);
    candidates.push_back({at[i], about + slack});
    floor.offer(about - slack, at[i]);
  }
  rescore(rows, query, candidates, floor.threshold(), best);
  return true;
}

/// Between two rows: nearer to the first than to the second, and to no third one by construction.
std::vector<float> between(const VectorRows& rows, std::size_t a, std::size_t b) {
  std::vector<float> x(rows.dim);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = rows.full.row(a)[i] + 0.8F * rows.full.row(b)[i];
  return x;
}

}  // namespace

bool Tuning::prefers_graph(std::size_t n, std::size_t count, std::size_t k) const {
  // A walk that keeps ef allowed rows looks at n / count times as many.
  const double walk = static_cast<double>(visits) * static_cast<double>(ef_for(k)) /
                      static_cast<double>(ef) * static_cast<double>(n) / static_cast<double>(count);
  return walk * static_cast<double>(kScannedPerVisit) < static_cast<double>(count);
}

bool Tuning::is_sound(std::size_t n) const {
  return ef >= 1 && ef <= kMaxEf && visits <= n &&
         std::ranges::all_of(least, [](float cosine) { return std::abs(cosine) <= 1.1F; });
}

Tuning tune(const VectorRows& rows, const HnswGraph& graph, const std::optional<Bitset>& allowed) {
  std::vector<std::size_t> some;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows.is_zero(row)) some.push_back(row);
  }
  const std::size_t k = std::min(Tuning::kTunedFor, some.size());
  if (k == 0) return {1, 0, {}};

  std::vector<Query> queries(kQueries);
  std::vector<float> worst(kQueries);  // of the true best k
  std::array<float, Tuning::kTunedFor> least;
  least.fill(1.0F);
  std::vector<std::int32_t> at;
  std::vector<float> scores;
  for (std::size_t i = 0; i < kQueries; ++i) {
    // Spread over the rows without a pattern that the rows' own order could share.
    const std::size_t a = some[(i * 2654435761U) % some.size()];
    const std::size_t b = some[(i * 2246822519U + 12345) % some.size()];
    if (!queries[i].set(between(rows, a, b)))
      static_cast<void>(queries[i].set({rows.full.row(a), rows.dim}));
    Best best(k);
    scan(rows, queries[i], k, allowed ? &*allowed : nullptr, some.size(), best);
    best.take(at, scores);
    worst[i] = scores.back();
    for (std::size_t j = 0; j < k; ++j) least[j] = std::min(least[j], scores[j]);
  }

  Tuning tuning;
  for (std::size_t ef = 16; ef <= Tuning::kMaxEf; ef += ef / 4) {
    std::size_t hits = 0;
    std::size_t visits = 0;
    for (std::size_t i = 0; i < kQueries; ++i) {
      Best best(k);
      std::size_t visited = 0;
      walk_and_rescore(rows, graph, queries[i], k, std::max(ef, k), nullptr,
                       std::numeric_limits<std::size_t>::max(), visited, best);
      best.take(at, scores);
      visits += visited;
      for (const float score : scores) hits += score >= worst[i] ? 1 : 0;
    }
    tuning = {ef, std::min(visits / kQueries, rows.size()), least};
    const bool good = static_cast<double>(hits) >= kRecall * static_cast<double>(kQueries * k);
    // A walk through half of the rows is many times slower than a scan, so the search for ef ends.
    if (good || tuning.visits > some.size() / 2) break;
  }
  return tuning;
}

bool search_graph(const VectorRows& rows, const HnswGraph& graph, const Query& query, std::size_t k,
                  std::size_t ef, const Bitset* allowed, std::size_t count, Best& best) {
  std::size_t visited = 0;
  const std::size_t budget = count / kScannedPerVisit;
  return walk_and_rescore(rows, graph, query, k, ef, allowed, budget, visited, best);
}

}  // namespace toolroll
