#include <pybind11/pybind11.h>

#include <cstdint>

#include "arrays.hpp"
#include "toolroll/slate.hpp"

namespace toolroll::bindings {

void bind_slate(py::module_& m) {
  py::class_<Weights>(m, "Weights")
      .def(py::init([](double reliability, double lift, double exploration_scale, double sd_max,
                       double most_up, double most_down, std::uint64_t protected_leaders,
                       double reliability_in_order, double explore) {
             const Weights weights{reliability, lift,      exploration_scale, sd_max,
                                   most_up,     most_down, protected_leaders, reliability_in_order,
                                   explore};
             check(weights);
             return weights;
           }),
           py::kw_only(), py::arg("reliability"), py::arg("lift"), py::arg("exploration_scale"),
           py::arg("sd_max"), py::arg("most_up"), py::arg("most_down"),
           py::arg("protected_leaders"), py::arg("reliability_in_order"), py::arg("explore"))
      .def_readonly("protected_leaders", &Weights::protected_leaders)
      .def_readonly("explore", &Weights::explore);
}

}  // namespace toolroll::bindings
