#include <pybind11/stl.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "arrays.hpp"
#include "toolroll/slate.hpp"

namespace toolroll::bindings {
namespace {

Draw draw_of(const std::string& name) {
  if (name == "normal") return Draw::kNormal;
  if (name == "exact") return Draw::kExact;
  throw std::invalid_argument("draw: is '" + name + "', must be 'normal' or 'exact'");
}

}  // namespace

void bind_slate(py::module_& m) {
  py::class_<Weights>(m, "Weights")
      .def(py::init([](double reliability, double lift, double temper, double sd_max,
                       double most_up, double most_down, std::uint64_t guard, double listing,
                       double explore, const std::string& draw) {
             const Weights weights{reliability, lift,  temper,  sd_max,  most_up,
                                   most_down,   guard, listing, explore, draw_of(draw)};
             check(weights);
             return weights;
           }),
           py::kw_only(), py::arg("reliability"), py::arg("lift"), py::arg("temper"),
           py::arg("sd_max"), py::arg("most_up"), py::arg("most_down"), py::arg("guard"),
           py::arg("listing"), py::arg("explore"), py::arg("draw"))
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
}

}  // namespace toolroll::bindings
