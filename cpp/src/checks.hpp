/// Refusals of arguments, in one wording.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace toolroll {

/// rule: as in "finite" or "above 0".
[[noreturn]] inline void refuse(const std::string& what, double number, const std::string& rule) {
  throw std::invalid_argument(what + ": is " + std::to_string(number) + ", must be " + rule);
}

/// The name of one entry of a column.
inline std::string entry(const char* column, std::size_t i) {
  return std::string(column) + "[" + std::to_string(i) + "]";
}

inline void check_length(const char* column, std::size_t size, std::size_t n) {
  if (size != n) {
    throw std::invalid_argument(std::string(column) + ": has " + std::to_string(size) +
                                " entries, must have " + std::to_string(n));
  }
}

}  // namespace toolroll
