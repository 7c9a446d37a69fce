/// Texts with vectors, as a search reads them.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <vector>

#include "arrays.hpp"
#include "text.hpp"
#include "toolroll/fusion.hpp"

namespace toolroll::bindings {

/// The numbers of a float32 array; none for None. A copy: a search reads them while the interpreter
/// is released.
inline std::vector<float> vector_of(const char* name, py::handle vector) {
  if (vector.is_none()) return {};
  if (!py::isinstance<py::array>(vector)) {
    throw py::type_error(std::string(name) + ": must be a float32 array or None");
  }
  return snapshot(column_of<float>(name, py::reinterpret_borrow<py::array>(vector)));
}

inline double number_of(const char* name, py::handle number) {
  const double value = PyFloat_AsDouble(number.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw py::type_error(std::string(name) + ": must be a number");
  }
  return value;
}

/// Text, vector, trust and weight of each part.
class Parts {
 public:
  explicit Parts(const py::tuple& list) {
    parts_.reserve(list.size());
    for (const py::handle item : list) {
      if (!PyTuple_Check(item.ptr()) || PyTuple_GET_SIZE(item.ptr()) != 4) refuse();
      const auto part = py::reinterpret_borrow<py::tuple>(item);
      if (!py::isinstance<py::str>(part[0])) refuse();
      texts_.push_back(part[0]);
      messages_.emplace_back(texts_.back());
      vectors_.push_back(vector_of("part", part[1]));
      parts_.push_back({messages_.back().view(), vectors_.back(),
                        static_cast<float>(number_of("part", part[2])),
                        static_cast<float>(number_of("part", part[3]))});
    }
  }

  std::span<const Part> get() const { return parts_; }

 private:
  [[noreturn]] static void refuse() {
    throw py::type_error("part: must be (str, float32 array or None, float, float)");
  }

  std::deque<py::str> texts_;
  std::deque<Utf8> messages_;
  std::deque<std::vector<float>> vectors_;
  std::vector<Part> parts_;
};

}  // namespace toolroll::bindings
