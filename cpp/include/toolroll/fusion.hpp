/// One ranking from vectors and words: a weighted sum of dense and lexical scores.
///
/// A cosine over a temperature is close to linear in the log-odds of relevance, and BM25 is a sum
/// of log-odds by construction. So both can be added. Unlike ranks or scores scaled for each query,
/// the weights carry over from catalog to catalog: weights fitted by maximum likelihood on four of
/// five labelled sets do as well on the fifth as weights fitted there (mean recall@5 0.859).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "toolroll/bitset.hpp"
#include "toolroll/bm25.hpp"
#include "toolroll/intents.hpp"
#include "toolroll/learned_vectors.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll {

/// The weights of the evidence that a piece of text gives for a tool:
///
///     dense * max(0, cosine - dense_floor) + intents * max(0, nearest intent - intent_floor)
///       + lexical * BM25 / (1 + ceiling / lexical_saturation)
///
/// The ceiling is the greatest BM25 score that the text could reach. Without the division, chance
/// matches of a long text would add up to more than matches of a short one. The Python profile
/// holds the numbers and their defaults.
struct Fusion {
  float dense;               // >= 0
  float dense_floor;         // the cosine of two unrelated texts, for this embedder
  float lexical;             // >= 0
  float lexical_saturation;  // > 0, may be infinite: then BM25 counts the same at every length
  float intents;             // >= 0
  float intent_floor;        // a cosine that unrelated messages reach
  float clauses;             // in [0, 1]: see Retriever::search
  float threshold;           // a row is found if its score is above 0 and not below this
};

/// A text to find tools for.
struct Part {
  std::string_view text;
  std::span<const float> vector;  // empty or zeros: no dense evidence
  float trust = 1.0F;             // in [0, 1]: weight of the vector; lower for a language that the
                                  // embedder does not know
  float weight = 1.0F;            // >= 0: weight of an earlier turn
};

/// Columns of equal length, best first, ties by ascending row.
struct Retrieved {
  std::vector<std::int32_t> rows;
  std::vector<float> scores;   // the sum of the columns below, damped, plus the known score
  std::vector<float> dense;    // of the message: trust * dense * (cosine - floor)
  std::vector<float> intents;  // of the message: trust * intents * (nearest intent - floor)
  std::vector<float> lexical;  // of the message
  std::vector<float> clauses;  // the best clause's addition to the message's evidence, or deduction
  std::vector<float> earlier;  // the addition of earlier turns
  float evidence = 0.0F;       // the greatest score of any row without known scores, divided by the
                               // weights of the message and the earlier turns
  std::vector<std::int32_t> raw_best;  // the best rows without learned vectors, best first: at most
                                       // kRawBest, each among `rows`
  std::vector<float> raw_scores;       // their scores without learned vectors
};

inline constexpr std::size_t kRawBest = 3;

/// One turn to find tools for. It refers to the caller's memory.
struct RetrievalQuery {
  Part message;
  std::span<const Part> clauses;  // pieces of the message that may each ask for something
  std::span<const Part> earlier;  // earlier turns
  const Bitset& in_play;          // the rows that may be found
  std::span<const std::int32_t>
      known_rows;                       // rows with evidence from elsewhere; in play, each once
  std::span<const float> known_scores;  // that evidence
  std::size_t k;                        // the most rows to find
  LearnedInput learned = {};
};

/// Vectors, intents and postings over the same rows. Immutable; any number of threads may search at
/// once.
class Retriever {
 public:
  /// Each of the indexes may be missing. damping: one factor in [0, 1] for each row, by which all
  /// its evidence is multiplied; empty for 1. Throws std::invalid_argument if an index does not
  /// have `size` rows, or if a factor is out of its range.
  Retriever(std::size_t size, std::shared_ptr<const VectorIndex> vectors,
            std::shared_ptr<const Bm25Index> postings,
            std::shared_ptr<const Intents> intents = nullptr, std::vector<float> damping = {});

  /// Two retrievers as one: row r of `own` becomes row shared->size() + r. Nothing is copied, and
  /// the scores of one part do not depend on the other. A search looks at more rows than one
  /// retriever over all rows would, because each part nominates its nearest. Throws
  /// std::invalid_argument if one is missing or stacked itself, or if both have vectors and the
  /// widths differ.
  static Retriever stacked(std::shared_ptr<const Retriever> shared,
                           std::shared_ptr<const Retriever> own);

  /// The k best rows in play, in three steps.
  ///
  /// 1. Nominate: for each part, each index names its nearest max(1.25 k, 24) rows, and for a
  ///    clause its nearest 8. Where rows are damped it names more, so that damped rows cannot keep
  ///    others out. Learned vectors name the rows nearest to the message (learned_vectors.hpp).
  ///    Intents name no rows.
  /// 2. Weigh: all indexes score every nominated and every known row, so that no row lacks the
  ///    evidence of an index that did not name it. Many known rows are bounded first, and those
  ///    that cannot change the result are not scored. With m, c and e for the evidence of the
  ///    message, of its best clause and of an earlier turn:
  ///
  ///        score = damping * (m + fusion.clauses * (c - m) + sum of weight * e) + known score
  ///
  ///    A clause without a vector is ignored if the message has one.
  /// 3. Order: by score. The kRawBest rows that are best without learned vectors stay among the k.
  ///
  /// Throws std::invalid_argument if a size does not fit, a vector that counts is not finite, or a
  /// number is out of its range.
  Retrieved search(const RetrievalQuery& query, const Fusion& fusion) const;

  /// The approximate duration of such a search, from the number of rows, the width of the vectors
  /// and the length of the texts. O(parts).
  double expected_ns(const RetrievalQuery& query) const;

  std::size_t size() const { return size_; }
  /// The row's factor; 1 where nothing is damped. The row is in range.
  float damping(std::int32_t row) const;

 private:
  class Search;
  Retrieved search_both(const RetrievalQuery& query, const Fusion& fusion) const;

  std::size_t size_;
  std::shared_ptr<const VectorIndex> vectors_;
  std::shared_ptr<const Bm25Index> postings_;
  std::shared_ptr<const Intents> intents_;
  std::vector<float> damping_;
  std::size_t damped_ = 0;                   // rows with a factor below 1
  std::shared_ptr<const Retriever> shared_;  // the two parts of a stacked one, else nullptr
  std::shared_ptr<const Retriever> own_;
};

}  // namespace toolroll
