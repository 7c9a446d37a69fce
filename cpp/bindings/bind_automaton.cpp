#include <pybind11/stl.h>

#include "gil.hpp"
#include "text.hpp"
#include "toolroll/automaton.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kFindNsPerByte = 10;  // folded, then one step through the automaton

bool is_long(std::string_view text) {
  return kFindNsPerByte * static_cast<double>(text.size()) > kWorthReleasingNs;
}

MatchMode mode_of(std::string_view name, std::size_t i) {
  if (name == "substring") return MatchMode::kSubstring;
  if (name == "word") return MatchMode::kWord;
  if (name == "prefix") return MatchMode::kPrefix;
  throw std::invalid_argument("mode " + std::to_string(i) + ": is '" + std::string(name) +
                              "', must be substring, word or prefix");
}

Automaton build(const std::vector<py::str>& patterns, const std::vector<py::str>& modes) {
  std::vector<std::string> texts;
  texts.reserve(patterns.size());
  for (const py::str& pattern : patterns) texts.emplace_back(Utf8(pattern).view());
  std::vector<MatchMode> modes_of;
  modes_of.reserve(modes.size());
  for (const py::str& mode : modes) modes_of.push_back(mode_of(Utf8(mode).view(), modes_of.size()));
  const py::gil_scoped_release unlocked;
  return Automaton(texts, modes_of);
}

py::list find(const Automaton& automaton, const py::str& text) {
  const Utf8 utf8(text);
  std::vector<std::int32_t> found;
  {
    const GilReleasedIf unlocked(is_long(utf8.view()));
    found = automaton.find(utf8.view());
  }
  py::list out(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    PyObject* const number = PyLong_FromLong(found[i]);
    if (number == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(out.ptr(), static_cast<py::ssize_t>(i), number);
  }
  return out;
}

std::vector<std::tuple<std::int32_t, std::size_t, std::size_t>> matches(const Automaton& automaton,
                                                                        const py::str& text) {
  const Utf8 utf8(text);
  const GilReleasedIf unlocked(is_long(utf8.view()));
  const CodePoints code_points(utf8.view());
  std::vector<std::tuple<std::int32_t, std::size_t, std::size_t>> out;
  for (const Match& match : automaton.matches(utf8.view())) {
    out.emplace_back(match.pattern, code_points.before(match.start), code_points.before(match.end));
  }
  return out;
}

}  // namespace

void bind_automaton(py::module_& m) {
  py::class_<Automaton>(m, "Automaton")
      .def(py::init(&build), py::arg("patterns"), py::arg("modes"))
      .def("find", &find, py::arg("text"))
      .def("matches", &matches, py::arg("text"))
      .def_property_readonly("size", &Automaton::size)
      .def_property_readonly("memory_bytes", &Automaton::memory_bytes)
      .def("save", &Automaton::save, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def_static("load", &Automaton::load, py::arg("path"),
                  py::call_guard<py::gil_scoped_release>());
}

}  // namespace toolroll::bindings
