#include "toolroll/bm25.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "bm25_search.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kMostRows = std::numeric_limits<std::int32_t>::max();

// Impacts stay below this, so that no sum of kMostTerms of them is infinite.
constexpr double kMostImpact = 1e35;
constexpr double kMostFrequency = 1e35;

// Measured by `python -m bench --only lexical`, with the costs below.
constexpr std::size_t kLookupCosts = 4;  // times what adding a posting to a row's sum does

// The costs that expected_ns() adds up, on one core of 2021.
constexpr double kReadNsPerByte = 15;  // of a message: folding, stemming, looking terms up
constexpr double kBytesPerTerm = 8;    // a word, the space behind it, and stop words in between
constexpr double kPostingNs = 1;
constexpr double kPrunedNs = 0.4;  // a posting of a large index: most are not walked
constexpr double kBlockNs = 0.5;   // the bound of a block for one term
constexpr double kScanNs = 0.3;    // a row of the sums: cleared, compared

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
  if (size_ > kBm25Small) {
    word_ns = std::min(kPrunedNs * postings_per_term_, kBlockNs * static_cast<double>(blocks()));
  }
  const double scanned = size_ <= kBm25Small ? static_cast<double>(size_) : 0;
  return kReadNsPerByte * static_cast<double>(text_bytes) + words * word_ns + kScanNs * scanned;
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
    if (count * m * kBm25LookUpCost < query.postings) {  // few rows: only these are looked at
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
  if (size_ > kBm25Small) return search_large(query, k, allowed, scratch);
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
  if (size_ <= kBm25Small && message.postings + size_ / 4 < kLookupCosts * lookups) {
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
