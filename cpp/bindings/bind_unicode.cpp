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

  m.def(
      "fold", [](const py::str& text) { return py::str(fold(Utf8(text).view()).text); },
      py::arg("text"));
}

}  // namespace toolroll::bindings
