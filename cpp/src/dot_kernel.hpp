/// The functions of DotKernels for x86, written once over an instruction set's own arithmetic.
///
/// An instruction set X (dot_avx2.cpp, dot_avx512.cpp) is a struct of static functions. For
/// T = float with Sum = float, and for T = std::int8_t with Sum = std::int32_t, it has:
///
///     Start start(const T* query, width)              the value that each row's sum begins with
///     Products four(query, start, a, b, c, d, width)  the products with four rows
///     Sum one(query, start, row, width)               the product with one row: the same number
///
/// and besides
///
///     kBatch                                          8-bit rows whose sums are made together
///     batch<kFine>(query, start, fine_start, rows, row_step, row_error, width, upper)
///     kForm, bounds_of_blocks, above                  as in DotKernels
///
/// The file that defines X includes this header after all others, inside the region that sets the
/// compiler's target, so that the template is compiled for X. X lies in an unnamed namespace, and
/// so every instance has internal linkage. Nothing here may call into the standard library: the
/// linker could keep an inline function that was compiled for AVX2 for every caller.
#pragma once

namespace toolroll {

TOOLROLL_INLINE void store(float* out, __m128 products) { _mm_storeu_ps(out, products); }
TOOLROLL_INLINE void store(std::int32_t* out, __m128i products) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), products);
}

/// Prefetches as many bytes as the caller is about to read, 8 kB behind them. Four rows at once
/// look like four short streams, which the hardware's prefetcher loses at the end of each row.
template <typename T>
TOOLROLL_INLINE void prefetch_ahead(const T* at, std::size_t bytes) {
  constexpr std::size_t kAhead = 8192;
  // An address behind the rows does no harm: a prefetch is a hint.
  const auto from = reinterpret_cast<std::uintptr_t>(at) + kAhead;
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i), _MM_HINT_T0);
  }
}

/// Prefetches the first 512 bytes of a row. The hardware's prefetcher cannot foresee rows that lie
/// apart; after 512 bytes it has recognised the stream.
template <typename T>
TOOLROLL_INLINE void prefetch_row(const T* row, std::size_t width) {
  const std::size_t bytes = width * sizeof(T) < 512 ? width * sizeof(T) : 512;
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(row) + i, _MM_HINT_T0);
  }
}

/// Rows one after the other.
struct Consecutive {
  const std::int8_t* first;
  std::size_t width;
  const std::int8_t* operator[](std::size_t i) const { return first + i * width; }
};

/// Rows anywhere.
struct Listed {
  const std::int8_t* rows[16];
  const std::int8_t* operator[](std::size_t i) const { return rows[i]; }
};

template <typename X>
struct X86Kernels {
  template <typename T, typename Sum>
  static void each(const T* query, const T* rows, std::size_t n, std::size_t width, Sum* out) {
    const auto start = X::start(query, width);
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      const T* const a = rows + i * width;
      prefetch_ahead(a, 4 * width * sizeof(T));
      store(out + i, X::four(query, start, a, a + width, a + 2 * width, a + 3 * width, width));
    }
    for (; i < n; ++i) out[i] = X::one(query, start, rows + i * width, width);
  }

  template <typename T, typename Sum>
  static void each_at(const T* query, const T* rows, const std::int32_t* at, std::size_t n,
                      std::size_t width, Sum* out) {
    const auto start = X::start(query, width);
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      const std::size_t next = i + 8 <= n ? i + 8 : n;
      for (std::size_t j = i + 4; j < next; ++j)
        prefetch_row(loops::row(rows, at[j], width), width);
      store(out + i, X::four(query, start, loops::row(rows, at[i], width),
                             loops::row(rows, at[i + 1], width), loops::row(rows, at[i + 2], width),
                             loops::row(rows, at[i + 3], width), width));
    }
    for (; i < n; ++i) out[i] = X::one(query, start, loops::row(rows, at[i], width), width);
  }

  static double squares(const float* x, std::size_t width) { return loops::squares(x, width); }

  static void scale(const float* x, double factor, std::size_t width, float* out) {
    loops::scale(x, factor, width, out);
  }

  static Quantised quantise(const float* x, std::size_t width, std::int8_t* values) {
    return finished(loops::quantise(x, width, values));
  }

  static void bounds(const std::int32_t* products, const float* row_step, const float* row_error,
                     std::size_t n, const BoundTerms& terms, float* lower, float* upper) {
    loops::bounds(products, row_step, row_error, n, terms, lower, upper);
  }

  /// The bounds of n rows. The next batch of rows that lie apart is prefetched. The last batch
  /// repeats its last row, and its bounds behind n are never written.
  /// kWidth is 0, or the width.
  template <bool kFine, bool kListed, std::size_t kWidth>
  static void upper_of(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                       const float* row_error, const std::int32_t* at, std::size_t n,
                       std::size_t any_width, float* upper) {
    const std::size_t width = kWidth == 0 ? any_width : kWidth;
    constexpr std::size_t kBatch = X::kBatch;
    const auto start = X::start(query.values, width);
    const auto fine_start = kFine ? X::start(query.fine, width) : start;
    for (std::size_t i = 0; i < n; i += kBatch) {
      const std::size_t count = n - i < kBatch ? n - i : kBatch;
      if (!kListed && count == kBatch) {
        X::template batch<kFine>(query, start, fine_start, Consecutive{rows + i * width, width},
                                 row_step + i, row_error + i, width, upper + i);
        continue;
      }
      if constexpr (kListed) {
        const std::size_t next = n < i + 2 * kBatch ? n : i + 2 * kBatch;
        for (std::size_t j = i + kBatch; j < next; ++j) {
          prefetch_row(loops::row(rows, at[j], width), width);
          _mm_prefetch(reinterpret_cast<const char*>(row_step + at[j]), _MM_HINT_T0);
          _mm_prefetch(reinterpret_cast<const char*>(row_error + at[j]), _MM_HINT_T0);
        }
      }
      Listed some;
      float step[kBatch];
      float error[kBatch];
      for (std::size_t j = 0; j < kBatch; ++j) {
        const std::size_t last = i + (j < count ? j : count - 1);
        const std::size_t row = kListed ? static_cast<std::size_t>(at[last]) : last;
        some.rows[j] = rows + row * width;
        step[j] = row_step[row];
        error[j] = row_error[row];
      }
      if (count == kBatch) {
        X::template batch<kFine>(query, start, fine_start, some, step, error, width, upper + i);
      } else {
        float bounds[kBatch];
        X::template batch<kFine>(query, start, fine_start, some, step, error, width, bounds);
        for (std::size_t j = 0; j < count; ++j) upper[i + j] = bounds[j];
      }
    }
  }

  /// Compiled for the widths of the built-in table, of MiniLM and of both side by side.
  template <bool kFine, bool kListed>
  static void uppers(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                     const float* row_error, const std::int32_t* at, std::size_t n,
                     std::size_t width, float* upper) {
    const auto of = width == 256   ? upper_of<kFine, kListed, 256>
                    : width == 384 ? upper_of<kFine, kListed, 384>
                    : width == 640 ? upper_of<kFine, kListed, 640>
                                   : upper_of<kFine, kListed, 0>;
    of(query, rows, row_step, row_error, at, n, width, upper);
  }

  static void i8_upper(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                       const float* row_error, std::size_t n, std::size_t width, float* upper) {
    const auto of = query.fine == nullptr ? uppers<false, false> : uppers<true, false>;
    of(query, rows, row_step, row_error, nullptr, n, width, upper);
  }

  static void i8_upper_at(const ByteQuery& query, const std::int8_t* rows, const float* row_step,
                          const float* row_error, const std::int32_t* at, std::size_t n,
                          std::size_t width, float* upper) {
    const auto of = query.fine == nullptr ? uppers<false, true> : uppers<true, true>;
    of(query, rows, row_step, row_error, at, n, width, upper);
  }

  static HalfByteSums round_halves(const float* x, const float* y, std::size_t n, std::int8_t* low,
                                   std::int8_t* high) {
    return finished(loops::round_halves(x, y, n, X::kForm, low, high));
  }

  static std::uint32_t quantise4(const float* x, std::size_t width, std::uint8_t* values) {
    return loops::quantise4(x, width, values);
  }

  static void i4_upper(const HalfByteQuery& query, const std::uint8_t* blocks, std::size_t n,
                       std::size_t width, float* upper) {
    X::bounds_of_blocks(query, blocks, n, width, upper);
  }

  static std::size_t above(const float* scores, std::size_t n, float least, std::int32_t first,
                           std::int32_t* rows) {
    return X::above(scores, n, least, first, rows);
  }

  static std::size_t ones(const std::uint64_t* words, std::size_t n) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) count += static_cast<std::size_t>(_mm_popcnt_u64(words[i]));
    return count;
  }

  static void add_bytes(const std::uint8_t* bytes, float step, std::size_t n, float* sums) {
    loops::add_bytes(bytes, step, n, sums);
  }

  static constexpr DotKernels table(Isa isa) {
    return {isa,          each,      each_at,  each,     each_at,     squares,
            scale,        quantise,  bounds,   i8_upper, i8_upper_at, X::kForm,
            round_halves, quantise4, i4_upper, above,    ones,        add_bytes};
  }
};

}  // namespace toolroll
