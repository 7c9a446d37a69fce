/// The parts of a message from Python.
#pragma once

#include <pybind11/stl.h>

#include <deque>
#include <optional>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "text.hpp"
#include "toolroll/fusion.hpp"

namespace toolroll::bindings {

/// Text, vector, trust and weight of each part. The vectors are copies: a search reads them while
/// the interpreter is released.
class Parts {
 public:
  explicit Parts(const py::tuple& list) {
    for (const py::handle item : list) {
      try {
        auto [text, vector, trust, weight] =
            py::cast<std::tuple<py::str, std::optional<Column<float>>, float, float>>(item);
        texts_.push_back(text);
        messages_.emplace_back(text);
        vectors_.push_back(vector ? snapshot(view(*vector)) : std::vector<float>());
        parts_.push_back({messages_.back().view(), vectors_.back(), trust, weight});
      } catch (const py::cast_error&) {
        throw py::type_error("part: must be (str, float32 array or None, float, float)");
      }
    }
  }

  std::span<const Part> get() const { return parts_; }

 private:
  std::deque<py::str> texts_;
  std::deque<Utf8> messages_;
  std::deque<std::vector<float>> vectors_;
  std::vector<Part> parts_;
};

}  // namespace toolroll::bindings
