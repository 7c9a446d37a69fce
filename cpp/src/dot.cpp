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

HalfByteSums finished(HalfByteSums squared) {
  squared.error = std::sqrt(squared.error) * 1.001F + 1e-6F;
  return squared;
}

float inverse_root(float x) { return 1.0F / std::sqrt(x); }

float half_byte_scale(float products, float squares, std::size_t width) {
  // Never below the true least-squares factor: the sum of products is off by at most
  // width / 16 + 20 roundings.
  const std::size_t roundings = width / 16 + 24;
  const float sure = 1.0F + static_cast<float>(roundings) * 0x1p-23F;
  const float scale = products / squares * sure;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(scale) + 0xFFFFU) & 0xFFFF0000U);
}

std::uint32_t packed(float scale, float squared_error) {
  const float error = std::sqrt(squared_error) * 1.001F + 1e-6F;
  const std::uint32_t rounded_up = (std::bit_cast<std::uint32_t>(error) + 0xFFFFU) >> 16;
  return std::bit_cast<std::uint32_t>(scale) | rounded_up;
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

template <typename Row>
void upper_of(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
              const float* row_error, Row row_of, std::size_t n, std::size_t width, float* upper) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t row = row_of(i);
    const std::int8_t* const x = rows + row * width;
    const std::int32_t fine = query.fine == nullptr ? 0 : dot(query.fine, x, width);
    upper[i] =
        loops::i8_bound(query, dot(query.values, x, width), fine, {row_step[row], row_error[row]});
  }
}

void i8_upper(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
              const float* row_error, std::size_t n, std::size_t width, float* upper) {
  upper_of(query, rows, row_step, row_error, [](std::size_t i) { return i; }, n, width, upper);
}

void i8_upper_at(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                 const float* row_error, const std::int32_t* at, std::size_t n, std::size_t width,
                 float* upper) {
  const auto row = [at](std::size_t i) { return static_cast<std::size_t>(at[i]); };
  upper_of(query, rows, row_step, row_error, row, n, width, upper);
}

constexpr HalfByteForm kForm{0.0F, 127.0F};

HalfByteSums round_halves(const float* x, const float* y, std::size_t n, std::int8_t* low,
                          std::int8_t* high) {
  return finished(loops::round_halves(x, y, n, kForm, low, high));
}

std::uint32_t quantise4(const float* x, std::size_t width, std::uint8_t* values) {
  return loops::quantise4(x, width, values);
}

void i4_upper(const HalfByteQuery& query, const std::uint8_t* blocks, std::size_t n,
              std::size_t width, float* upper) {
  constexpr std::size_t kLine = 4 * kBlockRows;
  // Sixteen products of at most 15 * 127 fit 16 bits.
  constexpr std::size_t kFits = 8;
  constexpr std::size_t kLanes = 8;
  for (std::size_t block = 0; block < n; ++block, upper += kBlockRows) {
    const std::uint8_t* at = blocks + block * block_bytes(width);
    std::int32_t sums[kBlockRows] = {};
    for (std::size_t from = 0; from < width / 8; from += kFits) {
      std::int16_t partial[kLine] = {};
      for (std::size_t j = from; j < from + kFits; ++j, at += kLine) {
        std::int16_t low[kLanes];
        std::int16_t high[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          low[lane] = query.low[4 * j + lane % 4];
          high[lane] = query.high[4 * j + lane % 4];
        }
        for (std::size_t i = 0; i < kLine; i += kLanes) {
          for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const auto lows = static_cast<std::int16_t>((at[i + lane] & 15) * low[lane]);
            const auto highs = static_cast<std::int16_t>((at[i + lane] >> 4) * high[lane]);
            partial[i + lane] = static_cast<std::int16_t>(partial[i + lane] + lows + highs);
          }
        }
      }
      for (std::size_t i = 0; i < kLine; ++i) sums[i / 4] += partial[i];
    }
    loops::i4_bounds(query, sums, at, upper);
  }
}

std::size_t above(const float* scores, std::size_t n, float least, std::int32_t first,
                  std::int32_t* rows) {
  return loops::above(scores, n, least, first, rows);
}

std::size_t ones(const std::uint64_t* words, std::size_t n) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += static_cast<std::size_t>(std::popcount(words[i]));
  return count;
}

void add_bytes(const std::uint8_t* bytes, float step, std::size_t n, float* sums) {
  loops::add_bytes(bytes, step, n, sums);
}

constexpr DotKernels kBaseline{Isa::kBaseline, each,  each_at,      each,      each_at,
                               squares,        scale, quantise,     bounds,    i8_upper,
                               i8_upper_at,    kForm, round_halves, quantise4, i4_upper,
                               above,          ones,  add_bytes};

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
