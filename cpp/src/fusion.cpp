#include "toolroll/fusion.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace toolroll {
namespace {

// Measured by `pytest bench/micro -k fusion`.
constexpr std::size_t kLeastFromEach = 24;
constexpr std::size_t kFromAClause = 8;  // a clause asks for one thing
// A clause names few rows beside those of the message: its walk is a quarter as long, and finds one
// in twenty of them less often.
constexpr std::size_t kClauseCare = 4;
constexpr std::size_t kMostInTheWay = 64;  // rows named in addition where rows are damped
constexpr std::size_t kFewKnown = 96;      // up to so many known rows are all weighed
// Of so many times the rows that an index would name, all are weighed: to name the nearest, merge
// and sort them takes longer than a product for each.
constexpr std::size_t kAllOfSoMany = 8;
constexpr std::size_t kSmallSet = 1 << 15;  // of so few rows a set is merged faster than sorted

// Bounds are increased by it before they exclude a row: more than the roundings of a few sums of
// float32 numbers, and than those of a BM25 score that is summed in another order.
constexpr float kSlack = 1 + 2e-4F;
constexpr float kLeastSlack = 1e-6F;

// The costs that expected_ns() adds up, on one core of 2021 (the same bench).
constexpr double kRowNs = 40;              // each part's evidence for a row, beside the products
constexpr double kLearnedNsPerByte = 0.1;  // of the 8-bit copies of learned vectors

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
  if (std::isnan(fusion.threshold)) throw std::invalid_argument("threshold: must be a number");
  if (!(fusion.lexical_saturation > 0.0F))
    throw std::invalid_argument("lexical saturation: must be above 0");
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

/// The number of rows that an index names for one part of a search for k rows.
std::size_t most_of_each(std::size_t k, std::size_t damped) {
  return std::max(k + k / 4, kLeastFromEach) + std::min(damped, kMostInTheWay);
}

/// The first k of an order, best first, with all of `wanted` among them: a wanted one behind the
/// k-th takes the place of the last that is not wanted. `wanted` has at most k.
std::vector<std::size_t> first_with(const std::vector<std::size_t>& order,
                                    const std::vector<std::size_t>& wanted, std::size_t k) {
  const auto is_wanted = [&wanted](std::size_t place) {
    return std::find(wanted.begin(), wanted.end(), place) != wanted.end();
  };
  std::size_t others = std::min(k, order.size()) - wanted.size();
  std::vector<std::size_t> first;
  for (const std::size_t place : order) {
    if (is_wanted(place)) {
      first.push_back(place);
    } else if (others > 0) {
      first.push_back(place);
      --others;
    }
  }
  return first;
}

/// The evidence of one part for each row.
struct Evidence {
  std::vector<float> dense;
  std::vector<float> intents;
  std::vector<float> lexical;
  std::vector<float> raw_dense;  // these two without learned vectors; empty if that is the same
  std::vector<float> raw_intents;

  explicit Evidence(std::size_t rows) : dense(rows), intents(rows), lexical(rows) {}
  float sum(std::size_t i) const { return dense[i] + intents[i] + lexical[i]; }
  float raw_sum(std::size_t i) const {
    return raw_dense.empty() ? sum(i) : raw_dense[i] + raw_intents[i] + lexical[i];
  }
};

/// False for an empty vector and for zeros: they carry no evidence.
bool has_direction(std::span<const float> vector) {
  return std::any_of(vector.begin(), vector.end(), [](float value) { return value != 0.0F; });
}

/// The queries of one part to the indexes.
class PartQuery {
 public:
  PartQuery(const Part& part, const VectorIndex* vectors, const Bm25Index* postings,
            const Intents* intents, const Fusion& fusion)
      : part_(&part),
        vectors_(part.trust > 0.0F && (fusion.dense > 0.0F || fusion.intents > 0.0F) &&
                         has_direction(part.vector)
                     ? vectors
                     : nullptr),
        postings_(fusion.lexical > 0.0F ? postings : nullptr),
        intents_(fusion.intents > 0.0F ? intents : nullptr),
        fusion_(&fusion) {
    if (postings_ != nullptr) message_ = postings_->read(part.text);
  }

  /// How carefully an index looks for the nearest rows.
  enum class Care { kWhole, kClause };

  /// Appends the rows that are nearest to the part, at most `most` from each index.
  void nominate(std::size_t most, const Bitset* filter, std::vector<std::int32_t>& rows,
                Care care = Care::kWhole) {
    const auto add = [&rows](const std::vector<std::int32_t>& named) {
      rows.insert(rows.end(), named.begin(), named.end());
    };
    // The ef of the nearest ten: those behind them are found a little less often than by a scan.
    if (vectors_ != nullptr) {
      std::size_t ef = vectors_->default_ef();
      Method method = Method::kAuto;
      if (care == Care::kClause && vectors_->has_graph()) {
        // Many clauses are small talk, unlike any tool: their nearest rows are not worth a scan.
        method = Method::kGraph;
        ef = std::max<std::size_t>(ef / kClauseCare, 1);
      }
      add(vectors_->search(part_->vector, most, filter, method, ef).rows);
    }
    if (postings_ != nullptr) {
      const Hits hits = postings_->search(message_, most, filter);
      add(hits.rows);
      most_unnamed_ = hits.rows.size() < most ? 0.0F : hits.scores.back();
    }
  }

  /// Appends the rows whose learned vectors are nearest to the part.
  void nominate(std::size_t most, const Bitset& in_play, const LearnedVectors& learned_vectors,
                std::vector<std::int32_t>& rows) const {
    if (vectors_ != nullptr) learned_vectors.nominate(part_->vector, most, in_play, rows);
  }

  /// sums[i] = at least the evidence for row i of these, in play, without learned vectors. Only
  /// dense evidence is looked up. After nominate(): a row that BM25 did not name has at most the
  /// score of the last one that it named. A row with intents may have as much as a cosine of 1.
  void bound(std::span<const std::int32_t> rows, std::span<float> sums) const {
    const float lexical = postings_ == nullptr ? 0.0F : lexical_scale() * most_unnamed_;
    std::ranges::fill(sums, lexical);
    if (vectors_ == nullptr) return;
    const std::vector<float> cosines = vectors_->scores_at_most(part_->vector, rows);
    const float dense = part_->trust * fusion_->dense;
    const float intents =
        part_->trust * fusion_->intents * std::max(1 - fusion_->intent_floor, 0.0F);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sums[i] += dense * std::max(cosines[i] - fusion_->dense_floor, 0.0F);
      if (intents_ != nullptr && intents_->has(rows[i])) sums[i] += intents;
    }
  }

  /// The evidence for these rows. learned_vectors has looked them up.
  Evidence weigh(std::span<const std::int32_t> rows, const LearnedVectors& learned_vectors) const {
    Evidence evidence(rows.size());
    if (vectors_ != nullptr) {
      const float dense = part_->trust * fusion_->dense;
      evidence.dense = vectors_->scores(part_->vector, rows);
      LearnedVectors::Direction direction;
      if (learned_vectors.has_any()) {
        direction = learned_vectors.directed(part_->vector);
        evidence.raw_dense = evidence.dense;
      }
      learned_vectors.blend(direction, evidence.dense);
      for (std::vector<float>* scores : {&evidence.dense, &evidence.raw_dense}) {
        for (float& score : *scores) score = dense * std::max(score - fusion_->dense_floor, 0.0F);
      }
      if (intents_ != nullptr) {
        intents_->nearest(part_->vector, rows, evidence.intents);
        for (float& score : evidence.intents) {
          score = std::max(score - fusion_->intent_floor, 0.0F);
        }
      }
      if (learned_vectors.has_any()) evidence.raw_intents = evidence.intents;
      learned_vectors.recall(direction, fusion_->intent_floor, evidence.intents);
      const float weight = part_->trust * fusion_->intents;
      for (std::vector<float>* scores : {&evidence.intents, &evidence.raw_intents}) {
        for (float& score : *scores) score *= weight;
      }
    }
    if (postings_ != nullptr) {
      const float lexical = lexical_scale();
      postings_->scores(message_, rows, evidence.lexical);
      for (float& score : evidence.lexical) score *= lexical;
    }
    return evidence;
  }

  float weight() const { return part_->weight; }
  bool is_dense() const { return vectors_ != nullptr; }

 private:
  /// What a BM25 score is multiplied by.
  float lexical_scale() const {
    const auto ceiling = static_cast<float>(message_.ceiling);
    return fusion_->lexical / (1.0F + ceiling / fusion_->lexical_saturation);
  }

  const Part* part_;
  const VectorIndex* vectors_;  // nullptr if the part does not use it
  const Bm25Index* postings_;
  const Intents* intents_;
  const Fusion* fusion_;
  Bm25Index::Message message_;
  float most_unnamed_ = 0.0F;  // at least the BM25 score of each row that nominate() did not append
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

Retriever Retriever::stacked(std::shared_ptr<const Retriever> shared,
                             std::shared_ptr<const Retriever> own) {
  if (!shared || !own) throw std::invalid_argument("retriever: is missing");
  if (shared->shared_ || own->shared_) throw std::invalid_argument("retriever: is stacked already");
  const VectorIndex* const vectors = shared->vectors_.get();
  const VectorIndex* const others = own->vectors_.get();
  if (vectors != nullptr && others != nullptr && vectors->dim() != others->dim()) {
    throw std::invalid_argument("retrievers: have vectors of " + std::to_string(vectors->dim()) +
                                " and " + std::to_string(others->dim()) +
                                " dimensions, must be of the same");
  }
  Retriever both(shared->size() + own->size(), nullptr, nullptr);
  both.shared_ = std::move(shared);
  both.own_ = std::move(own);
  return both;
}

float Retriever::damping(std::int32_t row) const {
  if (shared_ != nullptr) {
    const auto behind = static_cast<std::int32_t>(shared_->size_);
    return row < behind ? shared_->damping(row) : own_->damping(row - behind);
  }
  return damping_.empty() ? 1.0F : damping_[static_cast<std::size_t>(row)];
}

double Retriever::expected_ns(const RetrievalQuery& query) const {
  if (shared_ != nullptr) return shared_->expected_ns(query) + own_->expected_ns(query);
  const std::size_t count = std::min(query.in_play.count(), size_);
  const std::size_t most = most_of_each(std::min(query.k, size_), damped_);
  const std::size_t parts = 1 + query.clauses.size() + query.earlier.size();
  const std::size_t known = query.known_rows.size();
  const bool is_bounded = known > kFewKnown;
  const std::size_t rows =
      std::min(size_, (is_bounded ? query.k + kFewKnown : known) + 2 * most * parts);
  double ns = 0;
  const auto add = [&](const Part& part) {
    ns += kRowNs * static_cast<double>(rows);
    if (postings_ != nullptr) ns += postings_->expected_ns(part.text.size());
    if (vectors_ != nullptr && !part.vector.empty()) {
      ns += vectors_->expected_ns(most, count, vectors_->default_ef()) +
            vectors_->expected_scores_ns(rows);
      if (is_bounded) ns += vectors_->expected_bounds_ns(known);
    }
  };
  add(query.message);
  std::ranges::for_each(query.clauses, add);
  std::ranges::for_each(query.earlier, add);
  const Learned* const learned = query.learned.learned;
  if (learned != nullptr && !query.message.vector.empty()) {
    ns += kLearnedNsPerByte * static_cast<double>(learned->vectors() * learned->dim());
  }
  return ns;
}

/// One search of a retriever that is not stacked, in three steps.
class Retriever::Search {
 public:
  /// query: valid, with k above 0.
  Search(const Retriever& retriever, const RetrievalQuery& query, const Fusion& fusion,
         LearnedVectors learned)
      : retriever_(retriever),
        query_(query),
        fusion_(fusion),
        learned_(std::move(learned)),
        message_(read(query.message)) {
    if (fusion.clauses != 0.0F) clauses_ = read_all(query.clauses);
    // A clause without a vector cannot be compared with a message that has one.
    std::erase_if(clauses_, [&](const PartQuery& clause) {
      return message_.is_dense() && !clause.is_dense();
    });
    earlier_ = read_all(query.earlier);
  }

  Retrieved run() {
    sort_known();
    if (weighs_all()) {
      query_.in_play.each([this](std::int32_t row) { rows_.push_back(row); });
      weigh();
      return order();
    }
    nominate();
    if (known_rows_.size() <= kFewKnown) {
      join(known_rows_);
      weigh();
    } else {
      weigh_promising();
    }
    return order();
  }

 private:
  PartQuery read(const Part& part) const {
    return PartQuery(part, retriever_.vectors_.get(), retriever_.postings_.get(),
                     retriever_.intents_.get(), fusion_);
  }
  std::vector<PartQuery> read_all(std::span<const Part> parts) const {
    std::vector<PartQuery> all;
    all.reserve(parts.size());
    for (const Part& part : parts) all.push_back(read(part));
    return all;
  }

  /// known_rows_ and known_scores_ become those of the query, by ascending row.
  void sort_known() {
    known_rows_ = query_.known_rows;
    known_scores_ = query_.known_scores;
    if (std::ranges::is_sorted(known_rows_)) return;
    std::vector<std::size_t> order(known_rows_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [this](std::size_t i) { return query_.known_rows[i]; });
    for (const std::size_t i : order) {
      sorted_rows_.push_back(query_.known_rows[i]);
      sorted_scores_.push_back(query_.known_scores[i]);
    }
    known_rows_ = sorted_rows_;
    known_scores_ = sorted_scores_;
  }

  /// Adds rows to rows_, which then ascend, each once.
  void join(std::span<const std::int32_t> rows) {
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    if (retriever_.size_ <= kSmallSet) {
      const Bitset set = Bitset::of(retriever_.size_, rows_);
      rows_.clear();
      set.each([this](std::int32_t row) { rows_.push_back(row); });
      return;
    }
    std::ranges::sort(rows_);
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  }

  /// The number of rows that each index names for the message.
  std::size_t most() const {
    return most_of_each(std::min(query_.k, retriever_.size_), retriever_.damped_);
  }

  /// Whether all rows in play are weighed: where they and their intents are few.
  bool weighs_all() const {
    const Intents* const intents = fusion_.intents > 0.0F ? retriever_.intents_.get() : nullptr;
    const std::size_t vectors = query_.in_play.count() + (intents ? intents->count() : 0);
    return vectors <= kAllOfSoMany * most();
  }

  /// First step: rows_ become those that any index names for any part.
  void nominate() {
    const Bitset& in_play = query_.in_play;
    const Bitset* const filter = in_play.count() == retriever_.size_ ? nullptr : &in_play;
    const std::size_t damped = retriever_.damped_;
    const std::size_t most = this->most();
    message_.nominate(most, filter, rows_);
    message_.nominate(most, in_play, learned_, rows_);
    for (PartQuery& clause : clauses_) {
      clause.nominate(kFromAClause + std::min(damped, kMostInTheWay), filter, rows_,
                      PartQuery::Care::kClause);
    }
    for (PartQuery& turn : earlier_) turn.nominate(most, filter, rows_);
    join({});
  }

  /// Second step for many known rows, with the result that weigh() of all of them has. The rows
  /// with the greatest bounds are weighed first. Of the others those that may be among the best,
  /// or may be the greatest evidence.
  void weigh_promising() {
    const std::vector<float> bounds = bound_known();
    const auto score_bound = [&](std::size_t i) { return bounds[i] + known_scores_[i]; };
    std::vector<std::size_t> places(known_rows_.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    const std::size_t seeds = std::min(query_.k, places.size());
    std::ranges::nth_element(
        places, places.begin() + static_cast<std::ptrdiff_t>(seeds - 1),
        [&](std::size_t a, std::size_t b) { return score_bound(a) > score_bound(b); });
    std::vector<std::int32_t> promising = with_learned_vectors();
    for (std::size_t i = 0; i < seeds; ++i) promising.push_back(known_rows_[places[i]]);
    join(promising);
    weigh();
    const float least = least_kept();
    float weights = 1.0F;
    for (const PartQuery& turn : earlier_) weights += turn.weight();
    promising.clear();
    for (std::size_t i = 0; i < known_rows_.size(); ++i) {
      if (!(score_bound(i) < least) || !(bounds[i] / weights < evidence_)) {
        promising.push_back(known_rows_[i]);
      }
    }
    const std::size_t weighed = rows_.size();
    join(promising);
    if (rows_.size() > weighed) weigh();
  }

  /// For each known row at least its score without the known one and without learned vectors.
  std::vector<float> bound_known() const {
    const std::size_t n = known_rows_.size();
    std::vector<float> bounds(n);
    std::vector<float> of_part(n);
    message_.bound(known_rows_, bounds);
    if (!clauses_.empty()) {
      std::vector<float> best(n, 0.0F);
      for (const PartQuery& clause : clauses_) {
        clause.bound(known_rows_, of_part);
        for (std::size_t i = 0; i < n; ++i) best[i] = std::max(best[i], of_part[i]);
      }
      for (std::size_t i = 0; i < n; ++i) {
        bounds[i] = (1.0F - fusion_.clauses) * bounds[i] + fusion_.clauses * best[i];
      }
    }
    for (const PartQuery& turn : earlier_) {
      turn.bound(known_rows_, of_part);
      for (std::size_t i = 0; i < n; ++i) bounds[i] += turn.weight() * of_part[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      bounds[i] = bounds[i] * kSlack + kLeastSlack;
      if (retriever_.damped_ > 0) {
        bounds[i] *= retriever_.damping_[static_cast<std::size_t>(known_rows_[i])];
      }
      if (std::isnan(bounds[i])) bounds[i] = std::numeric_limits<float>::infinity();
    }
    return bounds;
  }

  /// The known rows to which the bounds do not apply.
  std::vector<std::int32_t> with_learned_vectors() {
    std::vector<std::int32_t> rows;
    if (learned_.is_empty()) return rows;
    look_up(known_rows_);
    for (const std::size_t place : learned_.places()) rows.push_back(known_rows_[place]);
    return rows;
  }

  /// A row with a smaller score is neither among the k best of the weighed rows nor among those
  /// that are best without learned vectors.
  float least_kept() const {
    std::vector<float> scores;
    std::vector<float> raw;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!is_found(i)) continue;
      scores.push_back(scores_[i]);
      if (!raw_scores_.empty()) raw.push_back(raw_scores_[i]);
    }
    const auto at = [](std::vector<float>& column, std::size_t k) {
      if (column.size() < k) return -std::numeric_limits<float>::infinity();
      std::ranges::nth_element(column, column.begin() + static_cast<std::ptrdiff_t>(k - 1),
                               std::greater<>());
      return column[k - 1];
    };
    const float least = at(scores, query_.k);
    return raw_scores_.empty() ? least : std::min(least, at(raw, std::min(query_.k, kRawBest)));
  }

  bool is_found(std::size_t place) const {
    return scores_[place] > 0.0F && scores_[place] >= fusion_.threshold;
  }

  void look_up(std::span<const std::int32_t> rows) {
    const float unrelated = 0.5F * (fusion_.dense_floor + fusion_.intent_floor);
    learned_.look_up(rows, unrelated, 0.5F * (unrelated + fusion_.intent_floor));
  }

  /// Second step: the evidence of each part for each row, and its sums.
  void weigh() {
    look_up(rows_);
    of_clauses_.clear();
    of_earlier_.clear();
    of_message_ = message_.weigh(rows_, learned_);
    for (const PartQuery& clause : clauses_) of_clauses_.push_back(clause.weigh(rows_, learned_));
    for (const PartQuery& turn : earlier_) of_earlier_.push_back(turn.weigh(rows_, learned_));
    by_clauses_.resize(rows_.size());
    by_earlier_.resize(rows_.size());
    scores_.resize(rows_.size());
    if (learned_.has_any()) {
      add_up(&Evidence::raw_sum);
      raw_scores_ = scores_;
      add_known(raw_scores_);
    }
    add_up(&Evidence::sum);
    float weights = 1.0F;
    for (const PartQuery& turn : earlier_) weights += turn.weight();
    for (const float score : scores_) evidence_ = std::max(evidence_, score / weights);
    add_known(scores_);
  }

  /// Writes by_clauses_, by_earlier_ and scores_. `sum` reads the evidence of one part.
  void add_up(float (Evidence::*sum)(std::size_t) const) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const float message = (of_message_.*sum)(i);
      by_clauses_[i] = 0.0F;
      for (const Evidence& clause : of_clauses_) {
        by_clauses_[i] = std::max(by_clauses_[i], (clause.*sum)(i));
      }
      if (!of_clauses_.empty()) by_clauses_[i] = fusion_.clauses * (by_clauses_[i] - message);
      by_earlier_[i] = 0.0F;
      for (std::size_t turn = 0; turn < earlier_.size(); ++turn) {
        by_earlier_[i] += earlier_[turn].weight() * (of_earlier_[turn].*sum)(i);
      }
      scores_[i] = message + (by_clauses_[i] + by_earlier_[i]);
      if (retriever_.damped_ > 0) {
        scores_[i] *= retriever_.damping_[static_cast<std::size_t>(rows_[i])];
      }
    }
  }

  void add_known(std::vector<float>& scores) const {
    auto known = known_rows_.begin();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      known = std::lower_bound(known, known_rows_.end(), rows_[i]);
      if (known == known_rows_.end()) return;
      if (*known == rows_[i]) {
        scores[i] += known_scores_[static_cast<std::size_t>(known - known_rows_.begin())];
      }
    }
  }

  /// Third step: the best k rows, with the best of retrieval alone among them.
  Retrieved order() const {
    std::vector<std::size_t> found;
    found.reserve(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (is_found(i)) found.push_back(i);
    }
    Retrieved out;
    std::vector<std::size_t> places = best(found, scores_, query_.k);
    if (raw_scores_.empty()) {
      const std::size_t first = std::min(places.size(), kRawBest);
      const std::span<const std::size_t> raw(places.data(), first);
      out.raw_best = at(rows_, raw);
      out.raw_scores = at(scores_, raw);
    } else {
      const std::vector<std::size_t> raw = best(found, raw_scores_, std::min(query_.k, kRawBest));
      const auto end = static_cast<std::ptrdiff_t>(places.size());
      for (const std::size_t place : raw) {
        if (std::find(places.begin(), places.begin() + end, place) == places.begin() + end) {
          places.push_back(place);
        }
      }
      std::sort(places.begin() + end, places.end(),
                [this](std::size_t a, std::size_t b) { return is_better(scores_, a, b); });
      places = first_with(places, raw, query_.k);
      out.raw_best = at(rows_, raw);
      out.raw_scores = at(raw_scores_, raw);
    }
    out.rows = at(rows_, places);
    out.scores = at(scores_, places);
    out.dense = at(of_message_.dense, places);
    out.intents = at(of_message_.intents, places);
    out.lexical = at(of_message_.lexical, places);
    out.clauses = at(by_clauses_, places);
    out.earlier = at(by_earlier_, places);
    out.evidence = evidence_;
    return out;
  }

  static bool is_better(const std::vector<float>& scores, std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  }
  /// The best of these places, at most so many, best first. It sorts whole numbers that are in the
  /// order of the scores and then of the places, which takes half the time.
  static std::vector<std::size_t> best(const std::vector<std::size_t>& places,
                                       const std::vector<float>& scores, std::size_t most) {
    std::vector<std::uint64_t> keys;
    keys.reserve(places.size());
    for (const std::size_t place : places) {
      const auto bits = std::bit_cast<std::uint32_t>(scores[place] + 0.0F);  // -0 becomes 0
      const std::uint32_t descending = bits >> 31 == 0 ? ~bits & 0x7FFFFFFFU : bits;
      keys.push_back(std::uint64_t{descending} << 32 | place);
    }
    const std::size_t kept = std::min(most, keys.size());
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(kept);
    if (kept < keys.size()) std::nth_element(keys.begin(), end, keys.end());
    std::sort(keys.begin(), end);
    std::vector<std::size_t> out(kept);
    for (std::size_t i = 0; i < kept; ++i) out[i] = keys[i] & 0xFFFFFFFFU;
    return out;
  }

  const Retriever& retriever_;
  const RetrievalQuery& query_;
  const Fusion& fusion_;
  LearnedVectors learned_;
  PartQuery message_;
  std::vector<PartQuery> clauses_;
  std::vector<PartQuery> earlier_;

  std::span<const std::int32_t> known_rows_;  // ascending
  std::span<const float> known_scores_;
  std::vector<std::int32_t> sorted_rows_;  // the same, if the query's are in another order
  std::vector<float> sorted_scores_;

  std::vector<std::int32_t> rows_;  // ascending; the columns below are parallel to it
  Evidence of_message_{0};
  std::vector<Evidence> of_clauses_;
  std::vector<Evidence> of_earlier_;
  std::vector<float> by_clauses_;
  std::vector<float> by_earlier_;
  std::vector<float> scores_;
  std::vector<float> raw_scores_;  // without learned vectors; empty if there are none
  float evidence_ = 0.0F;
};

Retrieved Retriever::search(const RetrievalQuery& query, const Fusion& fusion) const {
  check_size("rows in play", query.in_play.size(), size_);
  check_size("known scores", query.known_scores.size(), query.known_rows.size());
  if (shared_ != nullptr) return search_both(query, fusion);
  for (const std::int32_t row : query.known_rows) {
    if (row < 0 || static_cast<std::size_t>(row) >= size_) {
      throw std::invalid_argument("known row " + std::to_string(row) + ": must be in 0.." +
                                  std::to_string(static_cast<std::int64_t>(size_) - 1));
    }
  }
  check(fusion);
  check({&query.message, 1});
  check(query.clauses);
  check(query.earlier);
  LearnedVectors learned(query.learned, size_, vectors_ ? vectors_->dim() : 0);
  if (query.k == 0) return {};
  return Search(*this, query, fusion, std::move(learned)).run();
}

Retrieved Retriever::search_both(const RetrievalQuery& query, const Fusion& fusion) const {
  const std::size_t n = shared_->size();
  const auto behind = static_cast<std::int32_t>(n);
  std::vector<std::int32_t> rows[2];
  std::vector<float> scores[2];
  for (std::size_t i = 0; i < query.known_rows.size(); ++i) {
    const std::int32_t row = query.known_rows[i];
    const bool is_own = row >= behind;
    rows[is_own].push_back(is_own ? row - behind : row);
    scores[is_own].push_back(query.known_scores[i]);
  }
  // The leaders of retrieval alone take places in a part's answer that they may lose in the whole.
  const std::size_t k = query.k;
  const std::size_t of_each = k == 0 || query.learned.learned == nullptr ? k : k + kRawBest;
  const auto part = [&](const Bitset& in_play, bool is_own, std::size_t first_row) {
    LearnedInput learned = query.learned;
    learned.first_row += first_row;
    return RetrievalQuery{query.message, query.clauses,  query.earlier, in_play,
                          rows[is_own],  scores[is_own], of_each,       learned};
  };
  const Bitset shared_in_play = query.in_play.slice(0, n);
  const Bitset own_in_play = query.in_play.slice(n, size_);
  Retrieved a = shared_->search(part(shared_in_play, false, 0), fusion);
  Retrieved b = own_->search(part(own_in_play, true, n), fusion);
  for (std::int32_t& row : b.rows) row += behind;
  a.evidence = std::max(a.evidence, b.evidence);
  if (b.rows.empty() && a.rows.size() <= k) return a;

  // Best first. Of equal scores the shared row comes first, because it is the lower one. The places
  // of the own part follow those of the shared part.
  const auto merged_order = [](const std::vector<float>& shared, const std::vector<float>& own) {
    std::vector<std::size_t> order(shared.size() + own.size());
    for (std::size_t i = 0, j = 0, o = 0; o < order.size(); ++o) {
      const bool is_own = i == shared.size() || (j < own.size() && own[j] > shared[i]);
      order[o] = is_own ? shared.size() + j++ : i++;
    }
    return order;
  };
  const auto gathered = [](auto shared, const auto& own, const std::vector<std::size_t>& order) {
    shared.insert(shared.end(), own.begin(), own.end());
    return at(shared, order);
  };
  for (std::int32_t& row : b.raw_best) row += behind;
  std::vector<std::size_t> raw_order = merged_order(a.raw_scores, b.raw_scores);
  raw_order.resize(std::min({raw_order.size(), k, kRawBest}));
  const std::vector<std::int32_t> raw_best = gathered(a.raw_best, b.raw_best, raw_order);
  std::vector<std::size_t> raw_places;
  for (const std::int32_t row : raw_best) {
    const bool is_own = row >= behind;
    const std::vector<std::int32_t>& part = is_own ? b.rows : a.rows;
    const auto found = std::find(part.begin(), part.end(), row) - part.begin();
    raw_places.push_back(static_cast<std::size_t>(found) + (is_own ? a.rows.size() : 0));
  }
  const std::vector<std::size_t> order =
      first_with(merged_order(a.scores, b.scores), raw_places, k);
  const auto merged = [&](auto column) { return gathered(a.*column, b.*column, order); };
  Retrieved out;
  out.rows = merged(&Retrieved::rows);
  out.scores = merged(&Retrieved::scores);
  out.dense = merged(&Retrieved::dense);
  out.intents = merged(&Retrieved::intents);
  out.lexical = merged(&Retrieved::lexical);
  out.clauses = merged(&Retrieved::clauses);
  out.earlier = merged(&Retrieved::earlier);
  out.evidence = a.evidence;
  out.raw_scores = gathered(a.raw_scores, b.raw_scores, raw_order);
  out.raw_best = raw_best;
  return out;
}

}  // namespace toolroll
