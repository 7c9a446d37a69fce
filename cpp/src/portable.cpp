#include "portable.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace toolroll::portable {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

/// The value at x of the polynomial whose coefficients are given from the constant upwards.
template <std::size_t kSize>
double polynomial(const double (&coefficients)[kSize], double x) {
  double value = coefficients[kSize - 1];
  for (std::size_t i = kSize - 1; i-- > 0;) value = value * x + coefficients[i];
  return value;
}

}  // namespace

// x = 2^k m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1).
double log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t biased = (bits + (0x4000000000000000U - 0x3FE6A09E667F3BCDU)) >> 52;
  const double k = static_cast<double>(biased) - 1024.0;
  const auto m = std::bit_cast<double>(bits - (biased << 52) + (std::uint64_t{1024} << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  const double z2 = z * z;
  const double z4 = z2 * z2;
  // 1/3 + z/5 + z^2/7 + ... + z^8/19, in pairs; the next term is below 2^-55 of the whole.
  const double low = (1.0 / 3 + z * (1.0 / 5)) + z2 * (1.0 / 7 + z * (1.0 / 9));
  const double high = (1.0 / 11 + z * (1.0 / 13)) + z2 * (1.0 / 15 + z * (1.0 / 17));
  const double series = low + z4 * (high + z4 * (1.0 / 19));
  const double twice = s + s;
  // ln 2 in two parts, the first so short that k times it is exact.
  return k * 0x1.62e42feep-1 + (twice + (twice * (z * series) + k * 0x1.a39ef35793c76p-33));
}

// 2^k exp(r), |r| <= ln(2) / 2.
double exp(double x) {
  if (x < -708.0) return 0.0;
  const double shift = 0x1.8p52;  // adding it rounds to an integer and leaves it in the low bits
  const double shifted = x * 0x1.71547652b82fep0 + shift;
  const double k = shifted - shift;
  const double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  static constexpr double kTaylor[] = {1.0,
                                       1.0,
                                       0.5,
                                       1.0 / 6,
                                       1.0 / 24,
                                       1.0 / 120,
                                       1.0 / 720,
                                       1.0 / 5040,
                                       1.0 / 40320,
                                       1.0 / 362880,
                                       1.0 / 3628800,
                                       1.0 / 39916800,
                                       1.0 / 479001600,
                                       1.0 / 6227020800.0};
  const std::uint64_t exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  return polynomial(kTaylor, r) * std::bit_cast<double>(exponent);
}

double decay(double age, double half_life) {
  return age > 0.0 ? exp(-(age / half_life) * kLn2) : 1.0;
}

Polygamma polygamma(double x) {
  // The recurrences f(x) = f(x + 1) - 1/x and f(x) = f(x + 1) + 1/x^2, eight steps at once: x + i
  // and x + 7 - i have one sum and four products, whose inverses come from one division.
  double below1 = 0.0;
  double below2 = 0.0;
  if (x < 8.0) {
    const double sum = 2.0 * x + 7.0;
    const double t0 = x * (x + 7.0);
    const double t1 = t0 + 6.0;
    const double t2 = t0 + 10.0;
    const double t3 = t0 + 12.0;
    const double t01 = t0 * t1;
    const double t23 = t2 * t3;
    const double all = 1.0 / (t01 * t23);
    const double i0 = all * t23 * t1;
    const double i1 = all * t23 * t0;
    const double i2 = all * t01 * t3;
    const double i3 = all * t01 * t2;
    below1 = sum * ((i0 + i1) + (i2 + i3));
    const double square = sum * sum;
    below2 = ((square - 2.0 * t0) * (i0 * i0) + (square - 2.0 * t1) * (i1 * i1)) +
             ((square - 2.0 * t2) * (i2 * i2) + (square - 2.0 * t3) * (i3 * i3));
    x = x + 8.0;
  }
  const double inverse = 1.0 / x;
  const double z = inverse * inverse;
  // The asymptotic series: Bernoulli numbers B_2k / 2k, and B_2k.
  static constexpr double kFirst[] = {1.0 / 12,  -1.0 / 120,       1.0 / 252, -1.0 / 240,
                                      1.0 / 132, -691.0 / 32760.0, 1.0 / 12};
  static constexpr double kSecond[] = {1.0 / 6,  -1.0 / 30,       1.0 / 42, -1.0 / 30,
                                       5.0 / 66, -691.0 / 2730.0, 7.0 / 6};
  return {log(x) - 0.5 * inverse - z * polynomial(kFirst, z) - below1,
          inverse + 0.5 * z + inverse * z * polynomial(kSecond, z) + below2};
}

double normal_quantile(double p) {
  static constexpr double kA[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                  1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                  4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                  3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double kB[] = {1.0,
                                  4.2313330701600911252e+1,
                                  6.8718700749205790830e+2,
                                  5.3941960214247511077e+3,
                                  2.1213794301586595867e+4,
                                  3.9307895800092710610e+4,
                                  2.8729085735721942674e+4,
                                  5.2264952788528545610e+3};
  static constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                  5.76949722146069140550e0,  3.64784832476320460504e0,
                                  1.27045825245236838258e0,  2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  const double q = p - 0.5;
  const double distance = q < 0.0 ? -q : q;
  if (distance <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  const double r = std::sqrt(-log(q < 0.0 ? p : 1.0 - p));
  const double size = r <= 5.0 ? polynomial(kC, r - 1.6) / polynomial(kD, r - 1.6)
                               : polynomial(kE, r - 5.0) / polynomial(kF, r - 5.0);
  return q < 0.0 ? -size : size;
}

double normal_share(double x) {
  static constexpr double kAbove[] = {220.206867912376,    221.213596169931, 112.079291497871,
                                      33.912866078383,     6.37396220353165, 0.700383064443688,
                                      3.52624965998911e-02};
  static constexpr double kBelow[] = {440.413735824752, 793.826512519948,    637.333633378831,
                                      296.564248779674, 86.7807322029461,    16.064177579207,
                                      1.75566716318264, 8.83883476483184e-02};
  const double distance = x < 0.0 ? -x : x;
  double tail = 0.0;
  if (distance < 37.0) {
    const double density = exp(-0.5 * distance * distance);
    if (distance < 7.07106781186547) {
      tail = density * polynomial(kAbove, distance) / polynomial(kBelow, distance);
    } else {
      double fraction = distance + 0.65;
      for (int i = 4; i > 0; --i) fraction = distance + i / fraction;
      tail = density / fraction / 2.506628274631000502;
    }
  }
  return x > 0.0 ? 1.0 - tail : tail;
}

}  // namespace toolroll::portable
