#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "toolroll/learned.hpp"
#include "toolroll/slate.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kDeltaNs = 3'000;   // one delta folded: its records are copied
constexpr double kRankNs = 150;      // one candidate: its posteriors and its draw
constexpr double kRankPairNs = 0.5;  // one candidate beside another: groups are looked for

using ScopeTuple = std::array<std::uint64_t, 3>;

Scopes scopes_of(const ScopeTuple& scopes) { return {scopes[0], scopes[1], scopes[2]}; }

/// Two columns: the shapes that `of` gives for each key.
template <typename Of>
py::tuple shapes_of(const py::array& keys, Of of) {
  const auto column = column_of<std::uint64_t>("keys", keys);
  Column<double> first(keys.size());
  Column<double> second(keys.size());
  const std::span<double> firsts = writable(first);
  const std::span<double> seconds = writable(second);
  for (std::size_t i = 0; i < column.size(); ++i) {
    const Shapes shapes = of(i, column[i]);
    firsts[i] = shapes.first;
    seconds[i] = shapes.second;
  }
  return py::make_tuple(first, second);
}

std::vector<Delta> copied(const py::array& deltas) {
  const auto typed = py::dtype::of<Delta>();
  if (!deltas.dtype().equal(typed) || deltas.ndim() != 1 ||
      (deltas.flags() & py::array::c_style) == 0) {
    throw py::type_error("deltas: must be a contiguous array of DELTA with one dimension");
  }
  // A copy: the buffer may be unaligned, and another thread may change it.
  std::vector<Delta> rows(static_cast<std::size_t>(deltas.size()));
  if (!rows.empty()) std::memcpy(rows.data(), deltas.data(), rows.size() * sizeof(Delta));
  return rows;
}

std::vector<float> numbers_of(const Learned& learned, const std::optional<Column<float>>& vectors) {
  if (!vectors || vectors->size() == 0) return {};
  if (vectors->ndim() != 2 || static_cast<std::size_t>(vectors->shape(1)) != learned.dim()) {
    throw std::invalid_argument("vectors: must be float32[rows, " + std::to_string(learned.dim()) +
                                "]");
  }
  return {vectors->data(), vectors->data() + vectors->size()};
}

Learned fold(const Learned& learned, const py::array& deltas,
             const std::optional<Column<float>>& vectors) {
  const std::vector<Delta> rows = copied(deltas);
  const std::vector<float> numbers = numbers_of(learned, vectors);
  const GilReleasedIf unlocked(kDeltaNs * static_cast<double>(rows.size()) > kWorthReleasingNs);
  return learned.fold(rows, numbers);
}

py::tuple fold_observed(const Learned& learned, const py::array& deltas,
                        const std::optional<Column<float>>& vectors) {
  const std::vector<Delta> rows = copied(deltas);
  const std::vector<float> numbers = numbers_of(learned, vectors);
  std::vector<Observation> seen(rows.size());
  std::optional<Learned> next;
  {
    const GilReleasedIf unlocked(kDeltaNs * static_cast<double>(rows.size()) > kWorthReleasingNs);
    next = learned.fold(rows, numbers, seen);
  }
  py::array_t<Observation> observations(static_cast<py::ssize_t>(seen.size()));
  if (!seen.empty())
    std::memcpy(observations.mutable_data(), seen.data(), seen.size() * sizeof seen[0]);
  return py::make_tuple(std::move(*next), observations);
}

// Databases have signed numbers, so keys and scopes are the same 64 bits, signed.
using CellTuple = std::tuple<std::int32_t, std::int64_t, std::int64_t, double, double, double>;
using RecordTuple = std::tuple<std::int32_t, std::int64_t, py::bytes>;

py::tuple rows_of(const Learned& learned, const Learned& since) {
  LearnedRows rows;
  {
    const GilReleasedIf unlocked(true);
    rows = learned.rows(since);
  }
  py::list cells;
  for (const CellRow& row : rows.cells) {
    cells.append(CellTuple(static_cast<std::int32_t>(row.kind), static_cast<std::int64_t>(row.key),
                           static_cast<std::int64_t>(row.scope), row.first, row.second, row.at));
  }
  py::list records;
  for (const RecordRow& row : rows.records) {
    records.append(
        RecordTuple(static_cast<std::int32_t>(row.kind), static_cast<std::int64_t>(row.key),
                    py::bytes(reinterpret_cast<const char*>(row.state.data()), row.state.size())));
  }
  return py::make_tuple(cells, records);
}

Learned with_rows(const Learned& learned, const std::vector<CellTuple>& cells,
                  const std::vector<RecordTuple>& records, std::uint64_t revision) {
  LearnedRows rows;
  for (const auto& [kind, key, scope, first, second, at] : cells) {
    rows.cells.push_back({static_cast<CellKind>(kind), static_cast<std::uint64_t>(scope),
                          static_cast<std::uint64_t>(key), first, second, at});
  }
  for (const auto& [kind, key, state] : records) {
    const auto text = static_cast<std::string_view>(state);
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    rows.records.push_back({static_cast<RecordKind>(kind),
                            static_cast<std::uint64_t>(key),
                            {bytes, bytes + text.size()}});
  }
  const GilReleasedIf unlocked(true);
  return learned.with_rows(rows, revision);
}

py::tuple rank_of(const Learned& learned, const ToolKeys& keys, const py::array& rows,
                  const py::array& scores, const py::array& raw_best, const py::array& core,
                  const ScopeTuple& scopes, double now, std::uint64_t seed, std::size_t k,
                  double temperature, const Weights& weights) {
  const auto row = snapshot(column_of<std::int32_t>("rows", rows));
  const auto found = snapshot(column_of<float>("scores", scores));
  const auto first = snapshot(column_of<std::int32_t>("raw_best", raw_best));
  const auto is_core = snapshot(flags_of("core", core));
  const Candidates candidates{row, found, first, is_core};
  Column<std::int32_t> order(rows.size());
  Column<float> score(rows.size());
  Column<float> mean(rows.size());
  Column<float> sd(rows.size());
  Column<float> show(rows.size());
  Column<std::uint8_t> placement(rows.size());
  const Ranked out{
      writable(order),
      writable(score),
      writable(mean),
      writable(sd),
      writable(show),
      {reinterpret_cast<Placement*>(placement.mutable_data()), candidates.rows.size()}};
  const auto m = static_cast<double>(candidates.rows.size());
  {
    const GilReleasedIf unlocked(m * (kRankNs + m * kRankPairNs) > kWorthReleasingNs);
    rank(learned, keys, candidates, scopes_of(scopes), now, seed, k, temperature, weights, out);
  }
  return py::make_tuple(order, score, mean, sd, show, placement);
}

void bind_rates(py::module_& m) {
  const LearningRates usual;
  py::class_<LearningRates>(m, "LearningRates")
      .def(py::init([](double reliability_half_s, double lift_half_s, double vector_half_s,
                       double alarm_nats, double alarm_ratio, double open_k, double most_k,
                       double open_half_s, std::uint64_t least_reporters, double prior_mean,
                       double prior_strength, double page_spread, double leaf_spread,
                       double lift_strength, double lift_page_spread, double lift_leaf_spread,
                       double vector_most, double vector_strength) {
             const LearningRates rates{
                 reliability_half_s, lift_half_s,    vector_half_s,    alarm_nats,
                 alarm_ratio,        open_k,         most_k,           open_half_s,
                 least_reporters,    prior_mean,     prior_strength,   page_spread,
                 leaf_spread,        lift_strength,  lift_page_spread, lift_leaf_spread,
                 vector_most,        vector_strength};
             check(rates);
             return rates;
           }),
           py::kw_only(), py::arg("reliability_half_s") = usual.reliability_half_s,
           py::arg("lift_half_s") = usual.lift_half_s,
           py::arg("vector_half_s") = usual.vector_half_s, py::arg("alarm_nats") = usual.alarm_nats,
           py::arg("alarm_ratio") = usual.alarm_ratio, py::arg("open_k") = usual.open_k,
           py::arg("most_k") = usual.most_k, py::arg("open_half_s") = usual.open_half_s,
           py::arg("least_reporters") = usual.least_reporters,
           py::arg("prior_mean") = usual.prior_mean,
           py::arg("prior_strength") = usual.prior_strength,
           py::arg("page_spread") = usual.page_spread, py::arg("leaf_spread") = usual.leaf_spread,
           py::arg("lift_strength") = usual.lift_strength,
           py::arg("lift_page_spread") = usual.lift_page_spread,
           py::arg("lift_leaf_spread") = usual.lift_leaf_spread,
           py::arg("vector_most") = usual.vector_most,
           py::arg("vector_strength") = usual.vector_strength)
      .def_readonly("reliability_half_s", &LearningRates::reliability_half_s)
      .def_readonly("lift_half_s", &LearningRates::lift_half_s)
      .def_readonly("vector_half_s", &LearningRates::vector_half_s)
      .def_readonly("alarm_nats", &LearningRates::alarm_nats)
      .def_readonly("alarm_ratio", &LearningRates::alarm_ratio)
      .def_readonly("open_k", &LearningRates::open_k)
      .def_readonly("most_k", &LearningRates::most_k)
      .def_readonly("open_half_s", &LearningRates::open_half_s)
      .def_readonly("least_reporters", &LearningRates::least_reporters)
      .def_readonly("prior_mean", &LearningRates::prior_mean)
      .def_readonly("prior_strength", &LearningRates::prior_strength)
      .def_readonly("page_spread", &LearningRates::page_spread)
      .def_readonly("leaf_spread", &LearningRates::leaf_spread)
      .def_readonly("lift_strength", &LearningRates::lift_strength)
      .def_readonly("lift_page_spread", &LearningRates::lift_page_spread)
      .def_readonly("lift_leaf_spread", &LearningRates::lift_leaf_spread)
      .def_readonly("vector_most", &LearningRates::vector_most)
      .def_readonly("vector_strength", &LearningRates::vector_strength);
}

py::object vector(const Learned& learned, std::uint64_t subject, double now) {
  const auto found = learned.vector(subject, now);
  if (!found) return py::none();
  Column<float> unit(static_cast<py::ssize_t>(learned.dim()));
  std::copy_n(found->unit.begin(), learned.dim(), unit.mutable_data());
  return py::make_tuple(unit, found->weight);
}

}  // namespace

void bind_learned(py::module_& m) {
  PYBIND11_NUMPY_DTYPE(Delta, at, everywhere, page, leaf, plain, arm, intent, group, successes,
                       failures, calls, expected, vector, verdict, pull, reporter);
  m.attr("DELTA") = py::dtype::of<Delta>();
  PYBIND11_NUMPY_DTYPE(Observation, mean, evidence, change);
  bind_rates(m);

  py::class_<Learned, std::shared_ptr<Learned>>(m, "Learned")
      .def(py::init<std::size_t, const LearningRates&>(), py::arg("dim") = 0,
           py::arg("rates") = LearningRates{})
      .def("fold", &fold, py::arg("deltas"), py::arg("vectors").noconvert() = py::none())
      .def("fold_observed", &fold_observed, py::arg("deltas"),
           py::arg("vectors").noconvert() = py::none())
      .def("rows", &rows_of, py::arg("since"))
      .def("with_rows", &with_rows, py::arg("cells"), py::arg("records"), py::arg("revision"))
      .def_property_readonly("dim", &Learned::dim)
      .def_property_readonly("rates", [](const Learned& learned) { return learned.rates(); })
      .def_property_readonly("revision", &Learned::revision)
      .def_property_readonly("size", &Learned::size)
      .def_property_readonly("vectors", &Learned::vectors)
      .def_property_readonly("memory_bytes", &Learned::memory_bytes)
      .def(
          "reliability",
          [](const Learned& learned, const ScopeTuple& scopes, const py::array& arms, double now) {
            return shapes_of(arms, [&](std::size_t, std::uint64_t arm) {
              return learned.reliability(arm, scopes_of(scopes), now);
            });
          },
          py::arg("scopes"), py::arg("arms"), py::arg("now"))
      .def(
          "lift",
          [](const Learned& learned, const ScopeTuple& scopes, const py::array& intents,
             const py::array& groups, double now) {
            const auto group = column_of<std::uint64_t>("groups", groups);
            if (groups.size() != intents.size()) {
              throw std::invalid_argument("groups: has " + std::to_string(groups.size()) +
                                          " entries, must have " + std::to_string(intents.size()));
            }
            return shapes_of(intents, [&](std::size_t i, std::uint64_t intent) {
              return learned.lift(group[i] != 0 ? group[i] : intent, scopes_of(scopes), now);
            });
          },
          py::arg("scopes"), py::arg("intents"), py::arg("groups"), py::arg("now"))
      .def(
          "plain",
          [](const Learned& learned, std::uint64_t scope, const py::array& arms) {
            return shapes_of(
                arms, [&](std::size_t, std::uint64_t arm) { return learned.plain(arm, scope); });
          },
          py::arg("scope"), py::arg("arms"))
      .def("vector", &vector, py::arg("subject"), py::arg("now") = 0.0)
      .def("rank", &rank_of, py::arg("keys"), py::arg("rows"), py::arg("scores"),
           py::arg("raw_best"), py::arg("core"), py::arg("scopes"), py::arg("now"), py::arg("seed"),
           py::arg("k"), py::arg("temperature"), py::arg("weights"))
      .def("to_bytes",
           [](const Learned& learned) {
             const std::vector<std::byte> all = learned.bytes();
             return py::bytes(reinterpret_cast<const char*>(all.data()), all.size());
           })
      .def_static(
          "from_bytes",
          [](const py::bytes& archive) {
            const auto text = static_cast<std::string_view>(archive);
            std::vector<std::byte> all(text.size());
            if (!all.empty()) std::memcpy(all.data(), text.data(), all.size());
            return Learned::from_bytes(std::move(all));
          },
          py::arg("archive"));
}

}  // namespace toolroll::bindings
