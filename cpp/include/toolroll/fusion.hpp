/// One ranking from vectors and words: dense and lexical evidence added on one scale.
///
/// Both scores are close to linear in log-odds of relevance: a cosine over a temperature, and BM25,
/// which is a sum of log-odds by construction. So a weighted sum is the natural fusion, and its
/// weights carry from catalog to catalog, where ranks and per-query scaling do not: fitted on four
/// of five labelled sets by maximum likelihood, the weights are those of the fifth (mean recall@5
/// 0.859 either way).
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

/// What a piece of text says for a tool:
///
///     dense * max(0, cosine - dense_floor) + intents * max(0, nearest intent - intent_floor)
///       + lexical * BM25 / (1 + ceiling / lexical_saturation)
///
/// Ceiling is what BM25 could reach for that text: of a long one, chance matches add up to more.
/// The numbers are the profile's; it alone has defaults.
struct Fusion {
  float dense;               // >= 0
  float dense_floor;         // what two unrelated texts have in common, for this embedder
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
  float trust = 1.0F;             // in [0, 1]: what the vector counts; less where the embedder
                                  // does not know the language
  float weight = 1.0F;            // >= 0: what the part counts beside others
};

/// Columns of equal length, best first, ties by ascending row.
struct Retrieved {
  std::vector<std::int32_t> rows;
  std::vector<float> scores;   // the sum of what follows, damped, and of what was known before
  std::vector<float> dense;    // of the message: trust * dense * (cosine - floor)
  std::vector<float> intents;  // of the message: trust * intents * (nearest intent - floor)
  std::vector<float> lexical;  // of the message
  std::vector<float> clauses;  // what the best clause adds to the message as a whole, or takes off
  std::vector<float> earlier;  // what earlier turns add
  float evidence = 0.0F;       // the greatest score of any row without what was known before, as if
                               // message and earlier turns were one message of their mean
  std::vector<std::int32_t> raw_best;  // rows that are best without what was learnt, best first: at
                                       // most kRawBest, each among `rows`
  std::vector<float> raw_scores;       // theirs then
};

inline constexpr std::size_t kRawBest = 3;

/// Vectors, intents and postings over the same rows. Immutable; any number of threads may search at
/// once.
class Retriever {
 public:
  /// Any of the indexes may be missing. damping: what all a row's evidence is multiplied by, in
  /// [0, 1]; empty for 1. Throws std::invalid_argument if one of them is not of `size` rows, or a
  /// factor is out of its range.
  Retriever(std::size_t size, std::shared_ptr<const VectorIndex> vectors,
            std::shared_ptr<const Bm25Index> postings,
            std::shared_ptr<const Intents> intents = nullptr, std::vector<float> damping = {});

  /// The k best rows in play. For each part each index names its nearest max(1.25 k, 24), of a
  /// clause its nearest 8, and more where rows are damped, so that those cannot keep others from
  /// being named; rows that any names, and those of known, are then scored by all, so no arm's
  /// opinion on them is missing. With m, c and e for what the message, its best clause and an
  /// earlier turn say:
  ///
  ///     score = damping * (m + fusion.clauses * (c - m) + sum of weight * e)
  ///             + what was known before
  ///
  /// clauses: pieces of the message that may each ask for something. earlier: turns before this
  /// one. known: rows with evidence from elsewhere, all of them in play, each once. A
  /// clause without a vector is left out where the message has one. Intents name no rows: they
  /// speak for rows that vectors or postings have named. learned: learned vectors, which change the
  /// cosines of their rows and name their nearest to the message as well (learned_vectors.hpp).
  /// Throws std::invalid_argument if a size does not fit, a vector that counts is not finite, or a
  /// number is out of its range.
  Retrieved search(const Part& message, std::span<const Part> clauses,
                   std::span<const Part> earlier, const Bitset& in_play,
                   std::span<const std::int32_t> known_rows, std::span<const float> known_scores,
                   std::size_t k, const Fusion& fusion,
                   const LearnedInput& learned_input = {}) const;

  /// About how long such a search takes, from the number of rows, the width of the vectors and the
  /// length of the texts. O(parts).
  double expected_ns(const Part& message, std::span<const Part> clauses,
                     std::span<const Part> earlier, const Bitset& in_play, std::size_t known,
                     std::size_t k, const LearnedInput& learned_input) const;

  std::size_t size() const { return size_; }
  const VectorIndex* vectors() const { return vectors_.get(); }
  const Bm25Index* postings() const { return postings_.get(); }
  const Intents* intents() const { return intents_.get(); }

 private:
  std::size_t size_;
  std::shared_ptr<const VectorIndex> vectors_;
  std::shared_ptr<const Bm25Index> postings_;
  std::shared_ptr<const Intents> intents_;
  std::vector<float> damping_;
  std::size_t damped_ = 0;  // rows with a factor below 1
};

/// Two retrievers as one over their rows end to end: what many share, and behind it what is one's
/// own. Neither is copied, and neither's scores know of the other. Immutable; any number of threads
/// may search at once.
class StackedRetriever {
 public:
  /// Throws std::invalid_argument if one is missing or both have vectors, of different width.
  StackedRetriever(std::shared_ptr<const Retriever> shared, std::shared_ptr<const Retriever> own);

  /// As Retriever::search, over rows 0..size()-1; row r of the own part is shared.size() + r. Each
  /// part names its nearest, so that more rows are looked at than one retriever would.
  Retrieved search(const Part& message, std::span<const Part> clauses,
                   std::span<const Part> earlier, const Bitset& in_play,
                   std::span<const std::int32_t> known_rows, std::span<const float> known_scores,
                   std::size_t k, const Fusion& fusion,
                   const LearnedInput& learned_input = {}) const;

  /// As Retriever::expected_ns.
  double expected_ns(const Part& message, std::span<const Part> clauses,
                     std::span<const Part> earlier, const Bitset& in_play, std::size_t known,
                     std::size_t k, const LearnedInput& learned_input) const;

  std::size_t size() const { return shared_->size() + own_->size(); }

 private:
  std::shared_ptr<const Retriever> shared_;
  std::shared_ptr<const Retriever> own_;
};

}  // namespace toolroll
