#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "packed_calls.hpp"
#include "toolroll/expected_calls.hpp"
#include "toolroll/inclusion.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kPointNs = 50;   // one candidate, one rival and one place, at some 50 points
constexpr double kReplayNs = 20;  // one candidate in one replay

/// Copies of the candidates' columns, which are read while the interpreter is released.
struct OddsColumns {
  OddsColumns(const py::array& mean_of, const py::array& sd_of, const py::array& show_of,
              const py::array& guarded_of, const py::array& group_of)
      : mean(snapshot(column_of<double>("mean", mean_of))),
        sd(snapshot(column_of<double>("sd", sd_of))),
        show(snapshot(column_of<double>("show", show_of))),
        guarded(snapshot(flags_of("guarded", guarded_of))),
        group(snapshot(column_of<std::uint64_t>("group", group_of))) {}

  Odds get() const { return {mean, sd, show, guarded, group}; }

  std::vector<double> mean, sd, show;
  std::vector<std::uint8_t> guarded;
  std::vector<std::uint64_t> group;
};

}  // namespace

void bind_inclusion(py::module_& m) {
  m.def(
      "expected_calls",
      [](const py::array& shown, const py::array& found, const py::array& scores,
         double temperature, double calls, double elsewhere) {
        const auto rows = column_of<std::int32_t>("shown", shown);
        Column<double> out(static_cast<py::ssize_t>(rows.size()));
        expected_calls(rows, column_of<std::int32_t>("found", found),
                       column_of<float>("scores", scores), {temperature, calls, elsewhere},
                       writable(out));
        return out;
      },
      py::arg("shown"), py::arg("found"), py::arg("scores"), py::kw_only(), py::arg("temperature"),
      py::arg("calls"), py::arg("elsewhere"));
  m.def(
      "packed_calls",
      [](const py::list& keys, const py::array& shown, const py::array& found,
         const py::array& scores, double temperature, double calls, double elsewhere) {
        return packed_calls(keys, column_of<std::int32_t>("shown", shown),
                            column_of<std::int32_t>("found", found),
                            column_of<float>("scores", scores), {temperature, calls, elsewhere});
      },
      py::arg("keys"), py::arg("shown"), py::arg("found"), py::arg("scores"), py::kw_only(),
      py::arg("temperature"), py::arg("calls"), py::arg("elsewhere"));
  m.def(
      "inclusion",
      [](const py::array& mean, const py::array& sd, const py::array& show,
         const py::array& guarded, const py::array& group, std::size_t k) {
        const OddsColumns columns(mean, sd, show, guarded, group);
        const auto n = static_cast<double>(columns.mean.size());
        Column<double> out(mean.size());
        const std::span<double> probabilities = writable(out);
        {
          const GilReleasedIf unlocked(kPointNs * n * n * std::min(n, static_cast<double>(k)) >
                                       kWorthReleasingNs);
          inclusion(columns.get(), k, probabilities);
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
        const OddsColumns columns(mean, sd, show, guarded, group);
        Column<double> out(mean.size());
        Column<double> error(mean.size());
        const std::span<double> probabilities = writable(out);
        const std::span<double> errors = writable(error);
        {
          const GilReleasedIf unlocked(kReplayNs * static_cast<double>(columns.mean.size()) *
                                           static_cast<double>(draws) >
                                       kWorthReleasingNs);
          inclusion_sampled(columns.get(), k, explore, seed, draws, probabilities, errors);
        }
        return py::make_tuple(out, error);
      },
      py::arg("mean"), py::arg("sd"), py::arg("show"), py::arg("guarded"), py::arg("group"),
      py::arg("k"), py::arg("explore"), py::arg("seed"), py::arg("draws"));
}

}  // namespace toolroll::bindings
