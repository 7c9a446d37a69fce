/// Lexical scores: BM25 over an inverted index of tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toolroll/archive.hpp"
#include "toolroll/bitset.hpp"
#include "toolroll/string_table.hpp"
#include "toolroll/terms.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

/// What a Bm25Index is built with.
struct Bm25Options {
  double k1 = 1.2;  // >= 0: how late repetitions of a term stop counting
  double b = 0.75;  // in [0, 1]: how much a long text is held against it
  Analysis analysis = Analysis::kDefault;
};

/// One text field of all rows, and what its terms count for.
struct Field {
  std::span<const std::string_view> texts;  // one a row
  double weight = 1;                        // finite, >= 0; 0 leaves the field out
};

/// An immutable index of n rows. Safe to search from many threads.
///
/// An index may have another one for background: then n, df, mean length and ceiling are those of
/// both together, so that its scores are on the scale of the larger whole. The background's own
/// scores stay what they are, and it is looked at, not copied.
///
/// The score of a row for a message is the sum, over the distinct terms t of both, of
///
///     idf(t) * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / mean length))
///     idf(t) = ln(1 + (n - df + 0.5) / (df + 0.5))
///
/// where tf = sum over fields of weight * occurrences, the length is the same sum over all terms,
/// and df counts the rows that have t in a field of weight > 0. With one field of weight 1 that is
/// tantivy's score, and k1 + 1 times that of bm25s's method "lucene". How often the message repeats
/// a term doesn't count. A message with more than kMostTerms distinct known terms is scored by the
/// rarest of them. Scores are sums of float32 in order of ascending df: the same number for the
/// same row whichever way the search took.
///
/// A search walks the postings of the rare terms first. As soon as no row without one of those can
/// reach the k best, what is left of the common terms is looked up for the rows still in the
/// running and not walked.
///
/// Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009
/// (with its simple form of fields, BM25F); Turtle & Flood, "Query evaluation: strategies and
/// optimizations", 1995 (the bound).
class Bm25Index {
 public:
  static constexpr std::size_t kMostTerms = 256;

  /// Throws std::invalid_argument if there is no field, fields differ in length, an option or
  /// weight is out of its range, or the background has other options. O(total text).
  static Bm25Index build(std::span<const Field> fields, const Bm25Options& options,
                         std::shared_ptr<const Bm25Index> background = nullptr);

  /// A message as this index reads it; means nothing to another.
  struct Message {
    std::vector<std::uint32_t> terms;  // the known ones, each once, rarest first
    std::vector<double> bound;         // bound[j]: more than terms[j] and all behind it can add
    std::size_t postings = 0;          // of all terms together
    double ceiling = 0;                // see ceiling()
  };
  Message read(std::string_view text) const;

  /// The best min(k, matching) rows among the allowed ones, each score above 0; a row that shares
  /// no term with the message is never among them. allowed: nullptr for all rows, else of this size
  /// (or std::invalid_argument).
  Hits search(const Message& message, std::size_t k, const Bitset* allowed) const;
  Hits search(std::string_view text, std::size_t k, const Bitset* allowed) const;

  /// The scores of these rows, 0 where no term is shared. Throws std::invalid_argument if a row is
  /// out of range or out is not as long as rows.
  void scores(const Message& message, std::span<const std::int32_t> rows,
              std::span<float> out) const;
  void scores(std::string_view text, std::span<const std::int32_t> rows,
              std::span<float> out) const;

  /// More than any row can score for this message: the sum over its distinct terms, known or not,
  /// of idf(t) * (k1 + 1). 0 for a message without terms.
  double ceiling(std::string_view text) const;

  std::size_t size() const { return size_; }
  std::size_t terms() const { return table_.size(); }
  const Bm25Options& options() const { return options_; }
  std::size_t memory_bytes() const;
  /// About how long a search for a text of so many bytes takes, from the rows that a term of the
  /// indexed texts has on the average. O(1).
  double expected_ns(std::size_t text_bytes) const;

  /// Scratches that searches have left for the next: about 12 bytes a row each, as many as searches
  /// ran at once, at most 16. They belong to the index and go with it.
  std::size_t idle_scratch() const;

  /// Throws std::invalid_argument if there is a background: a file holds one index.
  void save(const std::string& path) const;
  /// Throws ArchiveError unless the file is an index that save() wrote, sound in every number.
  static Bm25Index load(const std::string& path);

 private:
  struct Scratch;
  class ScratchPool;
  class Lease;

  Bm25Index();
  double idf(std::size_t df) const;
  std::size_t documents() const { return size_ + (background_ ? background_->documents() : 0); }
  /// Rows of the background that have the term.
  std::size_t df_behind(std::string_view term) const;
  std::size_t df(std::uint32_t term) const { return begins_[term + 1] - begins_[term]; }
  const float* column_of(std::uint32_t term) const {
    return column_[term] == kNoColumn ? nullptr : columns_.data() + column_[term] * size_;
  }
  void derive();
  void read(std::string_view text, Scratch& scratch, Message& message) const;
  Hits search(const Message& message, std::size_t k, const Bitset* allowed, Lease& scratch) const;
  void look_up(std::uint32_t term, std::span<const std::int32_t> rows, float* sums) const;
  void add_up(std::uint32_t term, std::span<const std::int32_t> rows, float* sums) const;
  void add_up(std::uint32_t term, float* sums) const;
  float impact(std::uint32_t term,
               std::int32_t row) const;  // what the term adds to the row, 0 if nothing

  static constexpr std::uint32_t kNoColumn = 0xFFFFFFFF;

  std::size_t size_ = 0;
  Bm25Options options_;
  std::shared_ptr<const Bm25Index> background_;  // or nullptr
  StringTable table_;                            // term -> number
  std::vector<std::uint64_t> begins_;            // postings of term t: [begins_[t], begins_[t + 1])
  std::vector<std::int32_t> postings_;           // rows, ascending within a term
  std::vector<float> impacts_;                   // what the term adds to the row's score, > 0
  std::vector<float> lengths_;  // of the rows; saved, so that a file is as large as its rows claim
  // Derived from the above:
  std::vector<float> greatest_;   // impact of each term
  std::vector<double> reach_;     // idf * (k1 + 1) of each term
  double total_length_ = 0;       // of the rows, the background's too
  double postings_per_term_ = 0;  // of a term met at random in the texts
  // Terms of a quarter of the rows and more also as a column over all rows, 0 where absent: adding
  // it up is one pass without a scatter, looking a row up one load.
  std::vector<std::uint32_t> column_;  // term -> which column, or kNoColumn
  std::vector<float> columns_;
  std::shared_ptr<ScratchPool> scratch_;  // shared by copies; searches are const and write there
};

}  // namespace toolroll
