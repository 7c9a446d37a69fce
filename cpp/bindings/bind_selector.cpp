#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "gil.hpp"
#include "packed_calls.hpp"
#include "toolroll/message_reader.hpp"
#include "toolroll/selector.hpp"

namespace toolroll::bindings {
namespace {

using Rows = std::vector<std::int32_t>;

/// A count that may be open. One that is larger than any catalog is as good as that many rows.
std::optional<std::size_t> count_of(const char* name, py::handle number) {
  if (number.is_none()) return std::nullopt;
  int overflow = 0;
  const long long count = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (count == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (count < 0 && overflow <= 0) throw std::invalid_argument(std::string(name) + ": is below 0");
  constexpr long long kLargest = 1LL << 31;
  return static_cast<std::size_t>(overflow > 0 ? kLargest : std::min(count, kLargest));
}

/// The rows of a toolkit that was hit or called before, and what they gain. Rows are copied here
/// and below, because a search reads them while the interpreter is released.
struct OwnedToolkitRows {
  Rows rows;
  double weight;
};

/// The rows that deal with each mark of a message, or belong to a service that it names.
class OwnedMarks {
 public:
  OwnedMarks(std::vector<Rows> rows, const std::vector<bool>& is_service) : rows_(std::move(rows)) {
    if (is_service.size() != rows_.size()) {
      throw std::invalid_argument("is_service: must have one entry a mark");
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) marks_.push_back({rows_[i], is_service[i]});
  }
  OwnedMarks(const OwnedMarks&) = delete;
  OwnedMarks& operator=(const OwnedMarks&) = delete;
  std::span<const MarkedRows> get() const { return marks_; }

 private:
  std::vector<Rows> rows_;
  std::vector<MarkedRows> marks_;
};

/// What was learnt, with the keys of the rows, the scopes of the turn and the time.
struct Outcomes {
  std::shared_ptr<const Learned> learned;
  std::shared_ptr<const ToolKeys> keys;
  Scopes scopes;
  std::uint64_t plain;
  double now;
};

/// Tokens, and what each row costs: in one array or two.
struct Budget {
  std::int64_t tokens;
  Column<std::int32_t> costs;
  std::optional<Column<std::int32_t>> own_costs;
};

/// The rows of a conversation's tools; -1 for a name that is not in the catalog.
struct OwnedConversationRows {
  bool is_whole;
  Rows loaded, recent, listed;
  std::vector<std::int64_t> picked;
  std::int64_t turn;

  ConversationRows get() const { return {is_whole, loaded, recent, listed, picked, turn}; }
};

/// The scores that a function of Python gives to rows; the same ones for None.
class PythonRerank {
 public:
  explicit PythonRerank(py::function function)
      : function_(new py::function(std::move(function)), [](py::function* one) {
          const py::gil_scoped_acquire locked;
          delete one;
        }) {}
  std::optional<std::vector<float>> operator()(std::span<const std::int32_t> rows,
                                               std::span<const float> scores) const {
    const py::gil_scoped_acquire locked;
    const py::object given = (*function_)(copied(snapshot(rows)), copied(snapshot(scores)));
    if (given.is_none()) return std::nullopt;
    return snapshot(column_of<float>("scores", given.cast<py::array>()));
  }

 private:
  std::shared_ptr<py::function> function_;
};

/// One turn, as `pick` takes it. Frozen; it holds what it refers to.
struct TurnInput {
  py::object reading, allowed, page;  // Reading, Bitset, Bitset or None
  std::uint64_t seed;
  std::optional<std::size_t> k;
  double room;
  std::optional<std::size_t> max_tools;
  std::vector<OwnedToolkitRows> routed, called;
  std::shared_ptr<const OwnedMarks> marks;
  std::shared_ptr<const Outcomes> outcomes;
  std::shared_ptr<const Budget> budget;
  Rows included, sent;
  std::shared_ptr<const OwnedConversationRows> conversation;
  std::vector<Rerank> rerank;
};

/// Objects are converted only where they are given: most turns have none of those with a default.
TurnInput turn_input(py::object reading, py::object allowed, std::uint64_t seed,
                     const py::object& k, double room, const py::object& max_tools, py::object page,
                     const py::object& routed, const py::object& marks, const py::object& called,
                     const py::object& outcomes, const py::object& budget,
                     const py::object& included, const py::object& conversation,
                     const py::object& sent, const py::object& rerank) {
  TurnInput turn{.reading = std::move(reading),
                 .allowed = std::move(allowed),
                 .page = std::move(page),
                 .seed = seed,
                 .k = count_of("k", k),
                 .room = room,
                 .max_tools = count_of("max_tools", max_tools)};
  const auto take = [](const py::object& given, auto& field) {
    if (!given.is_none()) field = given.cast<std::decay_t<decltype(field)>>();
  };
  take(routed, turn.routed);
  take(called, turn.called);
  take(included, turn.included);
  take(sent, turn.sent);
  if (!marks.is_none()) turn.marks = marks.cast<std::shared_ptr<OwnedMarks>>();
  if (!outcomes.is_none()) turn.outcomes = outcomes.cast<std::shared_ptr<Outcomes>>();
  if (!budget.is_none()) turn.budget = budget.cast<std::shared_ptr<Budget>>();
  if (!conversation.is_none()) {
    turn.conversation = conversation.cast<std::shared_ptr<OwnedConversationRows>>();
  }
  if (!rerank.is_none()) {
    for (const py::function& one : rerank.cast<std::vector<py::function>>()) {
      turn.rerank.emplace_back(PythonRerank(one));
    }
  }
  return turn;
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

Picked pick(const Selector& selector, const TurnInput& turn) {
  const auto& reading = turn.reading.cast<const Reading&>();
  const Passage& query = reading.query;
  const std::vector<Part> clauses = parts_of(reading.clauses);
  const std::vector<Part> earlier = parts_of(reading.earlier);
  std::vector<ToolkitRows> routed, called;
  for (const OwnedToolkitRows& one : turn.routed) routed.push_back({one.rows, one.weight});
  for (const OwnedToolkitRows& one : turn.called) called.push_back({one.rows, one.weight});
  Ask ask{.message = {query.text, query.vector, static_cast<float>(query.trust)},
          .trust = query.trust,
          .clauses = clauses,
          .earlier = earlier,
          .allowed = turn.allowed.cast<const Bitset&>(),
          .page = turn.page.is_none() ? nullptr : turn.page.cast<const Bitset*>(),
          .routed = routed,
          .marks = turn.marks ? turn.marks->get() : std::span<const MarkedRows>(),
          .called = called,
          .seed = turn.seed,
          .k = turn.k,
          .room = turn.room,
          .max_tools = turn.max_tools,
          .included = turn.included,
          .sent = turn.sent,
          .rerank = turn.rerank};
  if (const Outcomes* const outcomes = turn.outcomes.get()) {
    ask.learned = outcomes->learned.get();
    ask.keys = outcomes->keys.get();
    ask.scopes = outcomes->scopes;
    ask.plain = outcomes->plain;
    ask.now = outcomes->now;
  }
  if (const Budget* const budget = turn.budget.get()) {
    ask.budget = budget->tokens;
    ask.costs[0] = view(budget->costs);
    if (budget->own_costs) ask.costs[1] = view(*budget->own_costs);
  }
  if (turn.conversation) ask.conversation = turn.conversation->get();
  const GilReleasedIf unlocked(selector.expected_ns(ask) > kWorthReleasingNs);
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
      .def(py::init(
               [](Rows core, std::optional<std::size_t> k, std::optional<std::size_t> max_tools) {
                 return CapStage{std::move(core), k, max_tools};
               }),
           py::arg("core"), py::arg("k"), py::arg("max_tools"));
  py::class_<ListStage>(m, "ListStage")
      .def(py::init<std::size_t, bool, double, double>(), py::arg("sticky_tools"),
           py::arg("counts_added"), py::arg("newcomers"), py::arg("growth"));

  py::class_<OwnedToolkitRows>(m, "ToolkitRows")
      .def(py::init([](const Column<std::int32_t>& rows, double weight) {
             return OwnedToolkitRows{snapshot(view(rows)), weight};
           }),
           py::arg("rows").noconvert(), py::arg("weight"));
  py::class_<OwnedMarks, std::shared_ptr<OwnedMarks>>(m, "MarkedRows")
      .def(py::init<std::vector<Rows>, std::vector<bool>>(), py::arg("rows"),
           py::arg("is_service"));
  py::class_<Outcomes, std::shared_ptr<Outcomes>>(m, "Outcomes")
      .def(py::init([](std::shared_ptr<Learned> learned, std::shared_ptr<ToolKeys> keys,
                       const std::array<std::uint64_t, 4>& scopes, double now) {
             return Outcomes{std::move(learned),
                             std::move(keys),
                             {scopes[0], scopes[1], scopes[2]},
                             scopes[3],
                             now};
           }),
           py::arg("learned"), py::arg("keys"), py::arg("scopes"), py::arg("now"));
  py::class_<Budget, std::shared_ptr<Budget>>(m, "Budget")
      .def(py::init([](const py::int_& tokens, Column<std::int32_t> costs,
                       std::optional<Column<std::int32_t>> own_costs) {
             int overflow = 0;
             const long long left = PyLong_AsLongLongAndOverflow(tokens.ptr(), &overflow);
             return Budget{overflow > 0 ? std::numeric_limits<std::int64_t>::max() : left,
                           std::move(costs), std::move(own_costs)};
           }),
           py::arg("tokens"), py::arg("costs").noconvert(),
           py::arg("own_costs").noconvert() = py::none());
  py::class_<OwnedConversationRows, std::shared_ptr<OwnedConversationRows>>(m, "ConversationRows")
      .def(py::init<bool, Rows, Rows, Rows, std::vector<std::int64_t>, std::int64_t>(),
           py::kw_only(), py::arg("is_whole"), py::arg("loaded"), py::arg("recent"),
           py::arg("listed"), py::arg("picked"), py::arg("turn"));
  py::class_<TurnInput>(m, "TurnInput")
      .def(py::init(&turn_input), py::arg("reading"), py::arg("allowed"), py::arg("seed"),
           py::arg("k"), py::arg("room"), py::arg("max_tools"), py::kw_only(),
           py::arg("page") = py::none(), py::arg("routed") = py::none(),
           py::arg("marks") = py::none(), py::arg("called") = py::none(),
           py::arg("outcomes") = py::none(), py::arg("budget") = py::none(),
           py::arg("included") = py::none(), py::arg("conversation") = py::none(),
           py::arg("sent") = py::none(), py::arg("rerank") = py::none());

  py::class_<Picked>(m, "Picked")
      .def_property_readonly("selected", &selected)
      .def_property_readonly("rows",
                             [](const Picked& picked) { return array_of(picked.selected()); })
      .def_property_readonly(
          "scores", [](const Picked& picked) { return array_of(picked.selected_scores()); })
      .def_property_readonly("steps", &steps)
      .def_readonly("pools", &Picked::pools)
      .def_readonly("routed", &Picked::routed)
      .def_property_readonly("marked", [](const Picked& picked) { return copied(picked.marked); })
      .def_property_readonly("mark_gains", &mark_gains)
      .def_readonly("own_steps", &Picked::own_steps)
      .def_readonly("core", &Picked::core)
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
      .def("pick", &pick, py::arg("turn"))
      .def_property_readonly("size", &Selector::size);
}

}  // namespace toolroll::bindings
