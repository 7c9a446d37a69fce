#include <pybind11/stl.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "parts.hpp"
#include "text.hpp"
#include "toolroll/message_reader.hpp"

namespace toolroll::bindings {
namespace {

constexpr double kReadNsPerByte = 100;  // where most words are unknown and looked for
constexpr double kVectorNsPerByte = 30;

py::str str_of(std::string_view text) { return py::str(text.data(), text.size()); }

py::object array_of(const Passage& passage) {
  if (passage.vector.empty()) return py::none();
  return copied(passage.vector);
}

/// (text, vector or None, trust, weight) of each.
py::tuple parts(const std::vector<Passage>& passages) {
  py::tuple out(passages.size());
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const Passage& one = passages[i];
    out[i] = py::make_tuple(str_of(one.text), array_of(one), one.trust, one.weight);
  }
  return out;
}

template <typename AnyReading, typename Visit>
void each_passage(AnyReading& reading, Visit&& visit) {
  visit(reading.query);
  for (auto& clause : reading.clauses) visit(clause);
  for (auto& turn : reading.earlier) visit(turn);
}

py::list texts(const Reading& reading) {
  py::list out;
  each_passage(reading, [&](const Passage& one) { out.append(str_of(one.text)); });
  return out;
}

/// vectors: one or None for each of `texts`, in their order.
Reading with_vectors(const Reading& reading,
                     const std::vector<std::optional<Column<float>>>& vectors) {
  Reading out = reading;
  if (vectors.size() != 1 + out.clauses.size() + out.earlier.size()) {
    throw std::invalid_argument("vectors: are " + std::to_string(vectors.size()) +
                                ", must be one for each text");
  }
  std::size_t at = 0;
  each_passage(out, [&](Passage& one) {
    const auto& vector = vectors[at++];
    one.vector = vector ? snapshot(view(*vector)) : std::vector<float>();
  });
  return out;
}

/// Texts that were read before. clauses, earlier: (text, vector or None, trust, weight) of each.
Reading reading_of(const py::str& query, const py::object& vector, double trust,
                   const py::tuple& clauses, const py::tuple& earlier) {
  const auto passages = [](const py::tuple& list) {
    const Parts parts(list);
    std::vector<Passage> out;
    for (const Part& one : parts.get()) {
      out.push_back(
          {std::string(one.text), {one.vector.begin(), one.vector.end()}, one.trust, one.weight});
    }
    return out;
  };
  const std::string text(Utf8(query).view());
  return {text, {text, vector_of("vector", vector), trust}, passages(clauses), passages(earlier)};
}

/// A reader, and the question whether a caller may be shown a word.
class Reader {
 public:
  /// may_show: (word, rows that the caller may have) -> bool; None where every caller may.
  Reader(std::shared_ptr<Speller> speller, bool has_clauses, py::object may_show)
      : reader_(std::move(speller), has_clauses), may_show_(std::move(may_show)) {}

  /// earlier: (whether the user wrote it, text) of turns, oldest first. allowed: () -> the rows
  /// that the caller may have, called once, where a word is misspelt; None for all rows. table: the
  /// built-in one, or None to make no vectors.
  Reading read(const py::str& message, const py::sequence& earlier, const py::object& allowed,
               const py::object& table, bool is_english) const {
    const Utf8 text(message, Surrogate::kQuestionMark);
    std::deque<std::pair<py::str, Utf8>> turns;
    std::vector<EarlierTurn> views;
    for (const py::handle item : earlier) {
      const auto [is_users, said] = py::cast<std::pair<bool, py::str>>(item);
      const auto& turn = turns.emplace_back(std::piecewise_construct, std::forward_as_tuple(said),
                                            std::forward_as_tuple(said, Surrogate::kQuestionMark));
      views.push_back({is_users, turn.second.view()});
    }
    if (!table.is_none() && !py::isinstance<MultilingualTable>(table)) {
      throw py::type_error("table: must be a MultilingualTable or None");
    }
    const auto* const rows = table.is_none() ? nullptr : table.cast<const MultilingualTable*>();
    MessageReader::MayShow may_show;
    py::object visible;
    if (!allowed.is_none() && !may_show_.is_none()) {
      may_show = [&](std::string_view word) {
        const py::gil_scoped_acquire locked;
        if (!visible) visible = allowed();
        return may_show_(str_of(word), visible).cast<bool>();
      };
    }
    const double ns_per_byte = kReadNsPerByte + (rows == nullptr ? 0 : kVectorNsPerByte);
    const GilReleasedIf unlocked(ns_per_byte * static_cast<double>(text.view().size()) >
                                 kWorthReleasingNs);
    Reading reading = reader_.read(text.view(), views, may_show, is_english);
    if (rows != nullptr) {
      const auto start = std::chrono::steady_clock::now();
      embed(*rows, reading);
      reading.embed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::steady_clock::now() - start)
                             .count();
    }
    return reading;
  }

 private:
  MessageReader reader_;
  py::object may_show_;
};

using Pieces = std::vector<std::string_view> (*)(std::string_view);

template <Pieces pieces>
py::tuple pieces_of(const py::str& message) {
  const Utf8 text(message);
  const auto found = pieces(text.view());
  py::tuple out(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) out[i] = str_of(found[i]);
  return out;
}

}  // namespace

void bind_message_reader(py::module_& m) {
  m.def("clauses_of", &pieces_of<&clauses_of>, py::arg("message"));
  m.def("parts_of", &pieces_of<&parts_of>, py::arg("message"));

  py::class_<Reading>(m, "Reading")
      .def(py::init(&reading_of), py::arg("query"), py::arg("vector"), py::arg("trust"),
           py::arg("clauses"), py::arg("earlier"))
      .def_property_readonly("text", [](const Reading& reading) { return str_of(reading.text); })
      .def_property_readonly("query",
                             [](const Reading& reading) { return str_of(reading.query.text); })
      .def_property_readonly("vector",
                             [](const Reading& reading) { return array_of(reading.query); })
      .def_property_readonly("trust", [](const Reading& reading) { return reading.query.trust; })
      .def_property_readonly("clauses",
                             [](const Reading& reading) { return parts(reading.clauses); })
      .def_property_readonly("earlier",
                             [](const Reading& reading) { return parts(reading.earlier); })
      .def_property_readonly("texts", &texts)
      .def_readonly("embed_ns", &Reading::embed_ns)
      .def("with_vectors", &with_vectors, py::arg("vectors"));

  py::class_<Reader>(m, "MessageReader")
      .def(py::init<std::shared_ptr<Speller>, bool, py::object>(), py::arg("speller"),
           py::arg("has_clauses"), py::arg("may_show") = py::none())
      .def("read", &Reader::read, py::arg("message"), py::arg("earlier") = py::tuple(),
           py::arg("allowed") = py::none(), py::arg("table") = py::none(),
           py::arg("is_english") = false);
}

}  // namespace toolroll::bindings
