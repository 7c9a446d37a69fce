/// One arm at a time: the lanes type that the others equal to the bit (see thompson_kernel.hpp).
///
/// The including file opens an anonymous namespace first, as for the kernel.

struct OneLane {
  using Real = double;
  using Word = std::uint64_t;
  struct Mask {
    bool on;
    Mask(bool is_on) : on(is_on) {}  // not explicit: comparing two numbers gives a bool
    friend Mask operator&(Mask x, Mask y) { return x.on && y.on; }
    friend Mask operator|(Mask x, Mask y) { return x.on || y.on; }
  };
  static constexpr std::size_t kLanes = 1;

  static Real real(double number) { return number; }
  static Word word(std::uint64_t number) { return number; }
  static Real load(const double* at) { return *at; }
  static Word load(const std::uint64_t* at) { return *at; }
  static Word load(const std::uint32_t* at) { return *at; }
  static Real gather(const double* column, const std::uint32_t* at) { return column[*at]; }
  static Word gather(const std::uint64_t* column, const std::uint32_t* at) { return column[*at]; }
  static void store(double* at, Real number) { *at = number; }

  static Real sqrt(Real x) { return std::sqrt(x); }
  static Real min(Real x, Real y) { return x < y ? x : y; }
  static Real max(Real x, Real y) { return x > y ? x : y; }
  static Real select(Mask mask, Real yes, Real no) { return mask.on ? yes : no; }

  static Word select(Mask mask, Word yes, Word no) { return mask.on ? yes : no; }
  static Word lane_numbers() { return 0; }
  // Writes the low halves of the wanted lanes, returns how many; may write kLanes words.
  static std::size_t append(std::uint32_t* to, Word x, Mask wanted) {
    *to = static_cast<std::uint32_t>(x);
    return wanted.on ? 1 : 0;
  }

  static Word multiply(Word x, Word y) { return (x & 0xFFFFFFFFU) * (y & 0xFFFFFFFFU); }
  template <int kBits>
  static Word left(Word x) {
    return x << kBits;
  }
  template <int kBits>
  static Word right(Word x) {
    return x >> kBits;
  }
  static Real as_real(Word bits) { return std::bit_cast<Real>(bits); }
  static Word as_word(Real number) { return std::bit_cast<Word>(number); }

  static Mask negate(Mask mask) { return !mask.on; }
  static bool any(Mask mask) { return mask.on; }
  static std::uint32_t bits(Mask mask) { return mask.on ? 1 : 0; }
};
