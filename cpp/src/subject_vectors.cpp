// The vectors of subjects: sums, directions and exemplars, and the map that a search reads.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "learned_records.hpp"
#include "toolroll/dot.hpp"

namespace toolroll {
namespace {

constexpr double kLeastWeight = 1e-6;       // below it only a rounding error is left of a vector
constexpr std::size_t kMostOfReporter = 2;  // exemplars; no limit for the application itself

double squared_length(std::span<const float> vector) {
  double squares = 0.0;
  for (const float value : vector) squares += static_cast<double>(value) * value;
  return squares;
}

}  // namespace

void SubjectVector::keep(std::span<const float> unit_vector, double time, std::uint64_t reporter) {
  drop(unit_vector);
  const std::size_t size = times.size();
  std::size_t of_reporter = 0;
  std::size_t place = size;
  for (std::size_t i = 0; i < size; ++i) {
    if (reporter == 0 || reporters[i] != reporter) continue;
    ++of_reporter;
    if (place == size || times[i] < times[place]) place = i;
  }
  if (of_reporter < kMostOfReporter) {
    place = size < kMostExemplars
                ? size
                : static_cast<std::size_t>(std::min_element(times.begin(), times.end()) -
                                           times.begin());
  }
  if (place == size) {
    times.push_back(time);
    reporters.push_back(reporter);
    exemplars.resize(exemplars.size() + unit_vector.size());
  }
  times[place] = time;
  reporters[place] = reporter;
  std::copy(unit_vector.begin(), unit_vector.end(),
            exemplars.begin() + static_cast<std::ptrdiff_t>(place * unit_vector.size()));
}

void SubjectVector::drop(std::span<const float> unit_vector) {
  const auto width = static_cast<std::ptrdiff_t>(unit_vector.size());
  for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(times.size()); ++i) {
    const auto begin = exemplars.begin() + i * width;
    if (!std::equal(unit_vector.begin(), unit_vector.end(), begin)) continue;
    exemplars.erase(begin, begin + width);
    times.erase(times.begin() + i);
    reporters.erase(reporters.begin() + i);
    return;
  }
}

void SubjectVector::add_exemplar(double time, std::uint64_t reporter,
                                 std::span<const float> unit_vector) {
  times.push_back(time);
  reporters.push_back(reporter);
  exemplars.insert(exemplars.end(), unit_vector.begin(), unit_vector.end());
  exemplars.resize(times.size() * padded_width(unit_vector.size()), 0.0F);
}

bool SubjectVector::is_gone() const {
  const double squares = squared_length(sum);
  return !(weight >= kLeastWeight) || !(squares > 0.0) || !std::isfinite(weight + squares + at);
}

std::shared_ptr<const SubjectVector> directed(std::shared_ptr<SubjectVector> vector) {
  if (vector->is_gone()) return nullptr;
  const double squares = squared_length(vector->sum);
  vector->unit.assign(padded_width(vector->sum.size()), 0.0F);
  const double scale = 1.0 / std::sqrt(squares);
  for (std::size_t i = 0; i < vector->sum.size(); ++i) {
    vector->unit[i] = static_cast<float>(vector->sum[i] * scale);
  }
  const std::size_t width = vector->unit.size();
  const auto n = static_cast<float>(vector->times.size());
  std::vector<float> all(width, 0.0F);
  for (std::size_t i = 0; i < vector->exemplars.size(); ++i) all[i % width] += vector->exemplars[i];
  vector->alike = -n;
  for (const float value : all) vector->alike += value * value;
  vector->pairs = n * (n - 1.0F);
  vector->codes.resize(vector->exemplars.size());
  vector->steps.resize(vector->times.size());
  for (std::size_t i = 0; i < vector->times.size(); ++i) {
    vector->steps[i] =
        dot_kernels()
            .quantise(vector->exemplars.data() + i * width, width, vector->codes.data() + i * width)
            .step;
  }
  return vector;
}

VectorMap::Found VectorMap::find(std::uint64_t subject, std::size_t width) const {
  const std::uint64_t wanted = scattered(subject);
  const Bucket* const bucket = buckets_[number(wanted)].get();
  if (bucket == nullptr || bucket->items.empty()) return {};
  const std::vector<Item>& items = bucket->items;
  std::size_t at = guess(wanted, items.size());
  while (at > 0 && items[at].scattered > wanted) --at;
  while (at + 1 < items.size() && items[at].scattered < wanted) ++at;
  if (items[at].scattered != wanted) return {};
  return {&items[at], bucket->codes.data() + at * width};
}

void VectorMap::ask_for(std::uint64_t subject) const {
  const std::uint64_t wanted = scattered(subject);
  const Bucket* const bucket = buckets_[number(wanted)].get();
  if (bucket != nullptr && !bucket->items.empty()) {
    prefetch(&bucket->items[guess(wanted, bucket->items.size())]);
  }
}

void VectorMap::put(std::vector<Change> changes, std::size_t width) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return scattered(a.subject) < scattered(b.subject);
  });
  for (std::size_t begin = 0; begin < changes.size();) {
    const std::size_t here = number(scattered(changes[begin].subject));
    const Bucket nothing;
    const Bucket& old = buckets_[here] ? *buckets_[here] : nothing;
    auto bucket = std::make_shared<Bucket>();
    bucket->items.reserve(old.items.size() + 1);
    bucket->codes.reserve((old.items.size() + 1) * width);
    bucket->vectors.reserve(old.items.size() + 1);
    std::size_t i = 0;
    const auto keep_below = [&](std::uint64_t limit, bool all) {
      for (; i < old.items.size() && (all || old.items[i].scattered < limit); ++i) {
        bucket->items.push_back(old.items[i]);
        bucket->factors.push_back(old.factors[i]);
        bucket->vectors.push_back(old.vectors[i]);
        const auto codes = old.codes.begin() + static_cast<std::ptrdiff_t>(i * width);
        bucket->codes.insert(bucket->codes.end(), codes,
                             codes + static_cast<std::ptrdiff_t>(width));
      }
    };
    for (; begin < changes.size() && number(scattered(changes[begin].subject)) == here; ++begin) {
      Change& change = changes[begin];
      const std::uint64_t key = scattered(change.subject);
      keep_below(key, false);
      if (i < old.items.size() && old.items[i].scattered == key) ++i;
      if (!change.vector) continue;
      bucket->codes.resize(bucket->codes.size() + width);
      const Quantised quantised = dot_kernels().quantise(
          change.vector->unit.data(), width, bucket->codes.data() + bucket->codes.size() - width);
      bucket->items.push_back({key, change.subject, change.vector->unit.data(), quantised.step,
                               change.vector->weight, change.vector->at, change.vector.get()});
      bucket->factors.push_back(quantised.step * change.share);
      bucket->vectors.push_back(std::move(change.vector));
    }
    keep_below(0, true);
    buckets_[here] = std::move(bucket);
  }
}

std::size_t VectorMap::size() const {
  std::size_t size = 0;
  for (const auto& bucket : buckets_) size += bucket ? bucket->items.size() : 0;
  return size;
}

std::size_t VectorMap::memory_bytes() const {
  std::size_t bytes = 0;
  for (const auto& bucket : buckets_) {
    if (!bucket) continue;
    bytes += sizeof(Bucket) + bucket->items.capacity() * sizeof(Item) + bucket->codes.capacity() +
             bucket->factors.capacity() * sizeof(float) +
             bucket->vectors.capacity() * sizeof(std::shared_ptr<const SubjectVector>);
  }
  return bytes;
}

std::optional<LearnedVector> Learned::vector(std::uint64_t subject, double now) const {
  const std::size_t width = padded_width(dim_);
  const auto [item, codes] = records_->vectors.find(subject, width);
  if (item == nullptr) return std::nullopt;
  return LearnedVector{
      {item->unit, width}, {codes, width},
      item->step,          item->weight * portable::decay(now - item->at, rates_.vector_half_s),
      item->vector->codes, item->vector->steps,
      item->vector->times, item->vector->alike,
      item->vector->pairs};
}

void Learned::ask_for_vector(std::uint64_t subject) const { records_->vectors.ask_for(subject); }

void Learned::nearest_vectors(std::span<const std::int8_t> codes_of_query, float step,
                              const VectorVisitor& visit) const {
  constexpr std::size_t kBlock = 256;
  const DotKernels& kernels = dot_kernels();
  const std::size_t width = codes_of_query.size();
  std::array<std::int32_t, kBlock> products;
  float least = 0.0F;
  records_->vectors.each_run([&](const std::vector<VectorMap::Item>& items,
                                 const std::vector<std::int8_t>& codes,
                                 const std::vector<float>& factors) {
    for (std::size_t from = 0; from < items.size(); from += kBlock) {
      const std::size_t n = std::min(kBlock, items.size() - from);
      kernels.i8(codes_of_query.data(), codes.data() + from * width, n, width, products.data());
      for (std::size_t i = 0; i < n; ++i) {
        const float score = static_cast<float>(products[i]) * factors[from + i] * step;
        if (score > least) least = visit(items[from + i].subject, score);
      }
    }
  });
}

}  // namespace toolroll
