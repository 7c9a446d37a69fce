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
constexpr std::size_t kFromAClause = 8;    // a clause asks for one thing
constexpr std::size_t kMostInTheWay = 64;  // damped rows that room is made for

// What expected_ns() reckons with, measured on one core of 2021.
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

/// How many rows an index may name for one part of which the best k are wanted.
std::size_t most_of_each(std::size_t k, std::size_t damped) {
  return std::max(k + k / 4, kLeastFromEach) + std::min(damped, kMostInTheWay);
}

/// The k first of an order, best first, with those wanted among them: who is left out takes the
/// last place of one who is not wanted. At most k are wanted.
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

/// What one part says for each row.
struct Evidence {
  std::vector<float> dense;
  std::vector<float> intents;
  std::vector<float> lexical;
  std::vector<float> raw_dense;  // these two without what was learnt; empty if that is the same
  std::vector<float> raw_intents;

  explicit Evidence(std::size_t rows) : dense(rows), intents(rows), lexical(rows) {}
  float sum(std::size_t i) const { return dense[i] + intents[i] + lexical[i]; }
  float raw_sum(std::size_t i) const {
    return raw_dense.empty() ? sum(i) : raw_dense[i] + raw_intents[i] + lexical[i];
  }
};

/// Not so of an empty vector, and of zeros: nothing is known of such a text.
bool has_direction(std::span<const float> vector) {
  return std::any_of(vector.begin(), vector.end(), [](float value) { return value != 0.0F; });
}

/// One part, and what the indexes say of it.
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

  /// Adds the rows that are nearest to the part, at most so many by each index.
  void nominate(std::size_t most, const Bitset* filter, std::vector<std::int32_t>& rows) const {
    const auto add = [&rows](const std::vector<std::int32_t>& named) {
      rows.insert(rows.end(), named.begin(), named.end());
    };
    if (vectors_ != nullptr) add(vectors_->search(part_->vector, most, filter).rows);
    if (postings_ != nullptr) add(postings_->search(message_, most, filter).rows);
  }

  /// The same of learned vectors.
  void nominate(std::size_t most, const Bitset& in_play, const LearnedVectors& learned_vectors,
                std::vector<std::int32_t>& rows) const {
    if (vectors_ != nullptr) learned_vectors.nominate(part_->vector, most, in_play, rows);
  }

  /// learned_vectors: has looked up these rows.
  Evidence weigh(std::span<const std::int32_t> rows, const LearnedVectors& learned_vectors) const {
    Evidence evidence(rows.size());
    if (vectors_ != nullptr) {
      const float dense = part_->trust * fusion_->dense;
      evidence.dense = vectors_->scores(part_->vector, rows);
      if (learned_vectors.has_any()) evidence.raw_dense = evidence.dense;
      learned_vectors.blend(part_->vector, evidence.dense);
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
      learned_vectors.recall(part_->vector, fusion_->intent_floor, evidence.intents);
      const float weight = part_->trust * fusion_->intents;
      for (std::vector<float>* scores : {&evidence.intents, &evidence.raw_intents}) {
        for (float& score : *scores) score *= weight;
      }
    }
    if (postings_ != nullptr) {
      const auto ceiling = static_cast<float>(message_.ceiling);
      const float lexical = fusion_->lexical / (1.0F + ceiling / fusion_->lexical_saturation);
      postings_->scores(message_, rows, evidence.lexical);
      for (float& score : evidence.lexical) score *= lexical;
    }
    return evidence;
  }

  float weight() const { return part_->weight; }
  bool is_dense() const { return vectors_ != nullptr; }

 private:
  const Part* part_;
  const VectorIndex* vectors_;  // nullptr where the part has nothing to ask of it
  const Bm25Index* postings_;
  const Intents* intents_;
  const Fusion* fusion_;
  Bm25Index::Message message_;
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

double Retriever::expected_ns(const Part& message, std::span<const Part> clauses,
                              std::span<const Part> earlier, const Bitset& in_play,
                              std::size_t known, std::size_t k,
                              const LearnedInput& learned_input) const {
  const std::size_t count = std::min(in_play.count(), size_);
  const std::size_t most = most_of_each(std::min(k, size_), damped_);
  const std::size_t parts = 1 + clauses.size() + earlier.size();
  const std::size_t rows = std::min(size_, known + 2 * most * parts);
  double ns = 0;
  const auto add = [&](const Part& part) {
    ns += kRowNs * static_cast<double>(rows);
    if (postings_ != nullptr) ns += postings_->expected_ns(part.text.size());
    if (vectors_ != nullptr && !part.vector.empty()) {
      ns += vectors_->expected_ns(most, count) + vectors_->expected_scores_ns(rows);
    }
  };
  add(message);
  std::ranges::for_each(clauses, add);
  std::ranges::for_each(earlier, add);
  if (learned_input.learned != nullptr && !message.vector.empty()) {
    ns += kLearnedNsPerByte *
          static_cast<double>(learned_input.learned->vectors() * learned_input.learned->dim());
  }
  return ns;
}

Retrieved Retriever::search(const Part& message, std::span<const Part> clauses,
                            std::span<const Part> earlier, const Bitset& in_play,
                            std::span<const std::int32_t> known_rows,
                            std::span<const float> known_scores, std::size_t k,
                            const Fusion& fusion, const LearnedInput& learned_input) const {
  check_size("rows in play", in_play.size(), size_);
  check_size("known scores", known_scores.size(), known_rows.size());
  // Read once: what was checked is what is used, also if the caller's array changes meanwhile.
  const std::vector<std::int32_t> known(known_rows.begin(), known_rows.end());
  for (const std::int32_t row : known) {
    if (row < 0 || static_cast<std::size_t>(row) >= size_) {
      throw std::invalid_argument("known row " + std::to_string(row) + ": must be in 0.." +
                                  std::to_string(static_cast<std::int64_t>(size_) - 1));
    }
  }
  check(fusion);
  check({&message, 1});
  check(clauses);
  check(earlier);
  LearnedVectors learned_vectors(learned_input, size_, vectors_ ? vectors_->dim() : 0);
  Retrieved out;
  if (k == 0) return out;
  if (fusion.clauses == 0.0F) clauses = {};
  const auto ask = [&](const Part& part) {
    return PartQuery(part, vectors_.get(), postings_.get(), intents_.get(), fusion);
  };
  const auto ask_all = [&](std::span<const Part> parts) {
    std::vector<PartQuery> asked;
    asked.reserve(parts.size());
    for (const Part& part : parts) asked.push_back(ask(part));
    return asked;
  };
  const PartQuery asked = ask(message);
  std::vector<PartQuery> pieces = ask_all(clauses);
  // A clause without a vector is no rival of a message that has one.
  std::erase_if(pieces,
                [&](const PartQuery& piece) { return asked.is_dense() && !piece.is_dense(); });
  const std::vector<PartQuery> turns = ask_all(earlier);
  const Bitset* const filter = in_play.count() == size_ ? nullptr : &in_play;
  const std::size_t in_the_way = std::min(damped_, kMostInTheWay);
  const std::size_t most = most_of_each(std::min(k, size_), damped_);

  std::vector<std::int32_t> rows(known);
  asked.nominate(most, filter, rows);
  asked.nominate(most, in_play, learned_vectors, rows);
  for (const PartQuery& piece : pieces) piece.nominate(kFromAClause + in_the_way, filter, rows);
  for (const PartQuery& turn : turns) turn.nominate(most, filter, rows);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());

  const float unrelated = 0.5F * (fusion.dense_floor + fusion.intent_floor);
  learned_vectors.look_up(rows, unrelated, 0.5F * (unrelated + fusion.intent_floor));
  const Evidence whole = asked.weigh(rows, learned_vectors);
  std::vector<Evidence> of_pieces;
  for (const PartQuery& piece : pieces) of_pieces.push_back(piece.weigh(rows, learned_vectors));
  std::vector<Evidence> of_turns;
  for (const PartQuery& turn : turns) of_turns.push_back(turn.weigh(rows, learned_vectors));

  // `sum` reads a part's evidence; the terms and what they come to together are written.
  std::vector<float> by_clauses(rows.size(), 0.0F);
  std::vector<float> by_earlier(rows.size(), 0.0F);
  std::vector<float> scores(rows.size());
  const auto add_up = [&](auto sum) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float message_alone = (whole.*sum)(i);
      by_clauses[i] = 0.0F;
      for (const Evidence& piece : of_pieces) {
        by_clauses[i] = std::max(by_clauses[i], (piece.*sum)(i));
      }
      if (!of_pieces.empty()) by_clauses[i] = fusion.clauses * (by_clauses[i] - message_alone);
      by_earlier[i] = 0.0F;
      for (std::size_t turn = 0; turn < turns.size(); ++turn) {
        by_earlier[i] += turns[turn].weight() * (of_turns[turn].*sum)(i);
      }
      scores[i] = message_alone + (by_clauses[i] + by_earlier[i]);
      if (damped_ > 0) scores[i] *= damping_[static_cast<std::size_t>(rows[i])];
    }
  };
  const auto add_known = [&](std::vector<float>& to) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      const auto found = std::lower_bound(rows.begin(), rows.end(), known[i]);
      to[static_cast<std::size_t>(found - rows.begin())] += known_scores[i];
    }
  };
  std::vector<float> raw_scores;
  if (learned_vectors.has_any()) {
    add_up(&Evidence::raw_sum);
    raw_scores = scores;
    add_known(raw_scores);
  }
  add_up(&Evidence::sum);
  float weights = 1.0F;
  for (const PartQuery& turn : turns) weights += turn.weight();
  for (const float score : scores) out.evidence = std::max(out.evidence, score / weights);
  add_known(scores);

  std::vector<std::size_t> places;
  places.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (scores[i] > 0.0F && scores[i] >= fusion.threshold) places.push_back(i);
  }
  const auto best = [&places](const std::vector<float>& by, std::size_t most) {
    std::vector<std::size_t> first(places);
    const std::size_t kept = std::min(most, first.size());
    std::partial_sort(
        first.begin(), first.begin() + static_cast<std::ptrdiff_t>(kept), first.end(),
        [&by](std::size_t a, std::size_t b) { return by[a] != by[b] ? by[a] > by[b] : a < b; });
    first.resize(kept);
    return first;
  };
  if (raw_scores.empty()) {
    places = best(scores, k);
    const std::size_t first = std::min({places.size(), k, kRawBest});
    const std::vector<std::size_t> raw(places.begin(),
                                       places.begin() + static_cast<std::ptrdiff_t>(first));
    out.raw_best = at(rows, raw);
    out.raw_scores = at(scores, raw);
  } else {
    // What retrieval alone puts first is found, whatever was learnt.
    const std::vector<std::size_t> raw = best(raw_scores, std::min(k, kRawBest));
    std::vector<std::size_t> order = best(scores, k);
    const auto behind = static_cast<std::ptrdiff_t>(order.size());
    for (const std::size_t place : raw) {
      if (std::find(order.begin(), order.begin() + behind, place) == order.begin() + behind) {
        order.push_back(place);
      }
    }
    std::sort(order.begin() + behind, order.end(), [&scores](std::size_t a, std::size_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    places = first_with(order, raw, k);
    out.raw_best = at(rows, raw);
    out.raw_scores = at(raw_scores, raw);
  }
  out.rows = at(rows, places);
  out.scores = at(scores, places);
  out.dense = at(whole.dense, places);
  out.intents = at(whole.intents, places);
  out.lexical = at(whole.lexical, places);
  out.clauses = at(by_clauses, places);
  out.earlier = at(by_earlier, places);
  return out;
}

StackedRetriever::StackedRetriever(std::shared_ptr<const Retriever> shared,
                                   std::shared_ptr<const Retriever> own)
    : shared_(std::move(shared)), own_(std::move(own)) {
  if (!shared_ || !own_) throw std::invalid_argument("retriever: is missing");
  const VectorIndex* const vectors = shared_->vectors();
  const VectorIndex* const others = own_->vectors();
  if (vectors != nullptr && others != nullptr && vectors->dim() != others->dim()) {
    throw std::invalid_argument("retrievers: have vectors of " + std::to_string(vectors->dim()) +
                                " and " + std::to_string(others->dim()) +
                                " dimensions, must be of the same");
  }
}

double StackedRetriever::expected_ns(const Part& message, std::span<const Part> clauses,
                                     std::span<const Part> earlier, const Bitset& in_play,
                                     std::size_t known, std::size_t k,
                                     const LearnedInput& learned_input) const {
  return shared_->expected_ns(message, clauses, earlier, in_play, known, k, learned_input) +
         own_->expected_ns(message, clauses, earlier, in_play, known, k, learned_input);
}

Retrieved StackedRetriever::search(const Part& message, std::span<const Part> clauses,
                                   std::span<const Part> earlier, const Bitset& in_play,
                                   std::span<const std::int32_t> known_rows,
                                   std::span<const float> known_scores, std::size_t k,
                                   const Fusion& fusion, const LearnedInput& learned_input) const {
  check_size("rows in play", in_play.size(), size());
  check_size("known scores", known_scores.size(), known_rows.size());
  const std::size_t n = shared_->size();
  const auto behind = static_cast<std::int32_t>(n);
  std::vector<std::int32_t> rows[2];
  std::vector<float> scores[2];
  for (std::size_t i = 0; i < known_rows.size(); ++i) {
    const std::int32_t row = known_rows[i];
    const bool is_own = row >= behind;
    rows[is_own].push_back(is_own ? row - behind : row);
    scores[is_own].push_back(known_scores[i]);
  }
  // A part may give places to what it puts first without what was learnt, and the whole not.
  const std::size_t asked = k == 0 || learned_input.learned == nullptr ? k : k + kRawBest;
  Retrieved a = shared_->search(message, clauses, earlier, in_play.slice(0, n), rows[0], scores[0],
                                asked, fusion, learned_input);
  LearnedInput of_own = learned_input;
  of_own.first_row += n;
  Retrieved b = own_->search(message, clauses, earlier, in_play.slice(n, size()), rows[1],
                             scores[1], asked, fusion, of_own);
  for (std::int32_t& row : b.rows) row += behind;
  a.evidence = std::max(a.evidence, b.evidence);
  if (b.rows.empty() && a.rows.size() <= k) return a;

  // Best first, the shared one where both have the same score: its row is the lower one. Places of
  // the own part lie behind those of the shared one.
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
