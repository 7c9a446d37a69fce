#include "hnsw_tuning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace toolroll {
namespace {

constexpr std::size_t kQueries = 200;
// Real queries differ from the generated ones, so the target is above the promise.
constexpr double kRecall = 0.992;

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

/// A message is far from all rows, like a row with noise of its own length (on a catalog of 100,000
/// tools, messages have a cosine of 0.68 with the nearest one; such a row 0.70). The rows nearest
/// to a tool are harder to find than those nearest to a message, and some messages are between two
/// tools: every fifth query is nearer to its first row than to its second, and to no third one by
/// construction.
std::vector<float> generated(const VectorRows& rows, std::size_t number, std::size_t a,
                             std::size_t b) {
  std::vector<float> x(rows.full.row(a), rows.full.row(a) + rows.dim);
  if (number % 5 == 0) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += 0.8F * rows.full.row(b)[i];
    return x;
  }
  // Numbers in [-1, 1) with a mean square of 1/3, so that the noise is about as long as stated.
  const float length = 0.5F + static_cast<float>(number % 4) / 3;  // 0.5 to 1.5
  const float scale = length * std::sqrt(3.0F / static_cast<float>(x.size()));
  std::uint64_t state = number;
  for (float& value : x) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
    value += scale * (static_cast<float>(state >> 40) * 0x1p-23F - 1.0F);
  }
  return x;
}

}  // namespace

double Tuning::visits_for(std::size_t n, std::size_t count, std::size_t walk_ef) const {
  return static_cast<double>(visits) * static_cast<double>(walk_ef) / static_cast<double>(ef) *
         static_cast<double>(n) / static_cast<double>(count);
}

bool Tuning::prefers_graph(std::size_t n, std::size_t count, std::size_t walk_ef) const {
  return visits_for(n, count, walk_ef) * static_cast<double>(kScannedPerVisit) <
         static_cast<double>(count);
}

bool Tuning::is_sound(std::size_t n) const {
  return ef >= 1 && ef <= kMaxEf && visits <= n &&
         std::ranges::all_of(least, [](float cosine) { return std::abs(cosine) <= 1.1F; });
}

Tuning tune(const VectorRows& rows, const HnswGraph& graph, const std::optional<Bitset>& allowed,
            const std::atomic<bool>& is_stopped) {
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
  for (std::size_t i = 0; i < kQueries && !is_stopped; ++i) {
    // Spread over the rows without a pattern that the rows' own order could share.
    const std::size_t a = some[(i * 2654435761U) % some.size()];
    const std::size_t b = some[(i * 2246822519U + 12345) % some.size()];
    if (!queries[i].set(generated(rows, i, a, b)))
      static_cast<void>(queries[i].set({rows.full.row(a), rows.dim}));
    Best best(k);
    scan(rows, queries[i], k, allowed ? &*allowed : nullptr, some.size(), best);
    best.take(at, scores);
    worst[i] = scores.back();
    for (std::size_t j = 0; j < k; ++j) least[j] = std::min(least[j], scores[j]);
  }

  Tuning tuning;
  for (std::size_t ef = 16; ef <= Tuning::kMaxEf && !is_stopped; ef += ef / 4) {
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
