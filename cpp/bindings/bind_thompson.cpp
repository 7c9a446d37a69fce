#include <algorithm>

#include "arrays.hpp"
#include "toolroll/thompson.hpp"

namespace toolroll::bindings {
namespace {

// The column as a span. A py::array argument: pybind11's array_t asks numpy to convert even where
// nothing may be converted, 100 ns a column, as much as eight draws.
template <typename T>
std::span<const T> column_of(const char* name, const py::array& array) {
  using Api = py::detail::npy_api;
  const py::dtype type = array.dtype();
  const bool is_native = type.byteorder() == '=' || type.byteorder() == '|';
  const bool is_type = (type.num() == py::detail::npy_format_descriptor<T>::value && is_native) ||
                       py::isinstance<Column<T>>(array);
  constexpr int kFlags = Api::NPY_ARRAY_C_CONTIGUOUS_ | Api::NPY_ARRAY_ALIGNED_;
  if (!is_type || (array.flags() & kFlags) != kFlags) {
    throw py::type_error(std::string(name) + ": must be a contiguous array of " +
                         std::string(py::str(py::dtype::of<T>())) + ", is of " +
                         std::string(py::str(type)));
  }
  if (array.ndim() != 1) {
    throw std::invalid_argument(std::string(name) + ": has " + std::to_string(array.ndim()) +
                                " dimensions, must have 1");
  }
  return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

template <typename T>
std::span<T> writable(Column<T>& column) {
  return {column.mutable_data(), static_cast<std::size_t>(column.size())};
}

Arms arms_of(const py::array& key, const py::array& alpha, const py::array& beta) {
  return {column_of<std::uint64_t>("key", key), column_of<double>("alpha", alpha),
          column_of<double>("beta", beta)};
}

}  // namespace

void bind_thompson(py::module_& m) {
  m.def(
      "thompson_sample",
      [](const py::array& key, const py::array& alpha, const py::array& beta, std::uint64_t seed) {
        const Arms arms = arms_of(key, alpha, beta);
        Column<double> out(key.size());
        const std::span<double> samples = writable(out);
        {
          const py::gil_scoped_release unlocked;
          thompson_sample(arms, seed, samples);
        }
        return out;
      },
      py::arg("key"), py::arg("alpha"), py::arg("beta"), py::arg("seed"));
  m.def(
      "log_gamma_sample",
      [](const py::array& key, const py::array& shape, std::uint64_t seed) {
        const auto keys = column_of<std::uint64_t>("key", key);
        const auto shapes = column_of<double>("shape", shape);
        Column<double> out(key.size());
        const std::span<double> samples = writable(out);
        {
          const py::gil_scoped_release unlocked;
          log_gamma_sample(keys, shapes, seed, samples);
        }
        return out;
      },
      py::arg("key"), py::arg("shape"), py::arg("seed"));
  m.def(
      "thompson_rerank",
      [](const py::array& key, const py::array& alpha, const py::array& beta, std::uint64_t seed,
         const py::array& rows, const py::array& scores, double weight, std::int64_t k) {
        const Arms arms = arms_of(key, alpha, beta);
        const Retrieved candidates{column_of<std::int32_t>("rows", rows),
                                   column_of<float>("scores", scores)};
        const auto size = static_cast<py::ssize_t>(
            std::clamp<std::int64_t>(k, 0, static_cast<std::int64_t>(rows.size())));
        Column<std::int32_t> best_rows(size);
        Column<float> best_scores(size);
        Column<double> draws(size);
        const Reranked best{writable(best_rows), writable(best_scores), writable(draws)};
        {
          const py::gil_scoped_release unlocked;
          thompson_rerank(arms, seed, candidates, weight, best);
        }
        return py::make_tuple(std::move(best_rows), std::move(best_scores), std::move(draws));
      },
      py::arg("key"), py::arg("alpha"), py::arg("beta"), py::arg("seed"), py::arg("rows"),
      py::arg("scores"), py::arg("weight"), py::arg("k"));
}

}  // namespace toolroll::bindings
