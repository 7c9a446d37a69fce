#include "gil.hpp"
#include "text.hpp"
#include "toolroll/automaton.hpp"
#include "toolroll/marks.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kMarksNsPerByte = 4;
constexpr double kServicesNsPerByte = 4;

py::str name_of(const Mark& mark, std::string_view text) {
  return py::str(mark.kind == MarkKind::kEnding ? text.substr(mark.start, mark.end - mark.start)
                                                : kMarkNames[static_cast<std::size_t>(mark.kind)]);
}

/// The marks of a text and the numbers of the names in it, as one tuple: a key for what is known
/// of them.
py::tuple find_meanings(const py::str& text, const Automaton& names) {
  const Utf8 utf8(text);
  const std::string_view view = utf8.view();
  std::vector<Mark> marks;
  std::vector<std::int32_t> found;
  {
    const double ns = (kMarksNsPerByte + kServicesNsPerByte) * static_cast<double>(view.size());
    const GilReleasedIf unlocked(ns > kWorthReleasingNs);
    marks = find_marks(view);
    found = names.find(view);
  }
  py::tuple meanings(marks.size() + found.size());
  std::size_t at = 0;
  for (const Mark& mark : marks) meanings[at++] = name_of(mark, view);
  for (const std::int32_t name : found) meanings[at++] = py::int_(name);
  return meanings;
}

}  // namespace

void bind_marks(py::module_& m) {
  m.def("find_meanings", &find_meanings, py::arg("text"), py::arg("names"));
}

}  // namespace toolroll::bindings
