/// Functions of one number that are the same to the bit on every machine.
///
/// Those of the standard library differ between platforms in the last digit, and a logged decision
/// must give the same result elsewhere. These use only additions, multiplications, divisions and
/// square roots, which IEEE 754 rounds alike everywhere.
#pragma once

// GCC and Clang get -ffp-contract=off.
#if defined(_MSC_VER)
#pragma fp_contract(off)
#endif

namespace toolroll::portable {

/// Natural logarithm of a positive normal number, within 2 units in the last place.
double log(double x);

/// e to the power of a number that is not positive; exactly 0 below -708.
double exp(double x);

/// 2^(-age / half_life) for a half_life above 0; 1 if the age is not above 0.
double decay(double age, double half_life);

/// The first two derivatives of log Gamma at x in [1e-3, 1e250]. Error below 1e-12 of
/// max(1, |value|).
struct Polygamma {
  double digamma;
  double trigamma;
};
Polygamma polygamma(double x);

/// The standard normal's quantile of p in (0, 1). Relative error about 1e-15.
/// Source: Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", 1988.
double normal_quantile(double p);

/// The standard normal's distribution function. Error below 1e-14.
/// Source: West, "Better approximations to cumulative normal functions", Wilmott 2005, after Hart.
double normal_share(double x);

}  // namespace toolroll::portable
