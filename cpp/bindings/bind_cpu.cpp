#include <pybind11/pybind11.h>

#include "toolroll/cpu.hpp"

namespace toolroll::bindings {

void bind_cpu(pybind11::module_& m) {
  m.def("isa", [] { return isa_name(isa()); });
}

}  // namespace toolroll::bindings
