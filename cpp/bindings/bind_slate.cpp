#include <pybind11/stl.h>

#include <array>
#include <string>

#include "arrays.hpp"
#include "toolroll/inclusion.hpp"
#include "toolroll/slate.hpp"

namespace toolroll::bindings {
namespace {

constexpr std::size_t kWorthUnlocking = 256;  // candidates; below, giving up the GIL costs more

Draw draw_of(const std::string& name) {
  if (name == "normal") return Draw::kNormal;
  if (name == "exact") return Draw::kExact;
  throw std::invalid_argument("draw: is '" + name + "', must be 'normal' or 'exact'");
}

/// A column of uint8 or bool.
std::span<const std::uint8_t> flags_of(const char* name, const py::array& array) {
  if (array.dtype().kind() == 'b' && array.ndim() == 1 &&
      (array.flags() & py::array::c_style) != 0) {
    return {static_cast<const std::uint8_t*>(array.data()), static_cast<std::size_t>(array.size())};
  }
  return column_of<std::uint8_t>(name, array);
}

py::tuple rank_of(const Learned& learned, const ToolKeys& keys, const py::array& rows,
                  const py::array& scores, const py::array& raw_best, const py::array& core,
                  const std::array<std::uint64_t, 3>& scopes, double now, std::uint64_t seed,
                  std::size_t k, double temperature, const Weights& weights) {
  const Candidates candidates{
      column_of<std::int32_t>("rows", rows), column_of<float>("scores", scores),
      column_of<std::int32_t>("raw_best", raw_best), flags_of("core", core)};
  Column<std::int32_t> order(rows.size());
  Column<float> score(rows.size());
  Column<float> mean(rows.size());
  Column<float> sd(rows.size());
  Column<float> show(rows.size());
  Column<std::uint8_t> fate(rows.size());
  const Ranked out{
      writable(order), writable(score),
      writable(mean),  writable(sd),
      writable(show),  {reinterpret_cast<Fate*>(fate.mutable_data()), candidates.rows.size()}};
  const Scopes where{scopes[0], scopes[1], scopes[2]};
  if (candidates.rows.size() < kWorthUnlocking) {
    rank(learned, keys, candidates, where, now, seed, k, temperature, weights, out);
  } else {
    const py::gil_scoped_release unlocked;
    rank(learned, keys, candidates, where, now, seed, k, temperature, weights, out);
  }
  return py::make_tuple(order, score, mean, sd, show, fate);
}

Odds odds_of(const py::array& mean, const py::array& sd, const py::array& show,
             const py::array& guarded, const py::array& group) {
  return {column_of<double>("mean", mean), column_of<double>("sd", sd),
          column_of<double>("show", show), flags_of("guarded", guarded),
          column_of<std::uint64_t>("group", group)};
}

}  // namespace

void bind_slate(py::module_& m) {
  const Weights usual;
  py::class_<Weights>(m, "Weights")
      .def(py::init([](double reliability, double lift, double temper, double sd_max,
                       double most_up, double most_down, std::uint64_t guard, double listing,
                       double explore, const std::string& draw) {
             const Weights weights{reliability, lift,  temper,  sd_max,  most_up,
                                   most_down,   guard, listing, explore, draw_of(draw)};
             check(weights);
             return weights;
           }),
           py::kw_only(), py::arg("reliability") = usual.reliability, py::arg("lift") = usual.lift,
           py::arg("temper") = usual.temper, py::arg("sd_max") = usual.sd_max,
           py::arg("most_up") = usual.most_up, py::arg("most_down") = usual.most_down,
           py::arg("guard") = usual.guard, py::arg("listing") = usual.listing,
           py::arg("explore") = usual.explore, py::arg("draw") = "normal")
      .def_readonly("reliability", &Weights::reliability)
      .def_readonly("lift", &Weights::lift)
      .def_readonly("temper", &Weights::temper)
      .def_readonly("sd_max", &Weights::sd_max)
      .def_readonly("most_up", &Weights::most_up)
      .def_readonly("most_down", &Weights::most_down)
      .def_readonly("guard", &Weights::guard)
      .def_readonly("listing", &Weights::listing)
      .def_readonly("explore", &Weights::explore)
      .def_property_readonly("draw", [](const Weights& weights) {
        return weights.draw == Draw::kExact ? "exact" : "normal";
      });

  static_cast<py::class_<Learned, std::shared_ptr<Learned>>>(m.attr("Learned"))
      .def("rank", &rank_of, py::arg("keys"), py::arg("rows"), py::arg("scores"),
           py::arg("raw_best"), py::arg("core"), py::arg("scopes"), py::arg("now"), py::arg("seed"),
           py::arg("k"), py::arg("temperature"), py::arg("weights"));
  m.def(
      "inclusion",
      [](const py::array& mean, const py::array& sd, const py::array& show,
         const py::array& guarded, const py::array& group, std::size_t k) {
        const Odds odds = odds_of(mean, sd, show, guarded, group);
        Column<double> out(mean.size());
        const std::span<double> probabilities = writable(out);
        {
          const py::gil_scoped_release unlocked;
          inclusion(odds, k, probabilities);
        }
        return out;
      },
      py::arg("mean"), py::arg("sd"), py::arg("show"), py::arg("guarded"), py::arg("group"),
      py::arg("k"));
  m.def(
      "inclusion_sampled",
      [](const py::array& mean, const py::array& sd, const py::array& show,
         const py::array& guarded, const py::array& group, std::size_t k, double explore,
         std::uint64_t seed, std::size_t draws) {
        const Odds odds = odds_of(mean, sd, show, guarded, group);
        Column<double> out(mean.size());
        Column<double> error(mean.size());
        const std::span<double> probabilities = writable(out);
        const std::span<double> errors = writable(error);
        {
          const py::gil_scoped_release unlocked;
          inclusion_sampled(odds, k, explore, seed, draws, probabilities, errors);
        }
        return py::make_tuple(out, error);
      },
      py::arg("mean"), py::arg("sd"), py::arg("show"), py::arg("guarded"), py::arg("group"),
      py::arg("k"), py::arg("explore"), py::arg("seed"), py::arg("draws"));
}

}  // namespace toolroll::bindings
