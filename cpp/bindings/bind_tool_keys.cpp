#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "toolroll/tool_keys.hpp"

namespace toolroll::bindings {

void bind_tool_keys(py::module_& m) {
  py::class_<ToolKeys, std::shared_ptr<ToolKeys>>(m, "ToolKeys")
      .def(py::init([](const py::array& arm, const py::array& intent, const py::array& group) {
             const auto copy = [](const char* name, const py::array& array) {
               const auto keys = column_of<std::uint64_t>(name, array);
               return std::vector<std::uint64_t>(keys.begin(), keys.end());
             };
             return ToolKeys(copy("arm", arm), copy("intent", intent), copy("group", group));
           }),
           py::arg("arm"), py::arg("intent"), py::arg("group"))
      .def_static(
          "stacked",
          [](std::shared_ptr<ToolKeys> shared, std::shared_ptr<ToolKeys> own) {
            return ToolKeys::stacked(std::move(shared), std::move(own));
          },
          py::arg("shared"), py::arg("own"))
      .def(
          "arms",
          [](const ToolKeys& keys, const py::array& rows) {
            const auto wanted = column_of<std::int32_t>("rows", rows);
            std::vector<std::uint64_t> arms;
            arms.reserve(wanted.size());
            for (const std::int32_t row : wanted) {
              if (row < 0 || static_cast<std::size_t>(row) >= keys.size()) {
                throw std::invalid_argument("row " + std::to_string(row) + ": must be in 0.." +
                                            std::to_string(keys.size()) + " (exclusive)");
              }
              arms.push_back(keys.arm(static_cast<std::size_t>(row)));
            }
            return copied(arms);
          },
          py::arg("rows"))
      .def_property_readonly("size", &ToolKeys::size);
}

}  // namespace toolroll::bindings
