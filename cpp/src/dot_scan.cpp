#include "dot_scan.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace toolroll {
namespace {

// Measured by `python -m bench --only vectors`.
constexpr std::size_t kBlock = 256;  // products of a block stay in the first-level cache

// Up to here one pass over float32 is as fast as two stages. Whole calls from Python at 384
// dimensions (Zen 4, p50): 64 rows 3.0 us either way, 158 rows 4.7 in one pass and 4.0 in two, 300
// rows 7.1 and 4.9.
constexpr std::size_t kPlainRows = 64;
// Two stages keep far more than k candidates. If k is a large part of the rows, they save nothing.
constexpr std::size_t kPlainPerResult = 4;
// Below this share of allowed rows they are fetched one by one, above it all rows are read in
// order.
constexpr double kSweepShare = 0.5;

// Lengths of unit vectors rounded to float32 are within 1e-5.
constexpr float kLength = 1.00001F;
constexpr float kLongestHalves = 1.009F;  // of a row in 4 bits: see the proof in the header

/// `count` rows: those listed in `at`, or if that is nullptr the ones from `first` on.
struct Block {
  std::size_t first;
  const std::int32_t* at;
  std::size_t count;

  std::int32_t row(std::size_t i) const {
    return at == nullptr ? static_cast<std::int32_t>(first + i) : at[i];
  }
};

/// Calls visit(Block) for the rows of `listed`, or for all n if that is nullptr, ascending.
template <typename Visit>
void each_block(std::size_t n, const Bitset* listed, Visit visit) {
  if (listed == nullptr) {
    for (std::size_t first = 0; first < n; first += kBlock) {
      visit(Block{first, nullptr, std::min(kBlock, n - first)});
    }
    return;
  }
  std::int32_t at[kBlock];
  std::size_t count = 0;
  listed->each([&](std::int32_t row) {
    at[count++] = row;
    if (count < kBlock) return;
    visit(Block{0, at, count});
    count = 0;
  });
  if (count != 0) visit(Block{0, at, count});
}

bool holds(const Bitset* mask, std::int32_t row) {
  return mask == nullptr || mask->contains(static_cast<std::size_t>(row));
}

/// One pass in float32 over the listed rows (nullptr: all) that are in the mask (nullptr: all).
void scan_full(const VectorRows& rows, const Query& query, const Bitset* listed, const Bitset* mask,
               Best& best) {
  const DotKernels& dot = dot_kernels();
  float scores[kBlock];
  each_block(rows.size(), listed, [&](const Block& block) {
    if (block.at == nullptr) {
      dot.f32(query.full(), rows.full.row(block.first), block.count, rows.width(), scores);
    } else {
      dot.f32_at(query.full(), rows.full.data(), block.at, block.count, rows.width(), scores);
    }
    each_above(
        {scores, block.count}, [&] { return best.threshold(); },
        [&](std::size_t i) {
          if (holds(mask, block.row(i))) best.offer(scores[i], block.row(i));
        });
  });
}

bool is_sweep(std::size_t n, std::size_t count) {
  return static_cast<double>(count) > kSweepShare * static_cast<double>(n);
}

/// The most candidates whose memory a thread keeps for its next scan: 512 kB. If the rows are
/// nearly equally far from a query, the bounds exclude none, and all of them are candidates.
constexpr std::size_t kKeptCandidates = std::size_t{1} << 16;

/// Few rows that lie apart: 8-bit intervals of all, then float32 products of the rows whose upper
/// end reaches the k-th best lower end.
void scan_listed(const VectorRows& rows, const Query& query, std::size_t k, const Bitset& listed,
                 Best& best) {
  const DotKernels& dot = dot_kernels();
  thread_local std::vector<Candidate> candidates;
  candidates.clear();
  Best floor(k);  // of lower ends: its threshold is at most the k-th best product
  std::int32_t products[kBlock];
  float lower[kBlock];
  float upper[kBlock];
  float step[kBlock];
  float error[kBlock];
  each_block(rows.size(), &listed, [&](const Block& block) {
    dot.i8_at(query.small(), rows.small.data(), block.at, block.count, rows.width(), products);
    for (std::size_t i = 0; i < block.count; ++i) {
      step[i] = rows.step[static_cast<std::size_t>(block.at[i])];
      error[i] = rows.error[static_cast<std::size_t>(block.at[i])];
    }
    dot.bounds(products, step, error, block.count, query.terms(), lower, upper);
    each_above(
        {upper, block.count}, [&] { return floor.threshold(); },
        [&](std::size_t i) {
          candidates.push_back({block.at[i], upper[i]});
          floor.offer(lower[i], block.at[i]);
        });
  });
  rescore(rows, query, candidates, floor.threshold(), best);
  if (candidates.capacity() > kKeptCandidates) std::vector<Candidate>().swap(candidates);
}

/// Writes x / |x| as row i in both precisions. Nothing if a value is not finite.
std::optional<Quantised> write(std::span<const float> x, VectorRows& rows, std::size_t i) {
  const DotKernels& dot = dot_kernels();
  const std::size_t width = rows.width();
  float* const out = rows.full.mutable_row(i);
  std::ranges::copy(x, out);
  const double squares = dot.squares(out, width);
  if (!std::isfinite(squares)) return std::nullopt;
  if (squares > 0) dot.scale(out, 1.0 / std::sqrt(squares), width, out);
  return dot.quantise(out, width, rows.small.mutable_row(i));
}

}  // namespace

VectorRows VectorRows::of(std::span<const float> vectors, std::size_t dim) {
  const std::size_t n = vectors.size() / dim;
  VectorRows rows;
  rows.dim = dim;
  rows.full = Rows<float>(n, dim);
  rows.small = Rows<std::int8_t>(n, dim);
  std::vector<Quantised> forms(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto form = write(vectors.subspan(i * dim, dim), rows, i);
    if (!form) {
      throw std::invalid_argument("vectors: row " + std::to_string(i) +
                                  " has a value that is not finite");
    }
    forms[i] = *form;
  }
  rows.keep(forms);
  rows.halves = HalfByteRows::of(rows.full);
  return rows;
}

VectorRows VectorRows::with_changes(const RowChanges& changes, std::span<const float> added) const {
  const std::size_t n = changes.size();
  VectorRows rows;
  rows.dim = dim;
  rows.full = Rows<float>(n, dim);
  rows.small = Rows<std::int8_t>(n, dim);
  std::vector<Quantised> forms(n);
  std::size_t next = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t source = changes.sources()[i];
    if (source == RowChanges::kNone) {
      const auto form = write(added.subspan(dim * next++, dim), rows, i);
      if (!form) {
        throw std::invalid_argument("added: row " + std::to_string(next - 1) +
                                    " has a value that is not finite");
      }
      forms[i] = *form;
      continue;
    }
    const auto row = static_cast<std::size_t>(source);
    std::copy_n(full.row(row), width(), rows.full.mutable_row(i));
    std::copy_n(small.row(row), width(), rows.small.mutable_row(i));
    forms[i] = {step[row], error[row]};
  }
  rows.keep(forms);
  rows.halves = halves.with_changes(changes, rows.full);
  return rows;
}

void VectorRows::keep(std::span<const Quantised> forms) {
  std::vector<float> steps(forms.size());
  std::vector<float> errors(forms.size());
  for (std::size_t i = 0; i < forms.size(); ++i) {
    steps[i] = forms[i].step;
    errors[i] = forms[i].error;
  }
  step = std::move(steps);
  error = std::move(errors);
}

void VectorRows::save(ArchiveWriter& archive) const {
  archive.value<std::uint64_t>(dim);
  archive.array(full.span());
  archive.array(small.span());
  archive.array(step);
  archive.array(error);
  halves.save(archive);
}

VectorRows VectorRows::load(ArchiveReader& archive) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw ArchiveError(std::string("damaged vector index: ") + what);
  };
  VectorRows rows;
  rows.dim = archive.value<std::uint64_t>();
  require(rows.dim > 0 && rows.dim <= kMaxDim, "its vectors have an impossible width");
  const auto full = archive.array<float>();
  const auto small = archive.array<std::int8_t>();
  rows.step = archive.array<float>();
  rows.error = archive.array<float>();
  const std::size_t n = rows.step.size();
  const std::size_t width = padded_width(rows.dim);
  require(n <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) &&
              full.size() % width == 0 && full.size() / width == n && small.size() == full.size() &&
              rows.error.size() == n,
          "its rows are not of one width");
  rows.full = Rows<float>(n, rows.dim, full);
  rows.small = Rows<std::int8_t>(n, rows.dim, small);
  const DotKernels& dot = dot_kernels();
  for (std::size_t i = 0; i < n; ++i) {
    const double squares = dot.squares(rows.full.row(i), width);
    require(squares == 0 || std::abs(squares - 1) < 1e-5, "a row is not of length 1");
    require(rows.step[i] >= 0 && rows.step[i] <= 1 && (rows.step[i] == 0) == (squares == 0) &&
                rows.error[i] >= 0 && rows.error[i] <= 1,
            "the 8-bit form of a row is none");
  }
  require(std::ranges::none_of(small, [](std::int8_t value) { return value == -128; }),
          "the 8-bit form of a row is out of its range");
  rows.halves = HalfByteRows::load(archive, n, width);
  return rows;
}

std::size_t VectorRows::memory_bytes() const {
  return full.memory_bytes() + small.memory_bytes() + halves.memory_bytes() + step.memory_bytes() +
         error.memory_bytes();
}

bool Query::set(std::span<const float> x) {
  if (x.size() != dim_) {
    dim_ = x.size();
    padded_ = Rows<float>(1, dim_);
    full_ = Rows<float>(1, dim_);
    small_ = Rows<std::int8_t>(1, dim_);
  }
  const DotKernels& dot = dot_kernels();
  const std::size_t width = full_.width();
  std::ranges::copy(x, padded_.mutable_row(0));
  const double squares = dot.squares(padded_.data(), width);
  if (!std::isfinite(squares)) throw std::invalid_argument("query: has a value that is not finite");
  if (squares == 0) return false;
  dot.scale(padded_.data(), 1.0 / std::sqrt(squares), width, full_.mutable_row(0));
  const Quantised form = dot.quantise(full_.data(), width, small_.mutable_row(0));

  // A float32 sum of `width` products of unit vectors is within width * 2^-24 of the true one in
  // any order; twice that covers the padding of the proof. The roundings of the bound's own
  // arithmetic (a few, of numbers below 17) are within 1e-5.
  rounding_ = static_cast<float>(width + 16) * 0x1p-23F + 1e-5F;
  terms_ = {form.step, kLength + form.error, form.error * kLength + rounding_};
  return true;
}

ByteQuery Query::coarse() const {
  return {small_.data(), nullptr, terms_.step, 0, terms_.per_error, terms_.constant};
}

void Query::set_stages() {
  const DotKernels& dot = dot_kernels();
  const std::size_t width = full_.width();
  if (parts_.width() != width) {
    parts_ = Rows<float>(1, dim_);
    rest_ = Rows<std::int8_t>(1, dim_);
    low_high_ = Rows<std::int8_t>(1, dim_);
  }
  const float* const x = full_.data();
  float* const parts = parts_.mutable_row(0);
  for (std::size_t i = 0; i < width; ++i) {
    parts[i] = x[i] - terms_.step * static_cast<float>(small_.data()[i]);
  }
  const Quantised rest = dot.quantise(parts, width, rest_.mutable_row(0));
  // The rest is off by the rounding of two numbers below 1 of a vector of length 1.
  const float error = rest.error + 1e-6F;
  fine_ = {small_.data(), rest_.data(),    terms_.step,
           rest.step,     kLength + error, error * kLength + rounding_};

  const std::size_t half = width / 2;
  for (std::size_t i = 0; i < half; i += 4) {
    std::memcpy(parts + i, x + 2 * i, 4 * sizeof(float));
    std::memcpy(parts + half + i, x + 2 * i + 4, 4 * sizeof(float));
  }
  std::int8_t* const low = low_high_.mutable_row(0);
  const HalfByteSums sums = dot.round_halves(parts, parts + half, half, low, low + half);
  const float total = static_cast<float>(sums.low) +
                      (1.0F + dot.half_byte_form.share) * static_cast<float>(sums.high);
  halves_ = {low,
             low + half,
             sums.step,
             -7.5F * sums.step * total,
             0,
             0,
             sums.error * kLongestHalves + rounding_};
}

HalfByteQuery Query::halves(float t0) const {
  HalfByteQuery query = halves_;
  const float c = 1.0F / std::sqrt(1.0F - t0 * t0);
  // The factors are rounded to the safe side, and so is the length of the query.
  query.slope = c * t0 / kLongestHalves;
  query.slack = (c + query.slope * query.constant) * 1.00002F;
  query.slope *= 0.99999F;
  return query;
}

bool scans_in_stages(const VectorRows& rows, std::size_t count) {
  return !rows.halves.empty() && is_sweep(rows.size(), count);
}

void scan(const VectorRows& rows, Query& query, std::size_t k, const Bitset* allowed,
          std::size_t count, Best& best) {
  const bool sweeps = allowed == nullptr || is_sweep(rows.size(), count);
  if (count <= kPlainRows || count / kPlainPerResult <= k) {
    scan_full(rows, query, sweeps ? nullptr : allowed, sweeps ? allowed : nullptr, best);
  } else if (sweeps) {
    sweep(rows, query, k, allowed, best);
  } else {
    scan_listed(rows, query, k, *allowed, best);
  }
}

void rescore(const VectorRows& rows, const Query& query, std::span<const Candidate> candidates,
             float floor, Best& best) {
  const DotKernels& dot = dot_kernels();
  std::int32_t at[kBlock];
  float scores[kBlock];
  std::size_t count = 0;
  const auto flush = [&] {
    dot.f32_at(query.full(), rows.full.data(), at, count, rows.width(), scores);
    for (std::size_t i = 0; i < count; ++i) best.offer(scores[i], at[i]);
    count = 0;
  };
  for (const Candidate& candidate : candidates) {
    // Below the k-th best lower end, or below the k-th best product so far: not among the best.
    if (candidate.upper < floor || candidate.upper < best.threshold()) continue;
    at[count++] = candidate.row;
    if (count == kBlock) flush();
  }
  flush();
}

}  // namespace toolroll
