#include "toolroll/quantized_rows.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "toolroll/cpu.hpp"

namespace toolroll {
namespace {

// sum += scale * row. Rounded after the product and after the sum on every instruction set (no
// contraction), so that all of them give the same bits.
using AddRow = void (*)(float* sum, const std::int8_t* row, float scale, std::size_t dim);

void add_row(float* sum, const std::int8_t* row, float scale, std::size_t dim) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += scale * static_cast<float>(row[i]);
}

#if defined(__GNUC__) && defined(__x86_64__)
// The same loop; the compiler widens eight bytes at a time where it may.
__attribute__((target("avx2"))) void add_row_avx2(float* sum, const std::int8_t* row, float scale,
                                                  std::size_t dim) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += scale * static_cast<float>(row[i]);
}

AddRow choose() { return isa() == Isa::kAvx2 || isa() == Isa::kAvx512 ? add_row_avx2 : add_row; }
#else
AddRow choose() { return add_row; }
#endif

double squared_length(std::span<const float> vector) {
  constexpr std::size_t kLanes = 8;  // independent sums, in a fixed order
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= vector.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(vector[i + lane]);
      lanes[lane] += x * x;
    }
  }
  for (; i < vector.size(); ++i)
    lanes[0] += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

QuantizedRows::QuantizedRows(std::span<const std::int8_t> table, std::span<const float> scale,
                             std::size_t dim, std::size_t count)
    : dim_(dim), table_(table.begin(), table.end()), scale_(scale.begin(), scale.end()) {
  if (dim == 0 || table.size() % dim != 0 || table.size() / dim != count) {
    throw std::invalid_argument("table: has " + std::to_string(table.size()) +
                                " numbers, must have " + std::to_string(count) + " rows of " +
                                std::to_string(dim) + ", at least 1");
  }
  if (scale.size() != count) {
    throw std::invalid_argument("scale: has " + std::to_string(scale.size()) +
                                " numbers, must have " + std::to_string(count));
  }
  if (!std::all_of(scale.begin(), scale.end(), [](float s) { return std::isfinite(s); })) {
    throw std::invalid_argument("scale: has a number that is not finite");
  }
}

void QuantizedRows::add(std::span<const std::int32_t> ids, std::int32_t without,
                        std::span<float> sum) const {
  static const AddRow add = choose();
#if defined(__GNUC__)
  // The table is larger than the caches, and rows are read in no order: ask for all of them first.
  constexpr std::size_t kLine = 64;
  for (const std::int32_t id : ids) {
    const std::int8_t* const row = table_.data() + static_cast<std::size_t>(id) * dim_;
    for (std::size_t i = 0; i < dim_; i += kLine) __builtin_prefetch(row + i);
  }
#endif
  for (const std::int32_t id : ids) {
    if (id == without) continue;
    const auto row = static_cast<std::size_t>(id);
    add(sum.data(), table_.data() + row * dim_, scale_[row], dim_);
  }
}

void to_unit_length(std::span<float> vector) {
  const double squared = squared_length(vector);
  if (!(squared > 0) || !std::isfinite(squared)) {
    std::fill(vector.begin(), vector.end(), 0.0F);
    return;
  }
  const double shrink = 1 / std::sqrt(squared);
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) * shrink);
}

}  // namespace toolroll
