/// The pieces of a vocabulary: a list of str, or the bytes of a file with one piece a line.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "text.hpp"

namespace toolroll::bindings {

/// The lines of bytes are not copied, so they must live as long as this object: a vocabulary of
/// tens of thousands of pieces is read without a Python object each.
struct Vocabulary {
  explicit Vocabulary(const py::sequence& from) {
    if (PyBytes_Check(from.ptr()) == 0) {
      texts.emplace(from);
      views = texts->views;
      return;
    }
    std::string_view left(PyBytes_AS_STRING(from.ptr()),
                          static_cast<std::size_t>(PyBytes_GET_SIZE(from.ptr())));
    while (!left.empty()) {
      const std::size_t end = std::min(left.find('\n'), left.size());
      views.push_back(left.substr(0, end));
      left.remove_prefix(std::min(end + 1, left.size()));
    }
  }
  Vocabulary(const Vocabulary&) = delete;

  std::vector<std::string_view> views;

 private:
  std::optional<Texts> texts;
};

}  // namespace toolroll::bindings
