#include "arrays.hpp"
#include "toolroll/stream.hpp"

namespace toolroll::bindings {

void bind_stream(py::module_& m) {
  m.def(
      "stream_bits",
      [](std::uint64_t seed, std::uint64_t key, std::uint64_t counter, std::size_t n) {
        std::vector<std::uint64_t> out(n);
        {
          const py::gil_scoped_release unlocked;
          stream_bits(seed, key, counter, out);
        }
        return column(std::move(out));
      },
      py::arg("seed"), py::arg("key"), py::arg("counter"), py::arg("n"));
}

}  // namespace toolroll::bindings
