#include "toolroll/cpu.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

#if defined(_MSC_VER)
#include <intrin.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace toolroll {
namespace {

#if defined(__x86_64__) || defined(_M_X64)

struct Registers {
  std::uint32_t eax, ebx, ecx, edx;
};

Registers cpuid(std::uint32_t leaf) {
#if defined(_MSC_VER)
  int r[4];
  __cpuidex(r, static_cast<int>(leaf), 0);
  return {static_cast<std::uint32_t>(r[0]), static_cast<std::uint32_t>(r[1]),
          static_cast<std::uint32_t>(r[2]), static_cast<std::uint32_t>(r[3])};
#else
  Registers r{};
  __cpuid_count(leaf, 0, r.eax, r.ebx, r.ecx, r.edx);
  return r;
#endif
}

/// Which register files the operating system saves when it switches threads (XCR0).
std::uint32_t saved_state() {
#if defined(_MSC_VER)
  return static_cast<std::uint32_t>(_xgetbv(0));
#else
  std::uint32_t low;
  std::uint32_t high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
#endif
}

constexpr std::uint32_t bit(int position) { return std::uint32_t{1} << position; }
constexpr bool has(std::uint32_t word, std::uint32_t bits) { return (word & bits) == bits; }

// Intel SDM volume 2A, CPUID.
constexpr std::uint32_t kLeaf1Ecx = bit(12) | bit(23) | bit(27) | bit(28) | bit(29);
//                                  FMA       POPCNT    OSXSAVE   AVX       F16C
constexpr std::uint32_t kLeaf7EbxAvx2 = bit(3) | bit(5) | bit(8);              // BMI1, AVX2, BMI2
constexpr std::uint32_t kLeaf7Ebx512 = bit(16) | bit(17) | bit(30) | bit(31);  // F, DQ, BW, VL
constexpr std::uint32_t kLeaf7Ecx512 = bit(11);                                // VNNI
constexpr std::uint32_t kExtendedEcx = bit(5);                                 // LZCNT
constexpr std::uint32_t kYmmSaved = bit(1) | bit(2);
constexpr std::uint32_t kZmmSaved = kYmmSaved | bit(5) | bit(6) | bit(7);

Isa detect() {
  if (cpuid(0).eax < 7 || cpuid(0x80000000U).eax < 0x80000001U) return Isa::kBaseline;
  if (!has(cpuid(1).ecx, kLeaf1Ecx) || !has(cpuid(0x80000001U).ecx, kExtendedEcx)) {
    return Isa::kBaseline;
  }
  const std::uint32_t saved = saved_state();  // legal: OSXSAVE is set
  const Registers leaf7 = cpuid(7);
  if (!has(saved, kYmmSaved) || !has(leaf7.ebx, kLeaf7EbxAvx2)) return Isa::kBaseline;
  const bool wide =
      has(saved, kZmmSaved) && has(leaf7.ebx, kLeaf7Ebx512) && has(leaf7.ecx, kLeaf7Ecx512);
  return wide ? Isa::kAvx512 : Isa::kAvx2;
}

#elif defined(__aarch64__) || defined(_M_ARM64)

Isa detect() { return Isa::kNeon; }  // part of the architecture

#else

Isa detect() { return Isa::kBaseline; }

#endif

std::string environment(const char* name) {
#if defined(_MSC_VER)
  char value[32];
  std::size_t size = 0;
  return getenv_s(&size, value, sizeof value, name) == 0 && size != 0 ? std::string(value) : "";
#else
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
#endif
}

}  // namespace

Isa isa_supported() {
  static const Isa supported = detect();
  return supported;
}

Isa isa_lowered(Isa supported, std::string_view wanted) {
  for (const Isa lower : {Isa::kBaseline, Isa::kNeon, Isa::kAvx2, Isa::kAvx512}) {
    const bool reachable =
        lower == Isa::kBaseline || (lower == Isa::kNeon) == (supported == Isa::kNeon);
    if (lower <= supported && reachable && isa_name(lower) == wanted) return lower;
  }
  return supported;
}

Isa isa() {
  static const Isa used = isa_lowered(isa_supported(), environment("TOOLROLL_ISA"));
  return used;
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kNeon:
      return "neon";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "baseline";
}

}  // namespace toolroll
