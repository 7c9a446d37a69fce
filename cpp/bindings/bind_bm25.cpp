#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "text.hpp"
#include "toolroll/bm25.hpp"

namespace toolroll::bindings {
namespace {

Bm25Index build(const py::sequence& fields, const std::vector<double>& weights, double k1, double b,
                const std::string& analysis, std::shared_ptr<Bm25Index> background) {
  if (fields.size() != weights.size()) {
    throw std::invalid_argument("weights: are " + std::to_string(weights.size()) + ", must be " +
                                std::to_string(fields.size()) + ", one a field");
  }
  const Bm25Options options{k1, b, analysis_of(analysis)};
  std::vector<Texts> texts;
  texts.reserve(fields.size());
  for (const py::handle field : fields)
    texts.emplace_back(py::reinterpret_borrow<py::sequence>(field));
  std::vector<Field> columns;
  for (std::size_t f = 0; f < texts.size(); ++f) columns.push_back({texts[f].views, weights[f]});
  const py::gil_scoped_release unlocked;
  return Bm25Index::build(columns, options, std::move(background));
}

/// The row filter, or nullptr for None. (A `const Bitset*` argument looks for a conversion of None:
/// 0.7 µs.)
const Bitset* row_filter(const py::object& allowed) {
  if (allowed.is_none()) return nullptr;
  if (!py::isinstance<Bitset>(allowed)) throw py::type_error("allowed: must be a Bitset or None");
  return allowed.cast<const Bitset*>();
}

py::tuple search(const Bm25Index& index, const py::str& text, std::int64_t k,
                 const py::object& filter) {
  const Bitset* const allowed = row_filter(filter);
  const Utf8 message(text);
  Hits best;
  {
    const GilReleasedIf unlocked(index.expected_ns(message.view().size()) > kWorthReleasingNs);
    best = index.search(message.view(), static_cast<std::size_t>(std::max<std::int64_t>(k, 0)),
                        allowed);
  }
  return py::make_tuple(copied(best.rows), copied(best.scores));
}

}  // namespace

void bind_bm25(py::module_& m) {
  const Bm25Options usual;
  py::class_<Bm25Index, std::shared_ptr<Bm25Index>>(m, "Bm25Index")
      .def_static("build", &build, py::arg("fields"), py::arg("weights"), py::arg("k1") = usual.k1,
                  py::arg("b") = usual.b, py::arg("analysis") = "default",
                  py::arg("background") = py::none())
      .def("search", &search, py::arg("text"), py::arg("k"), py::arg("allowed") = py::none())
      .def(
          "scores",
          [](const Bm25Index& index, const py::str& text, const Column<std::int32_t>& rows) {
            const Utf8 message(text);
            const auto wanted = snapshot(view(rows));
            Column<float> out(rows.size());
            const std::span<float> scores = writable(out);
            {
              const GilReleasedIf unlocked(index.expected_ns(message.view().size()) >
                                           kWorthReleasingNs);
              index.scores(message.view(), wanted, scores);
            }
            return out;
          },
          py::arg("text"), py::arg("rows").noconvert())
      .def(
          "terms",
          [](const Bm25Index& index, const py::str& text) {
            Terms terms;
            terms.read(Utf8(text).view(), index.options().analysis);
            py::list list(terms.size());
            for (std::size_t i = 0; i < terms.size(); ++i) {
              list[i] = py::str(terms[i].data(), terms[i].size());
            }
            return list;
          },
          py::arg("text"))
      .def_property_readonly("size", &Bm25Index::size)
      .def_property_readonly("memory_bytes", &Bm25Index::memory_bytes)
      .def(
          "save",
          [](const Bm25Index& index, const std::string& path) {
            const py::gil_scoped_release unlocked;
            index.save(path);
          },
          py::arg("path"))
      .def_static(
          "load",
          [](const std::string& path) {
            const py::gil_scoped_release unlocked;
            return Bm25Index::load(path);
          },
          py::arg("path"));
}

}  // namespace toolroll::bindings
