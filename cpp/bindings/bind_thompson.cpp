#include "arrays.hpp"
#include "gil.hpp"
#include "toolroll/thompson.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kDrawNs = 50;  // one arm

Column<double> sample(const py::array& key, const py::array& alpha, const py::array& beta,
                      std::uint64_t seed) {
  const Arms arms{column_of<std::uint64_t>("key", key), column_of<double>("alpha", alpha),
                  column_of<double>("beta", beta)};
  Column<double> out(key.size());
  const std::span<double> samples = writable(out);
  if (kDrawNs * static_cast<double>(samples.size()) <= kWorthReleasingNs) {
    thompson_sample(arms, seed, samples);
    return out;
  }
  const auto keys = snapshot(arms.key);
  const auto alphas = snapshot(arms.alpha);
  const auto betas = snapshot(arms.beta);
  const py::gil_scoped_release unlocked;
  thompson_sample({keys, alphas, betas}, seed, samples);
  return out;
}

}  // namespace

void bind_thompson(py::module_& m) {
  m.def("thompson_sample", &sample, py::arg("key"), py::arg("alpha"), py::arg("beta"),
        py::arg("seed"));
}

}  // namespace toolroll::bindings
