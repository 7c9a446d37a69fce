/// The sampler itself, written once over "lanes" and compiled for each instruction set.
///
/// A lanes type L offers Real (doubles), Word (64-bit words) and Mask for L::kLanes arms side by
/// side, with the operations used below; each must give in every lane what the one-lane type of
/// thompson_baseline.cpp gives. Everything has internal linkage (the including file opens an
/// anonymous namespace after setting its target): code built for a newer processor can't be
/// linked into a path for an older one. For the same reason nothing of the standard library is
/// called here.
///
/// The naive form loops per arm until an attempt is accepted. In lanes that wastes the other lanes
/// on the slowest: about half of all attempts with four. So arms are drawn in blocks: a pass tries
/// every arm once and notes who failed, the next pass gathers only those into full vectors. The
/// first pass has no branches and skips Marsaglia and Tsang's logarithmic test: arms that fail the
/// squeeze alone are judged by it in the next pass, on the same random numbers.

constexpr int kBlockBits = 10;
constexpr std::uint32_t kBlock = 1U << kBlockBits;
constexpr int kRounds = 10;

// Such that the ratio of two gammas, and its inverse, is a normal double: the smallest cube is
// 2^-159.
constexpr double kSmallestShape = 1e-250;
constexpr double kGreatestShape = 1e250;

// Which draws a block belongs to: the high word of the block number.
constexpr std::uint64_t kBetaPurpose = 0;
constexpr std::uint64_t kGammaPurpose = 1;

struct RoundKeys {
  std::uint64_t first[kRounds];
  std::uint64_t second[kRounds];
};

inline RoundKeys round_keys(std::uint64_t seed) {
  RoundKeys keys;
  for (int i = 0; i < kRounds; ++i) {
    const auto round = static_cast<std::uint64_t>(i);
    keys.first[i] = (seed + round * 0x9E3779B9U) & 0xFFFFFFFFU;
    keys.second[i] = ((seed >> 32) + round * 0xBB67AE85U) & 0xFFFFFFFFU;
  }
  return keys;
}

// Two vectors side by side. One attempt is a chain of some 250 cycles: alone it leaves most of the
// processor idle, two of them interleave.
template <typename L>
struct Twice {
  struct Mask {
    typename L::Mask a, b;
    friend TOOLROLL_INLINE Mask operator&(Mask x, Mask y) { return {x.a & y.a, x.b & y.b}; }
    friend TOOLROLL_INLINE Mask operator|(Mask x, Mask y) { return {x.a | y.a, x.b | y.b}; }
  };
  struct Real {
    typename L::Real a, b;
    friend TOOLROLL_INLINE Real operator+(Real x, Real y) { return {x.a + y.a, x.b + y.b}; }
    friend TOOLROLL_INLINE Real operator-(Real x, Real y) { return {x.a - y.a, x.b - y.b}; }
    friend TOOLROLL_INLINE Real operator*(Real x, Real y) { return {x.a * y.a, x.b * y.b}; }
    friend TOOLROLL_INLINE Real operator/(Real x, Real y) { return {x.a / y.a, x.b / y.b}; }
    friend TOOLROLL_INLINE Mask operator<(Real x, Real y) { return {x.a < y.a, x.b < y.b}; }
  };
  struct Word {
    typename L::Word a, b;
    friend TOOLROLL_INLINE Word operator+(Word x, Word y) { return {x.a + y.a, x.b + y.b}; }
    friend TOOLROLL_INLINE Word operator-(Word x, Word y) { return {x.a - y.a, x.b - y.b}; }
    friend TOOLROLL_INLINE Word operator&(Word x, Word y) { return {x.a & y.a, x.b & y.b}; }
    friend TOOLROLL_INLINE Word operator|(Word x, Word y) { return {x.a | y.a, x.b | y.b}; }
    friend TOOLROLL_INLINE Word operator^(Word x, Word y) { return {x.a ^ y.a, x.b ^ y.b}; }
  };
  static constexpr std::size_t kHalf = L::kLanes;
  static constexpr std::size_t kLanes = 2 * kHalf;

  static TOOLROLL_INLINE Real real(double number) { return {L::real(number), L::real(number)}; }
  static TOOLROLL_INLINE Word word(std::uint64_t bits) { return {L::word(bits), L::word(bits)}; }
  static TOOLROLL_INLINE Real load(const double* at) { return {L::load(at), L::load(at + kHalf)}; }
  static TOOLROLL_INLINE Word load(const std::uint64_t* at) {
    return {L::load(at), L::load(at + kHalf)};
  }
  static TOOLROLL_INLINE Word load(const std::uint32_t* at) {
    return {L::load(at), L::load(at + kHalf)};
  }
  template <typename T>
  static TOOLROLL_INLINE auto gather(const T* column, const std::uint32_t* at) {
    return decltype(load(column)){L::gather(column, at), L::gather(column, at + kHalf)};
  }
  static TOOLROLL_INLINE void store(double* at, Real x) {
    L::store(at, x.a);
    L::store(at + kHalf, x.b);
  }

  static TOOLROLL_INLINE Real sqrt(Real x) { return {L::sqrt(x.a), L::sqrt(x.b)}; }
  static TOOLROLL_INLINE Real min(Real x, Real y) { return {L::min(x.a, y.a), L::min(x.b, y.b)}; }
  static TOOLROLL_INLINE Real max(Real x, Real y) { return {L::max(x.a, y.a), L::max(x.b, y.b)}; }
  static TOOLROLL_INLINE Real select(Mask mask, Real yes, Real no) {
    return {L::select(mask.a, yes.a, no.a), L::select(mask.b, yes.b, no.b)};
  }

  static TOOLROLL_INLINE Word select(Mask mask, Word yes, Word no) {
    return {L::select(mask.a, yes.a, no.a), L::select(mask.b, yes.b, no.b)};
  }
  static TOOLROLL_INLINE Word lane_numbers() {
    return {L::lane_numbers(), L::lane_numbers() + L::word(kHalf)};
  }
  static TOOLROLL_INLINE std::size_t append(std::uint32_t* to, Word x, Mask wanted) {
    const std::size_t size = L::append(to, x.a, wanted.a);
    return size + L::append(to + size, x.b, wanted.b);
  }

  static TOOLROLL_INLINE Word multiply(Word x, Word y) {
    return {L::multiply(x.a, y.a), L::multiply(x.b, y.b)};
  }
  template <int kBits>
  static TOOLROLL_INLINE Word left(Word x) {
    return {L::template left<kBits>(x.a), L::template left<kBits>(x.b)};
  }
  template <int kBits>
  static TOOLROLL_INLINE Word right(Word x) {
    return {L::template right<kBits>(x.a), L::template right<kBits>(x.b)};
  }
  static TOOLROLL_INLINE Real as_real(Word x) { return {L::as_real(x.a), L::as_real(x.b)}; }
  static TOOLROLL_INLINE Word as_word(Real x) { return {L::as_word(x.a), L::as_word(x.b)}; }

  static TOOLROLL_INLINE Mask negate(Mask mask) { return {L::negate(mask.a), L::negate(mask.b)}; }
  static TOOLROLL_INLINE bool any(Mask mask) { return L::any(mask.a) || L::any(mask.b); }
  static TOOLROLL_INLINE std::uint32_t bits(Mask mask) {
    return L::bits(mask.a) | L::bits(mask.b) << kHalf;
  }
};

template <typename L>
struct Sampler {
  using Real = typename L::Real;
  using Word = typename L::Word;
  using Mask = typename L::Mask;
  static constexpr std::size_t kLanes = L::kLanes;

  static TOOLROLL_INLINE Real real(double number) { return L::real(number); }
  static TOOLROLL_INLINE Word word(std::uint64_t number) { return L::word(number); }

  // Four words a lane, each in the low half; the high halves hold rubbish.
  struct Words {
    Word x0, x1, x2, x3;
  };

  // philox4x32 of stream.hpp. multiply() reads low halves only, so nothing is masked on the way.
  static TOOLROLL_INLINE Words philox(const RoundKeys& keys, Word key, Word counter,
                                      std::uint64_t purpose) {
    const Word multiplier0 = word(0xD2511F53U);
    const Word multiplier1 = word(0xCD9E8D57U);
    Words x{key, L::template right<32>(key), counter, word(purpose)};
    for (int i = 0; i < kRounds; ++i) {
      const Word product0 = L::multiply(multiplier0, x.x0);
      const Word product1 = L::multiply(multiplier1, x.x2);
      x.x0 = L::template right<32>(product1) ^ x.x1 ^ word(keys.first[i]);
      x.x1 = product1;
      x.x2 = L::template right<32>(product0) ^ x.x3 ^ word(keys.second[i]);
      x.x3 = product0;
    }
    return x;
  }

  // A word's 32 bits and a half become the mantissa of a double of known exponent.
  static TOOLROLL_INLINE Real signed_unit(Word bits) {  // (-1, 1), never 0
    const Word mantissa = L::template right<12>(L::template left<32>(bits));
    return L::as_real(mantissa | word(0x4000000000080000U)) - real(3.0);
  }
  static TOOLROLL_INLINE Real unit(Word low, Word high) {  // (0, 1), 52 bits
    const Word joined = (low & word(0xFFFFFFFFU)) | L::template left<32>(high);
    const Word mantissa = L::template right<12>(joined);
    return (L::as_real(mantissa | word(0x3FF0000000000000U)) - real(1.0)) + real(0x1p-53);
  }

  // Natural logarithm of a positive normal number, within 2 units in the last place:
  // x = 2^k m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m - 1) / (m + 1).
  static TOOLROLL_INLINE Real log(Real x) {
    const Word bits = L::as_word(x);
    const Word biased =
        L::template right<52>(bits + word(0x4000000000000000U - 0x3FE6A09E667F3BCDU));
    const Word mantissa = bits - L::template left<52>(biased) + word(std::uint64_t{1024} << 52);
    const Real k = L::as_real(biased | word(0x4330000000000000U)) - real(0x1p52 + 1024);
    const Real m = L::as_real(mantissa);
    const Real s = (m - real(1.0)) / (m + real(1.0));
    const Real z = s * s;
    const Real z2 = z * z;
    const Real z4 = z2 * z2;
    // 1/3 + z/5 + z^2/7 + ... + z^8/19, in pairs; the next term is below 2^-55 of the whole.
    const Real low = (real(1.0 / 3) + z * real(1.0 / 5)) + z2 * (real(1.0 / 7) + z * real(1.0 / 9));
    const Real high =
        (real(1.0 / 11) + z * real(1.0 / 13)) + z2 * (real(1.0 / 15) + z * real(1.0 / 17));
    const Real series = low + z4 * (high + z4 * real(1.0 / 19));
    const Real twice = s + s;
    // ln 2 in two parts, the first so short that k times it is exact.
    return k * real(0x1.62e42feep-1) +
           (twice + (twice * (z * series) + k * real(0x1.a39ef35793c76p-33)));
  }

  // exp of a number in [-708, 0], within 2 units in the last place: 2^k exp(r), |r| <= ln(2) / 2.
  static TOOLROLL_INLINE Real exp(Real x) {
    const Real shift =
        real(0x1.8p52);  // adding it rounds to an integer and leaves it in the low bits
    const Real shifted = x * real(0x1.71547652b82fep0) + shift;
    const Real k = shifted - shift;
    const Real r = (x - k * real(0x1.62e42feep-1)) - k * real(0x1.a39ef35793c76p-33);
    Real series = real(1.0 / 6227020800.0);
    series = series * r + real(1.0 / 479001600.0);
    series = series * r + real(1.0 / 39916800.0);
    series = series * r + real(1.0 / 3628800.0);
    series = series * r + real(1.0 / 362880.0);
    series = series * r + real(1.0 / 40320.0);
    series = series * r + real(1.0 / 5040.0);
    series = series * r + real(1.0 / 720.0);
    series = series * r + real(1.0 / 120.0);
    series = series * r + real(1.0 / 24.0);
    series = series * r + real(1.0 / 6.0);
    series = series * r + real(0.5);
    series = series * r + real(1.0);
    series = series * r + real(1.0);
    const Word exponent = L::template left<52>(L::as_word(shifted) + word(1023));
    return series * L::as_real(exponent);
  }

  // 1 / (1 + exp(-x)); exactly 0 below -708.
  static TOOLROLL_INLINE Real logistic(Real x) {
    const Real magnitude = L::max(x, real(0.0) - x);
    const Real small = L::select(magnitude < real(708.0),
                                 exp(real(0.0) - L::min(magnitude, real(708.0))), real(0.0));
    return L::select(x < real(0.0), small, real(1.0)) / (real(1.0) + small);
  }

  // A pair of normals and a uniform; in lanes outside the disc the normals are NaN.
  struct Attempt {
    Real x, y, u;
    Mask inside;
  };

  static TOOLROLL_INLINE Attempt attempt(const RoundKeys& keys, Word key, Word number,
                                         std::uint64_t purpose) {
    const Words words = philox(keys, key, number, purpose);
    const Real x = signed_unit(words.x0);
    const Real y = signed_unit(words.x1);
    const Real square = x * x + y * y;  // at least 2^-63: neither is ever 0
    const Real scale = L::sqrt(real(-2.0) * log(square) / square);
    return {x * scale, y * scale, unit(words.x2, words.x3), square < real(1.0)};
  }

  // Marsaglia and Tsang's cube: d * cube is proposed for Gamma(d + 1/3), with c = 1 / sqrt(9 d).
  struct Proposal {
    Real cube;
    Mask positive;
    Real fourth;  // squeeze: accepted at least with probability 1 - 0.0331 * fourth
    Real square;
  };

  static TOOLROLL_INLINE Proposal propose(Real normal, Real c) {
    const Real root = real(1.0) + c * normal;
    const Real square = normal * normal;
    return {root * root * root, real(0.0) < root, square * square, square};
  }
  // The logarithm of the probability with which a proposal is accepted.
  static TOOLROLL_INLINE Real log_acceptance(const Proposal& proposal, Real d) {
    const Real cube = L::select(proposal.positive, proposal.cube, real(1.0));
    return real(0.5) * proposal.square + d * ((real(1.0) - cube) + log(cube));
  }

  static TOOLROLL_INLINE Real within_range(Real shape) {
    return L::min(L::max(shape, real(kSmallestShape)), real(kGreatestShape));
  }
  // A shape below 1 is drawn as shape + 1, then boosted.
  static TOOLROLL_INLINE Real scale_of(Real shape) {
    return shape + L::select(shape < real(1.0), real(1.0 - 1.0 / 3), real(-1.0 / 3));
  }
  static TOOLROLL_INLINE Real boost(Real u, Real shape) {
    return L::select(shape < real(1.0), log(u) / shape, real(0.0));
  }

  // What one attempt gave: the value where done, and of the other lanes who starts a new attempt
  // (the rest is to be judged).
  struct Outcome {
    Real value;
    Mask done;
    Mask retry;
  };

  // Columns of one block.
  struct Columns {
    const std::uint64_t* key;
    const double* first;   // alpha, or the shape of a Gamma variate
    const double* second;  // beta, or the same again
    double* value;
    double* log_odds;  // null: not wanted
  };

  // Attempts give the ratio of two gammas, whose odds `finish` boosts and turns into a draw.
  struct Beta {
    template <bool kJudge>
    static TOOLROLL_INLINE Outcome draw(const RoundKeys& keys, Word key, Word number, Real alpha,
                                        Real beta) {
      const Attempt at = attempt(keys, key, number, kBetaPurpose);
      const Real da = scale_of(within_range(alpha));
      const Real db = scale_of(within_range(beta));
      // Both c = 1 / sqrt(9 d) with one division.
      const Real root_a = L::sqrt(real(9.0) * da);
      const Real root_b = L::sqrt(real(9.0) * db);
      const Real inverse = real(1.0) / (root_a * root_b);
      const Proposal a = propose(at.x, inverse * root_b);
      const Proposal b = propose(at.y, inverse * root_a);
      const Mask proposed = at.inside & a.positive & b.positive;
      // Both are accepted together, with the product of their probabilities, by one uniform.
      // (1 - p)(1 - q) >= 1 - (p + q): the two squeezes join too.
      Mask accepted = at.u < real(1.0) - real(0.0331) * (a.fourth + b.fourth);
      if constexpr (kJudge) {
        accepted = accepted | (log(at.u) < log_acceptance(a, da) + log_acceptance(b, db));
      }
      const Mask done = proposed & accepted;
      return {da * a.cube / (db * b.cube), done, L::negate(proposed)};
    }

    static TOOLROLL_INLINE Real finish(const RoundKeys& keys, Word key, Real alpha, Real beta,
                                       Real ratio, bool wants_odds, Real& log_odds) {
      Real draw = ratio / (real(1.0) + ratio);
      const Mask boosted = (alpha < real(1.0)) | (beta < real(1.0));
      if (L::any(boosted)) {
        alpha = within_range(alpha);
        beta = within_range(beta);
        const Words words = philox(keys, key, word(0), kBetaPurpose);
        const Real boosts =
            boost(unit(words.x0, words.x1), alpha) - boost(unit(words.x2, words.x3), beta);
        log_odds = log(ratio) + boosts;
        draw = L::select(boosted, logistic(log_odds), draw);
      } else if (wants_odds) {
        log_odds = log(ratio);
      }
      return draw;
    }
  };

  // Attempts give a gamma variate, whose logarithm `finish` boosts.
  struct LogGamma {
    template <bool kJudge>
    static TOOLROLL_INLINE Outcome draw(const RoundKeys& keys, Word key, Word number, Real shape,
                                        Real) {
      const Attempt at = attempt(keys, key, number, kGammaPurpose);
      const Real d = scale_of(within_range(shape));
      const Proposal proposal = propose(at.x, real(1.0) / L::sqrt(real(9.0) * d));
      const Mask proposed = at.inside & proposal.positive;
      Mask accepted = at.u < real(1.0) - real(0.0331) * proposal.fourth;
      if constexpr (kJudge) accepted = accepted | (log(at.u) < log_acceptance(proposal, d));
      const Mask done = proposed & accepted;
      return {d * proposal.cube, done, L::negate(proposed)};
    }

    static TOOLROLL_INLINE Real finish(const RoundKeys& keys, Word key, Real shape, Real,
                                       Real gamma, bool, Real&) {
      const Real plain = log(gamma);
      if (!L::any(shape < real(1.0))) return plain;
      const Words words = philox(keys, key, word(0), kGammaPurpose);
      return plain + boost(unit(words.x0, words.x1), within_range(shape));
    }
  };

  // Arms that still need an accepted attempt: kBlock times the attempt's number plus the arm's
  // place in the block. Filled without branches, since who fails is random.
  struct Pending {
    std::uint32_t codes[kBlock + 2 * kLanes];
    std::size_t size = 0;
  };

  // The places from..from + kLanes - 1; behind the last of n, the last again.
  static TOOLROLL_INLINE void places(std::size_t from, std::size_t n, std::uint32_t* at) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      at[lane] = static_cast<std::uint32_t>(from + lane < n ? from + lane : n - 1);
    }
  }
  static TOOLROLL_INLINE std::size_t fewer(std::size_t x, std::size_t y) { return x < y ? x : y; }

  // Appends the codes of those who failed among the first `here` lanes; returns how many.
  static TOOLROLL_INLINE std::size_t note(std::uint32_t* to, Word codes, Mask done,
                                          std::size_t here) {
    std::size_t size = L::append(to, codes, L::negate(done));
    // What only filled the vector up comes last.
    for (std::uint32_t rest = L::bits(L::negate(done)) >> here; rest != 0; rest &= rest - 1) --size;
    return size;
  }
  static TOOLROLL_INLINE Word first_codes(std::size_t from, Mask retry) {
    const Word first = word(from + kBlock) + L::lane_numbers();
    return L::select(retry, first + word(kBlock), first);
  }

  // Every arm's first attempt, in the order of the columns.
  template <typename Family>
  static void try_all(const RoundKeys& keys, const Columns& arms, std::size_t n, Pending& pending) {
    std::size_t i = 0;
    std::size_t size = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Outcome out = Family::template draw<false>(
          keys, L::load(arms.key + i), word(1), L::load(arms.first + i), L::load(arms.second + i));
      L::store(arms.value + i, out.value);
      size += note(pending.codes + size, first_codes(i, out.retry), out.done, kLanes);
    }
    if (i < n) {
      std::uint32_t at[kLanes];
      places(i, n, at);
      const Outcome out =
          Family::template draw<false>(keys, L::gather(arms.key, at), word(1),
                                       L::gather(arms.first, at), L::gather(arms.second, at));
      double value[kLanes];
      L::store(value, out.value);
      for (std::size_t lane = 0; i + lane < n; ++lane) arms.value[i + lane] = value[lane];
      size += note(pending.codes + size, first_codes(i, out.retry), out.done, n - i);
    }
    pending.size = size;
  }

  // The next attempt of all that are pending.
  template <typename Family>
  static void try_pending(const RoundKeys& keys, const Columns& arms, Pending& pending) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {  // the last vector is filled up
      pending.codes[pending.size + lane] = pending.codes[0];
    }
    std::size_t size = 0;  // the list is rewritten from the front, never ahead of what is read
    for (std::size_t from = 0; from < pending.size; from += kLanes) {
      const std::size_t here = fewer(pending.size - from, kLanes);
      const Word codes = L::load(pending.codes + from);
      std::uint32_t at[kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        at[lane] = pending.codes[from + lane] % kBlock;
      }
      const Outcome out = Family::template draw<true>(
          keys, L::gather(arms.key, at), L::template right<kBlockBits>(codes),
          L::gather(arms.first, at), L::gather(arms.second, at));
      double value[kLanes];
      L::store(value, out.value);
      for (std::size_t lane = 0; lane < here; ++lane) arms.value[at[lane]] = value[lane];
      size += note(pending.codes + size, codes + word(kBlock), out.done, here);
    }
    pending.size = size;
  }

  template <typename Family>
  static void finish_all(const RoundKeys& keys, const Columns& arms, std::size_t n) {
    const bool wants_odds = arms.log_odds != nullptr;
    Real log_odds = real(0.0);
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Real value =
          Family::finish(keys, L::load(arms.key + i), L::load(arms.first + i),
                         L::load(arms.second + i), L::load(arms.value + i), wants_odds, log_odds);
      L::store(arms.value + i, value);
      if (wants_odds) L::store(arms.log_odds + i, log_odds);
    }
    if (i == n) return;
    std::uint32_t at[kLanes];
    double value[kLanes];
    double odds[kLanes];
    places(i, n, at);
    L::store(value, Family::finish(keys, L::gather(arms.key, at), L::gather(arms.first, at),
                                   L::gather(arms.second, at), L::gather(arms.value, at),
                                   wants_odds, log_odds));
    L::store(odds, log_odds);
    for (std::size_t lane = 0; i + lane < n; ++lane) {
      arms.value[i + lane] = value[lane];
      if (wants_odds) arms.log_odds[i + lane] = odds[lane];
    }
  }

  template <typename Family>
  static void draw(const Columns& arms, std::size_t n, std::uint64_t seed) {
    const RoundKeys keys = round_keys(seed);
    for (std::size_t from = 0; from < n; from += kBlock) {
      const std::size_t size = fewer(n - from, kBlock);
      const Columns block{arms.key + from, arms.first + from, arms.second + from, arms.value + from,
                          arms.log_odds == nullptr ? nullptr : arms.log_odds + from};
      Pending pending;
      try_all<Family>(keys, block, size, pending);
      // Every third attempt fails at worst: 200 in a row happen to nobody, and bound the loop even
      // if another thread writes NaN into the columns meanwhile.
      for (int pass = 0; pending.size != 0 && pass < 200; ++pass) {
        try_pending<Family>(keys, block, pending);
      }
      finish_all<Family>(keys, block, size);
    }
  }

  static void beta(const std::uint64_t* key, const double* alpha, const double* beta_shape,
                   std::size_t n, std::uint64_t seed, double* value, double* log_odds) {
    draw<Beta>({key, alpha, beta_shape, value, log_odds}, n, seed);
  }
  static void log_gamma(const std::uint64_t* key, const double* shape, std::size_t n,
                        std::uint64_t seed, double* value) {
    draw<LogGamma>({key, shape, shape, value, nullptr}, n, seed);
  }
};
