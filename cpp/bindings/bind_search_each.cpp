/// Many searches in one call: hundreds are made to measure damping and calibration.
#include <pybind11/stl.h>

#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "parts.hpp"
#include "text.hpp"
#include "toolroll/fusion.hpp"

namespace toolroll::bindings {
namespace {

/// One search, copied from Python.
struct Search {
  explicit Search(const py::handle item) {
    auto [text, numbers, trust_, clauses, in_play] =
        py::cast<std::tuple<py::str, std::optional<Column<float>>, float, py::tuple, py::object>>(
            item);
    message = std::string(Utf8(text).view());
    if (numbers) vector = snapshot(view(*numbers));
    trust = trust_;
    pieces = std::make_unique<Parts>(clauses);
    rows = std::make_unique<Bitset>(in_play.cast<const Bitset&>());
  }

  std::string message;
  std::vector<float> vector;
  float trust = 1;
  std::unique_ptr<Parts> pieces;
  std::unique_ptr<Bitset> rows;
};

py::list search_each(const Retriever& retriever, const py::sequence& list, std::size_t k,
                     const Fusion& fusion) {
  std::vector<Search> searches;
  searches.reserve(list.size());
  for (const py::handle item : list) searches.emplace_back(item);
  std::vector<Retrieved> found(searches.size());
  {
    const py::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      const Search& one = searches[i];
      const RetrievalQuery query{{one.message, one.vector, one.trust},
                                 one.pieces->get(),
                                 {},
                                 *one.rows,
                                 {},
                                 {},
                                 k,
                                 {nullptr, nullptr, 0}};
      found[i] = retriever.search(query, fusion);
    }
  }
  py::list out(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    out[i] = py::make_tuple(copied(found[i].rows), copied(found[i].scores), found[i].evidence);
  }
  return out;
}

}  // namespace

void bind_search_each(py::module_& m) {
  py::reinterpret_borrow<py::class_<Retriever, std::shared_ptr<Retriever>>>(m.attr("Retriever"))
      .def("search_each", &search_each, py::arg("searches"), py::arg("k"), py::arg("fusion"));
}

}  // namespace toolroll::bindings
