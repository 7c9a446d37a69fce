/// Lists of str -> spans of string_view.
#pragma once

#include <string>
#include <algorithm>
#include <string_view>
#include <vector>

#include "arrays.hpp"

namespace toolroll::bindings {

/// The bytes of a list of str, copied: another thread may change the list while the GIL is released.
struct Texts {
  explicit Texts(const py::sequence& list) {
    bytes.reserve(list.size());
    for (const py::handle item : list) {
      if (!py::isinstance<py::str>(item)) throw py::type_error("texts: must all be str");
      bytes.emplace_back(utf8(py::reinterpret_borrow<py::str>(item)));
    }
    views.assign(bytes.begin(), bytes.end());
  }
  Texts(const Texts&) = delete;
  Texts(Texts&&) = default;  // the strings stay where they are

  std::vector<std::string> bytes;
  std::vector<std::string_view> views;
};

/// A few numbers as an array: a copy is cheaper than an owner.
template <typename T>
Column<T> copied(const std::vector<T>& numbers) {
  Column<T> array(static_cast<py::ssize_t>(numbers.size()));
  std::copy(numbers.begin(), numbers.end(), array.mutable_data());
  return array;
}

}  // namespace toolroll::bindings
