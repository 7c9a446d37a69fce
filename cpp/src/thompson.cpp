#include "toolroll/thompson.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "thompson_kernels.hpp"

namespace toolroll {
namespace {

using thompson::Kernels;

const Kernels& kernels([[maybe_unused]] Isa wanted) {
#ifdef TOOLROLL_X86
  const Isa used = std::min(wanted, isa_supported());
  if (used >= Isa::kAvx512) return thompson::kAvx512Kernels;
  if (used >= Isa::kAvx2) return thompson::kAvx2Kernels;
#endif
  return thompson::kBaselineKernels;
}

bool is_shape(double number) {
  return (number > 0) & (number <= std::numeric_limits<double>::max());  // not &&: no branch
}

[[noreturn]] void refuse(const char* column, std::size_t row, double number, const char* rule) {
  throw std::invalid_argument(std::string(column) + "[" + std::to_string(row) + "]: is " +
                              std::to_string(number) + ", " + rule);
}

void check_shapes(const char* column, std::span<const double> shapes) {
  bool sound = true;
  for (const double shape : shapes) sound &= is_shape(shape);
  if (sound) return;
  for (std::size_t row = 0; row < shapes.size(); ++row) {
    if (!is_shape(shapes[row])) refuse(column, row, shapes[row], "must be finite and above 0");
  }
}

void check_length(const char* column, std::size_t size, std::size_t n) {
  if (size != n) {
    throw std::invalid_argument(std::string(column) + ": has " + std::to_string(size) +
                                " entries, must have " + std::to_string(n));
  }
}

// What a rerank sorts: small, and complete, so that the order is total.
struct Scaled {
  double score;
  double log_odds;  // -inf where no draw is asked
  double draw;
  std::int32_t row;
};

bool is_better(const Scaled& a, const Scaled& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.log_odds != b.log_odds) return a.log_odds > b.log_odds;
  return a.row < b.row;
}

// A candidate's arm, gathered.
struct Gathered {
  std::vector<std::uint64_t> key;
  std::vector<double> alpha, beta, draw, log_odds;
  std::vector<Scaled> scaled;

  void resize(std::size_t m) {
    key.resize(m);
    for (auto* column : {&alpha, &beta, &draw, &log_odds}) column->resize(m);
    scaled.resize(m);
  }
};

}  // namespace

void thompson_sample(const Arms& arms, std::uint64_t seed, std::span<double> out, Isa using_isa) {
  const std::size_t n = arms.key.size();
  check_length("alpha", arms.alpha.size(), n);
  check_length("beta", arms.beta.size(), n);
  check_length("out", out.size(), n);
  check_shapes("alpha", arms.alpha);
  check_shapes("beta", arms.beta);
  kernels(using_isa).beta(arms.key.data(), arms.alpha.data(), arms.beta.data(), n, seed, out.data(),
                          nullptr);
}

void log_gamma_sample(std::span<const std::uint64_t> key, std::span<const double> shape,
                      std::uint64_t seed, std::span<double> out, Isa using_isa) {
  check_length("shape", shape.size(), key.size());
  check_length("out", out.size(), key.size());
  check_shapes("shape", shape);
  kernels(using_isa).log_gamma(key.data(), shape.data(), key.size(), seed, out.data());
}

void thompson_rerank(const Arms& arms, std::uint64_t seed, const Retrieved& candidates,
                     double weight, const Reranked& best) {
  const std::size_t n = arms.key.size();
  const std::size_t m = candidates.rows.size();
  const std::size_t k = best.rows.size();
  check_length("alpha", arms.alpha.size(), n);
  check_length("beta", arms.beta.size(), n);
  check_length("scores", candidates.scores.size(), m);
  check_length("best.scores", best.scores.size(), k);
  check_length("best.draws", best.draws.size(), k);
  if (k > m) throw std::invalid_argument("best: is longer than the candidates");
  if (!(weight >= 0 && weight <= 1)) {
    throw std::invalid_argument("weight: is " + std::to_string(weight) + ", must be in [0, 1]");
  }

  thread_local Gathered at;
  at.resize(m);
  for (std::size_t i = 0; i < m; ++i) {
    const std::int32_t row = candidates.rows[i];
    if (row < 0 || static_cast<std::size_t>(row) >= n) {
      throw std::invalid_argument("rows[" + std::to_string(i) + "]: is " + std::to_string(row) +
                                  ", must be in 0.." + std::to_string(n) + " (exclusive)");
    }
    if (!std::isfinite(candidates.scores[i])) {
      refuse("scores", i, candidates.scores[i], "must be finite");
    }
    const auto arm = static_cast<std::size_t>(row);
    at.key[i] = arms.key[arm];
    at.alpha[i] = arms.alpha[arm];
    at.beta[i] = arms.beta[arm];
    if (!is_shape(at.alpha[i])) refuse("alpha", arm, at.alpha[i], "must be finite and above 0");
    if (!is_shape(at.beta[i])) refuse("beta", arm, at.beta[i], "must be finite and above 0");
  }
  kernels(isa()).beta(at.key.data(), at.alpha.data(), at.beta.data(), m, seed, at.draw.data(),
                      at.log_odds.data());

  for (std::size_t i = 0; i < m; ++i) {
    const double score = candidates.scores[i];
    const double draw = at.draw[i];
    const bool is_drawn = score > 0 && weight > 0;
    at.scaled[i] = {is_drawn ? score * (1 - weight + weight * draw) : score,
                    is_drawn ? at.log_odds[i] : -std::numeric_limits<double>::infinity(), draw,
                    candidates.rows[i]};
  }
  std::partial_sort(at.scaled.begin(), at.scaled.begin() + static_cast<std::ptrdiff_t>(k),
                    at.scaled.end(), is_better);
  for (std::size_t i = 0; i < k; ++i) {
    best.rows[i] = at.scaled[i].row;
    best.scores[i] = static_cast<float>(at.scaled[i].score);
    best.draws[i] = at.scaled[i].draw;
  }
}

}  // namespace toolroll
