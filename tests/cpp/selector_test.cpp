#include "toolroll/selector.hpp"

#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocation.hpp"
#include "check.hpp"

namespace toolroll {
namespace {

constexpr std::size_t kRows = 120;
constexpr std::size_t kDim = 16;
constexpr double kNow = 1.7e9;

std::vector<float> random_vectors(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(count * kDim);
  for (float& value : all) value = normal(random);
  return all;
}

std::shared_ptr<const Retriever> retriever_of() {
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < kRows; ++row) texts.push_back("word" + std::to_string(row % 9));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Field field{views, 1.0};
  return std::make_shared<Retriever>(
      kRows, std::make_shared<VectorIndex>(VectorIndex::build(random_vectors(kRows, 1), kDim)),
      std::make_shared<Bm25Index>(Bm25Index::build({&field, 1}, {})));
}

SoftStages stages_of(std::shared_ptr<const Retriever> retriever) {
  SoftStages stages;
  stages.routes = RoutesStage{RouteMode::kFavour, 0.25F, std::nullopt, false};
  stages.services = 0.15;
  stages.marks = 0.1;
  RetrievalStage& retrieval = stages.retrieval.emplace();
  retrieval.retriever = std::move(retriever);
  retrieval.fusion = {1.0F, 0.0F, 0.1F, 200.0F, 0.0F, 0.3F, 0.3F, 0.0F};
  retrieval.candidates = 20;
  retrieval.core = 2;
  retrieval.rescored = 40;
  retrieval.calibration = Calibration({0.1F, 0.5F, 0.9F}, {0.1F, 0.2F}, true);
  retrieval.learns = true;
  stages.no_match = NoMatchStage{20, 0, true};
  const std::vector<std::int32_t> core = {110, 115};  // off the page: nothing else finds them
  stages.learning =
      LearningStage{RowMap::of(core), {1.25, 1.0, 0.1, 2.0, 1.0, 4.0, 2, 8.0, 0.0}, 0.1, 7};
  stages.includes = true;
  stages.base = {110};
  stages.pinned = {115};
  stages.cap = {core, 7, std::nullopt};
  stages.list = ListStage{8, false, 0.75, 3.0};
  stages.has_order = true;
  return stages;
}

Learned learned_of() {
  std::vector<Delta> deltas(40);
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    Delta& one = deltas[i];
    one = Delta{};
    one.at = kNow - 1000.0;
    one.everywhere = 1;
    one.arm = 1 + i % 9;
    one.intent = 100 + i % 9;
    one.successes = i % 3 == 0 ? 0.0 : 1.0;
    one.failures = 1.0 - one.successes;
    one.calls = 1.0;
    one.expected = 0.3;
    one.vector = -1;
    one.reporter = i;
  }
  return Learned(kDim).fold(deltas, {});
}

ToolKeys keys_of() {
  std::vector<std::uint64_t> arms, intents;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    arms.push_back(1 + row);
    intents.push_back(100 + row);
  }
  return ToolKeys(arms, intents, std::vector<std::uint64_t>(kRows, 0));
}

/// A turn that every stage has something to do for, and its memory.
struct World {
  Selector selector{kRows, stages_of(retriever_of())};
  Learned learned = learned_of();
  ToolKeys keys = keys_of();
  Bitset allowed = Bitset::full(kRows);
  Bitset page = Bitset::full(100);
  std::vector<float> vector = random_vectors(1, 5);
  std::vector<std::int32_t> routed = {1, 2, 50};
  std::vector<std::int32_t> marked = {2, 9, 60};
  std::vector<std::int32_t> called = {9, 10};
  std::vector<std::int32_t> included = {119};
  std::vector<std::int32_t> loaded = {12, -1};
  std::vector<std::int32_t> listed = {20, 21, -1, 22};
  std::vector<std::int64_t> turns = {1, 2, 3, 1};
  std::vector<std::int32_t> sent = {22, -1, 110};
  std::vector<std::int32_t> costs = std::vector<std::int32_t>(kRows, 10);
  std::vector<ToolkitRows> routes = {{routed, 1.0}};
  std::vector<MarkedRows> marks = {{marked, true}, {routed, false}};
  std::vector<ToolkitRows> calls = {{called, 0.2}};
  std::vector<Part> clauses = {{"word3", vector, 1.0F, 1.0F}, {"word4", {}, 1.0F, 1.0F}};

  World() { page = Bitset::join(Bitset::full(100), Bitset(20)); }

  Ask ask() const {
    return {.message = {"word3 and word4", vector, 1.0F},
            .clauses = clauses,
            .earlier = {},
            .allowed = allowed,
            .page = &page,
            .routed = routes,
            .marks = marks,
            .called = calls,
            .learned = &learned,
            .keys = &keys,
            .scopes = {1, 2, 3},
            .now = kNow,
            .seed = 42,
            .k = 5,
            .room = 1.5,
            .max_tools = 14,
            .budget = 100,
            .costs = {costs, {}},
            .included = included,
            .conversation = ConversationRows{false, loaded, called, listed, turns, 4},
            .sent = sent};
  }
};

bool equal(const Picked& a, const Picked& b) {
  return a.rows == b.rows && a.scores == b.scores && a.steps.size() == b.steps.size() &&
         a.retrieved->columns.scores == b.retrieved->columns.scores &&
         a.retrieved->confidence == b.retrieved->confidence && a.before_list == b.before_list &&
         a.list_turns == b.list_turns;
}

TEST_CASE("every stage leaves its step, and the last one is the selection") {
  const World world;
  const Picked picked = world.selector.pick(world.ask());
  std::string reasons;
  for (const Step& step : picked.steps) reasons += std::string(name(step.reason)) + ' ';
  CHECK(reasons ==
        "page.match route.hit mark.hit session.affinity retrieval.nearest learning.draw "
        "learning.order "
        "always_include base pinned cap.core_first cap.k cap.budget listing order.sent_first ");
  CHECK(picked.selected()[0] == 22);  // sent before
}

TEST_CASE("an allocation that fails in any place leaves nothing behind") {
  const World world;
  const Ask ask = world.ask();
  const Picked expected = world.selector.pick(ask);
  bool ran_through = false;
  for (std::size_t n = 0; !ran_through; ++n) {
    CAPTURE(n);
    fail_allocation(n);
    bool has_failed = false;
    try {
      static_cast<void>(world.selector.pick(ask));
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
    ran_through = allow_allocations();
    CHECK(has_failed != ran_through);
    CHECK(equal(world.selector.pick(ask), expected));
  }
}

TEST_CASE("four threads that share a selector get the single-threaded answer") {
  const World world;
  const Ask ask = world.ask();
  const Picked expected = world.selector.pick(ask);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) count += equal(world.selector.pick(ask), expected) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("misuse throws") {
  const World world;
  const std::vector<std::int32_t> beyond = {static_cast<std::int32_t>(kRows)};
  const std::vector<std::int32_t> unknown = {-1};
  const std::vector<float> not_finite(kDim, std::numeric_limits<float>::quiet_NaN());
  const Bitset small(3);
  const std::vector<ToolkitRows> routes = {{beyond, 1.0}};
  const std::vector<MarkedRows> marks = {{unknown, true}};
  const std::vector<ToolkitRows> calls = {{beyond, 1.0}};
  const std::vector<std::function<void(Ask&)>> mistakes = {
      [&](Ask& ask) { ask.page = &small; },
      [&](Ask& ask) { ask.routed = routes; },
      [&](Ask& ask) { ask.marks = marks; },
      [&](Ask& ask) { ask.called = calls; },
      [&](Ask& ask) { ask.included = unknown; },
      [&](Ask& ask) { ask.sent = beyond; },
      [&](Ask& ask) { ask.keys = nullptr; },
      [&](Ask& ask) { ask.room = -1.0; },
      [&](Ask& ask) { ask.costs[0] = {}; },
      [&](Ask& ask) { ask.conversation->listed = beyond; },
      [&](Ask& ask) { ask.message.vector = not_finite; },
  };
  for (const auto& mistake : mistakes) {
    Ask ask = world.ask();
    mistake(ask);
    CHECK_THROWS_AS(static_cast<void>(world.selector.pick(ask)), std::invalid_argument);
  }
  SoftStages stages = stages_of(retriever_of());
  stages.base = beyond;
  CHECK_THROWS_AS(Selector(kRows, stages), std::invalid_argument);
  CHECK_THROWS_AS(Selector(kRows + 1, stages_of(retriever_of())), std::invalid_argument);
  CHECK_THROWS_AS(Selector(kRows, stages_of(nullptr)), std::invalid_argument);
}

TEST_CASE("a score of nothing gives no confidence, and a better one more") {
  const Calibration calibration({0.1F, 0.5F, 0.9F}, {0.2F}, true);
  CHECK(calibration.confidence(0.0, true, 1.0) == 0.0);
  double before = 0.0;
  for (const double score : {0.05, 0.1, 0.4, 0.5, 0.8, 1.5}) {
    const double confidence = calibration.confidence(score, true, 1.0);
    CHECK(confidence > before);
    before = confidence;
  }
  CHECK(before < 1.0);
}

}  // namespace
}  // namespace toolroll
