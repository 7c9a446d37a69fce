// What an index derives from its postings, so that searches reach them sooner.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "bm25_search.hpp"

namespace toolroll {
namespace {

// Measured by `python -m bench --only lexical`.
constexpr std::size_t kColumnShare = 4;    // a term of n / 4 rows of a small index gets a column
constexpr std::size_t kColumnRows = 256;   // in an index of at least so many rows
constexpr std::size_t kMaximaShare = 128;  // a term of n / 128 rows of a large index gets maxima
constexpr std::size_t kSkipped = 16;       // postings between two skips, on average
constexpr std::size_t kLeastSkipped = 64;  // postings of a term that gets skips

}  // namespace

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
    if (size_ <= kBm25Small) continue;
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
  } else if (rows.size() * kBm25LookUpCost < df(term)) {
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

}  // namespace toolroll
