#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "arrays.hpp"
#include "gil.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll::bindings {
namespace {

/// The numbers of one vector from Python, copied. A float32 array is copied as it is; a list of
/// floats is read number by number (0.5 us for 384, where a casting array argument takes 9);
/// anything else that numpy can turn into float32[dim] is converted first.
class VectorArgument {
 public:
  explicit VectorArgument(py::handle from) {
    if (PyList_CheckExact(from.ptr())) {
      read_list(from.ptr());
      return;
    }
    numbers_ =
        snapshot(view(Column<float>::check_(from) ? py::reinterpret_borrow<Column<float>>(from)
                                                  : converted(from)));
  }
  VectorArgument(const VectorArgument&) = delete;
  VectorArgument& operator=(const VectorArgument&) = delete;

  std::span<const float> span() const { return numbers_; }

 private:
  void read_list(PyObject* list) {
    // A number may be any object with __float__, which may change the list: its size is read
    // again each time.
    numbers_.reserve(static_cast<std::size_t>(PyList_GET_SIZE(list)));
    for (py::ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      PyObject* const item = PyList_GET_ITEM(list, i);
      double number = 0;
      if (PyFloat_CheckExact(item)) {
        number = PyFloat_AS_DOUBLE(item);
      } else {
        const auto held = py::reinterpret_borrow<py::object>(item);
        number = PyFloat_AsDouble(held.ptr());
        if (number == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
      }
      numbers_.push_back(static_cast<float>(number));
    }
  }

  static Column<float> converted(py::handle from) {
    auto array = py::array_t<float, py::array::c_style | py::array::forcecast>::ensure(from);
    if (!array) throw std::invalid_argument("query: must be float32[dim] or a list of floats");
    return py::reinterpret_borrow<Column<float>>(array);
  }

  std::vector<float> numbers_;
};

Method method_of(std::string_view name) {
  if (name == "auto") return Method::kAuto;
  if (name == "exact") return Method::kExact;
  if (name == "graph") return Method::kGraph;
  throw std::invalid_argument("method: is '" + std::string(name) +
                              "', must be 'auto', 'exact' or 'graph'");
}

std::size_t at_least_zero(std::int64_t number, const char* name) {
  if (number < 0) {
    throw std::invalid_argument(std::string(name) + ": is " + std::to_string(number) +
                                ", must not be negative");
  }
  return static_cast<std::size_t>(number);
}

VectorIndex build(const Column<float>& vectors, bool graph, std::int64_t m,
                  std::int64_t ef_construction) {
  if (vectors.ndim() != 2) {
    throw std::invalid_argument("vectors: have " + std::to_string(vectors.ndim()) +
                                " dimensions, must be float32[n, dim]");
  }
  const GraphOptions options{graph, at_least_zero(m, "m"),
                             at_least_zero(ef_construction, "ef_construction")};
  const std::span<const float> values(vectors.data(), static_cast<std::size_t>(vectors.size()));
  const py::gil_scoped_release unlocked;
  return VectorIndex::build(values, static_cast<std::size_t>(vectors.shape(1)), options);
}

py::tuple search(const VectorIndex& index, py::handle query, std::int64_t k, const Bitset* allowed,
                 std::string_view method, std::int64_t ef) {
  const VectorArgument argument(query);
  const Method chosen = method_of(method);
  const std::size_t kept = at_least_zero(ef, "ef");
  const std::size_t wanted = k < 0 ? 0 : static_cast<std::size_t>(k);
  const double expected_ns =
      index.expected_ns(wanted, allowed == nullptr ? index.size() : allowed->count());
  Hits hits;
  {
    const GilReleasedIf unlocked(expected_ns > kWorthReleasingNs);
    hits = index.search(argument.span(), wanted, allowed, chosen, kept);
  }
  return py::make_tuple(copied(hits.rows), copied(hits.scores));
}

}  // namespace

void bind_vector_index(py::module_& m) {
  const GraphOptions usual;
  py::class_<GraphBuild>(m, "GraphBuild")
      .def(py::init([](std::shared_ptr<VectorIndex> index, std::int64_t m_links,
                       std::int64_t ef_construction) {
             const GraphOptions options{true, at_least_zero(m_links, "m"),
                                        at_least_zero(ef_construction, "ef_construction")};
             return std::make_unique<GraphBuild>(std::move(index), options);
           }),
           py::arg("index"), py::arg("m") = usual.m,
           py::arg("ef_construction") = usual.ef_construction)
      .def("stop", &GraphBuild::stop)
      .def_property_readonly("is_running", &GraphBuild::is_running)
      .def_property_readonly("done", &GraphBuild::done);
  py::class_<VectorIndex, std::shared_ptr<VectorIndex>>(m, "VectorIndex")
      .def_static("build", &build, py::arg("vectors").noconvert(), py::arg("hnsw") = false,
                  py::arg("m") = usual.m, py::arg("ef_construction") = usual.ef_construction)
      .def("search", &search, py::arg("query"), py::arg("k"),
           py::arg("allowed").none(true) = static_cast<const Bitset*>(nullptr),
           py::arg("method") = "auto", py::arg("ef") = 0)
      .def(
          "scores",
          [](const VectorIndex& index, py::handle query, const Column<std::int32_t>& rows) {
            const VectorArgument argument(query);
            const auto wanted = snapshot(view(rows));
            std::vector<float> out;
            {
              const GilReleasedIf unlocked(index.expected_scores_ns(wanted.size()) >
                                           kWorthReleasingNs);
              out = index.scores(argument.span(), wanted);
            }
            return column(std::move(out));
          },
          py::arg("query"), py::arg("rows").noconvert())
      .def(
          "vector",
          [](const VectorIndex& index, std::int64_t row) {
            const auto values = index.vector(at_least_zero(row, "row"));
            return copied(std::vector<float>(values.begin(), values.end()));
          },
          py::arg("row"))
      .def_property_readonly("size", &VectorIndex::size)
      .def_property_readonly("dim", &VectorIndex::dim)
      .def_property_readonly("has_graph", &VectorIndex::has_graph)
      .def("save", &VectorIndex::save, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def_static("load", &VectorIndex::load, py::arg("path"),
                  py::call_guard<py::gil_scoped_release>());
}

}  // namespace toolroll::bindings
