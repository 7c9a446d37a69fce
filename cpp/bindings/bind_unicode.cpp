#include "text.hpp"
#include "toolroll/unicode.hpp"

namespace toolroll::bindings {
void bind_unicode(py::module_& m) {
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
      "fold", [](const py::str& text) { return py::str(fold(Utf8(text).view()).text); },
      py::arg("text"));
  m.def(
      "fold_bytes", [](const py::bytes& text) { return fold(static_cast<std::string_view>(text)); },
      py::arg("text"));
}

}  // namespace toolroll::bindings
