#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "arrays.hpp"
#include "text.hpp"
#include "toolroll/fusion.hpp"

namespace toolroll::bindings {

void bind_fusion(py::module_& m) {
  py::class_<Retriever>(m, "Retriever")
      .def(py::init([](std::size_t size, std::shared_ptr<VectorIndex> vectors,
                       std::shared_ptr<Bm25Index> postings) {
             return Retriever(size, std::move(vectors), std::move(postings));
           }),
           py::arg("size"), py::arg("vectors"), py::arg("postings"))
      .def_property_readonly("size", &Retriever::size)
      .def(
          "search",
          [](const Retriever& retriever, const py::str& text,
             const std::optional<Column<float>>& vector, const Bitset& in_play,
             const Column<std::int32_t>& known_rows, const Column<float>& known_scores,
             std::size_t k, float dense, float lexical, float threshold) {
            const Utf8 message(text);
            const std::span<const float> query = vector ? view(*vector) : std::span<const float>();
            const auto rows = view(known_rows);
            const auto scores = view(known_scores);
            const Fusion fusion{dense, lexical, threshold};
            Retrieved found;
            {
              const py::gil_scoped_release unlocked;
              found = retriever.search(message.view(), query, in_play, rows, scores, k, fusion);
            }
            return py::make_tuple(copied(found.rows), copied(found.scores), copied(found.dense),
                                  copied(found.lexical));
          },
          py::arg("text"), py::arg("vector").noconvert(), py::arg("in_play"),
          py::arg("known_rows").noconvert(), py::arg("known_scores").noconvert(), py::arg("k"),
          py::arg("dense"), py::arg("lexical"), py::arg("threshold") = 0.0F);
}

}  // namespace toolroll::bindings
