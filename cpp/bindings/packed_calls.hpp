/// The tools of an event with their expected calls, as bytes.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "toolroll/expected_calls.hpp"

namespace toolroll::bindings {

namespace py = pybind11;

inline constexpr py::ssize_t kKeyBytes = 24;  // three 64-bit keys

/// For each row of `shown` its packed keys and its share of calls, a little-endian double.
inline py::bytes packed_calls(const py::list& keys, std::span<const std::int32_t> shown,
                              std::span<const std::int32_t> found, std::span<const float> scores,
                              const CallShares& of_calls) {
  if (keys.size() != shown.size()) throw std::invalid_argument("keys: one for each row");
  std::vector<double> shares(shown.size());
  expected_calls(shown, found, scores, of_calls, shares);
  std::string packed;
  packed.reserve(shown.size() * (kKeyBytes + sizeof(double)));
  for (std::size_t at = 0; at < shown.size(); ++at) {
    PyObject* const key = PyList_GET_ITEM(keys.ptr(), static_cast<py::ssize_t>(at));
    if (!PyBytes_Check(key) || PyBytes_GET_SIZE(key) != kKeyBytes) {
      throw std::invalid_argument("keys: must be packed keys");
    }
    packed.append(PyBytes_AS_STRING(key), kKeyBytes);
    auto share = std::bit_cast<std::array<char, sizeof(double)>>(shares[at]);
    if constexpr (std::endian::native == std::endian::big) std::ranges::reverse(share);
    packed.append(share.data(), share.size());
  }
  return py::bytes(packed);
}

}  // namespace toolroll::bindings
