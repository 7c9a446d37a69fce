// Learned vectors: from a decayed sum to a direction, and the shelf that searches look through.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "learned_records.hpp"
#include "toolroll/dot.hpp"

namespace toolroll {
namespace {

constexpr double kLeastWeight = 1e-6;       // what rounding leaves of a vector taken back
constexpr std::size_t kMostOfReporter = 2;  // exemplars; the application itself may fill them all

}  // namespace

void Pull::keep(std::span<const float> unit_vector, double time, std::uint64_t reporter) {
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

void Pull::drop(std::span<const float> unit_vector) {
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

std::shared_ptr<const Pull> directed(std::shared_ptr<Pull> pull) {
  double squares = 0.0;
  for (const float value : pull->sum) squares += static_cast<double>(value) * value;
  if (!(pull->weight >= kLeastWeight) || !(squares > 0.0) ||
      !std::isfinite(pull->weight + squares + pull->at)) {
    return nullptr;
  }
  pull->unit.assign(padded_width(pull->sum.size()), 0.0F);
  const double scale = 1.0 / std::sqrt(squares);
  for (std::size_t i = 0; i < pull->sum.size(); ++i) {
    pull->unit[i] = static_cast<float>(pull->sum[i] * scale);
  }
  const std::size_t width = pull->unit.size();
  const auto n = static_cast<float>(pull->times.size());
  std::vector<float> all(width, 0.0F);
  for (std::size_t i = 0; i < pull->exemplars.size(); ++i) all[i % width] += pull->exemplars[i];
  pull->alike = -n;
  for (const float value : all) pull->alike += value * value;
  pull->pairs = n * (n - 1.0F);
  pull->codes.resize(pull->exemplars.size());
  pull->steps.resize(pull->times.size());
  for (std::size_t i = 0; i < pull->times.size(); ++i) {
    pull->steps[i] =
        dot_kernels()
            .quantise(pull->exemplars.data() + i * width, width, pull->codes.data() + i * width)
            .step;
  }
  return pull;
}

VectorShelf::Found VectorShelf::find(std::uint64_t subject, std::size_t width) const {
  const std::uint64_t wanted = scattered(subject);
  const Drawer* const drawer = drawers_[number(wanted)].get();
  if (drawer == nullptr || drawer->items.empty()) return {};
  const std::vector<Item>& items = drawer->items;
  std::size_t at = guess(wanted, items.size());
  while (at > 0 && items[at].scattered > wanted) --at;
  while (at + 1 < items.size() && items[at].scattered < wanted) ++at;
  if (items[at].scattered != wanted) return {};
  return {&items[at], drawer->codes.data() + at * width};
}

void VectorShelf::ask_for(std::uint64_t subject) const {
  const std::uint64_t wanted = scattered(subject);
  const Drawer* const drawer = drawers_[number(wanted)].get();
  if (drawer != nullptr && !drawer->items.empty()) {
    prefetch(&drawer->items[guess(wanted, drawer->items.size())]);
  }
}

void VectorShelf::put(std::vector<Change> changes, std::size_t width) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return scattered(a.subject) < scattered(b.subject);
  });
  for (std::size_t begin = 0; begin < changes.size();) {
    const std::size_t here = number(scattered(changes[begin].subject));
    const Drawer nothing;
    const Drawer& old = drawers_[here] ? *drawers_[here] : nothing;
    auto drawer = std::make_shared<Drawer>();
    drawer->items.reserve(old.items.size() + 1);
    drawer->codes.reserve((old.items.size() + 1) * width);
    drawer->pulls.reserve(old.items.size() + 1);
    std::size_t i = 0;
    const auto keep_below = [&](std::uint64_t limit, bool all) {
      for (; i < old.items.size() && (all || old.items[i].scattered < limit); ++i) {
        drawer->items.push_back(old.items[i]);
        drawer->factors.push_back(old.factors[i]);
        drawer->pulls.push_back(old.pulls[i]);
        const auto codes = old.codes.begin() + static_cast<std::ptrdiff_t>(i * width);
        drawer->codes.insert(drawer->codes.end(), codes,
                             codes + static_cast<std::ptrdiff_t>(width));
      }
    };
    for (; begin < changes.size() && number(scattered(changes[begin].subject)) == here; ++begin) {
      Change& change = changes[begin];
      const std::uint64_t key = scattered(change.subject);
      keep_below(key, false);
      if (i < old.items.size() && old.items[i].scattered == key) ++i;
      if (!change.pull) continue;
      drawer->codes.resize(drawer->codes.size() + width);
      const Quantised quantised = dot_kernels().quantise(
          change.pull->unit.data(), width, drawer->codes.data() + drawer->codes.size() - width);
      drawer->items.push_back({key, change.subject, change.pull->unit.data(), quantised.step,
                               change.pull->weight, change.pull->at, change.pull.get()});
      drawer->factors.push_back(quantised.step * change.share);
      drawer->pulls.push_back(std::move(change.pull));
    }
    keep_below(0, true);
    drawers_[here] = std::move(drawer);
  }
}

std::size_t VectorShelf::size() const {
  std::size_t size = 0;
  for (const auto& drawer : drawers_) size += drawer ? drawer->items.size() : 0;
  return size;
}

std::size_t VectorShelf::memory_bytes() const {
  std::size_t bytes = 0;
  for (const auto& drawer : drawers_) {
    if (!drawer) continue;
    bytes += sizeof(Drawer) + drawer->items.capacity() * sizeof(Item) + drawer->codes.capacity() +
             drawer->factors.capacity() * sizeof(float) +
             drawer->pulls.capacity() * sizeof(std::shared_ptr<const Pull>);
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
      item->pull->codes,   item->pull->steps,
      item->pull->times,   item->pull->alike,
      item->pull->pairs};
}

void Learned::ask_for_vector(std::uint64_t subject) const { records_->vectors.ask_for(subject); }

void Learned::nearest_vectors(std::span<const std::int8_t> codes_of_query, float step,
                              const VectorVisitor& visit) const {
  constexpr std::size_t kBlock = 256;
  const DotKernels& kernels = dot_kernels();
  const std::size_t width = codes_of_query.size();
  std::array<std::int32_t, kBlock> products;
  float least = 0.0F;
  records_->vectors.each_run([&](const std::vector<VectorShelf::Item>& items,
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
