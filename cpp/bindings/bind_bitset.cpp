#include <pybind11/operators.h>

#include <algorithm>

#include "arrays.hpp"
#include "toolroll/bitset.hpp"

namespace toolroll::bindings {

void bind_bitset(py::module_& m) {
  py::class_<Bitset>(m, "Bitset")
      .def_static(
          "empty", [](std::size_t size) { return Bitset(size); }, py::arg("size"))
      .def_static("full", &Bitset::full, py::arg("size"))
      .def_static(
          "of",
          [](std::size_t size, const Column<std::int32_t>& rows) {
            return Bitset::of(size, view(rows));
          },
          py::arg("size"), py::arg("rows").noconvert())
      .def_static("join", &Bitset::join, py::arg("head"), py::arg("tail"))
      .def("slice", &Bitset::slice, py::arg("begin"), py::arg("end"))
      .def_property_readonly("size", &Bitset::size)
      .def("__len__", &Bitset::count)
      .def("__bool__", [](const Bitset& set) { return set.count() != 0; })
      .def("__contains__",
           [](const Bitset& set, std::int64_t row) {
             return row >= 0 && static_cast<std::size_t>(row) < set.size() &&
                    set.contains(static_cast<std::size_t>(row));
           })
      .def("rows",
           [](const Bitset& set) {
             std::vector<std::int32_t> rows;
             rows.reserve(set.count());
             set.each([&](std::int32_t row) { rows.push_back(row); });
             return column(std::move(rows));
           })
      .def(
          "holds",
          [](const Bitset& set, const Column<std::int32_t>& rows) {
            const auto wanted = view(rows);
            Column<bool> out(rows.size());
            bool* const held = out.mutable_data();
            for (std::size_t i = 0; i < wanted.size(); ++i) {
              const auto row = static_cast<std::size_t>(wanted[i]);
              held[i] = wanted[i] >= 0 && row < set.size() && set.contains(row);
            }
            return out;
          },
          py::arg("rows").noconvert())
      .def(
          "holds_all",
          [](const Bitset& set, const Column<std::int32_t>& rows) {
            const auto wanted = view(rows);
            return std::all_of(wanted.begin(), wanted.end(), [&](std::int32_t row) {
              return row >= 0 && static_cast<std::size_t>(row) < set.size() &&
                     set.contains(static_cast<std::size_t>(row));
            });
          },
          py::arg("rows").noconvert())
      .def(py::self & py::self)
      .def(py::self | py::self)
      .def(py::self - py::self)
      .def(py::self == py::self);
}

}  // namespace toolroll::bindings
