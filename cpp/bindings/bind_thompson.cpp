#include <algorithm>

#include "arrays.hpp"
#include "toolroll/thompson.hpp"

namespace toolroll::bindings {
namespace {

template <typename T>
std::span<T> writable(Column<T>& column) {
  return {column.mutable_data(), static_cast<std::size_t>(column.size())};
}

}  // namespace

void bind_thompson(py::module_& m) {
  m.def(
      "thompson_sample",
      [](const Column<std::uint64_t>& key, const Column<double>& alpha, const Column<double>& beta,
         std::uint64_t seed) {
        const Arms arms{view(key), view(alpha), view(beta)};
        Column<double> out(key.size());
        const std::span<double> samples = writable(out);
        {
          const py::gil_scoped_release unlocked;
          thompson_sample(arms, seed, samples);
        }
        return out;
      },
      py::arg("key").noconvert(), py::arg("alpha").noconvert(), py::arg("beta").noconvert(),
      py::arg("seed"));
  m.def(
      "log_gamma_sample",
      [](const Column<std::uint64_t>& key, const Column<double>& shape, std::uint64_t seed) {
        const auto keys = view(key);
        const auto shapes = view(shape);
        Column<double> out(key.size());
        const std::span<double> samples = writable(out);
        {
          const py::gil_scoped_release unlocked;
          log_gamma_sample(keys, shapes, seed, samples);
        }
        return out;
      },
      py::arg("key").noconvert(), py::arg("shape").noconvert(), py::arg("seed"));
  m.def(
      "thompson_rerank",
      [](const Column<std::uint64_t>& key, const Column<double>& alpha, const Column<double>& beta,
         std::uint64_t seed, const Column<std::int32_t>& rows, const Column<float>& scores,
         double weight, std::int64_t k) {
        const Arms arms{view(key), view(alpha), view(beta)};
        const Retrieved candidates{view(rows), view(scores)};
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
      py::arg("key").noconvert(), py::arg("alpha").noconvert(), py::arg("beta").noconvert(),
      py::arg("seed"), py::arg("rows").noconvert(), py::arg("scores").noconvert(),
      py::arg("weight"), py::arg("k"));
}

}  // namespace toolroll::bindings
