/// `with_changes` of every index: it copies natively, without the interpreter.
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "arrays.hpp"
#include "text.hpp"
#include "toolroll/bm25.hpp"
#include "toolroll/intents.hpp"
#include "toolroll/row_changes.hpp"
#include "toolroll/spelling.hpp"
#include "toolroll/tool_keys.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll::bindings {
namespace {

template <typename T>
using Class = py::class_<T, std::shared_ptr<T>>;

/// A class that another file has bound.
template <typename C>
C known(py::module_& m, const char* name) {
  return py::reinterpret_borrow<C>(m.attr(name));
}

std::span<const float> rows_of(const Column<float>& vectors) {
  if (vectors.ndim() != 2) throw std::invalid_argument("vectors: must have 2 dimensions");
  return {vectors.data(), static_cast<std::size_t>(vectors.size())};
}

std::shared_ptr<Bm25Index> changed_postings(const Bm25Index& index, const RowChanges& changes,
                                            const py::sequence& fields,
                                            const std::vector<double>& weights) {
  if (fields.size() != weights.size()) {
    throw std::invalid_argument("weights: are " + std::to_string(weights.size()) + ", must be " +
                                std::to_string(fields.size()) + ", one a field");
  }
  std::vector<Texts> texts;
  texts.reserve(fields.size());
  for (const py::handle field : fields)
    texts.emplace_back(py::reinterpret_borrow<py::sequence>(field));
  std::vector<Field> columns;
  for (std::size_t f = 0; f < texts.size(); ++f) columns.push_back({texts[f].views, weights[f]});
  const py::gil_scoped_release unlocked;
  return std::make_shared<Bm25Index>(index.with_changes(changes, columns));
}

std::shared_ptr<VectorIndex> changed_vectors(const VectorIndex& index, const RowChanges& changes,
                                             const Column<float>& added) {
  const std::vector<float> rows = snapshot(rows_of(added));
  const py::gil_scoped_release unlocked;
  return std::make_shared<VectorIndex>(index.with_changes(changes, rows));
}

std::shared_ptr<Intents> changed_intents(const Intents& intents, const RowChanges& changes,
                                         const Column<std::int64_t>& begins,
                                         const Column<float>& vectors,
                                         const Column<float>& weights) {
  const std::vector<std::int64_t> first = snapshot(view(begins));
  const std::vector<float> rows = snapshot(rows_of(vectors));
  const std::vector<float> weight = snapshot(view(weights));
  const py::gil_scoped_release unlocked;
  return std::make_shared<Intents>(intents.with_changes(changes, first, rows, weight));
}

Speller changed_speller(const Speller& speller, const py::sequence& removed,
                        const Column<float>& removed_weights, const py::sequence& added,
                        const Column<float>& added_weights) {
  const Texts less(removed);
  const Texts more(added);
  const std::vector<float> less_weights = snapshot(view(removed_weights));
  const std::vector<float> more_weights = snapshot(view(added_weights));
  const py::gil_scoped_release unlocked;
  return speller.with_catalog(std::make_shared<Lexicon>(
      speller.catalog()->with_changes(less.views, less_weights, more.views, more_weights)));
}

std::shared_ptr<ToolKeys> changed_keys(const ToolKeys& keys, const RowChanges& changes,
                                       const Column<std::uint64_t>& arm,
                                       const Column<std::uint64_t>& intent,
                                       const Column<std::uint64_t>& group) {
  std::vector<std::uint64_t> arms = snapshot(view(arm));
  std::vector<std::uint64_t> intents = snapshot(view(intent));
  std::vector<std::uint64_t> groups = snapshot(view(group));
  const py::gil_scoped_release unlocked;
  return std::make_shared<ToolKeys>(
      keys.with_changes(changes, std::move(arms), std::move(intents), std::move(groups)));
}

}  // namespace

void bind_row_changes(py::module_& m) {
  Class<RowChanges>(m, "RowChanges")
      .def(py::init([](std::size_t before, const Column<std::int32_t>& sources) {
             return std::make_shared<RowChanges>(before, view(sources));
           }),
           py::arg("before"), py::arg("sources").noconvert());
  known<Class<Bm25Index>>(m, "Bm25Index")
      .def("with_changes", &changed_postings, py::arg("changes"), py::arg("fields"),
           py::arg("weights"));
  known<Class<VectorIndex>>(m, "VectorIndex")
      .def("with_changes", &changed_vectors, py::arg("changes"), py::arg("added").noconvert());
  known<Class<Intents>>(m, "Intents")
      .def("with_changes", &changed_intents, py::arg("changes"), py::arg("begins").noconvert(),
           py::arg("vectors").noconvert(), py::arg("weights").noconvert());
  known<py::class_<Speller>>(m, "Speller")
      .def("with_changes", &changed_speller, py::arg("removed"),
           py::arg("removed_weights").noconvert(), py::arg("added"),
           py::arg("added_weights").noconvert());
  known<Class<ToolKeys>>(m, "ToolKeys")
      .def("with_changes", &changed_keys, py::arg("changes"), py::arg("arm").noconvert(),
           py::arg("intent").noconvert(), py::arg("group").noconvert());
}

}  // namespace toolroll::bindings
