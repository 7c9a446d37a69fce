#include "toolroll/intents.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace toolroll {

Intents::Intents(SharedArray<std::int64_t> begins, VectorIndex vectors, SharedArray<float> weights)
    : begins_(std::move(begins)), vectors_(std::move(vectors)), weights_(std::move(weights)) {}

Intents Intents::build(std::span<const std::int64_t> begins, std::span<const float> vectors,
                       std::size_t dim, std::span<const float> weights) {
  if (begins.empty() || begins.front() != 0 || !std::is_sorted(begins.begin(), begins.end()) ||
      static_cast<std::size_t>(begins.back()) != weights.size()) {
    throw std::invalid_argument("intents: begins must ascend from 0 to " +
                                std::to_string(weights.size()) + ", the number of weights");
  }
  for (const float weight : weights) {
    if (!(weight >= 0.0F && weight <= 1.0F)) {
      throw std::invalid_argument("intents: weight is " + std::to_string(weight) +
                                  ", must be in [0, 1]");
    }
  }
  VectorIndex index = VectorIndex::build(vectors, dim);
  if (index.size() != weights.size()) {
    throw std::invalid_argument("intents: has " + std::to_string(index.size()) +
                                " vectors, must have " + std::to_string(weights.size()));
  }
  return Intents(std::vector<std::int64_t>(begins.begin(), begins.end()), std::move(index),
                 std::vector<float>(weights.begin(), weights.end()));
}

Intents Intents::with_changes(const RowChanges& changes, std::span<const std::int64_t> begins,
                              std::span<const float> vectors,
                              std::span<const float> weights) const {
  const Intents added = build(begins, vectors, dim(), weights);
  changes.check(size(), added.size());
  std::vector<std::int64_t> ends(1, 0);  // of each row: the beginnings of the new index
  ends.reserve(changes.size() + 1);
  std::vector<std::int32_t> sources;
  std::vector<float> kept;
  std::size_t next = 0;
  for (const std::int32_t source : changes.sources()) {
    const bool is_added = source == RowChanges::kNone;
    const Intents& from = is_added ? added : *this;
    const std::size_t row = is_added ? next++ : static_cast<std::size_t>(source);
    for (std::int64_t place = from.begins_[row]; place < from.begins_[row + 1]; ++place) {
      sources.push_back(is_added ? RowChanges::kNone : static_cast<std::int32_t>(place));
      kept.push_back(from.weights_[static_cast<std::size_t>(place)]);
    }
    ends.push_back(static_cast<std::int64_t>(kept.size()));
  }
  VectorIndex index = vectors_.with_changes(RowChanges(count(), sources), vectors);
  return Intents(std::move(ends), std::move(index), std::move(kept));
}

void Intents::nearest(std::span<const float> query, std::span<const std::int32_t> rows,
                      std::span<float> out) const {
  if (out.size() != rows.size()) {
    throw std::invalid_argument("intents: out has " + std::to_string(out.size()) +
                                " places, must have " + std::to_string(rows.size()));
  }
  std::vector<std::int32_t> places;
  for (const std::int32_t row : rows) {
    if (row < 0 || static_cast<std::size_t>(row) >= size()) {
      throw std::invalid_argument("intents: row " + std::to_string(row) + ", must be below " +
                                  std::to_string(size()));
    }
    const auto at = static_cast<std::size_t>(row);
    for (std::int64_t place = begins_[at]; place < begins_[at + 1]; ++place) {
      places.push_back(static_cast<std::int32_t>(place));
    }
  }
  std::fill(out.begin(), out.end(), 0.0F);
  if (places.empty()) return;
  const std::vector<float> cosines = vectors_.scores(query, places);
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<std::size_t>(rows[i]);
    for (std::int64_t place = begins_[at]; place < begins_[at + 1]; ++place, ++next) {
      out[i] = std::max(out[i], weights_[static_cast<std::size_t>(place)] * cosines[next]);
    }
  }
}

std::size_t Intents::memory_bytes() const {
  return begins_.memory_bytes() + weights_.memory_bytes() + vectors_.memory_bytes();
}

ArchiveWriter Intents::archive() const {
  ArchiveWriter out(kKind, kVersion);
  out.array(begins_);
  out.array(weights_);
  vectors_.write_to(out);
  return out;
}

Intents Intents::read(ArchiveReader in) {
  auto begins = in.array<std::int64_t>();
  auto weights = in.array<float>();
  VectorIndex vectors = VectorIndex::read_from(in);
  in.finish();
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw ArchiveError(std::string("damaged intents: ") + what);
  };
  require(!begins.empty() && begins.front() == 0 && std::ranges::is_sorted(begins) &&
              static_cast<std::size_t>(begins.back()) == weights.size(),
          "their begins do not ascend from 0 to the number of weights");
  require(std::ranges::all_of(weights, [](float weight) { return weight >= 0 && weight <= 1; }),
          "a weight is out of its range");
  require(vectors.size() == weights.size(), "not one vector a weight");
  return Intents(std::move(begins), std::move(vectors), std::move(weights));
}

}  // namespace toolroll
