#include <pybind11/pybind11.h>

#include "toolroll/cpu.hpp"
#include "toolroll/heap.hpp"

namespace toolroll::bindings {

void bind_cpu(pybind11::module_& m) {
  m.def("isa", [] { return isa_name(isa()); });
  m.def("release_free_memory", &release_free_memory,
        pybind11::call_guard<pybind11::gil_scoped_release>());
}

}  // namespace toolroll::bindings
