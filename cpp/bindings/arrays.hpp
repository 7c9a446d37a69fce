/// numpy columns <-> std::span, and nothing else.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace toolroll::bindings {

namespace py = pybind11;

/// A C-contiguous array of exactly T; declare the argument with .noconvert() so nothing is copied.
template <typename T>
using Column = py::array_t<T, py::array::c_style>;

/// The array as a span. Throws std::invalid_argument unless it has one dimension.
template <typename T>
std::span<const T> view(const Column<T>& column) {
  if (column.ndim() != 1) {
    throw std::invalid_argument("array: has " + std::to_string(column.ndim()) +
                                " dimensions, must have 1");
  }
  return {column.data(), static_cast<std::size_t>(column.size())};
}

/// A numpy array that takes the vector over without a copy.
template <typename T>
Column<T> column(std::vector<T>&& numbers) {
  auto* owned = new std::vector<T>(std::move(numbers));
  const py::capsule owner(owned, [](void* at) { delete static_cast<std::vector<T>*>(at); });
  return Column<T>(static_cast<py::ssize_t>(owned->size()), owned->data(), owner);
}

/// A few numbers as an array: a copy is cheaper than an owner.
template <typename T>
Column<T> copied(const std::vector<T>& numbers) {
  Column<T> array(static_cast<py::ssize_t>(numbers.size()));
  std::copy(numbers.begin(), numbers.end(), array.mutable_data());
  return array;
}

}  // namespace toolroll::bindings
