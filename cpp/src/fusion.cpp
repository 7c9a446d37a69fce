#include "toolroll/fusion.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace toolroll {
namespace {

constexpr std::size_t kLeastFromEach = 24;

void check_size(const char* what, std::size_t found, std::size_t size) {
  if (found != size) {
    throw std::invalid_argument(std::string(what) + ": has " + std::to_string(found) +
                                " rows, must have " + std::to_string(size));
  }
}

void check_weight(const char* what, float weight) {
  if (!(weight >= 0.0F) || std::isinf(weight)) {
    throw std::invalid_argument(std::string(what) + " weight: must be finite and not negative");
  }
}

/// Rows of all three, ascending, each once.
std::vector<std::int32_t> united(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b,
                                 std::span<const std::int32_t> c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

template <typename T>
std::vector<T> at(const std::vector<T>& column, std::span<const std::size_t> places) {
  std::vector<T> out;
  out.reserve(places.size());
  for (const std::size_t place : places) out.push_back(column[place]);
  return out;
}

}  // namespace

Retriever::Retriever(std::size_t size, std::shared_ptr<const VectorIndex> vectors,
                     std::shared_ptr<const Bm25Index> postings)
    : size_(size), vectors_(std::move(vectors)), postings_(std::move(postings)) {
  if (vectors_) check_size("vectors", vectors_->size(), size_);
  if (postings_) check_size("postings", postings_->size(), size_);
}

Retrieved Retriever::search(std::string_view text, std::span<const float> vector,
                            const Bitset& in_play, std::span<const std::int32_t> known_rows,
                            std::span<const float> known_scores, std::size_t k,
                            const Fusion& fusion) const {
  check_size("rows in play", in_play.size(), size_);
  check_size("known scores", known_scores.size(), known_rows.size());
  check_weight("dense", fusion.dense);
  check_weight("lexical", fusion.lexical);
  Retrieved out;
  if (k == 0) return out;
  const bool is_dense = vectors_ && !vector.empty() && fusion.dense > 0.0F;
  const bool is_lexical = postings_ && fusion.lexical > 0.0F;
  const Bitset* const filter = in_play.count() == size_ ? nullptr : &in_play;
  const std::size_t within = std::min(k, size_);
  const std::size_t from_each = std::max(within + within / 4, kLeastFromEach);

  std::vector<std::int32_t> near;
  std::vector<std::int32_t> matching;
  if (is_dense) near = vectors_->search(vector, from_each, filter).rows;
  if (is_lexical) matching = postings_->search(text, from_each, filter).rows;
  const std::vector<std::int32_t> rows = united(std::move(near), matching, known_rows);
  std::vector<float> dense(rows.size());
  std::vector<float> lexical(rows.size());
  if (is_dense) dense = vectors_->scores(vector, rows);
  if (is_lexical) postings_->scores(text, rows, lexical);

  std::vector<float> scores(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    dense[i] = std::max(dense[i], 0.0F);
    scores[i] = fusion.dense * dense[i] + fusion.lexical * lexical[i];
  }
  for (std::size_t i = 0; i < known_rows.size(); ++i) {
    const auto found = std::lower_bound(rows.begin(), rows.end(), known_rows[i]);
    scores[static_cast<std::size_t>(found - rows.begin())] += known_scores[i];
  }

  std::vector<std::size_t> places;
  places.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (scores[i] > 0.0F && scores[i] >= fusion.threshold) places.push_back(i);
  }
  const std::size_t kept = std::min(k, places.size());
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(kept),
                    places.end(), [&](std::size_t a, std::size_t b) {
                      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
                    });
  places.resize(kept);
  out.rows = at(rows, places);
  out.scores = at(scores, places);
  out.dense = at(dense, places);
  out.lexical = at(lexical, places);
  return out;
}

}  // namespace toolroll
