/// Python strs as UTF-8.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <vector>

namespace toolroll::bindings {

namespace py = pybind11;

/// What a lone surrogate becomes.
enum class Surrogate { kReplacement, kQuestionMark };

/// The UTF-8 of a str, each lone surrogate as U+FFFD or "?"; so code points correspond one to one.
/// Copies only a str with a surrogate. Valid while the str and this object live. Needs the GIL.
class Utf8 {
 public:
  explicit Utf8(const py::str& text, Surrogate surrogate = Surrogate::kReplacement) {
    py::ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (bytes != nullptr) {
      view_ = {bytes, static_cast<std::size_t>(size)};
      return;
    }
    if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw py::error_already_set();
    PyErr_Clear();
    const bool is_replaced = surrogate == Surrogate::kReplacement;
    const auto passed = py::reinterpret_steal<py::object>(
        PyUnicode_AsEncodedString(text.ptr(), "utf-8", is_replaced ? "surrogatepass" : "replace"));
    if (!passed) throw py::error_already_set();
    owned_ = static_cast<std::string>(py::reinterpret_borrow<py::bytes>(passed));
    for (std::size_t i = 0; is_replaced && i + 2 < owned_.size(); ++i) {
      // ED A0 80 to ED BF BF are the surrogates
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

/// The bytes of a list of str, copied: another thread may change the list while the GIL is
/// released.
struct Texts {
  explicit Texts(const py::sequence& list) {
    bytes.reserve(list.size());
    for (const py::handle item : list) {
      if (!py::isinstance<py::str>(item)) throw py::type_error("texts: must all be str");
      bytes.emplace_back(Utf8(py::reinterpret_borrow<py::str>(item)).view());
    }
    views.assign(bytes.begin(), bytes.end());
  }
  Texts(const Texts&) = delete;
  Texts(Texts&&) = default;  // a move keeps the addresses of the strings

  std::vector<std::string> bytes;
  std::vector<std::string_view> views;
};

/// Turns byte offsets of well-formed UTF-8 into code point offsets. O(n) to make, O(1) to ask.
class CodePoints {
 public:
  explicit CodePoints(std::string_view text) : text_(text) {
    std::size_t count = 0;
    counts_.reserve(text.size() / kBlock + 1);
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (at % kBlock == 0) counts_.push_back(count);
      count += begins(text[at]) ? 1 : 0;
    }
    if (text.size() % kBlock == 0) counts_.push_back(count);
  }

  /// The code points that begin before an offset, which is at most the size of the text.
  std::size_t before(std::size_t byte) const {
    std::size_t count = counts_[byte / kBlock];
    for (std::size_t at = byte / kBlock * kBlock; at < byte; ++at)
      count += begins(text_[at]) ? 1 : 0;
    return count;
  }

 private:
  static constexpr std::size_t kBlock = 64;
  static bool begins(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

  std::string_view text_;
  std::vector<std::size_t> counts_;  // code points before each block
};

}  // namespace toolroll::bindings
