#include "toolroll/dot.hpp"

#include <bit>
#include <cmath>
#include <new>

#include "dot_loops.hpp"
#include "dot_tables.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace toolroll {
namespace detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = 2 * kHugePage;

constexpr std::align_val_t alignment(std::size_t bytes) {
  return std::align_val_t{bytes >= kHugeFrom ? kHugePage : 64};
}

}  // namespace

void* allocate_rows(std::size_t bytes) {
  void* const memory = ::operator new(bytes, alignment(bytes));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // A scan of 100,000 rows gains from fewer page walks; a refusal costs only that.
  if (bytes >= kHugeFrom) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
#endif
  if (bytes != 0) std::memset(memory, 0, bytes);
  return memory;
}

void free_rows(void* memory, std::size_t bytes) noexcept {
  ::operator delete(memory, alignment(bytes));
}

}  // namespace detail

Quantised finished(Quantised squared) {
  // The sum is off by at most width / 16 + 16 roundings (under 1e-3 at kMaxDim), each difference by
  // two roundings of a value of a vector of length 1 (together under 1e-6).
  if (squared.step == 0) return {0, 0};
  return {squared.step, std::sqrt(squared.error) * 1.001F + 1e-6F};
}

namespace {

float dot(const float* a, const float* b, std::size_t width) {
  float lanes[loops::kLanes] = {};
  for (std::size_t i = 0; i < width; i += loops::kLanes) {
    for (std::size_t j = 0; j < loops::kLanes; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

std::int32_t dot(const std::int8_t* a, const std::int8_t* b, std::size_t width) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < width; ++i) sum += static_cast<std::int16_t>(a[i] * b[i]);
  return sum;
}

template <typename T, typename Sum>
void each(const T* query, const T* rows, std::size_t n, std::size_t width, Sum* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = dot(query, rows + i * width, width);
}

template <typename T, typename Sum>
void each_at(const T* query, const T* rows, const std::int32_t* at, std::size_t n,
             std::size_t width, Sum* out) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = dot(query, rows + static_cast<std::size_t>(at[i]) * width, width);
  }
}

double squares(const float* x, std::size_t width) { return loops::squares(x, width); }

void scale(const float* x, double factor, std::size_t width, float* out) {
  loops::scale(x, factor, width, out);
}

Quantised quantise(const float* x, std::size_t width, std::int8_t* values) {
  return finished(loops::quantise(x, width, values));
}

void bounds(const std::int32_t* products, const float* row_step, const float* row_error,
            std::size_t n, const BoundTerms& terms, float* lower, float* upper) {
  loops::bounds(products, row_step, row_error, n, terms, lower, upper);
}

std::size_t ones(const std::uint64_t* words, std::size_t n) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += static_cast<std::size_t>(std::popcount(words[i]));
  return count;
}

constexpr DotKernels kBaseline{Isa::kBaseline, each,  each_at,  each,   each_at,
                               squares,        scale, quantise, bounds, ones};

}  // namespace

const DotKernels* dot_kernels(Isa isa) {
  if (isa_lowered(isa_supported(), isa_name(isa)) != isa) return nullptr;
  switch (isa) {
    case Isa::kBaseline:
      return &kBaseline;
    case Isa::kNeon:
      return neon_kernels();
    case Isa::kAvx2:
      return avx2_kernels();
    case Isa::kAvx512:
      return avx512_kernels();
  }
  return nullptr;
}

const DotKernels& dot_kernels() {
  static const DotKernels& kernels = []() -> const DotKernels& {
    const DotKernels* const found = dot_kernels(isa());
    return found == nullptr ? kBaseline : *found;
  }();
  return kernels;
}

}  // namespace toolroll
