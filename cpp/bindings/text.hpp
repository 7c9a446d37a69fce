/// A Python str as UTF-8, whatever it holds.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

namespace toolroll::bindings {

namespace py = pybind11;

/// The UTF-8 of a str, each lone surrogate as U+FFFD; so code points correspond one to one.
/// No copy unless there is a surrogate. Valid while the str and this live; made with the GIL held.
class Utf8 {
 public:
  explicit Utf8(const py::str& text) {
    py::ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (bytes != nullptr) {
      view_ = {bytes, static_cast<std::size_t>(size)};
      return;
    }
    if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw py::error_already_set();
    PyErr_Clear();
    const auto passed = py::reinterpret_steal<py::object>(
        PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
    if (!passed) throw py::error_already_set();
    owned_ = static_cast<std::string>(py::reinterpret_borrow<py::bytes>(passed));
    for (std::size_t i = 0; i + 2 < owned_.size();
         ++i) {  // ED A0 80 to ED BF BF are the surrogates
      if (owned_[i] == '\xED' && static_cast<unsigned char>(owned_[i + 1]) >= 0xA0) {
        owned_.replace(i, 3, "\xEF\xBF\xBD");
      }
    }
    view_ = owned_;
  }
  Utf8(const Utf8&) = delete;
  Utf8& operator=(const Utf8&) = delete;

  std::string_view view() const { return view_; }

 private:
  std::string owned_;
  std::string_view view_;
};

}  // namespace toolroll::bindings
