// What the kernels for AVX2 and for AVX-512 have in common, compiled for each by being included in
// both (dot_avx2.cpp, dot_avx512.cpp), inside an unnamed namespace and a region with that target.
//
// The includer has, for T = float and T = std::int8_t with sums of float and std::int32_t:
//
//     Start<T> start_of(query, width)                      what a row's sum begins with
//     products four(query, start, row, row, row, row, width)   of four rows at once
//     Sum one(query, start, row, width)                    the same number for one row
//
// Nothing here may call into the standard library: an inline function of it that was compiled for
// AVX2 could be the copy which the linker keeps for everybody.

TOOLROLL_INLINE void store(float* out, __m128 products) { _mm_storeu_ps(out, products); }
TOOLROLL_INLINE void store(std::int32_t* out, __m128i products) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), products);
}

/// Asks for as many bytes as are about to be read, some way behind them: four rows at once look
/// like four short streams, which the hardware's prefetcher loses at the end of each row.
template <typename T>
TOOLROLL_INLINE void ahead(const T* at, std::size_t bytes) {
  constexpr std::size_t kAhead = 8192;
  const auto from =
      reinterpret_cast<std::uintptr_t>(at) + kAhead;  // may lie behind the rows: a hint
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i), _MM_HINT_T0);
  }
}

template <typename T, typename Sum>
void each(const T* query, const T* rows, std::size_t n, std::size_t width, Sum* out) {
  const auto start = start_of(query, width);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const T* const a = rows + i * width;
    ahead(a, 4 * width * sizeof(T));
    store(out + i, four(query, start, a, a + width, a + 2 * width, a + 3 * width, width));
  }
  for (; i < n; ++i) out[i] = one(query, start, rows + i * width, width);
}

/// Rows that lie apart defeat the hardware's prefetcher: ask for the next four while four are used.
/// Behind 512 bytes of a row it has caught on.
template <typename T>
TOOLROLL_INLINE void fetch(const T* row, std::size_t width) {
  const std::size_t bytes = width * sizeof(T) < 512 ? width * sizeof(T) : 512;
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(row) + i, _MM_HINT_T0);
  }
}

template <typename T, typename Sum>
void each_at(const T* query, const T* rows, const std::int32_t* at, std::size_t n,
             std::size_t width, Sum* out) {
  const auto start = start_of(query, width);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const std::size_t ahead = i + 8 <= n ? i + 8 : n;
    for (std::size_t j = i + 4; j < ahead; ++j) fetch(loops::row(rows, at[j], width), width);
    store(out + i,
          four(query, start, loops::row(rows, at[i], width), loops::row(rows, at[i + 1], width),
               loops::row(rows, at[i + 2], width), loops::row(rows, at[i + 3], width), width));
  }
  for (; i < n; ++i) out[i] = one(query, start, loops::row(rows, at[i], width), width);
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
  for (std::size_t i = 0; i < n; ++i) count += static_cast<std::size_t>(_mm_popcnt_u64(words[i]));
  return count;
}
