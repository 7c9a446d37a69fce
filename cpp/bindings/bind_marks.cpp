#include "gil.hpp"
#include "text.hpp"
#include "toolroll/marks.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kMarksNsPerByte = 4;

}  // namespace

void bind_marks(py::module_& m) {
  m.def(
      "find_marks",
      [](const py::str& text) {
        const Utf8 utf8(text);
        std::vector<Mark> marks;
        {
          const GilReleasedIf unlocked(kMarksNsPerByte * static_cast<double>(utf8.view().size()) >
                                       kWorthReleasingNs);
          marks = find_marks(utf8.view());
        }
        py::list out;
        for (const Mark& mark : marks) {
          const std::string_view name = mark.kind == MarkKind::kEnding
                                            ? utf8.view().substr(mark.start, mark.end - mark.start)
                                            : kMarkNames[static_cast<std::size_t>(mark.kind)];
          out.append(py::str(name));
        }
        return out;
      },
      py::arg("text"));
}

}  // namespace toolroll::bindings
