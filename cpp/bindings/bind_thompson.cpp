#include <algorithm>

#include "arrays.hpp"
#include "toolroll/thompson.hpp"

namespace toolroll::bindings {
namespace {

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
