#include "toolroll/bm25.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "prefetch.hpp"
#include "toolroll/dot.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kMostRows = std::numeric_limits<std::int32_t>::max();

// Up to so many rows all sums are scanned, without maxima: most blocks would have to be summed.
constexpr std::size_t kSmall = 2048;
constexpr std::size_t kLookupCosts = 4;    // times what adding a posting to a row's sum does
constexpr std::size_t kColumnShare = 4;    // a term of n / 4 rows of a small index gets a column
constexpr std::size_t kColumnRows = 256;   // in an index of at least so many rows
constexpr std::size_t kMaximaShare = 128;  // a term of n / 128 rows of a large index gets maxima
constexpr std::size_t kSkipped = 16;       // postings between two skips, on average
constexpr std::size_t kLeastSkipped = 64;  // postings of a term that gets skips
constexpr std::size_t kSeeds = 8;          // blocks, and a quarter of k, that give a threshold
constexpr std::size_t kMostSeeds = 64;
constexpr std::size_t kTile = 2048;  // blocks whose bounds are computed at a time
// A search computes bounds if the terms of its message have so many times the postings of the
// blocks that give a threshold. Otherwise walking the postings of the rare terms is faster.
constexpr std::size_t kBoundedPostings = 96;
constexpr std::size_t kCrowdShare = 4;   // all sums are scanned instead of a list of n / 4 rows
constexpr std::size_t kLookUpCost = 32;  // postings walked in the time that one is looked up
constexpr std::size_t kBlockCost = 12;   // ... that one term is added to a block's rows
// With so many times the blocks that could be summed while the postings are walked, none is.
constexpr std::size_t kHopeless = 4;
constexpr std::size_t kTogether = 8;         // blocks whose postings are asked for together
constexpr std::size_t kLineOfPostings = 16;  // postings in a cache line
// More than the error of a sum of kMostTerms float32 numbers. Bounds are increased by it before
// they exclude a row.
constexpr float kSlack = 1 + 1e-4F;
// Impacts stay below this, so that no sum of kMostTerms of them is infinite.
constexpr double kMostImpact = 1e35;
constexpr double kMostFrequency = 1e35;

// The costs that expected_ns() adds up, measured on one core of 2021.
constexpr double kReadNsPerByte = 15;  // of a message: folding, stemming, looking terms up
constexpr double kBytesPerTerm = 8;    // a word, the space behind it, and stop words in between
constexpr double kPostingNs = 1;
constexpr double kPrunedNs = 0.4;  // a posting of a large index: most are not walked
constexpr double kBlockNs = 0.5;   // the bound of a block for one term
constexpr double kScanNs = 0.3;    // a row of the sums: cleared, compared

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
  std::vector<float> sums;           // by row; all 0 between searches
  std::vector<float> bounds;         // by block
  std::vector<std::uint64_t> ranks;  // of blocks
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> kept;  // those of rows that may be among the best
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
  std::vector<float> lengths(index.size_);

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
    lengths[row] = static_cast<float>(std::min(length, kMostFrequency));
    row_ends[row] = term_of.size();
  }
  for (std::size_t t = 1; t < begins.size(); ++t) begins[t] += begins[t - 1];

  index.begins_ = begins;
  std::vector<std::int32_t> postings(term_of.size());
  std::vector<float> frequencies(term_of.size());
  for (std::size_t row = 0, i = 0; row < index.size_; ++row) {
    for (; i < row_ends[row]; ++i) {
      const std::uint64_t to = begins[term_of[i]]++;
      postings[to] = static_cast<std::int32_t>(row);
      frequencies[to] = std::max(static_cast<float>(std::min(tf_of[i], kMostFrequency)),
                                 std::numeric_limits<float>::denorm_min());
    }
  }
  index.lengths_ = std::move(lengths);
  index.postings_ = std::move(postings);
  index.frequencies_ = std::move(frequencies);
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
  std::vector<float> impacts(postings_.size());
  for (std::uint32_t t = 0; t < table_.size(); ++t) {
    const double most = idf(df(t) + df_behind(table_[t])) * (options_.k1 + 1);
    for (std::uint64_t i = begins_[t]; i < begins_[t + 1]; ++i) {
      const auto tf = static_cast<double>(frequencies_[i]);
      const double impact = most * tf / (tf + norms[static_cast<std::size_t>(postings_[i])]);
      // Never below the least float above 0: a posting always shows in a sum.
      impacts[i] = std::max(static_cast<float>(std::min(impact, kMostImpact)),
                            std::numeric_limits<float>::denorm_min());
    }
  }
  impacts_ = std::move(impacts);
}

double Bm25Index::expected_ns(std::size_t text_bytes) const {
  const double words =
      std::min(static_cast<double>(text_bytes) / kBytesPerTerm, static_cast<double>(kMostTerms));
  double word_ns = kPostingNs * postings_per_term_;
  if (size_ > kSmall) {
    word_ns = std::min(kPrunedNs * postings_per_term_, kBlockNs * static_cast<double>(blocks()));
  }
  const double scanned = size_ <= kSmall ? static_cast<double>(size_) : 0;
  return kReadNsPerByte * static_cast<double>(text_bytes) + words * word_ns + kScanNs * scanned;
}

void Bm25Index::derive() {
  const std::size_t terms = table_.size();
  double squares = 0;
  for (std::uint32_t t = 0; t < terms; ++t) {
    squares += static_cast<double>(df(t)) * static_cast<double>(df(t));
  }
  postings_per_term_ = postings_.empty() ? 0 : squares / static_cast<double>(postings_.size());
  reach_.resize(terms);
  greatest_.assign(terms, 0);
  for (std::uint32_t t = 0; t < terms; ++t) {
    reach_[t] = idf(df(t) + df_behind(table_[t])) * (options_.k1 + 1);
    for (std::uint64_t i = begins_[t]; i < begins_[t + 1]; ++i) {
      greatest_[t] = std::max(greatest_[t], impacts_[i]);
    }
  }
  total_length_ = background_ ? background_->total_length_ : 0;
  for (const float length : lengths_) total_length_ += static_cast<double>(length);

  step_.assign(terms, 0);
  maxima_of_.assign(terms, kNone);
  shift_.assign(terms, kNoSkips);
  skips_begin_.assign(terms, 0);
  column_.assign(terms, kNone);
  std::uint32_t with_maxima = 0;
  std::uint32_t columns = 0;
  std::size_t skips = 0;
  for (std::uint32_t t = 0; t < terms; ++t) {
    if (size_ >= kColumnRows && df(t) * kColumnShare >= size_) column_[t] = columns++;
    if (size_ <= kSmall) continue;
    if (df(t) * kMaximaShare >= size_) maxima_of_[t] = with_maxima++;
    if (df(t) < kLeastSkipped) continue;
    shift_[t] = static_cast<std::uint8_t>(std::bit_width(size_ * kSkipped / df(t)) - 1);
    skips_begin_[t] = skips;
    skips += (size_ >> shift_[t]) + 2;  // one past the last range
  }
  maxima_.assign(with_maxima * blocks(), 0);
  skips_.assign(skips, 0);
  columns_.assign(columns * size_, 0);
  for (std::uint32_t t = 0; t < terms; ++t) {
    if (maxima_of_[t] != kNone) find_maxima(t);
    if (shift_[t] != kNoSkips) find_skips(t);
    if (column_[t] == kNone) continue;
    float* const column = columns_.data() + column_[t] * size_;
    for (std::uint64_t i = begins_[t]; i < begins_[t + 1]; ++i) column[postings_[i]] = impacts_[i];
  }
}

void Bm25Index::find_maxima(std::uint32_t term) {
  constexpr float kMost = 255;
  float step = greatest_[term] / kMost;
  while (step * kMost < greatest_[term]) {
    step = std::nextafter(step, std::numeric_limits<float>::infinity());
  }
  step_[term] = step;
  std::uint8_t* const maxima = maxima_.data() + maxima_of_[term] * blocks();
  for (std::uint64_t i = begins_[term]; i < begins_[term + 1]; ++i) {
    float units = std::min(std::ceil(impacts_[i] / step), kMost);
    if (units * step < impacts_[i]) units += 1;
    std::uint8_t& maximum = maxima[static_cast<std::size_t>(postings_[i]) / kBlock];
    maximum = std::max(maximum, static_cast<std::uint8_t>(units));
  }
}

void Bm25Index::find_skips(std::uint32_t term) {
  std::uint32_t* const skips = skips_.data() + skips_begin_[term];
  const std::size_t ranges = (size_ >> shift_[term]) + 1;
  const auto count = static_cast<std::uint32_t>(df(term));
  const std::int32_t* const rows = postings_.data() + begins_[term];
  std::uint32_t next = 0;
  for (std::size_t range = 0; range <= ranges; ++range) {
    const std::size_t row = range << shift_[term];
    while (next < count && static_cast<std::size_t>(rows[next]) < row) ++next;
    skips[range] = next;
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
  for (const std::uint32_t term : message.terms) message.postings += df(term);
}

Bm25Index::Message Bm25Index::read(std::string_view text) const {
  Lease scratch(*scratch_);
  Message message;
  read(text, *scratch, message);
  return message;
}

Bm25Index::Range Bm25Index::range_of(std::uint32_t term, std::size_t row) const {
  if (shift_[term] == kNoSkips) return {begins_[term], df(term)};
  const std::uint32_t* const skips = skips_.data() + skips_begin_[term] + (row >> shift_[term]);
  return {begins_[term] + skips[0], skips[1] - skips[0]};
}

std::uint64_t Bm25Index::first_from(std::uint32_t term, std::size_t row) const {
  auto [first, n] = range_of(term, row);
  const std::int32_t* const rows = postings_.data();
  while (n > 0) {  // halves the range without a branch that depends on a row
    const std::size_t half = n / 2;
    const bool is_below = static_cast<std::size_t>(rows[first + half]) < row;
    first += is_below ? half + 1 : 0;
    n = is_below ? n - half - 1 : half;
  }
  return first;
}

float Bm25Index::impact(std::uint32_t term, std::int32_t row) const {
  const auto at = static_cast<std::size_t>(row);
  const std::uint8_t* const maxima = maxima_of(term);
  if (maxima != nullptr && maxima[at / kBlock] == 0) return 0;
  const std::uint64_t found = first_from(term, at);
  return found < begins_[term + 1] && postings_[found] == row ? impacts_[found] : 0;
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

/// One search of a large index.
class Bm25Index::LargeSearch {
 public:
  LargeSearch(const Bm25Index& index, const Message& message, std::size_t k, const Bitset* allowed,
              Lease& scratch)
      : index_(index),
        terms_(message.terms),
        postings_(message.postings),
        k_(k),
        allowed_(allowed),
        scratch_(scratch),
        bounds_(scratch->bounds),
        best_(k) {}

  Hits run() {
    const bool has_bounds = postings_ > kBoundedPostings * terms_.size() * seeds();
    bounds_.clear();
    find_rest();
    if (has_bounds) {
      find_bounds();
      sum_promising_blocks();
      if (sum_other_blocks()) return taken(best_);
    }
    const std::size_t walked = has_bounds ? walk<true>() : walk<false>();
    if (is_crowded_) {
      scan(walked);
    } else {
      finish(walked);
    }
    return taken(best_);
  }

 private:
  /// Whether a row with at most this sum may be among the k best.
  bool may_be_kept(float bound) const { return bound > 0 && bound * kSlack >= least_; }

  /// The number of blocks that give a threshold.
  std::size_t seeds() const { return std::min(kSeeds + k_ / 4, kMostSeeds); }

  /// The least bound of a block that may have one of the k best.
  float least_bound() const { return std::max(least_ / kSlack, kLeastSum); }

  bool is_allowed(std::int32_t row) const {
    return allowed_ == nullptr || allowed_->contains(static_cast<std::size_t>(row));
  }

  std::size_t row_of(std::uint64_t posting) const {
    return static_cast<std::size_t>(index_.postings_[posting]);
  }

  /// bounds_[block] = at least the sum of each of its allowed rows, but for kSlack.
  void find_bounds() {
    const DotKernels& dot = dot_kernels();
    bounds_.resize(index_.blocks());
    std::ranges::fill(bounds_, 0.0F);
    for (std::size_t first = 0; first < bounds_.size(); first += kTile) {
      const std::size_t count = std::min(kTile, bounds_.size() - first);
      float* const bounds = bounds_.data() + first;
      for (const std::uint32_t term : terms_) {
        const std::uint8_t* maxima = index_.maxima_of(term);
        if (maxima == nullptr) continue;
        dot.add_bytes(maxima + first, index_.step_[term], count, bounds);
      }
    }
    for (const std::uint32_t term : terms_) {
      if (index_.maxima_of(term) != nullptr) continue;
      const std::uint64_t end = index_.begins_[term + 1];
      for (std::uint64_t i = index_.begins_[term]; i < end;) {
        const std::size_t block = row_of(i) / kBlock;
        float most = 0;
        for (; i < end && row_of(i) / kBlock == block; ++i) {
          most = std::max(most, index_.impacts_[i]);
        }
        bounds_[block] += most;
      }
    }
    if (allowed_ == nullptr) return;
    for (std::size_t b = 0; b < bounds_.size(); ++b) {
      if (allowed_rows(b) == 0) bounds_[b] = 0;
    }
  }

  /// The allowed rows of a block, a bit for each.
  std::uint32_t allowed_rows(std::size_t block) const {
    constexpr std::uint32_t kAll = (1U << kBlock) - 1;
    if (allowed_ == nullptr) return kAll;
    const std::size_t first = block * kBlock;
    return static_cast<std::uint32_t>(allowed_->words()[first / 64] >> (first % 64)) & kAll;
  }

  /// Offers the rows of the blocks with the greatest bounds.
  void sum_promising_blocks() {
    const DotKernels& dot = dot_kernels();
    Best best(seeds());
    std::array<std::int32_t, kTile + 16> blocks;
    for (std::size_t first = 0; first < bounds_.size(); first += kTile) {
      const std::size_t count = std::min(kTile, bounds_.size() - first);
      const std::size_t found =
          dot.above(bounds_.data() + first, count, std::max(best.threshold(), kLeastSum),
                    static_cast<std::int32_t>(first), blocks.data());
      for (std::size_t i = 0; i < found; ++i) {
        best.offer(bounds_[static_cast<std::size_t>(blocks[i])], blocks[i]);
      }
    }
    sum_blocks(taken(best).rows);
  }

  /// Offers the rows of all other blocks that may have one of the best, in the order of their
  /// bounds. False if walking postings is likely to be faster: then some blocks are left.
  bool sum_other_blocks() {
    std::size_t walked = 0;
    for (std::size_t j = 0; j < terms_.size() && may_be_kept(rest_[j]); ++j) {
      walked += index_.df(terms_[j]);
    }
    const std::size_t most = walked / (kBlockCost * terms_.size());
    std::vector<std::int32_t>& blocks = scratch_->rows;
    if (blocks.size() < bounds_.size() + 16) blocks.resize(bounds_.size() + 16);
    const std::size_t count =
        dot_kernels().above(bounds_.data(), bounds_.size(), least_bound(), 0, blocks.data());
    if (count > kHopeless * most) return false;
    std::vector<std::uint64_t>& heap = scratch_->ranks;
    heap.clear();
    for (std::size_t i = 0; i < count; ++i) {
      heap.push_back(rank(bounds_[static_cast<std::size_t>(blocks[i])], blocks[i]));
    }
    std::ranges::make_heap(heap);
    std::array<std::int32_t, kTogether> next;
    for (std::size_t summed = 0; !heap.empty() && may_be_kept(ranked_score(heap.front()));
         summed += kTogether) {
      if (summed >= most) return false;
      std::size_t taken = 0;
      for (; taken < kTogether && !heap.empty(); ++taken) {
        next[taken] = ranked_row(heap.front());
        std::ranges::pop_heap(heap);
        heap.pop_back();
      }
      sum_blocks({next.data(), taken});
    }
    return true;
  }

  /// Offers the rows of these blocks, as far as they may be kept. Their bounds become 0.
  void sum_blocks(std::span<const std::int32_t> blocks) {
    for (const std::int32_t block : blocks) prefetch_block(static_cast<std::size_t>(block));
    for (const std::int32_t at : blocks) {
      const auto block = static_cast<std::size_t>(at);
      if (may_be_kept(bounds_[block])) sum_block(block);
      bounds_[block] = 0;
      least_ = std::max(least_, best_.threshold());
    }
  }

  /// Asks for the postings among which those of the block are.
  void prefetch_block(std::size_t block) const {
    for (const std::uint32_t term : terms_) {
      if (index_.most_in(term, block) == 0) continue;
      const auto [first, count] = index_.range_of(term, block * kBlock);
      for (std::size_t i = first; i < first + count; i += kLineOfPostings) {
        prefetch(index_.postings_.data() + i);
        prefetch(index_.impacts_.data() + i);
      }
    }
  }

  /// Offers the allowed rows of the block, unless none of them may be kept.
  void sum_block(std::size_t block) {
    const std::size_t first = block * kBlock;
    std::array<float, kBlock> sums = {};
    for (const std::uint32_t term : terms_) {
      if (index_.most_in(term, block) == 0) continue;
      const std::uint64_t end = index_.begins_[term + 1];
      for (std::uint64_t i = index_.first_from(term, first); i < end && row_of(i) < first + kBlock;
           ++i) {
        sums[row_of(i) - first] += index_.impacts_[i];
      }
    }
    for (std::uint32_t left = allowed_rows(block); left != 0; left &= left - 1) {
      const auto at = static_cast<std::size_t>(std::countr_zero(left));
      offer_if_above_zero(sums[at], static_cast<std::int32_t>(first + at), best_);
    }
  }

  /// rest_[j] = at least what terms j and later add to any row.
  void find_rest() {
    rest_[terms_.size()] = 0;
    for (std::size_t j = terms_.size(); j-- > 0;) {
      rest_[j] = rest_[j + 1] + index_.greatest_[terms_[j]];
    }
  }

  /// Sums the first terms of all rows that may be kept, until no other row may be kept. Returns how
  /// many terms that takes. The rows are in scratch_->rows, their sums at their places.
  template <bool kHasBounds>
  std::size_t walk() {
    float* const sums = scratch_.sums(index_.size_);
    std::vector<std::int32_t>& rows = scratch_->rows;
    if (rows.size() < index_.size_) rows.resize(index_.size_);
    std::int32_t* const found = rows.data();
    std::size_t j = 0;
    for (; j < terms_.size(); ++j) {
      const std::uint32_t term = terms_[j];
      if (j > 0 && index_.df(term) > count_) raise_least(sums);
      if (!may_be_kept(rest_[j])) break;
      is_crowded_ = !kHasBounds && (count_ + index_.df(term)) * kCrowdShare > index_.size_;
      if (is_crowded_) break;
      const float least = least_bound();
      const std::int32_t* const postings = index_.postings_.data() + index_.begins_[term];
      const float* const impacts = index_.impacts_.data() + index_.begins_[term];
      const float* const bounds = bounds_.data();
      const std::size_t df = index_.df(term);
      std::size_t count = count_;  // not in memory: the loop waits for it
      for (std::size_t i = 0; i < df; ++i) {
        const std::int32_t row = postings[i];
        if constexpr (kHasBounds) {
          if (bounds[static_cast<std::size_t>(row) / kBlock] < least) continue;
        }
        found[count] = row;
        count += static_cast<std::size_t>(sums[row] == 0);
        sums[row] += impacts[i];
      }
      count_ = count;
    }
    return j;
  }

  /// Adds the terms from `first` on to all rows, and offers those with a sum.
  void scan(std::size_t first) {
    float* const sums = scratch_->sums.data();
    for (std::size_t j = first; j < terms_.size(); ++j) index_.add_up(terms_[j], sums);
    collect({sums, index_.size_}, allowed_, best_);
    std::fill_n(sums, index_.size_, 0.0F);
    scratch_.are_zero_again();
  }

  /// least_ becomes at least the k-th greatest sum so far: the sums only grow.
  void raise_least(const float* sums) {
    Best best = best_;
    for (const std::int32_t row : found()) {
      if (is_allowed(row)) best.offer(sums[row], row);
    }
    least_ = std::max(least_, best.threshold());
  }

  std::span<const std::int32_t> found() const { return {scratch_->rows.data(), count_}; }

  /// Adds the terms from `first` on to the rows that walk() found, and offers those that may be
  /// kept.
  void finish(std::size_t first) {
    float* const sums = scratch_->sums.data();
    std::vector<std::int32_t>& rows = scratch_->kept;
    rows.assign(found().begin(), found().end());
    if (allowed_ != nullptr)
      std::erase_if(rows, [&](std::int32_t row) { return !is_allowed(row); });
    if (first < terms_.size()) {
      raise_least(sums);
      keep(rows, [&](std::int32_t row) { return sums[row] + rest_[first]; });
      keep(rows, [&](std::int32_t row) {
        float sum = sums[row];
        for (std::size_t j = first; j < terms_.size(); ++j) {
          sum += index_.most_in(terms_[j], static_cast<std::size_t>(row) / kBlock);
        }
        return sum;
      });
      for (std::size_t j = first; j < terms_.size(); ++j) {
        if (j > first) keep(rows, [&](std::int32_t row) { return sums[row] + rest_[j]; });
        index_.add_up(terms_[j], rows, sums);
      }
    }
    for (const std::int32_t row : rows) offer_if_above_zero(sums[row], row, best_);
    for (const std::int32_t row : found()) sums[row] = 0;
    scratch_.are_zero_again();
  }

  /// Keeps the rows that may be kept by these bounds of their sums.
  template <typename Bound>
  void keep(std::vector<std::int32_t>& rows, Bound bound) const {
    std::size_t kept = 0;
    for (const std::int32_t row : rows) {
      rows[kept] = row;
      kept += static_cast<std::size_t>(may_be_kept(bound(row)));
    }
    rows.resize(kept);
  }

  const Bm25Index& index_;
  std::span<const std::uint32_t> terms_;
  std::size_t postings_;  // of all terms
  std::size_t k_;
  const Bitset* allowed_;
  Lease& scratch_;
  std::vector<float>& bounds_;  // by block; empty if this search does without
  Best best_;
  float least_ = 0;          // at most the k-th best score
  std::size_t count_ = 0;    // rows that walk() found
  bool is_crowded_ = false;  // whether walk() ended because it would have found too many
  std::array<float, kMostTerms + 1> rest_;
};

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
  if (allowed != nullptr) {
    const std::size_t count = allowed->count();
    if (count * m * kLookUpCost < query.postings) {  // few rows: only these are looked at
      std::vector<std::int32_t>& rows = scratch->rows;
      rows.clear();
      allowed->each([&rows](std::int32_t row) { rows.push_back(row); });
      float* const sums = scratch.sums(count);
      for (const std::uint32_t term : query.terms) look_up(term, rows, sums);
      Best best(k);
      for (std::size_t i = 0; i < count; ++i) offer_if_above_zero(sums[i], rows[i], best);
      std::fill_n(sums, count, 0.0F);
      scratch.are_zero_again();
      return taken(best);
    }
  }
  if (size_ > kSmall) return LargeSearch(*this, query, k, allowed, scratch).run();
  Best best(k);
  float* const sums = scratch.sums(size_);
  for (const std::uint32_t term : query.terms) add_up(term, sums);
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
  const std::size_t lookups = rows.size() * message.terms.size();
  if (size_ <= kSmall && message.postings + size_ / 4 < kLookupCosts * lookups) {
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
  return table_.memory_bytes() + begins_.memory_bytes() + postings_.memory_bytes() +
         frequencies_.memory_bytes() + impacts_.memory_bytes() + lengths_.memory_bytes() +
         maxima_.capacity() + skips_.capacity() * sizeof skips_[0] +
         reach_.capacity() * sizeof reach_[0] + shift_.capacity() +
         skips_begin_.capacity() * sizeof skips_begin_[0] +
         (maxima_of_.capacity() + column_.capacity()) * sizeof column_[0] +
         (greatest_.capacity() + step_.capacity() + columns_.capacity()) * sizeof(float);
}

void Bm25Index::save(const std::string& path) const { archive().save(path); }

ArchiveWriter Bm25Index::archive() const {
  if (background_) throw std::invalid_argument("BM25 index: has a background, cannot be saved");
  ArchiveWriter archive(kKind, kVersion);
  archive.value(options_.k1);
  archive.value(options_.b);
  archive.value(static_cast<std::uint8_t>(options_.analysis));
  archive.array(lengths_);
  table_.write(archive);
  archive.array(begins_);
  archive.array(postings_);
  archive.array(frequencies_);
  archive.array(impacts_);
  return archive;
}

Bm25Index Bm25Index::load(const std::string& path) {
  return read(ArchiveReader::load(path, kKind, kVersion));
}

Bm25Index Bm25Index::read(ArchiveReader archive) {
  Bm25Index index;
  index.options_.k1 = archive.value<double>();
  index.options_.b = archive.value<double>();
  const auto analysis = archive.value<std::uint8_t>();
  require(analysis <= static_cast<std::uint8_t>(Analysis::kPlain), "unknown analysis");
  index.options_.analysis = static_cast<Analysis>(analysis);
  require(index.options_.k1 >= 0 && std::isfinite(index.options_.k1), "k1 out of range");
  require(index.options_.b >= 0 && index.options_.b <= 1, "b out of range");
  index.lengths_ = archive.array<float>();
  index.size_ = index.lengths_.size();
  require(index.size_ <= kMostRows, "too many rows");
  index.table_ = StringTable::read(archive);
  const std::size_t terms = index.table_.size();
  index.begins_ = archive.array<std::uint64_t>();
  index.postings_ = archive.array<std::int32_t>();
  index.frequencies_ = archive.array<float>();
  index.impacts_ = archive.array<float>();
  archive.finish();
  require(index.begins_.size() == terms + 1 && index.begins_[0] == 0, "postings out of place");
  require(index.begins_.back() == index.postings_.size(), "postings out of place");
  require(index.impacts_.size() == index.postings_.size(), "not one impact a posting");
  require(index.frequencies_.size() == index.postings_.size(), "not one frequency a posting");
  for (std::size_t t = 0; t < terms; ++t) {
    require(index.begins_[t] < index.begins_[t + 1], "a term without rows");
    require(index.begins_[t + 1] <= index.postings_.size(), "postings out of place");
    std::int32_t before = -1;
    for (std::uint64_t i = index.begins_[t]; i < index.begins_[t + 1]; ++i) {
      require(index.postings_[i] > before, "rows out of order");
      before = index.postings_[i];
      require(index.impacts_[i] > 0 && index.impacts_[i] <= static_cast<float>(kMostImpact),
              "an impact out of range");
      require(index.frequencies_[i] > 0 && std::isfinite(index.frequencies_[i]),
              "a frequency out of range");
    }
    require(static_cast<std::size_t>(before) < index.size_, "a row out of range");
  }
  index.derive();
  return index;
}

}  // namespace toolroll
