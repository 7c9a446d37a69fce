#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "packed_calls.hpp"
#include "parts.hpp"
#include "toolroll/message_reader.hpp"
#include "toolroll/selector.hpp"

namespace toolroll::bindings {
namespace {

using Rows = std::vector<std::int32_t>;

/// The items of a tuple or list. Its size is read once, so that no other thread changes it.
class Items {
 public:
  Items(const char* name, py::handle list)
      : list_(py::reinterpret_steal<py::object>(PySequence_Fast(list.ptr(), name))) {
    if (!list_) throw py::error_already_set();
  }
  std::size_t size() const {
    return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list_.ptr()));
  }
  py::handle operator[](std::size_t i) const {
    return PySequence_Fast_GET_ITEM(list_.ptr(), static_cast<py::ssize_t>(i));
  }

 private:
  py::object list_;
};

template <typename Number>
std::vector<Number> numbers_of(const char* name, py::handle list) {
  const Items items(name, list);
  std::vector<Number> numbers(items.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const long long number = PyLong_AsLongLong(items[i].ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (!std::in_range<Number>(number)) {
      throw std::invalid_argument(std::string(name) + ": is out of range");
    }
    numbers[i] = static_cast<Number>(number);
  }
  return numbers;
}

/// A count that may be open; more than any number of rows is as good as that many.
std::optional<std::size_t> count_of(const char* name, py::handle number) {
  if (number.is_none()) return std::nullopt;
  const long long count = PyLong_AsLongLong(number.ptr());
  if (count == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (count < 0 || count > (1LL << 31)) {
    throw std::invalid_argument(std::string(name) + ": must be in 0..2147483648");
  }
  return static_cast<std::size_t>(count);
}

std::span<const std::int32_t> rows_of(const char* name, py::handle rows) {
  if (!py::isinstance<py::array>(rows)) throw py::type_error(std::string(name) + ": is no array");
  return column_of<std::int32_t>(name, py::reinterpret_borrow<py::array>(rows));
}

/// Triples (label, whether it is a service, rows).
class Marks {
 public:
  explicit Marks(const py::tuple& list) {
    for (const py::handle item : list) {
      if (!PyTuple_Check(item.ptr()) || PyTuple_GET_SIZE(item.ptr()) != 3) {
        throw py::type_error("mark: must be (label, is a service, rows)");
      }
      columns_.push_back(snapshot(rows_of("mark", PyTuple_GET_ITEM(item.ptr(), 2))));
      marks_.push_back({columns_.back(), PyTuple_GET_ITEM(item.ptr(), 1) == Py_True});
    }
  }
  std::span<const MarkedRows> get() const { return marks_; }

 private:
  std::deque<Rows> columns_;
  std::vector<MarkedRows> marks_;
};

/// Pairs (rows, weight). Copies, because a search reads them while the interpreter is released.
class Toolkits {
 public:
  Toolkits(const char* name, const py::tuple& list) {
    for (const py::handle item : list) {
      if (!PyTuple_Check(item.ptr()) || PyTuple_GET_SIZE(item.ptr()) != 2) {
        throw py::type_error(std::string(name) + ": must be (rows, weight)");
      }
      columns_.push_back(snapshot(rows_of(name, PyTuple_GET_ITEM(item.ptr(), 0))));
      toolkits_.push_back({columns_.back(), number_of(name, PyTuple_GET_ITEM(item.ptr(), 1))});
    }
  }
  std::span<const ToolkitRows> get() const { return toolkits_; }

 private:
  std::deque<Rows> columns_;
  std::vector<ToolkitRows> toolkits_;
};

/// What was learnt, with the keys of the rows, the scopes of the turn and the time.
struct Outcomes {
  explicit Outcomes(const py::object& given) {
    if (given.is_none()) return;
    auto [learned_, keys_, scopes_, now_] =
        py::cast<std::tuple<const Learned*, const ToolKeys*, std::array<std::uint64_t, 4>, double>>(
            given);
    learned = learned_;
    keys = keys_;
    scopes = {scopes_[0], scopes_[1], scopes_[2]};
    plain = scopes_[3];
    now = now_;
  }

  const Learned* learned = nullptr;
  const ToolKeys* keys = nullptr;
  Scopes scopes{};
  std::uint64_t plain = 0;
  double now = 0.0;
};

/// Tokens, and what each row costs: in one array or two.
struct Budget {
  explicit Budget(const py::object& given) {
    if (given.is_none()) return;
    const Items items("budget", given);
    if (items.size() < 2 || items.size() > 3) {
      throw py::type_error("budget: must be (tokens, costs) or (tokens, costs, costs)");
    }
    const long long left = PyLong_AsLongLong(items[0].ptr());
    if (left == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    tokens = left;
    for (std::size_t i = 1; i < items.size(); ++i) costs[i - 1] = rows_of("costs", items[i]);
  }

  std::optional<std::int64_t> tokens;
  std::span<const std::int32_t> costs[2];
};

/// The rows of a conversation: (whole, loaded, recent, listed, picked, turn).
class Conversation {
 public:
  explicit Conversation(const py::object& given) {
    if (given.is_none()) return;
    const Items items("conversation", given);
    if (items.size() != 6) throw py::type_error("conversation: must have six parts");
    loaded_ = numbers_of<std::int32_t>("loaded", items[1]);
    recent_ = numbers_of<std::int32_t>("recent", items[2]);
    listed_ = numbers_of<std::int32_t>("listed", items[3]);
    picked_ = numbers_of<std::int64_t>("picked", items[4]);
    const long long turn = PyLong_AsLongLong(items[5].ptr());
    if (turn == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    rows_ = ConversationRows{items[0].ptr() == Py_True, loaded_, recent_, listed_, picked_, turn};
  }
  const std::optional<ConversationRows>& get() const { return rows_; }

 private:
  Rows loaded_, recent_, listed_;
  std::vector<std::int64_t> picked_;
  std::optional<ConversationRows> rows_;
};

const Bitset* page_of(const py::object& page) {
  return page.is_none() ? nullptr : page.cast<const Bitset*>();
}

/// The passages as a search reads them.
std::vector<Part> parts_of(const std::vector<Passage>& passages) {
  std::vector<Part> parts;
  parts.reserve(passages.size());
  for (const Passage& one : passages) {
    parts.push_back(
        {one.text, one.vector, static_cast<float>(one.trust), static_cast<float>(one.weight)});
  }
  return parts;
}

Picked pick(const Selector& selector, const Reading& reading, const Bitset& allowed,
            const py::object& page, const py::tuple& routed, const py::tuple& marks,
            const py::tuple& called, const py::object& outcomes, std::uint64_t seed,
            const py::object& k, double room, const py::object& max_tools, const py::object& budget,
            const py::object& included, const py::object& conversation, const py::object& sent) {
  const Passage& query = reading.query;
  const std::vector<Part> clauses = parts_of(reading.clauses);
  const std::vector<Part> earlier = parts_of(reading.earlier);
  const Toolkits routes("routed", routed);
  const Marks mark_rows(marks);
  const Toolkits called_rows("called", called);
  const Outcomes learnt(outcomes);
  const Budget tokens(budget);
  const Rows always = numbers_of<std::int32_t>("included", included);
  const Conversation talk(conversation);
  const Rows places = numbers_of<std::int32_t>("sent", sent);
  const Ask ask{.message = {query.text, query.vector, static_cast<float>(query.trust)},
                .trust = query.trust,
                .clauses = clauses,
                .earlier = earlier,
                .allowed = allowed,
                .page = page_of(page),
                .routed = routes.get(),
                .marks = mark_rows.get(),
                .called = called_rows.get(),
                .learned = learnt.learned,
                .keys = learnt.keys,
                .scopes = learnt.scopes,
                .plain = learnt.plain,
                .now = learnt.now,
                .seed = seed,
                .k = count_of("k", k),
                .room = room,
                .max_tools = count_of("max_tools", max_tools),
                .budget = tokens.tokens,
                .costs = {tokens.costs[0], tokens.costs[1]},
                .included = always,
                .conversation = talk.get(),
                .sent = places};
  const double expected_ns = selector.expected_ns(ask);
  const GilReleasedIf unlocked(expected_ns > kWorthReleasingNs);
  return selector.pick(ask);
}

template <typename T>
Column<T> array_of(std::span<const T> numbers) {
  Column<T> array(static_cast<py::ssize_t>(numbers.size()));
  std::copy(numbers.begin(), numbers.end(), array.mutable_data());
  return array;
}

py::list selected(const Picked& picked) {
  const auto rows = picked.selected();
  py::list list(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<py::ssize_t>(i), PyLong_FromLong(rows[i]));
  }
  return list;
}

py::object list_turns(const Picked& picked) {
  if (!picked.list_turns) return py::none();
  py::tuple turns(picked.list_turns->size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    PyTuple_SET_ITEM(turns.ptr(), static_cast<py::ssize_t>(i),
                     PyLong_FromLongLong((*picked.list_turns)[i]));
  }
  return turns;
}

py::list steps(const Picked& picked) {
  py::list list;
  for (const Step& step : picked.steps) {
    const std::size_t n = step.end - step.begin;
    list.append(py::make_tuple(name(step.verb), name(step.reason), name(step.found), step.set,
                               array_of(std::span(picked.rows).subspan(step.begin, n)),
                               array_of(std::span(picked.scores).subspan(step.begin, n))));
  }
  return list;
}

py::object columns_of(const std::optional<FoundTools>& found) {
  if (!found) return py::none();
  const Retrieved& columns = found->columns;
  return py::make_tuple(
      copied(columns.rows), copied(columns.scores),
      py::make_tuple(copied(columns.dense), copied(columns.intents), copied(columns.lexical),
                     copied(columns.clauses), copied(columns.earlier)),
      copied(found->damped), found->confidence, found->has_match, copied(columns.raw_best));
}

/// `packed_calls` of the selected rows.
py::bytes packed(const Picked& picked, const py::list& keys, double temperature, double calls,
                 double elsewhere) {
  const auto& found = picked.by_words ? picked.by_words : picked.retrieved;
  const CallShares shares{temperature, calls, elsewhere};
  if (!found) return packed_calls(keys, picked.selected(), {}, {}, shares);
  return packed_calls(keys, picked.selected(), found->columns.rows, found->columns.scores, shares);
}

py::object reranked(const Picked& picked) {
  if (!picked.reranked) return py::none();
  const Reranked& found = *picked.reranked;
  Column<bool> core(static_cast<py::ssize_t>(found.core.size()));
  std::copy(found.core.begin(), found.core.end(), core.mutable_data());
  return py::make_tuple(copied(found.rows), copied(found.learnt), copied(found.scores),
                        copied(found.mean), copied(found.spread), copied(found.show), core,
                        copied(found.guarded), found.places);
}

py::list mark_gains(const Picked& picked) {
  py::list columns;
  const std::size_t n = picked.marked.size();
  for (std::size_t begin = 0; n > 0 && begin < picked.mark_gains.size(); begin += n) {
    columns.append(array_of(std::span(picked.mark_gains).subspan(begin, n)));
  }
  return columns;
}

RouteMode route_mode(const std::string& name) {
  if (name == "favour") return RouteMode::kFavour;
  if (name == "narrow") return RouteMode::kNarrow;
  if (name == "fill") return RouteMode::kFill;
  if (name == "ignore") return RouteMode::kIgnore;
  throw std::invalid_argument("mode: must be favour, narrow, fill or ignore");
}

RetrievalStage retrieval_stage(std::shared_ptr<Retriever> retriever, const Fusion& fusion,
                               double threshold, std::size_t minimum, std::size_t candidates,
                               std::size_t core, std::size_t rescored, std::size_t spare,
                               const Column<float>& best, const Column<float>& own,
                               bool has_vectors, double least_confidence, bool keeps_unmatched,
                               bool learns, bool is_damped) {
  return {std::move(retriever),
          fusion,
          threshold,
          minimum,
          candidates,
          core,
          rescored,
          spare,
          Calibration(snapshot(view(best)), snapshot(view(own)), has_vectors),
          least_confidence,
          keeps_unmatched,
          learns,
          is_damped};
}

}  // namespace

void bind_selector(py::module_& m) {
  py::class_<RoutesStage>(m, "RoutesStage")
      .def(py::init(
               [](const std::string& mode, float weight, std::optional<Rows> no_hit, bool scores) {
                 return RoutesStage{route_mode(mode), weight, std::move(no_hit), scores};
               }),
           py::arg("mode"), py::arg("weight"), py::arg("no_hit"), py::arg("scores"));
  py::class_<RetrievalStage>(m, "RetrievalStage")
      .def(py::init(&retrieval_stage), py::kw_only(), py::arg("retriever"), py::arg("fusion"),
           py::arg("threshold"), py::arg("minimum"), py::arg("candidates"), py::arg("core"),
           py::arg("rescored"), py::arg("spare"), py::arg("best").noconvert(),
           py::arg("own").noconvert(), py::arg("has_vectors"), py::arg("least_confidence"),
           py::arg("keeps_unmatched"), py::arg("learns"), py::arg("is_damped"));
  py::class_<NoMatchStage>(m, "NoMatchStage")
      .def(py::init<std::size_t, std::size_t, bool>(), py::arg("most"), py::arg("least"),
           py::arg("learns"));
  py::class_<LearningStage>(m, "LearningStage")
      .def(py::init([](const Column<std::int32_t>& core, const Weights& weights, double temperature,
                       std::optional<std::size_t> k) {
             return LearningStage{RowMap::of(view(core)), weights, temperature, k};
           }),
           py::arg("core").noconvert(), py::arg("weights"), py::arg("temperature"), py::arg("k"));
  py::class_<ThompsonStage>(m, "ThompsonStage")
      .def(py::init([](const Column<std::int32_t>& core, std::optional<std::size_t> k) {
             return ThompsonStage{RowMap::of(view(core)), k};
           }),
           py::arg("core").noconvert(), py::arg("k"));
  py::class_<CapStage>(m, "CapStage")
      .def(py::init([](Rows core, std::optional<std::size_t> k,
                       std::optional<std::size_t> max_tools, std::optional<std::size_t> unranked) {
             return CapStage{std::move(core), k, max_tools, unranked};
           }),
           py::arg("core"), py::arg("k"), py::arg("max_tools"), py::arg("unranked"));
  py::class_<ListStage>(m, "ListStage")
      .def(py::init<std::size_t, bool, double, double>(), py::arg("sticky_tools"),
           py::arg("counts_added"), py::arg("newcomers"), py::arg("growth"));

  py::class_<Picked>(m, "Picked")
      .def_property_readonly("selected", &selected)
      .def_property_readonly("rows",
                             [](const Picked& picked) { return array_of(picked.selected()); })
      .def_property_readonly(
          "scores", [](const Picked& picked) { return array_of(picked.selected_scores()); })
      .def_property_readonly("steps", &steps)
      .def_readonly("pools", &Picked::pools)
      .def_readonly("routed", &Picked::routed)
      .def_readonly("route_best", &Picked::route_best)
      .def_property_readonly("marked", [](const Picked& picked) { return copied(picked.marked); })
      .def_property_readonly("mark_gains", &mark_gains)
      .def_readonly("mark_best", &Picked::mark_best)
      .def_property_readonly("called", [](const Picked& picked) { return copied(picked.called); })
      .def_property_readonly("called_gains",
                             [](const Picked& picked) { return copied(picked.called_gains); })
      .def_property_readonly("retrieved",
                             [](const Picked& picked) { return columns_of(picked.retrieved); })
      .def_property_readonly("by_words",
                             [](const Picked& picked) { return columns_of(picked.by_words); })
      .def("packed_calls", &packed, py::arg("keys"), py::kw_only(), py::arg("temperature"),
           py::arg("calls"), py::arg("elsewhere"))
      .def_property_readonly("list_turns", &list_turns)
      .def_property_readonly("fallback",
                             [](const Picked& picked) { return copied(picked.fallback); })
      .def_property_readonly("reranked", &reranked)
      .def_property_readonly("before_list", [](const Picked& picked) {
        return array_of(picked.before_list ? std::span<const std::int32_t>(*picked.before_list)
                                           : picked.selected());
      });

  py::class_<Selector, std::shared_ptr<Selector>>(m, "Selector")
      .def(py::init([](std::size_t size, const std::optional<RoutesStage>& routes, double services,
                       double marks, bool damps_marks,
                       const std::optional<RetrievalStage>& retrieval,
                       const std::optional<RetrievalStage>& by_words,
                       const std::optional<NoMatchStage>& no_match,
                       const std::optional<LearningStage>& learning,
                       const std::optional<ThompsonStage>& thompson, bool includes, Rows base,
                       Rows pinned, const CapStage& cap, const std::optional<ListStage>& list,
                       bool has_order) {
             return Selector(size, {routes, services, marks, damps_marks, retrieval, by_words,
                                    no_match, learning, thompson, includes, std::move(base),
                                    std::move(pinned), cap, list, has_order});
           }),
           py::kw_only(), py::arg("size"), py::arg("routes"), py::arg("services"), py::arg("marks"),
           py::arg("damps_marks"), py::arg("retrieval"), py::arg("by_words"), py::arg("no_match"),
           py::arg("learning"), py::arg("thompson"), py::arg("includes"), py::arg("base"),
           py::arg("pinned"), py::arg("cap"), py::arg("list"), py::arg("has_order"))
      .def("pick", &pick, py::arg("reading"), py::arg("allowed"), py::arg("page"),
           py::arg("routed"), py::arg("marks"), py::arg("called"), py::arg("outcomes"),
           py::arg("seed"), py::arg("k"), py::arg("room"), py::arg("max_tools"), py::arg("budget"),
           py::arg("included"), py::arg("conversation"), py::arg("sent"))
      .def_property_readonly("size", &Selector::size);
}

}  // namespace toolroll::bindings
