#include "dot_scan.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace toolroll {
namespace {

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

/// The most candidates whose memory a thread keeps for its next scan: 512 kB. If the rows are
/// nearly equally far from a query, the bounds exclude none, and all of them are candidates.
constexpr std::size_t kKeptCandidates = std::size_t{1} << 16;

/// Two stages: 8-bit intervals, then float32 products of the rows that these do not exclude.
void scan_certified(const VectorRows& rows, const Query& query, std::size_t k, const Bitset* listed,
                    const Bitset* mask, Best& best) {
  const DotKernels& dot = dot_kernels();
  thread_local std::vector<Candidate> candidates;
  candidates.clear();
  Best floor(k);  // of lower ends: its threshold is at most the k-th best product
  std::int32_t products[kBlock];
  float lower[kBlock];
  float upper[kBlock];
  float listed_step[kBlock];
  float listed_error[kBlock];
  each_block(rows.size(), listed, [&](const Block& block) {
    const float* step = rows.step.data() + block.first;
    const float* error = rows.error.data() + block.first;
    if (block.at == nullptr) {
      dot.i8(query.small(), rows.small.row(block.first), block.count, rows.width(), products);
    } else {
      dot.i8_at(query.small(), rows.small.data(), block.at, block.count, rows.width(), products);
      for (std::size_t i = 0; i < block.count; ++i) {
        listed_step[i] = step[block.at[i]];
        listed_error[i] = error[block.at[i]];
      }
      step = listed_step;
      error = listed_error;
    }
    dot.bounds(products, step, error, block.count, query.terms(), lower, upper);
    each_above(
        {upper, block.count}, [&] { return floor.threshold(); },
        [&](std::size_t i) {
          const std::int32_t row = block.row(i);
          if (!holds(mask, row)) return;
          candidates.push_back({row, upper[i]});
          floor.offer(lower[i], row);
        });
  });
  rescore(rows, query, candidates, floor.threshold(), best);
  if (candidates.capacity() > kKeptCandidates) std::vector<Candidate>().swap(candidates);
}

}  // namespace

VectorRows::VectorRows(std::size_t n, std::size_t dim_)
    : dim(dim_), full(n, dim_), small(n, dim_), step(n), error(n) {}

bool VectorRows::assign(std::size_t i, std::span<const float> x) {
  const DotKernels& dot = dot_kernels();
  float* const out = full.row(i);
  std::ranges::copy(x, out);
  const double squares = dot.squares(out, width());
  if (!std::isfinite(squares)) return false;
  if (squares > 0) dot.scale(out, 1.0 / std::sqrt(squares), width(), out);
  quantise(i);
  return true;
}

void VectorRows::copy(std::size_t i, const VectorRows& from, std::size_t row) {
  std::copy_n(from.full.row(row), width(), full.row(i));
  std::copy_n(from.small.row(row), width(), small.row(i));
  step[i] = from.step[row];
  error[i] = from.error[row];
}

void VectorRows::quantise(std::size_t i) {
  const Quantised form = dot_kernels().quantise(full.row(i), width(), small.row(i));
  step[i] = form.step;
  error[i] = form.error;
}

std::size_t VectorRows::memory_bytes() const {
  return full.bytes() + small.bytes() + (step.capacity() + error.capacity()) * sizeof(float);
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
  std::ranges::copy(x, padded_.row(0));
  const double squares = dot.squares(padded_.data(), width);
  if (!std::isfinite(squares)) throw std::invalid_argument("query: has a value that is not finite");
  if (squares == 0) return false;
  dot.scale(padded_.data(), 1.0 / std::sqrt(squares), width, full_.row(0));
  const Quantised form = dot.quantise(full_.data(), width, small_.row(0));

  // Lengths of unit vectors rounded to float32, and the roundings of the interval's own arithmetic
  // (a few, of numbers below 2), are within 1e-5. A float32 sum of `width` products of unit vectors
  // is within width * 2^-24 of the true one in any order; twice that covers the padding of the
  // proof.
  constexpr float kLength = 1.00001F;
  const float rounding = static_cast<float>(width + 16) * 0x1p-23F + 1e-5F;
  terms_ = {form.step, kLength + form.error, form.error * kLength + rounding};
  return true;
}

void scan(const VectorRows& rows, const Query& query, std::size_t k, const Bitset* allowed,
          std::size_t count, Best& best) {
  const bool sweeps = allowed == nullptr ||
                      static_cast<double>(count) > kSweepShare * static_cast<double>(rows.size());
  const Bitset* const listed = sweeps ? nullptr : allowed;
  const Bitset* const mask = sweeps ? allowed : nullptr;
  if (count <= kPlainRows || count / kPlainPerResult <= k) {
    scan_full(rows, query, listed, mask, best);
  } else {
    scan_certified(rows, query, k, listed, mask, best);
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
