#include "toolroll/bm25.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace toolroll {
namespace {

constexpr std::string_view kKind = "BM25";
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kMostRows = std::numeric_limits<std::int32_t>::max();

constexpr std::size_t kColumnShare = 4;   // a term of n / 4 rows gets a column
constexpr std::size_t kColumnRows = 256;  // in an index of at least so many rows
constexpr std::size_t kSmall = 2048;  // rows up to which all sums are scanned, without book-keeping
constexpr std::size_t kLookUpCost = 32;  // postings walked in the time that one is looked up
// More than the error of a sum of kMostTerms float32 numbers. Bounds are increased by it before
// they exclude a row.
constexpr double kSlack = 1 + 1e-4;

// The costs that expected_ns() adds up, measured on one core of 2021.
constexpr double kReadNsPerByte = 15;  // of a message: folding, stemming, looking terms up
constexpr double kBytesPerTerm = 8;    // a word, the space behind it, and stop words in between
constexpr double kPostingNs = 1;
constexpr double kScanNs = 0.3;  // a row of the sums: cleared, compared

// A sum above 0, however small.
constexpr float kLeastSum = std::numeric_limits<float>::denorm_min();

// Offers every sum above 0 of the allowed rows.
void collect(std::span<const float> sums, const Bitset* allowed, Best& best) {
  each_above(
      sums, [&best] { return std::max(best.threshold(), kLeastSum); },
      [&](std::size_t row) {
        if (allowed == nullptr || allowed->contains(row)) {
          best.offer(sums[row], static_cast<std::int32_t>(row));
        }
      });
}

void offer_if_above_zero(float sum, std::int32_t row, Best& best) {
  if (sum > 0) best.offer(sum, row);
}

Hits taken(Best& best) {
  Hits hits;
  best.take(hits.rows, hits.scores);
  return hits;
}

void require(bool sound, const char* what) {
  if (!sound) throw ArchiveError(std::string("BM25 index: ") + what);
}

void check(const Bm25Options& options) {
  if (!(options.k1 >= 0) || !std::isfinite(options.k1)) {
    throw std::invalid_argument("k1: is " + std::to_string(options.k1) + ", must be >= 0");
  }
  if (!(options.b >= 0 && options.b <= 1)) {
    throw std::invalid_argument("b: is " + std::to_string(options.b) + ", must be in [0, 1]");
  }
}

std::size_t checked_rows(std::span<const Field> fields) {
  if (fields.empty()) throw std::invalid_argument("fields: are none, must be at least one");
  const std::size_t n = fields[0].texts.size();
  if (n > kMostRows) throw std::invalid_argument("fields: have more than 2^31 - 1 texts");
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].texts.size() != n) {
      throw std::invalid_argument("fields[" + std::to_string(f) + "]: has " +
                                  std::to_string(fields[f].texts.size()) + " texts, must have " +
                                  std::to_string(n));
    }
    if (!(fields[f].weight >= 0) || !std::isfinite(fields[f].weight)) {
      throw std::invalid_argument("weights[" + std::to_string(f) + "]: is " +
                                  std::to_string(fields[f].weight) + ", must be finite and >= 0");
    }
  }
  return n;
}

}  // namespace

// The buffers of one search. They are kept from search to search, so that a search allocates almost
// nothing.
struct Bm25Index::Scratch {
  Terms terms;
  std::vector<std::string_view> unknown;
  Message message;
  std::vector<float> sums;            // by row; all 0 between searches
  std::vector<std::int32_t> touched;  // rows whose sum is above 0
  std::vector<std::int32_t> rows;
};

// The scratch buffers of one index: one for each search that ran at the same time, at most kKept.
// They are freed with the index.
class Bm25Index::ScratchPool {
 public:
  ScratchPool() { idle_.reserve(kKept); }

  std::unique_ptr<Scratch> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(idle_.back());
        idle_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<Scratch>();
  }
  void give_back(std::unique_ptr<Scratch> scratch) noexcept {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kKept) idle_.push_back(std::move(scratch));  // within what was reserved
  }
  std::size_t idle() const {
    const std::lock_guard lock(mutex_);
    return idle_.size();
  }

 private:
  static constexpr std::size_t kKept = 16;
  mutable std::mutex mutex_;  // held for the move of a pointer
  std::vector<std::unique_ptr<Scratch>> idle_;
};

// A scratch buffer for the time of one call. The destructor returns it with all sums 0, also after
// an exception.
class Bm25Index::Lease {
 public:
  explicit Lease(ScratchPool& pool) : pool_(pool), scratch_(pool.take()) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (is_dirty_) std::fill(scratch_->sums.begin(), scratch_->sums.end(), 0.0F);
    pool_.give_back(std::move(scratch_));
  }

  Scratch& operator*() { return *scratch_; }
  Scratch* operator->() { return scratch_.get(); }
  // The sums of so many rows, all 0. The caller sets them to 0 after use and reports that, or the
  // destructor does it.
  float* sums(std::size_t n) {
    if (scratch_->touched.size() < n) scratch_->touched.resize(n);
    if (scratch_->sums.size() < n) scratch_->sums.resize(n);
    is_dirty_ = true;
    return scratch_->sums.data();
  }
  void are_zero_again() { is_dirty_ = false; }

 private:
  ScratchPool& pool_;
  std::unique_ptr<Scratch> scratch_;
  bool is_dirty_ = false;
};

Bm25Index::Bm25Index() : scratch_(std::make_shared<ScratchPool>()) {}

double Bm25Index::idf(std::size_t df) const {
  const auto n = static_cast<double>(documents());
  const auto rows = static_cast<double>(df);
  return std::log1p((n - rows + 0.5) / (rows + 0.5));
}

std::size_t Bm25Index::df_behind(std::string_view term) const {
  std::size_t rows = 0;
  for (const Bm25Index* index = background_.get(); index; index = index->background_.get()) {
    const std::uint32_t number = index->table_.find(term);
    if (number != StringTable::kMissing) rows += index->df(number);
  }
  return rows;
}

Bm25Index Bm25Index::build(std::span<const Field> fields, const Bm25Options& options,
                           std::shared_ptr<const Bm25Index> background) {
  check(options);
  if (background && (background->options_.k1 != options.k1 || background->options_.b != options.b ||
                     background->options_.analysis != options.analysis)) {
    throw std::invalid_argument("background: has other options, must have the same");
  }
  Bm25Index index;
  index.size_ = checked_rows(fields);
  index.options_ = options;
  index.background_ = std::move(background);
  index.lengths_.resize(index.size_);

  // Row by row: the terms with their weighted frequencies.
  std::vector<std::uint32_t> term_of;
  std::vector<double> tf_of;
  std::vector<std::size_t> row_ends(index.size_);
  std::vector<std::uint64_t> begins(1, 0);  // first the counts, one behind
  std::vector<std::size_t> place;           // of a term in term_of, if in this row
  Terms terms;
  for (std::size_t row = 0; row < index.size_; ++row) {
    const std::size_t first = term_of.size();
    double length = 0;
    for (const Field& field : fields) {
      if (field.weight == 0) continue;
      terms.read(field.texts[row], options.analysis);
      length += field.weight * static_cast<double>(terms.size());
      for (std::size_t i = 0; i < terms.size(); ++i) {
        const std::uint32_t term = index.table_.add(terms[i]);
        if (term == place.size()) {
          place.push_back(0);
          begins.push_back(0);
        }
        if (place[term] < first || place[term] >= term_of.size() || term_of[place[term]] != term) {
          place[term] = term_of.size();
          term_of.push_back(term);
          tf_of.push_back(0);
          ++begins[term + 1];
        }
        tf_of[place[term]] += field.weight;
      }
    }
    index.lengths_[row] = static_cast<float>(length);
    row_ends[row] = term_of.size();
  }
  for (std::size_t t = 1; t < begins.size(); ++t) begins[t] += begins[t - 1];

  index.begins_ = begins;
  index.postings_.resize(term_of.size());
  index.frequencies_.resize(term_of.size());
  for (std::size_t row = 0, i = 0; row < index.size_; ++row) {
    for (; i < row_ends[row]; ++i) {
      const std::uint64_t to = begins[term_of[i]]++;
      index.postings_[to] = static_cast<std::int32_t>(row);
      index.frequencies_[to] = static_cast<float>(tf_of[i]);
    }
  }
  index.weigh();
  index.derive();
  return index;
}

// What each term adds to the scores of its rows. One function for every way to make an index: an
// index with changes has the scores of one that is built whole.
void Bm25Index::weigh() {
  double total = background_ ? background_->total_length_ : 0;
  for (const float length : lengths_) total += static_cast<double>(length);
  const auto n = static_cast<double>(documents());
  const double mean = n == 0 ? 0 : total / n;
  std::vector<double> norms(size_);
  for (std::size_t row = 0; row < size_; ++row) {
    norms[row] =
        options_.k1 * (1 - options_.b + options_.b * static_cast<double>(lengths_[row]) / mean);
  }
  impacts_.resize(postings_.size());
  for (std::uint32_t t = 0; t < table_.size(); ++t) {
    const double most = idf(df(t) + df_behind(table_[t])) * (options_.k1 + 1);
    for (std::uint64_t i = begins_[t]; i < begins_[t + 1]; ++i) {
      const auto tf = static_cast<double>(frequencies_[i]);
      const double impact = most * tf / (tf + norms[static_cast<std::size_t>(postings_[i])]);
      // Never below the least float above 0: a posting always shows in a sum.
      impacts_[i] = std::max(static_cast<float>(impact), std::numeric_limits<float>::denorm_min());
    }
  }
}

double Bm25Index::expected_ns(std::size_t text_bytes) const {
  const double words =
      std::min(static_cast<double>(text_bytes) / kBytesPerTerm, static_cast<double>(kMostTerms));
  const double scanned = size_ <= kSmall ? static_cast<double>(size_) : 0;
  return kReadNsPerByte * static_cast<double>(text_bytes) +
         kPostingNs * words * postings_per_term_ + kScanNs * scanned;
}

void Bm25Index::derive() {
  const std::size_t terms = table_.size();
  double squares = 0;
  for (std::uint32_t t = 0; t < terms; ++t) {
    squares += static_cast<double>(df(t)) * static_cast<double>(df(t));
  }
  postings_per_term_ = postings_.empty() ? 0 : squares / static_cast<double>(postings_.size());
  greatest_.assign(terms, 0);
  reach_.resize(terms);
  for (std::uint32_t t = 0; t < terms; ++t) {
    reach_[t] = idf(df(t) + df_behind(table_[t])) * (options_.k1 + 1);
  }
  total_length_ = background_ ? background_->total_length_ : 0;
  for (const float length : lengths_) total_length_ += static_cast<double>(length);
  column_.assign(terms, kNoColumn);
  std::uint32_t columns = 0;
  for (std::uint32_t t = 0; t < terms; ++t) {
    for (std::uint64_t i = begins_[t]; i < begins_[t + 1]; ++i) {
      greatest_[t] = std::max(greatest_[t], impacts_[i]);
    }
    if (size_ >= kColumnRows && df(t) * kColumnShare >= size_) column_[t] = columns++;
  }
  columns_.assign(columns * size_, 0);
  for (std::uint32_t t = 0; t < terms; ++t) {
    if (column_[t] == kNoColumn) continue;
    float* const column = columns_.data() + column_[t] * size_;
    for (std::uint64_t i = begins_[t]; i < begins_[t + 1]; ++i) column[postings_[i]] = impacts_[i];
  }
}

void Bm25Index::read(std::string_view text, Scratch& scratch, Message& message) const {
  Terms& terms = scratch.terms;
  std::vector<std::string_view>& unknown = scratch.unknown;
  terms.read(text, options_.analysis);
  message.terms.clear();
  unknown.clear();
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::uint32_t term = table_.find(terms[i]);
    if (term != StringTable::kMissing) {
      message.terms.push_back(term);
    } else {
      unknown.push_back(terms[i]);
    }
  }
  // By text, not by number: a term's number depends on how the index came about.
  std::sort(message.terms.begin(), message.terms.end(), [this](std::uint32_t a, std::uint32_t b) {
    return df(a) < df(b) || (df(a) == df(b) && table_[a] < table_[b]);
  });
  message.terms.erase(std::unique(message.terms.begin(), message.terms.end()), message.terms.end());
  std::sort(unknown.begin(), unknown.end());
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  if (background_) {
    message.ceiling = 0;
    for (const std::string_view term : unknown) {
      message.ceiling += idf(df_behind(term)) * (options_.k1 + 1);
    }
  } else {
    message.ceiling = static_cast<double>(unknown.size()) * idf(0) * (options_.k1 + 1);
  }
  for (const std::uint32_t term : message.terms) message.ceiling += reach_[term];
  if (message.terms.size() > kMostTerms) message.terms.resize(kMostTerms);

  message.postings = 0;
  message.bound.assign(message.terms.size() + 1, 0);
  for (std::size_t j = message.terms.size(); j-- > 0;) {
    message.bound[j] =
        message.bound[j + 1] + kSlack * static_cast<double>(greatest_[message.terms[j]]);
    message.postings += df(message.terms[j]);
  }
}

Bm25Index::Message Bm25Index::read(std::string_view text) const {
  Lease scratch(*scratch_);
  Message message;
  read(text, *scratch, message);
  return message;
}

float Bm25Index::impact(std::uint32_t term, std::int32_t row) const {
  const std::int32_t* first = postings_.data() + begins_[term];
  for (std::size_t n = df(term); n > 1; n -= n / 2) {  // halves the range without a branch
    first += first[n / 2] <= row ? n / 2 : 0;
  }
  return *first == row ? impacts_[static_cast<std::size_t>(first - postings_.data())] : 0;
}

// sums[i] += what the term adds to rows[i].
void Bm25Index::look_up(std::uint32_t term, std::span<const std::int32_t> rows, float* sums) const {
  if (const float* const column = column_of(term); column != nullptr) {
    for (std::size_t i = 0; i < rows.size(); ++i) sums[i] += column[rows[i]];
  } else {
    for (std::size_t i = 0; i < rows.size(); ++i) sums[i] += impact(term, rows[i]);
  }
}

// sums[row] += what the term adds, for these rows; for others with a sum above 0 perhaps too.
void Bm25Index::add_up(std::uint32_t term, std::span<const std::int32_t> rows, float* sums) const {
  if (const float* const column = column_of(term); column != nullptr) {
    for (const std::int32_t row : rows) sums[row] += column[row];
  } else if (rows.size() * kLookUpCost < df(term)) {
    for (const std::int32_t row : rows) sums[row] += impact(term, row);
  } else {
    for (std::uint64_t i = begins_[term]; i < begins_[term + 1]; ++i) {
      if (sums[postings_[i]] > 0) sums[postings_[i]] += impacts_[i];
    }
  }
}

// sums[row] += what the term adds to each row.
void Bm25Index::add_up(std::uint32_t term, float* sums) const {
  if (const float* const column = column_of(term); column != nullptr) {
    for (std::size_t row = 0; row < size_; ++row) sums[row] += column[row];
    return;
  }
  for (std::uint64_t i = begins_[term]; i < begins_[term + 1]; ++i)
    sums[postings_[i]] += impacts_[i];
}

Hits Bm25Index::search(std::string_view text, std::size_t k, const Bitset* allowed) const {
  Lease scratch(*scratch_);
  read(text, *scratch, scratch->message);
  return search(scratch->message, k, allowed, scratch);
}

Hits Bm25Index::search(const Message& query, std::size_t k, const Bitset* allowed) const {
  Lease scratch(*scratch_);
  return search(query, k, allowed, scratch);
}

Hits Bm25Index::search(const Message& query, std::size_t k, const Bitset* allowed,
                       Lease& scratch) const {
  if (allowed != nullptr && allowed->size() != size_) {
    throw std::invalid_argument("allowed: has " + std::to_string(allowed->size()) +
                                " rows, must have " + std::to_string(size_));
  }
  k = std::min(k, size_);
  const std::size_t m = query.terms.size();
  if (k == 0 || m == 0) return {};
  float* const sums = scratch.sums(size_);

  if (allowed != nullptr) {
    const std::size_t count = allowed->count();
    if (count * m * kLookUpCost < query.postings) {  // few rows: only these are looked at
      std::vector<std::int32_t>& rows = scratch->rows;
      rows.clear();
      allowed->each([&rows](std::int32_t row) { rows.push_back(row); });
      for (const std::uint32_t term : query.terms) look_up(term, rows, sums);
      Best best(k);
      for (std::size_t i = 0; i < count; ++i) offer_if_above_zero(sums[i], rows[i], best);
      std::fill_n(sums, count, 0.0F);
      scratch.are_zero_again();
      return taken(best);
    }
  }
  const auto is_allowed = [allowed](std::int32_t row) {
    return allowed == nullptr || allowed->contains(static_cast<std::size_t>(row));
  };

  // Rare terms first, with a list of the rows that they touch, while that list is short.
  std::int32_t* const touched = scratch->touched.data();
  std::size_t count = 0;
  std::size_t j = 0;
  for (; j < m && size_ > kSmall; ++j) {
    const std::uint32_t term = query.terms[j];
    if (j > 0 && df(term) > count) {
      Best best(k);
      for (std::size_t i = 0; i < count; ++i) {
        if (is_allowed(touched[i])) offer_if_above_zero(sums[touched[i]], touched[i], best);
      }
      const double kth = std::max(static_cast<double>(best.threshold()), 0.0);  // 0: fewer than k
      if (kth > query.bound[j]) {  // a row without any of these terms cannot be among the best
        std::vector<std::int32_t>& rows = scratch->rows;
        rows.clear();
        for (std::size_t i = 0; i < count; ++i) {
          if (is_allowed(touched[i])) rows.push_back(touched[i]);
        }
        for (; j < m; ++j) {
          std::erase_if(rows, [&](std::int32_t row) {
            return static_cast<double>(sums[row]) * kSlack + query.bound[j] < kth;
          });
          add_up(query.terms[j], rows, sums);
        }
        Best last(k);
        for (const std::int32_t row : rows) offer_if_above_zero(sums[row], row, last);
        for (std::size_t i = 0; i < count; ++i) sums[touched[i]] = 0;
        scratch.are_zero_again();
        return taken(last);
      }
    }
    if ((count + df(term)) * kColumnShare > size_) break;
    for (std::uint64_t i = begins_[term]; i < begins_[term + 1]; ++i) {
      const std::int32_t row = postings_[i];
      touched[count] = row;
      count += static_cast<std::size_t>(sums[row] == 0);
      sums[row] += impacts_[i];
    }
  }
  Best best(k);
  if (j == m && size_ > kSmall) {
    for (std::size_t i = 0; i < count; ++i) {
      if (is_allowed(touched[i])) offer_if_above_zero(sums[touched[i]], touched[i], best);
      sums[touched[i]] = 0;
    }
    scratch.are_zero_again();
    return taken(best);
  }
  for (; j < m; ++j) add_up(query.terms[j], sums);
  collect({sums, size_}, allowed, best);
  std::fill_n(sums, size_, 0.0F);
  scratch.are_zero_again();
  return taken(best);
}

void Bm25Index::scores(std::string_view text, std::span<const std::int32_t> rows,
                       std::span<float> out) const {
  Lease scratch(*scratch_);
  read(text, *scratch, scratch->message);
  scores(scratch->message, rows, out);
}

void Bm25Index::scores(const Message& message, std::span<const std::int32_t> rows,
                       std::span<float> out) const {
  if (out.size() != rows.size()) throw std::invalid_argument("scores: out is not as long as rows");
  for (const std::int32_t row : rows) {
    if (row < 0 || static_cast<std::size_t>(row) >= size_) {
      throw std::invalid_argument("rows: has " + std::to_string(row) + ", must be in 0.." +
                                  std::to_string(static_cast<std::int64_t>(size_) - 1));
    }
  }
  if (size_ <= kSmall && message.postings + size_ / 4 < rows.size() * message.terms.size()) {
    // Many rows of a small index: summing all rows is faster than finding these in the postings.
    Lease scratch(*scratch_);
    float* const sums = scratch.sums(size_);
    for (const std::uint32_t term : message.terms) add_up(term, sums);
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = sums[rows[i]];
    std::fill_n(sums, size_, 0.0F);
    scratch.are_zero_again();
    return;
  }
  std::fill(out.begin(), out.end(), 0.0F);
  for (const std::uint32_t term : message.terms) look_up(term, rows, out.data());
}

double Bm25Index::ceiling(std::string_view text) const { return read(text).ceiling; }

std::size_t Bm25Index::idle_scratch() const { return scratch_->idle(); }

std::size_t Bm25Index::memory_bytes() const {
  return table_.memory_bytes() + begins_.capacity() * sizeof begins_[0] +
         postings_.capacity() * sizeof postings_[0] + reach_.capacity() * sizeof reach_[0] +
         column_.capacity() * sizeof column_[0] +
         (frequencies_.capacity() + impacts_.capacity() + lengths_.capacity() +
          greatest_.capacity() + columns_.capacity()) *
             sizeof(float);
}

void Bm25Index::save(const std::string& path) const {
  if (background_) throw std::invalid_argument("BM25 index: has a background, cannot be saved");
  ArchiveWriter archive(kKind, kVersion);
  archive.value(options_.k1);
  archive.value(options_.b);
  archive.value(static_cast<std::uint8_t>(options_.analysis));
  archive.column(lengths_);
  archive.text(table_.bytes());
  archive.column(table_.ends());
  archive.column(begins_);
  archive.column(postings_);
  archive.column(frequencies_);
  archive.column(impacts_);
  archive.save(path);
}

Bm25Index Bm25Index::load(const std::string& path) {
  ArchiveReader archive = ArchiveReader::load(path, kKind, kVersion);
  Bm25Index index;
  index.options_.k1 = archive.value<double>();
  index.options_.b = archive.value<double>();
  const auto analysis = archive.value<std::uint8_t>();
  require(analysis <= static_cast<std::uint8_t>(Analysis::kPlain), "unknown analysis");
  index.options_.analysis = static_cast<Analysis>(analysis);
  require(index.options_.k1 >= 0 && std::isfinite(index.options_.k1), "k1 out of range");
  require(index.options_.b >= 0 && index.options_.b <= 1, "b out of range");
  index.lengths_ = archive.column<float>();
  index.size_ = index.lengths_.size();
  require(index.size_ <= kMostRows, "too many rows");

  const std::string bytes = archive.text();
  const auto ends = archive.column<std::uint64_t>();
  std::uint64_t begin = 0;
  for (std::size_t t = 0; t < ends.size(); ++t) {
    require(ends[t] >= begin && ends[t] <= bytes.size(), "term ends out of order");
    const std::string_view term = std::string_view(bytes).substr(begin, ends[t] - begin);
    require(index.table_.add(term) == t, "a term twice");
    begin = ends[t];
  }
  require(begin == bytes.size(), "bytes behind the last term");

  index.begins_ = archive.column<std::uint64_t>();
  index.postings_ = archive.column<std::int32_t>();
  index.frequencies_ = archive.column<float>();
  index.impacts_ = archive.column<float>();
  archive.finish();
  require(index.begins_.size() == ends.size() + 1 && index.begins_[0] == 0,
          "postings out of place");
  require(index.begins_.back() == index.postings_.size(), "postings out of place");
  require(index.impacts_.size() == index.postings_.size(), "not one impact a posting");
  require(index.frequencies_.size() == index.postings_.size(), "not one frequency a posting");
  for (std::size_t t = 0; t < ends.size(); ++t) {
    require(index.begins_[t] < index.begins_[t + 1], "a term without rows");
    require(index.begins_[t + 1] <= index.postings_.size(), "postings out of place");
    std::int32_t before = -1;
    for (std::uint64_t i = index.begins_[t]; i < index.begins_[t + 1]; ++i) {
      require(index.postings_[i] > before, "rows out of order");
      before = index.postings_[i];
      require(index.impacts_[i] > 0 && std::isfinite(index.impacts_[i]), "an impact out of range");
      require(index.frequencies_[i] > 0 && std::isfinite(index.frequencies_[i]),
              "a frequency out of range");
    }
    require(static_cast<std::size_t>(before) < index.size_, "a row out of range");
  }
  index.derive();
  return index;
}

}  // namespace toolroll
