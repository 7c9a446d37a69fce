#include "toolroll/learned_vectors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "portable.hpp"
#include "toolroll/dot.hpp"
#include "toolroll/topk.hpp"

namespace toolroll {
namespace {

constexpr float kUnseenPairs = 6.0F;
constexpr float kLeastTrust = 0.4F;

}  // namespace

LearnedVectors::LearnedVectors(const LearnedInput& input, std::size_t size, std::size_t dim)
    : size_(size), dim_(dim) {
  if (input.learned == nullptr && input.keys == nullptr) return;
  if (input.learned == nullptr || input.keys == nullptr) {
    throw std::invalid_argument("learned: must come with the keys of the rows");
  }
  if (input.keys->size() < input.first_row + size) {
    throw std::invalid_argument("keys: has " + std::to_string(input.keys->size()) +
                                " rows, must have " + std::to_string(input.first_row + size));
  }
  if (input.learned->vectors() == 0 || dim == 0) return;
  if (input.learned->dim() != dim) {
    throw std::invalid_argument("learned: has vectors of " + std::to_string(input.learned->dim()) +
                                " numbers, must have " + std::to_string(dim));
  }
  input_ = input;
}

LearnedVectors::Direction LearnedVectors::directed(std::span<const float> query) const {
  std::vector<float> padded(padded_width(dim_), 0.0F);
  std::copy(query.begin(), query.end(), padded.begin());
  const DotKernels& kernels = dot_kernels();
  const double squares = kernels.squares(padded.data(), padded.size());
  Direction direction;
  if (squares == 0.0) return direction;
  kernels.scale(padded.data(), 1.0 / std::sqrt(squares), padded.size(), padded.data());
  direction.codes.resize(padded.size());
  direction.step = kernels.quantise(padded.data(), padded.size(), direction.codes.data()).step;
  return direction;
}

void LearnedVectors::nominate(std::span<const float> query, std::size_t most, const Bitset& in_play,
                              std::vector<std::int32_t>& rows) const {
  if (is_empty() || most == 0) return;
  const Direction direction = directed(query);
  if (direction.codes.empty()) return;
  Best best(most);
  const auto offer = [&](std::uint64_t subject, float score) {
    input_.keys->each_row(subject, [&](std::int32_t at) {
      const auto place = static_cast<std::size_t>(at);
      if (place < input_.first_row || place >= input_.first_row + size_) return;
      const std::size_t row = place - input_.first_row;
      if (in_play.contains(row)) best.offer(score, static_cast<std::int32_t>(row));
    });
    return std::max(best.threshold(), 0.0F);
  };
  input_.learned->nearest_vectors(direction.codes, direction.step, offer);
  std::vector<std::int32_t> named;
  std::vector<float> scores;
  best.take(named, scores);
  rows.insert(rows.end(), named.begin(), named.end());
}

void LearnedVectors::look_up(std::span<const std::int32_t> rows, float unrelated, float related) {
  entries_.clear();
  if (is_empty()) return;
  entries_.reserve(rows.size());
  subjects_.clear();
  for (const std::int32_t row : rows) {
    subjects_.push_back(input_.keys->subject(input_.first_row + static_cast<std::size_t>(row)));
    input_.learned->ask_for_vector(subjects_.back());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto vector = input_.learned->vector(subjects_[i], input_.now);
    if (!vector) continue;
    // With few messages there is little evidence: they count as related at first.
    const float likeness =
        (vector->alike + kUnseenPairs * related) / (vector->pairs + kUnseenPairs);
    float trust = 1.0F;
    if (unrelated < related) {
      const float relatedness =
          std::clamp((likeness - unrelated) / (related - unrelated), 0.0F, 1.0F);
      trust = kLeastTrust + (1.0F - kLeastTrust) * relatedness;
    }
    const double share = input_.learned->vector_share(vector->weight);
    entries_.push_back({i, *vector, trust * static_cast<float>(share), trust});
  }
}

std::vector<std::size_t> LearnedVectors::places() const {
  std::vector<std::size_t> out;
  out.reserve(entries_.size());
  for (const Entry& entry : entries_) out.push_back(entry.place);
  return out;
}

void LearnedVectors::blend(const Direction& direction, std::span<float> cosines) const {
  if (entries_.empty() || direction.codes.empty()) return;
  const DotKernels& kernels = dot_kernels();
  for (const Entry& entry : entries_) {
    std::int32_t product = 0;
    kernels.i8(direction.codes.data(), entry.vector.codes.data(), 1, direction.codes.size(),
               &product);
    const float cosine = static_cast<float>(product) * (direction.step * entry.vector.step);
    cosines[entry.place] += entry.share * (cosine - cosines[entry.place]);
  }
}

void LearnedVectors::recall(const Direction& direction, float floor, std::span<float> above) const {
  if (entries_.empty() || direction.codes.empty()) return;
  const DotKernels& kernels = dot_kernels();
  const double half_life = input_.learned->rates().vector_half_s;
  std::array<std::int32_t, kMostExemplars> products;
  for (const Entry& entry : entries_) {
    const LearnedVector& vector = entry.vector;
    const std::size_t n = vector.times.size();
    kernels.i8(direction.codes.data(), vector.exemplars.data(), n, direction.codes.size(),
               products.data());
    float& best = above[entry.place];
    for (std::size_t i = 0; i < n; ++i) {
      const float cosine = static_cast<float>(products[i]) * (direction.step * vector.steps[i]);
      if (cosine - floor <= best) continue;  // the decay can only lower it; most messages end here
      const auto left =
          static_cast<float>(portable::decay(input_.now - vector.times[i], half_life));
      best = std::max(best, entry.trust * left * (cosine - floor));
    }
  }
}

}  // namespace toolroll
