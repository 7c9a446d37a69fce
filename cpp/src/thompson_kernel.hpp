/// The sampler itself, written once over "lanes" and compiled for each instruction set.
///
/// A lanes type L offers Real (doubles), Word (64-bit words) and Mask for L::kLanes arms side by side,
/// with the operations used below; each must give in every lane what the one-lane type of
/// thompson_baseline.cpp gives. Everything has internal linkage (the including file opens an
/// anonymous namespace after setting its target): code built for a newer processor can't be
/// linked into a path for an older one. For the same reason nothing of the standard library is
/// called here.
///
/// The naive form loops per arm until an attempt is accepted. In lanes that wastes the other lanes on
/// the slowest: about half of all attempts with four. So arms are drawn in blocks: a pass tries every
/// arm once and notes who failed, the next pass gathers only those into full vectors. The first pass
/// has no branches and skips Marsaglia and Tsang's logarithmic test: arms that fail the squeeze alone
/// are judged by it in the next pass, on the same random numbers.

constexpr std::size_t kBlock = 256;
constexpr int kRounds = 10;

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
  static TOOLROLL_INLINE Real unit(Word bits) {  // (0, 1)
    const Word mantissa = L::template right<12>(L::template left<32>(bits));
    return L::as_real(mantissa | word(0x3FF0000000080000U)) - real(1.0);
  }
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
    const Word biased = L::template right<52>(bits + word(0x4000000000000000U - 0x3FE6A09E667F3BCDU));
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
    const Real shift = real(0x1.8p52);  // adding it rounds to an integer and leaves it in the low bits
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

  // A pair of normals and two uniforms; in lanes outside the disc the normals are NaN.
  struct Attempt {
    Real x, y, u, w;
    Mask inside;
  };

  static TOOLROLL_INLINE Attempt attempt(const RoundKeys& keys, Word key, Word number,
                                         std::uint64_t purpose) {
    const Words words = philox(keys, key, number, purpose);
    const Real x = signed_unit(words.x0);
    const Real y = signed_unit(words.x1);
    const Real square = x * x + y * y;  // at least 2^-63: neither is ever 0
    const Real scale = L::sqrt(real(-2.0) * log(square) / square);
    return {x * scale, y * scale, unit(words.x2), unit(words.x3), square < real(1.0)};
  }

  // One proposal for Gamma(d + 1/3): d * cube, accepted or not.
  struct Proposal {
    Real cube;
    Mask accepted;
  };

  template <bool kJudge>
  static TOOLROLL_INLINE Proposal propose(Real normal, Real u, Real d, Real c) {
    const Real root = real(1.0) + c * normal;
    const Real cube = root * root * root;
    const Real square = normal * normal;
    const Mask positive = real(0.0) < root;
    Mask accepted = u < real(1.0) - real(0.0331) * (square * square);
    if constexpr (kJudge) {
      const Real safe = L::select(positive, cube, real(1.0));
      const Real bound = real(0.5) * square + d * ((real(1.0) - safe) + log(safe));
      accepted = accepted | (log(u) < bound);
    }
    accepted = accepted & positive;
    return {cube, accepted};
  }

  static TOOLROLL_INLINE Real within_range(Real shape) {
    return L::min(L::max(shape, real(1e-300)), real(1e300));
  }
  // A shape below 1 is drawn as shape + 1, then boosted.
  static TOOLROLL_INLINE Real scale_of(Real shape, Mask boosted) {
    return shape + L::select(boosted, real(1.0 - 1.0 / 3), real(-1.0 / 3));
  }
  static TOOLROLL_INLINE Real boost(Real u, Real shape, Mask boosted) {
    return L::select(boosted, log(u) / shape, real(0.0));
  }

  // What one vector of arms gave: values to store, who is done, and of the others who starts a new
  // attempt (and who is only to be judged).
  struct Outcome {
    Real value;
    Real log_odds;
    Mask done;
    Mask retry;
  };

  // Columns of one block; of Beta arms or, second unused, of Gamma variates.
  struct Columns {
    const std::uint64_t* key;
    const double* first;
    const double* second;
    double* value;
    double* log_odds;  // null: not wanted
  };

  struct Beta {
    template <bool kJudge>
    static TOOLROLL_INLINE Outcome draw(const RoundKeys& keys, Word key, Word number, Real alpha,
                                        Real beta, bool wants_odds) {
      const Attempt at = attempt(keys, key, number, kBetaPurpose);
      alpha = within_range(alpha);
      beta = within_range(beta);
      const Mask boosted_a = alpha < real(1.0);
      const Mask boosted_b = beta < real(1.0);
      const Real da = scale_of(alpha, boosted_a);
      const Real db = scale_of(beta, boosted_b);
      // c = 1 / sqrt(9 d) for both, with one division.
      const Real root_a = L::sqrt(real(9.0) * da);
      const Real root_b = L::sqrt(real(9.0) * db);
      const Real inverse = real(1.0) / (root_a * root_b);
      const Proposal a = propose<kJudge>(at.x, at.u, da, inverse * root_b);
      const Proposal b = propose<kJudge>(at.y, at.w, db, inverse * root_a);
      const Mask done = at.inside & a.accepted & b.accepted;
      const Real gamma_a = L::select(done, da * a.cube, real(1.0));
      const Real gamma_b = L::select(done, db * b.cube, real(1.0));
      Outcome out{gamma_a / (gamma_a + gamma_b), real(0.0), done, L::negate(at.inside)};
      if constexpr (kJudge) out.retry = L::negate(done);
      const Mask boosted = boosted_a | boosted_b;
      if (L::any(boosted)) {
        const Words words = philox(keys, key, word(0), kBetaPurpose);
        const Real plain = log(gamma_a) - log(gamma_b);
        const Real boost_a = boost(unit(words.x0, words.x1), alpha, boosted_a);
        const Real boost_b = boost(unit(words.x2, words.x3), beta, boosted_b);
        out.log_odds = plain + (boost_a - boost_b);
        out.value = L::select(boosted, logistic(out.log_odds), out.value);
      } else if (wants_odds) {
        out.log_odds = log(gamma_a) - log(gamma_b);
      }
      return out;
    }
  };

  struct LogGamma {
    template <bool kJudge>
    static TOOLROLL_INLINE Outcome draw(const RoundKeys& keys, Word key, Word number, Real shape,
                                        Real, bool) {
      const Attempt at = attempt(keys, key, number, kGammaPurpose);
      shape = within_range(shape);
      const Mask boosted = shape < real(1.0);
      const Real d = scale_of(shape, boosted);
      const Proposal proposal =
          propose<kJudge>(at.x, at.u, d, real(1.0) / L::sqrt(real(9.0) * d));
      const Mask done = at.inside & proposal.accepted;
      const Real plain = log(L::select(done, d * proposal.cube, real(1.0)));
      Outcome out{plain, real(0.0), done, L::negate(at.inside)};
      if constexpr (kJudge) out.retry = L::negate(done);
      if (L::any(boosted)) {
        const Words words = philox(keys, key, word(0), kGammaPurpose);
        out.value = plain + boost(unit(words.x0, words.x1), shape, boosted);
      }
      return out;
    }
  };

  // Arms that still need a draw: where they are in the block and which attempt is next.
  struct Pending {
    std::uint32_t at[kBlock + kLanes];
    std::uint32_t number[kBlock + kLanes];
    std::size_t size = 0;

    TOOLROLL_INLINE void note(std::uint32_t arm, std::uint32_t attempt, bool wanted) {
      at[size] = arm;
      number[size] = attempt;
      size += wanted ? 1 : 0;
    }
  };

  // One vector's worth of gathered arms.
  struct Gathered {
    std::uint64_t key[kLanes];
    std::uint64_t number[kLanes];
    double first[kLanes];
    double second[kLanes];
    double value[kLanes];
    double log_odds[kLanes];
  };

  template <typename Family, bool kJudge>
  static TOOLROLL_INLINE Outcome draw_gathered(const RoundKeys& keys, const Gathered& arms,
                                               bool wants_odds) {
    return Family::template draw<kJudge>(keys, L::load(arms.key), L::load(arms.number),
                                         L::load(arms.first), L::load(arms.second), wants_odds);
  }

  // n <= kBlock arms.
  template <typename Family>
  static void draw_block(const RoundKeys& keys, const Columns& arms, std::size_t n) {
    Pending pending;
    const bool wants_odds = arms.log_odds != nullptr;
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Outcome out =
          Family::template draw<false>(keys, L::load(arms.key + i), word(1), L::load(arms.first + i),
                                       L::load(arms.second + i), wants_odds);
      L::store(arms.value + i, out.value);
      if (wants_odds) L::store(arms.log_odds + i, out.log_odds);
      const std::uint32_t done = L::bits(out.done);
      const std::uint32_t retry = L::bits(out.retry);
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        pending.note(static_cast<std::uint32_t>(i) + lane, 1 + (retry >> lane & 1U),
                     (done >> lane & 1U) == 0);
      }
    }
    for (; i < n; ++i) pending.note(static_cast<std::uint32_t>(i), 1, true);

    // Every third attempt fails at worst: 200 in a row happen to nobody, and bound the loop even if
    // another thread writes NaN into the columns meanwhile.
    for (int pass = 0; pending.size != 0 && pass < 200; ++pass) {
      const std::size_t size = pending.size;
      pending.size = 0;
      for (std::size_t from = 0; from < size; from += kLanes) {
        const std::size_t here = size - from < kLanes ? size - from : kLanes;
        Gathered group;
        std::uint32_t at[kLanes];
        std::uint32_t number[kLanes];
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          const std::size_t which = from + (lane < here ? lane : 0);  // fills up with its first arm
          at[lane] = pending.at[which];
          number[lane] = pending.number[which];
          group.key[lane] = arms.key[at[lane]];
          group.number[lane] = number[lane];
          group.first[lane] = arms.first[at[lane]];
          group.second[lane] = arms.second[at[lane]];
        }
        const Outcome out = draw_gathered<Family, true>(keys, group, wants_odds);
        L::store(group.value, out.value);
        L::store(group.log_odds, out.log_odds);
        const std::uint32_t done = L::bits(out.done);
        for (std::uint32_t lane = 0; lane < here; ++lane) {
          arms.value[at[lane]] = group.value[lane];
          if (wants_odds) arms.log_odds[at[lane]] = group.log_odds[lane];
          pending.note(at[lane], number[lane] + 1, (done >> lane & 1U) == 0);
        }
      }
    }
  }

  template <typename Family>
  static void draw(const std::uint64_t* key, const double* first, const double* second,
                   std::size_t n, std::uint64_t seed, double* value, double* log_odds) {
    const RoundKeys keys = round_keys(seed);
    for (std::size_t from = 0; from < n; from += kBlock) {
      draw_block<Family>(keys,
                         {key + from, first + from, second + from, value + from,
                          log_odds == nullptr ? nullptr : log_odds + from},
                         n - from < kBlock ? n - from : kBlock);
    }
  }

  static void beta(const std::uint64_t* key, const double* alpha, const double* beta_shape,
                   std::size_t n, std::uint64_t seed, double* value, double* log_odds) {
    draw<Beta>(key, alpha, beta_shape, n, seed, value, log_odds);
  }
  static void log_gamma(const std::uint64_t* key, const double* shape, std::size_t n,
                        std::uint64_t seed, double* value) {
    draw<LogGamma>(key, shape, shape, n, seed, value, nullptr);
  }
};
