#include <pybind11/stl.h>

#include "text.hpp"
#include "toolroll/unicode.hpp"

namespace toolroll::bindings {
namespace {

char32_t code_point(std::uint32_t number) {
  if (number > unicode::kLast) throw std::invalid_argument("code point: must be at most 0x10FFFF");
  return static_cast<char32_t>(number);
}

template <typename Answer>
auto of_code_point(Answer (*function)(char32_t)) {
  return [function](std::uint32_t number) {
    return static_cast<std::conditional_t<std::is_same_v<Answer, bool>, bool, std::uint32_t>>(
        function(code_point(number)));
  };
}

}  // namespace

void bind_unicode(py::module_& m) {
  m.def("is_word", of_code_point(is_word), py::arg("code_point"));
  m.def("is_hangul", of_code_point(is_hangul), py::arg("code_point"));
  m.def("is_cjk", of_code_point(is_cjk), py::arg("code_point"));
  m.def("is_space", of_code_point(is_space), py::arg("code_point"));
  m.def("is_punctuation", of_code_point(is_punctuation), py::arg("code_point"));
  m.def("is_control", of_code_point(is_control), py::arg("code_point"));
  m.def("is_mark", of_code_point(is_mark), py::arg("code_point"));
  m.def("strip_accent", of_code_point(strip_accent), py::arg("code_point"));
  m.def("lower", of_code_point(lower), py::arg("code_point"));
  m.def(
      "decompose",
      [](std::uint32_t number) {
        char32_t parts[4];
        const std::size_t size = decompose(code_point(number), parts);
        return std::vector<std::uint32_t>(parts, parts + size);
      },
      py::arg("code_point"));
  m.def(
      "latin_share", [](const py::str& text) { return latin_share(Utf8(text).view()); },
      py::arg("text"));
  m.def(
      "decode",
      [](const py::bytes& text) {
        const std::u32string decoded = decode(static_cast<std::string_view>(text));
        return py::str(encode(decoded));
      },
      py::arg("text"));

  py::class_<Folded>(m, "Folded")
      .def_property_readonly("text", [](const Folded& folded) { return py::bytes(folded.text); })
      .def_property_readonly("edits", [](const Folded& folded) { return folded.edits.size(); })
      .def(
          "source",
          [](const Folded& folded, std::size_t byte) {
            if (byte > folded.text.size()) throw std::invalid_argument("byte: beyond the text");
            return folded.source(byte);
          },
          py::arg("byte"))
      .def(
          "source_end",
          [](const Folded& folded, std::size_t byte) {
            if (byte > folded.text.size()) throw std::invalid_argument("byte: beyond the text");
            return folded.source_end(byte);
          },
          py::arg("byte"));
  m.def(
      "fold",
      [](const py::str& text) {
        const Utf8 utf8(text);
        Folded folded;
        {
          const py::gil_scoped_release unlocked;
          folded = fold(utf8.view());
        }
        return py::str(folded.text);
      },
      py::arg("text"));
  m.def(
      "fold_bytes",
      [](const py::bytes& text) {
        const auto view = static_cast<std::string_view>(text);
        const py::gil_scoped_release unlocked;
        return fold(view);
      },
      py::arg("text"));
}

}  // namespace toolroll::bindings
