/// Conversions between numpy columns and std::span.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
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

/// The column as a span, for calls of a microsecond. A py::array argument: pybind11's array_t asks
/// numpy to convert even where nothing may be converted, 100 ns a column, as much as eight draws.
template <typename T>
std::span<const T> column_of(const char* name, const py::array& array) {
  using Api = py::detail::npy_api;
  const py::dtype type = array.dtype();
  const bool is_native = type.byteorder() == '=' || type.byteorder() == '|';
  const bool is_type = (type.num() == py::detail::npy_format_descriptor<T>::value && is_native) ||
                       py::isinstance<Column<T>>(array);
  constexpr int kFlags = Api::NPY_ARRAY_C_CONTIGUOUS_ | Api::NPY_ARRAY_ALIGNED_;
  if (!is_type || (array.flags() & kFlags) != kFlags) {
    throw py::type_error(std::string(name) + ": must be a contiguous array of " +
                         std::string(py::str(py::dtype::of<T>())) + ", is of " +
                         std::string(py::str(type)));
  }
  if (array.ndim() != 1) {
    throw std::invalid_argument(std::string(name) + ": has " + std::to_string(array.ndim()) +
                                " dimensions, must have 1");
  }
  return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

/// A column of uint8 or bool.
inline std::span<const std::uint8_t> flags_of(const char* name, const py::array& array) {
  if (array.dtype().kind() == 'b' && array.ndim() == 1 &&
      (array.flags() & py::array::c_style) != 0) {
    return {static_cast<const std::uint8_t*>(array.data()), static_cast<std::size_t>(array.size())};
  }
  return column_of<std::uint8_t>(name, array);
}

template <typename T>
std::span<T> writable(Column<T>& column) {
  return {column.mutable_data(), static_cast<std::size_t>(column.size())};
}

/// A numpy array that owns the vector; nothing is copied.
template <typename T>
Column<T> column(std::vector<T>&& numbers) {
  auto* owned = new std::vector<T>(std::move(numbers));
  const py::capsule owner(owned, [](void* at) { delete static_cast<std::vector<T>*>(at); });
  return Column<T>(static_cast<py::ssize_t>(owned->size()), owned->data(), owner);
}

/// A copy of the numbers, for columns that are read more than once or while the interpreter is
/// released. Another thread may write to the array meanwhile, and the call must use the numbers
/// that it checked.
template <typename T>
std::vector<T> snapshot(std::span<const T> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// A few numbers as an array: a copy is cheaper than an owner.
template <typename T>
Column<T> copied(const std::vector<T>& numbers) {
  Column<T> array(static_cast<py::ssize_t>(numbers.size()));
  std::copy(numbers.begin(), numbers.end(), array.mutable_data());
  return array;
}

}  // namespace toolroll::bindings
