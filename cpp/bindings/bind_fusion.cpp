#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "parts.hpp"
#include "text.hpp"
#include "toolroll/fusion.hpp"

namespace toolroll::bindings {
namespace {

py::tuple search(const Retriever& retriever, const py::str& text,
                 const std::optional<Column<float>>& vector, float trust, const py::tuple& clauses,
                 const py::tuple& earlier, const Bitset& in_play,
                 const Column<std::int32_t>& known_rows, const Column<float>& known_scores,
                 std::size_t k, const Fusion& fusion, const Learned* learned, const ToolKeys* keys,
                 double now) {
  const Utf8 message(text);
  const auto numbers = vector ? snapshot(view(*vector)) : std::vector<float>();
  const Parts pieces(clauses);
  const Parts turns(earlier);
  const auto rows = snapshot(view(known_rows));
  const auto scores = snapshot(view(known_scores));
  const RetrievalQuery query{{message.view(), numbers, trust},
                             pieces.get(),
                             turns.get(),
                             in_play,
                             rows,
                             scores,
                             k,
                             {learned, keys, now}};
  const double expected_ns = retriever.expected_ns(query);
  Retrieved found;
  {
    const GilReleasedIf unlocked(expected_ns > kWorthReleasingNs);
    found = retriever.search(query, fusion);
  }
  return py::make_tuple(
      copied(found.rows), copied(found.scores),
      py::make_tuple(copied(found.dense), copied(found.intents), copied(found.lexical),
                     copied(found.clauses), copied(found.earlier)),
      found.evidence, copied(found.raw_best));
}

}  // namespace

void bind_fusion(py::module_& m) {
  py::class_<Intents, std::shared_ptr<Intents>>(m, "Intents")
      .def_static(
          "build",
          [](const Column<std::int64_t>& begins, const Column<float>& vectors,
             const Column<float>& weights) {
            if (vectors.ndim() != 2) throw std::invalid_argument("vectors: must have 2 dimensions");
            const std::span<const float> rows{vectors.data(),
                                              static_cast<std::size_t>(vectors.size())};
            return std::make_shared<Intents>(Intents::build(
                view(begins), rows, static_cast<std::size_t>(vectors.shape(1)), view(weights)));
          },
          py::arg("begins").noconvert(), py::arg("vectors").noconvert(),
          py::arg("weights").noconvert())
      .def(
          "nearest",
          [](const Intents& intents, const Column<float>& query, const Column<std::int32_t>& rows) {
            Column<float> out(rows.size());
            intents.nearest(snapshot(view(query)), snapshot(view(rows)), writable(out));
            return out;
          },
          py::arg("query").noconvert(), py::arg("rows").noconvert())
      .def_property_readonly("size", &Intents::size)
      .def_property_readonly("count", &Intents::count)
      .def_property_readonly("dim", &Intents::dim);

  py::class_<Fusion>(m, "Fusion")
      .def(py::init([](float dense, float dense_floor, float lexical, float lexical_saturation,
                       float intents, float intent_floor, float clauses, float threshold) {
             return Fusion{dense,   dense_floor,  lexical, lexical_saturation,
                           intents, intent_floor, clauses, threshold};
           }),
           py::kw_only(), py::arg("dense"), py::arg("dense_floor"), py::arg("lexical"),
           py::arg("lexical_saturation"), py::arg("intents"), py::arg("intent_floor"),
           py::arg("clauses"), py::arg("threshold"))
      .def_readonly("dense", &Fusion::dense)
      .def_readonly("dense_floor", &Fusion::dense_floor)
      .def_readonly("lexical", &Fusion::lexical)
      .def_readonly("lexical_saturation", &Fusion::lexical_saturation)
      .def_readonly("intents", &Fusion::intents)
      .def_readonly("intent_floor", &Fusion::intent_floor)
      .def_readonly("clauses", &Fusion::clauses)
      .def_readonly("threshold", &Fusion::threshold);

  py::class_<Retriever, std::shared_ptr<Retriever>>(m, "Retriever")
      .def(py::init([](std::size_t size, std::shared_ptr<VectorIndex> vectors,
                       std::shared_ptr<Bm25Index> postings, std::shared_ptr<Intents> intents,
                       const std::optional<Column<float>>& damping) {
             auto factors = damping ? snapshot(view(*damping)) : std::vector<float>();
             return Retriever(size, std::move(vectors), std::move(postings), std::move(intents),
                              std::move(factors));
           }),
           py::arg("size"), py::arg("vectors"), py::arg("postings"),
           py::arg("intents") = py::none(), py::arg("damping").noconvert() = py::none())
      .def_static(
          "stacked",
          [](std::shared_ptr<Retriever> shared, std::shared_ptr<Retriever> own) {
            return Retriever::stacked(std::move(shared), std::move(own));
          },
          py::arg("shared"), py::arg("own"))
      .def("search", &search, py::arg("text"), py::arg("vector").noconvert(), py::arg("trust"),
           py::arg("clauses"), py::arg("earlier"), py::arg("in_play"),
           py::arg("known_rows").noconvert(), py::arg("known_scores").noconvert(), py::arg("k"),
           py::arg("fusion"), py::arg("learned") = py::none(), py::arg("keys") = py::none(),
           py::arg("now") = 0.0)
      .def_property_readonly("size", &Retriever::size);
}

}  // namespace toolroll::bindings
