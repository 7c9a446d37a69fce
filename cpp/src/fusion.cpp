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
constexpr std::size_t kMostInTheWay = 64;  // damped rows that room is made for

void check_size(const char* what, std::size_t found, std::size_t size) {
  if (found != size) {
    throw std::invalid_argument(std::string(what) + ": has " + std::to_string(found) +
                                " rows, must have " + std::to_string(size));
  }
}

void check_weight(const char* what, float weight) {
  if (!(weight >= 0.0F) || std::isinf(weight)) {
    throw std::invalid_argument(std::string(what) + ": must be finite and not negative");
  }
}

void check_share(const char* what, float share) {
  if (!(share >= 0.0F && share <= 1.0F)) {
    throw std::invalid_argument(std::string(what) + ": must be between 0 and 1");
  }
}

void check_floor(const char* what, float floor) {
  if (!(floor >= -1.0F && floor <= 1.0F)) {
    throw std::invalid_argument(std::string(what) + ": must be a cosine, between -1 and 1");
  }
}

void check(const Fusion& fusion) {
  check_weight("dense weight", fusion.dense);
  check_floor("dense floor", fusion.dense_floor);
  check_weight("lexical weight", fusion.lexical);
  check_weight("intents weight", fusion.intents);
  check_floor("intent floor", fusion.intent_floor);
  check_share("clauses weight", fusion.clauses);
  if (!(fusion.lexical_mass > 0.0F)) throw std::invalid_argument("lexical mass: must be above 0");
}

void check(std::span<const Part> parts) {
  for (const Part& part : parts) {
    check_share("trust", part.trust);
    check_weight("weight of a part", part.weight);
  }
}

template <typename T>
std::vector<T> at(const std::vector<T>& column, std::span<const std::size_t> places) {
  std::vector<T> out;
  out.reserve(places.size());
  for (const std::size_t place : places) out.push_back(column[place]);
  return out;
}

/// What one part says for each row.
struct Evidence {
  std::vector<float> dense;
  std::vector<float> intents;
  std::vector<float> lexical;

  explicit Evidence(std::size_t rows) : dense(rows), intents(rows), lexical(rows) {}
  float sum(std::size_t i) const { return dense[i] + intents[i] + lexical[i]; }
};

/// The indexes, and what is asked of them.
struct Search {
  const VectorIndex* vectors;
  const Bm25Index* postings;
  const Intents* intents;
  const Fusion& fusion;

  bool is_dense(const Part& part) const {
    return vectors != nullptr && !part.vector.empty() && part.trust > 0.0F &&
           (fusion.dense > 0.0F || fusion.intents > 0.0F);
  }
  bool is_lexical() const { return postings != nullptr && fusion.lexical > 0.0F; }

  void name(const Part& part, std::size_t most, const Bitset* filter,
            std::vector<std::int32_t>& rows) const {
    if (is_dense(part)) {
      const std::vector<std::int32_t> near = vectors->search(part.vector, most, filter).rows;
      rows.insert(rows.end(), near.begin(), near.end());
    }
    if (is_lexical()) {
      const std::vector<std::int32_t> matching = postings->search(part.text, most, filter).rows;
      rows.insert(rows.end(), matching.begin(), matching.end());
    }
  }

  Evidence weigh(const Part& part, std::span<const std::int32_t> rows) const {
    Evidence evidence(rows.size());
    if (is_dense(part)) {
      const float dense = part.trust * fusion.dense;
      evidence.dense = vectors->scores(part.vector, rows);
      for (float& score : evidence.dense) {
        score = dense * std::max(score - fusion.dense_floor, 0.0F);
      }
      if (intents != nullptr && fusion.intents > 0.0F) {
        const float weight = part.trust * fusion.intents;
        intents->nearest(part.vector, rows, evidence.intents);
        for (float& score : evidence.intents) {
          score = weight * std::max(score - fusion.intent_floor, 0.0F);
        }
      }
    }
    if (is_lexical()) {
      const auto ceiling = static_cast<float>(postings->ceiling(part.text));
      const float lexical = fusion.lexical / (1.0F + ceiling / fusion.lexical_mass);
      postings->scores(part.text, rows, evidence.lexical);
      for (float& score : evidence.lexical) score *= lexical;
    }
    return evidence;
  }
};

}  // namespace

Retriever::Retriever(std::size_t size, std::shared_ptr<const VectorIndex> vectors,
                     std::shared_ptr<const Bm25Index> postings,
                     std::shared_ptr<const Intents> intents, std::vector<float> damping)
    : size_(size),
      vectors_(std::move(vectors)),
      postings_(std::move(postings)),
      intents_(std::move(intents)),
      damping_(std::move(damping)) {
  if (vectors_) check_size("vectors", vectors_->size(), size_);
  if (postings_) check_size("postings", postings_->size(), size_);
  if (intents_) check_size("intents", intents_->size(), size_);
  if (!damping_.empty()) check_size("damping", damping_.size(), size_);
  for (const float factor : damping_) {
    check_share("damping", factor);
    damped_ += factor < 1.0F ? 1 : 0;
  }
}

Retrieved Retriever::search(const Part& message, std::span<const Part> clauses,
                            std::span<const Part> earlier, const Bitset& in_play,
                            std::span<const std::int32_t> known_rows,
                            std::span<const float> known_scores, std::size_t k,
                            const Fusion& fusion) const {
  check_size("rows in play", in_play.size(), size_);
  check_size("known scores", known_scores.size(), known_rows.size());
  check(fusion);
  check({&message, 1});
  check(clauses);
  check(earlier);
  Retrieved out;
  if (k == 0) return out;
  if (fusion.clauses == 0.0F) clauses = {};
  const Search search{vectors_.get(), postings_.get(), intents_.get(), fusion};
  const Bitset* const filter = in_play.count() == size_ ? nullptr : &in_play;
  const std::size_t within = std::min(k, size_);
  const std::size_t most =
      std::max(within + within / 4, kLeastFromEach) + std::min(damped_, kMostInTheWay);

  std::vector<std::int32_t> rows(known_rows.begin(), known_rows.end());
  search.name(message, most, filter, rows);
  for (const Part& part : clauses) search.name(part, most, filter, rows);
  for (const Part& part : earlier) search.name(part, most, filter, rows);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());

  Evidence whole = search.weigh(message, rows);
  std::vector<float> scores(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) scores[i] = whole.sum(i);
  std::vector<float> by_clauses(rows.size());
  for (const Part& part : clauses) {
    const Evidence evidence = search.weigh(part, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      by_clauses[i] = std::max(by_clauses[i], fusion.clauses * (evidence.sum(i) - scores[i]));
    }
  }
  std::vector<float> by_earlier(rows.size());
  float weights = 1.0F;
  for (const Part& part : earlier) {
    weights += part.weight;
    const Evidence evidence = search.weigh(part, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) by_earlier[i] += part.weight * evidence.sum(i);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    scores[i] += by_clauses[i] + by_earlier[i];
    if (damped_ > 0) scores[i] *= damping_[static_cast<std::size_t>(rows[i])];
    out.evidence = std::max(out.evidence, scores[i] / weights);
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
  out.dense = at(whole.dense, places);
  out.intents = at(whole.intents, places);
  out.lexical = at(whole.lexical, places);
  out.clauses = at(by_clauses, places);
  out.earlier = at(by_earlier, places);
  return out;
}

}  // namespace toolroll
