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
#include "toolroll/row_changes.hpp"
#include "toolroll/shared_array.hpp"
#include "toolroll/string_table.hpp"
#include "toolroll/terms.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {

/// The constants of a Bm25Index.
struct Bm25Options {
  double k1 = 1.2;  // >= 0: the larger, the more repetitions of a term count
  double b = 0.75;  // in [0, 1]: the larger, the less a term of a long text counts
  Analysis analysis = Analysis::kDefault;
};

/// One text field of all rows, and the weight of its terms.
struct Field {
  std::span<const std::string_view> texts;  // one a row
  double weight = 1;                        // finite, >= 0; 0 leaves the field out
};

/// An immutable index of n rows. Safe to search from many threads.
///
/// An index may have another index as its background. Then n, df, mean length and ceiling count
/// both together, so that the scores of both are on one scale. The background is not copied, and
/// its own scores do not change.
///
/// The score of a row for a message is the sum, over the distinct terms t of both, of
///
///     idf(t) * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / mean length))
///     idf(t) = ln(1 + (n - df + 0.5) / (df + 0.5))
///
/// where tf = sum over fields of weight * occurrences, length is this sum over all terms,
/// and df counts the rows that have t in a field of weight > 0. With one field of weight 1 that is
/// tantivy's score, and k1 + 1 times the score of bm25s's method "lucene". Repetitions of a term in
/// the message do not count. If a message has more than kMostTerms distinct known terms, only the
/// rarest ones count. Scores are sums of float32 in order of ascending df, so a row's score does
/// not depend on the method of the search.
///
/// A large index keeps the greatest impact of a term in each block of 16 rows. A search adds these
/// up to a bound for each block, sums the blocks in the order of their bounds, and ends at the
/// first whose bound is below the k-th best sum so far. Rows ascend with names, so the rows of one
/// app or topic share blocks, and a search sums a few of thousands of blocks. Where many blocks are
/// left but few postings of the rare terms, it walks these postings and looks the common terms up
/// for the rows that it finds. So does a search for a message with few postings, without bounds. A
/// skipped row is never among the best: rows and scores are the same as after summing all rows.
///
/// Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009
/// (with its simple form of fields, BM25F); Ding & Suel, "Faster top-k document retrieval using
/// block-max indexes", SIGIR 2011 (the maxima); Mallia, Suel & Tonellotto, "Faster learned sparse
/// retrieval with block-max pruning", SIGIR 2024 (blocks in the order of their bounds).
class Bm25Index {
 public:
  static constexpr std::size_t kMostTerms = 256;

  /// Throws std::invalid_argument if there is no field, fields differ in length, an option or
  /// weight is out of its range, or the background has other options. O(total text).
  static Bm25Index build(std::span<const Field> fields, const Bm25Options& options,
                         std::shared_ptr<const Bm25Index> background = nullptr);

  /// The index that build() makes from the kept rows' texts and the added ones: every search gives
  /// the same rows and scores. fields: of the added rows, with the weights of build(). Throws
  /// std::invalid_argument if the sizes do not fit or there is a background.
  /// O(postings + total text added).
  Bm25Index with_changes(const RowChanges& changes, std::span<const Field> fields) const;

  /// The terms of a message for this index; not valid for another index.
  struct Message {
    std::vector<std::uint32_t> terms;  // the known ones, each once, rarest first
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

  /// An upper bound of any row's score for this message: the sum of idf(t) * (k1 + 1) over its
  /// distinct terms, known or not. 0 for a message without terms.
  double ceiling(std::string_view text) const;

  std::size_t size() const { return size_; }
  std::size_t terms() const { return table_.size(); }
  const Bm25Options& options() const { return options_; }
  std::size_t memory_bytes() const;
  /// The approximate duration of a search for a text of so many bytes, from the mean number of rows
  /// of a term. O(1).
  double expected_ns(std::size_t text_bytes) const;

  /// The number of scratch buffers that the index keeps for later searches: one for each search
  /// that ran at the same time, at most 16. Each takes about 4 bytes for each of the rows of a
  /// small index, or of the blocks of a large one. The index owns them.
  std::size_t idle_scratch() const;

  /// Throws std::invalid_argument if there is a background: a file holds one index.
  void save(const std::string& path) const;
  /// Throws ArchiveError unless the file is an index that save() wrote, sound in every number.
  static Bm25Index load(const std::string& path);

  static constexpr std::string_view kKind = "BM25";
  static constexpr std::uint32_t kVersion = 3;
  /// The archive, which refers to this index. Throws as save() does.
  ArchiveWriter archive() const;
  /// An index whose postings are views of the archive's memory. Throws as load() does.
  static Bm25Index read(ArchiveReader archive);

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
    return column_[term] == kNone ? nullptr : columns_.data() + column_[term] * size_;
  }
  const std::uint8_t* maxima_of(std::uint32_t term) const {
    return maxima_of_[term] == kNone ? nullptr : maxima_.data() + maxima_of_[term] * blocks();
  }
  std::size_t blocks() const { return (size_ + kBlock - 1) / kBlock; }
  /// An upper bound of the term's impact on any row of the block.
  float most_in(std::uint32_t term, std::size_t block) const {
    const std::uint8_t* const maxima = maxima_of(term);
    return maxima == nullptr ? greatest_[term]
                             : step_[term] * static_cast<float>(static_cast<int>(maxima[block]));
  }
  void weigh();
  void derive();
  void find_maxima(std::uint32_t term);
  void find_skips(std::uint32_t term);
  /// Places in the postings.
  struct Range {
    std::uint64_t first;
    std::size_t count;
  };
  /// The part of the term's postings in which the row, and the rows close behind it, begin.
  Range range_of(std::uint32_t term, std::size_t row) const;
  /// The first posting of the term whose row is not below this one, or one past its last.
  std::uint64_t first_from(std::uint32_t term, std::size_t row) const;
  void read(std::string_view text, Scratch& scratch, Message& message) const;
  Hits search(const Message& message, std::size_t k, const Bitset* allowed, Lease& scratch) const;
  Hits search_large(const Message& message, std::size_t k, const Bitset* allowed,
                    Lease& scratch) const;
  void look_up(std::uint32_t term, std::span<const std::int32_t> rows, float* sums) const;
  void add_up(std::uint32_t term, std::span<const std::int32_t> rows, float* sums) const;
  void add_up(std::uint32_t term, float* sums) const;
  /// The term's impact on the row; 0 for none.
  float impact(std::uint32_t term, std::int32_t row) const;

  class LargeSearch;
  static constexpr std::size_t kBlock = 16;  // rows
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  static constexpr std::uint8_t kNoSkips = 0xFF;

  std::size_t size_ = 0;
  Bm25Options options_;
  std::shared_ptr<const Bm25Index> background_;  // or nullptr
  StringTable table_;                            // term -> number
  SharedArray<std::uint64_t> begins_;            // postings of term t: [begins_[t], begins_[t + 1])
  SharedArray<std::int32_t> postings_;           // rows, ascending within a term
  SharedArray<float> frequencies_;               // weighted, of the term in the row
  SharedArray<float> impacts_;                   // what the term adds to the row's score, > 0
  SharedArray<float> lengths_;  // of the rows; saved, so that a file's size limits its row count
  // Derived from the above:
  std::vector<std::uint8_t> maxima_;  // of the terms that have them, in units of step_: one for
                                      // each small block, then one for each large block
  std::vector<std::uint32_t> skips_;  // where each range of rows begins in a term's postings
  std::vector<double> reach_;         // idf * (k1 + 1) of each term
  double total_length_ = 0;           // of the rows, the background's too
  double postings_per_term_ = 0;      // of a term met at random in the texts
  std::vector<float> greatest_;       // impact of each term
  std::vector<float> step_;  // of each term: the unit of its maxima, at least greatest / 255
  std::vector<std::uint32_t> maxima_of_;    // term -> which maxima, or kNone
  std::vector<std::uint8_t> shift_;         // of each term: a skip covers 2^shift rows; or kNoSkips
  std::vector<std::uint64_t> skips_begin_;  // of each term: its first skip
  // A term of at least a quarter of the rows also has a column over all rows, 0 where it is absent.
  // Adding a column is one pass without a scatter; looking a row up is one load.
  std::vector<std::uint32_t> column_;  // term -> which column, or kNone
  std::vector<float> columns_;
  std::shared_ptr<ScratchPool> scratch_;  // shared by copies; searches are const and write there
};

}  // namespace toolroll
