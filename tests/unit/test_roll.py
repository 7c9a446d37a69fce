"""Building, refreshing, failing."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.table import each_row
from toolroll import Context, Profile, Route, Rule, Tool, Toolkit, Toolroll
from toolroll import roll as toolroll_roll
from toolroll.model.errors import (
    Denied,
    EmbedderUnavailable,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    Overloaded,
)
from toolroll.model.tools import Definitions
from toolroll.selection import engine

WEATHER = {
    "name": "weather",
    "keywords": ["rain"],
    "tasks": [
        {"type": "function", "function": {"name": "forecast", "description": "Weather", "parameters": {}}}
    ],
}

DEMO = Path(toolroll_roll.__file__).parent / "demo" / "toolkits"


def test_a_folder_is_read_and_read_again(tmp_path):
    (tmp_path / "weather.json").write_text(json.dumps(WEATHER))
    roll = Toolroll.from_folder(tmp_path)
    before = roll.catalog.revision
    assert roll.select("rain", k=1).names == ("forecast",)
    WEATHER2 = {**WEATHER, "tasks": [{"function": {"name": "outlook", "description": "Weather"}}]}
    (tmp_path / "weather.json").write_text(json.dumps(WEATHER2))
    roll.refresh()
    assert roll.select("rain", k=1).names == ("outlook",)
    assert roll.catalog.revision != before


def test_the_last_good_catalog_goes_on_serving(tmp_path):
    (tmp_path / "weather.json").write_text(json.dumps(WEATHER))
    roll = Toolroll.from_folder(tmp_path)
    (tmp_path / "weather.json").write_text('{"name": "weather",\n "tasks": [}')
    with pytest.raises(InvalidDefinition, match=r"weather\.json:2"):
        roll.refresh()
    assert roll.select("rain", k=1).names == ("forecast",)


def test_tools_may_be_replaced_whole():
    roll = Toolroll.from_tools([Tool("a", "alpha")])
    roll.refresh([Tool("b", "beta")])
    assert roll.select("beta", k=1).names == ("b",)
    with pytest.raises(InvalidInput, match="made from objects"):
        roll.refresh()


def test_toolkits_and_routes_that_were_given_survive_a_refresh():
    tools = [Tool("secret_pay", "pay", toolkit="bank"), Tool("look", "look at things")]
    roll = Toolroll.from_tools(
        tools, toolkits=[Toolkit("bank", settings_keys=("bank_key",))], routes=[Route(("bank",), ("money",))]
    )
    roll.refresh(tools)
    assert "secret_pay" not in roll.select("pay the money", k=2)
    paying = roll.select("pay the money", Context(settings=("bank_key",)), k=2)
    assert "keyword 'money'" in paying.explain("secret_pay")


def test_a_selection_keeps_the_catalog_it_was_made_from():
    roll = Toolroll.from_tools([Tool("a", "alpha")])
    picked = roll.select("alpha", k=1)
    roll.refresh([Tool("b", "beta")])
    assert picked.names == ("a",)
    with pytest.raises(Denied):  # what is deleted cannot be called any more
        picked.check("a")
    assert "alpha" in picked.schemas("openai")[0]["function"]["description"]


def test_duplicate_names_are_refused_with_both_homes():
    twins = (Tool("send", toolkit="mail"), Tool("send", toolkit="sms"))
    with pytest.raises(
        InvalidDefinition, match=r"tools\[1\]: tool 'send': name is already taken by tools\[0\]"
    ):
        Toolroll.from_tools(twins)
    with pytest.raises(InvalidDefinition, match=r"'send'.*more than once.*mail.*sms"):
        Toolroll.from_definitions(Definitions(twins))


@pytest.mark.parametrize(
    ("toolkits", "what"),
    [
        ((Toolkit("a", parent="nowhere"),), "parent 'nowhere' is not in the catalog"),
        ((Toolkit("a", parent="b"), Toolkit("b", parent="a")), "cycle: a → b → a"),
        ((Toolkit("a"), Toolkit("a")), "more than once"),
    ],
)
def test_toolkits_that_do_not_hang_together_are_refused(toolkits, what):
    with pytest.raises(InvalidDefinition, match=what):
        Toolroll.from_tools([Tool("t", toolkit="a")], toolkits=toolkits)


@pytest.mark.parametrize(
    ("route", "what"),
    [
        (Route(("wether",), ("rain",)), "did you mean 'weather'"),
        (Route(("weather",), (" ",)), "keyword is empty"),
        (Route(("weather",), (), ("(?=rain)",)), "not valid RE2"),
    ],
)
def test_routes_that_lead_nowhere_are_refused(route, what):
    with pytest.raises(InvalidDefinition, match=what):
        Toolroll.from_tools([Tool("t", toolkit="weather")], routes=[route])


def test_unknown_choices_are_named():
    with pytest.raises(NotFound, match="profile 'best': unknown; known are default"):
        Toolroll.from_tools([], profile="best")
    with pytest.raises(NotFound, match="embedder 'bert': unknown; known are static"):
        Toolroll.from_tools([], embedder="bert")
    with pytest.raises(NotFound, match="no such file or folder"):
        Toolroll.from_folder("/no/such/folder")


@pytest.mark.parametrize(
    "answer",
    [
        np.ones((1, 8)),
        np.ones((2, 4)),
        np.ones(2),
        np.full((16, 8), np.nan),
        None,
        EmbedderUnavailable("down"),
    ],
    ids=str,
)
def test_where_tools_cannot_be_embedded_words_decide_until_refresh(answer, caplog):
    class Wrong(Lying):
        def embed(self, texts):
            if isinstance(self.answer, Exception):
                raise self.answer
            return super().embed(texts) if self.answer is True else self.answer

        def embed_query(self, text):
            return self.embed([text])[0]

    tools = [Tool("a", "alpha"), Tool("b", "beta")]
    embedder = Wrong(0)
    embedder.answer = answer
    roll = Toolroll.from_tools(tools, embedder=embedder)
    assert "built without vectors until refresh()" in caplog.text
    picked = roll.select("beta", k=1)
    assert picked.names == ("b",)
    assert set(picked.degraded) == {"embedder"}
    assert picked.confidence == roll_by_words(tools).select("beta", k=1).confidence
    with pytest.raises(EmbedderUnavailable):
        roll.refresh(tools)
    assert roll.select("beta", k=1).names == ("b",)
    embedder.answer = True
    roll.refresh(tools)
    assert roll.select("beta", k=1).degraded == ()
    assert "selection is whole again" in caplog.text


def roll_by_words(tools) -> Toolroll:
    return Toolroll.from_tools(tools, embedder="none")


def test_a_message_that_can_be_embedded_is_read_by_words_where_the_tools_could_not_be():
    class Late(Lying):
        def embed(self, texts):
            raise EmbedderUnavailable("not yet")

    tools = [Tool("a", "alpha"), Tool("b", "beta")]
    roll = Toolroll.from_tools(tools, embedder=Late(np.ones(8) / np.sqrt(8)))
    picked = roll.select("beta", k=1)
    assert picked.degraded == ("embedder",)
    assert picked.confidence == roll_by_words(tools).select("beta", k=1).confidence


@each_row(
    "changes",
    [{"k": -1}, {"max_tools": -1}, {"candidates": -1}, {"dense": float("inf")}, {"threshold": float("nan")},
     {"routes": "bogus"}, {"lexical": "x"}, {"k": 1.5}, {"minimum": -1}, {"minimum": None}, {"intents": -1.0},
     {"intent_floor": 2}, {"clauses": 1.1}, {"clauses": -0.1}, {"clauses": "x"}, {"least_confidence": -0.1},
     {"least_confidence": 1.5}, {"least_confidence": None}, {"lexical_saturation": 0}, {"lexical_saturation": float("nan")},
     {"toolkit_threshold": 1.5}, {"toolkit_threshold": "x"}, {"on_no_tool": "raise"}, {"on_no_tool": []},
     {"damping": 1}, {"spelling": "yes"}],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(changes):
    (name,) = changes
    with pytest.raises(InvalidInput, match=f"parameter {name}: is"):
        Profile(**changes)
    with pytest.raises(InvalidInput, match="parameter 'heat': unknown"):
        Profile().with_(heat=1)


@each_row(
    ("arguments", "what"),
    [
        ({"toolkits": [{"name": "a"}]}, "toolkits: holds"),
        ({"routes": [{"keywords": ["a"]}]}, "routes: holds"),
        ({"embedder": 5}, "embedder: is 5"),
        ({"profile": None}, "profile: is None"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(arguments, what):
    with pytest.raises(InvalidInput, match=what):
        Toolroll.from_tools([Tool("a")], **arguments)


def test_more_patterns_than_re2_can_hold_are_a_clear_error():
    routes = [Route(("kit",), (), tuple(f"(a|b|c{i}){{200}}x{i}.{{900}}" for i in range(300)))]
    with pytest.raises(InvalidDefinition, match="their 300 patterns together need more than"):
        Toolroll.from_tools([Tool("a", toolkit="kit")], routes=routes)


class Lying:
    """An embedder that answers well for tools and in some way badly for messages."""

    identity, dim, is_instant = "lying@1", 8, True

    def __init__(self, answer):
        self.answer = answer

    def embed(self, texts):
        rows = np.ones((len(texts), 8), np.float32)
        return rows / np.sqrt(np.float32(8))

    def embed_query(self, text):
        if isinstance(self.answer, Exception):
            raise self.answer
        return np.array(self.answer, np.float32)


@pytest.mark.parametrize(
    "answer",
    [
        EmbedderUnavailable("down"),
        RuntimeError("boom"),
        [np.nan] * 8,
        [1.0] * 8,
        [1.0],
        [[1.0] * 8],
        [np.inf] * 8,
    ],
    ids=str,
)
def test_an_embedder_that_fails_or_lies_costs_its_own_contribution_only(answer, caplog):
    roll = Toolroll.from_tools([Tool("a", "alpha"), Tool("b", "beta")], embedder=Lying(answer))
    picked = roll.select("beta", k=1)
    assert picked.names == ("b",)
    assert picked.degraded == ("embedder",)
    assert "embedder" in picked.summary()
    assert "selection degraded: embedder" in caplog.text
    with pytest.raises(EmbedderUnavailable if not isinstance(answer, RuntimeError) else RuntimeError):
        roll.select("beta", k=1, strict=True)


def test_without_an_embedder_words_decide():
    roll = Toolroll.from_tools([Tool("a", "alpha"), Tool("b", "beta")], embedder="none")
    picked = roll.select("beta", k=1)
    assert picked.names == ("b",)
    assert picked.degraded == ()


def test_selecting_in_an_event_loop_gives_the_same(demo):
    message = "will it rain in Lisbon?"
    assert asyncio.run(demo.aselect(message, k=3)).names == demo.select(message, k=3).names


def test_a_slow_embedder_does_not_block_the_event_loop():
    class Slow(Lying):
        is_instant = False

        def embed_query(self, text):
            assert threading.current_thread() is not threading.main_thread()
            return super().embed_query(text)

    roll = Toolroll.from_tools([Tool("a", "alpha")], embedder=Slow(np.ones(8) / np.sqrt(8)))
    assert asyncio.run(roll.aselect("alpha", k=1)).degraded == ()


def test_many_threads_select_while_the_catalog_is_swapped():
    catalogs = ([Tool("a", "alpha"), Tool("c", "gamma")], [Tool("b", "alpha")])
    roll = Toolroll.from_tools(catalogs[0])
    wrong: list[object] = []
    done = threading.Event()

    def select() -> None:
        while not done.is_set():
            picked = roll.select("alpha", Context(user="u"), k=1)
            if picked.names not in (("a",), ("b",)) or picked.degraded:
                wrong.append(picked.summary())

    threads = [threading.Thread(target=select) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(30):
        roll.refresh(catalogs[i % 2])
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_graph_gives_the_same_tools_on_a_small_catalog():
    tools = [
        Tool(f"tool_{i}", f"{word} things") for i, word in enumerate(["red", "green", "blue", "mail", "rain"])
    ]
    exact, graph = Toolroll.from_tools(tools), Toolroll.from_tools(tools, hnsw=True)
    assert graph.select("blue", k=2).names == exact.select("blue", k=2).names


def test_importing_toolroll_loads_neither_numpy_nor_the_core():
    code = "import sys, toolroll; print('numpy' in sys.modules, 'toolroll._core' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_an_unknown_public_name_is_an_attribute_error():
    import toolroll

    with pytest.raises(AttributeError, match="no attribute 'Toolrol'"):
        toolroll.Toolrol  # noqa: B018
    assert {"Toolroll", "Context", "Tool"} <= set(dir(toolroll))


class Dishonest:
    """An embedder of the wrong kind: what it answers is given to it."""

    identity, dim, is_instant = "dishonest@1", 8, True

    def __init__(self, texts, query=None):
        self._texts, self._query = texts, query

    def embed(self, texts):
        return self._texts(len(texts))

    def embed_query(self, text):
        return self._query(1)[0]


def _honest(n):
    rows = np.random.default_rng(n).standard_normal((n, 8))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _fails(n):
    raise RuntimeError("no memory")


MANY = [Tool(f"tool_{n}", f"does the thing with number {n}") for n in range(30)]


@each_row(
    "texts",
    [
        _fails,
        lambda n: np.full((n, 8), np.nan),
        lambda n: 7 * _honest(n),
        lambda n: _honest(n)[:, :4],
        lambda n: "no",
    ],
)
def test_tools_that_an_embedder_cannot_embed_are_found_by_words_and_the_embedder_is_named(texts):
    roll = Toolroll.from_tools(MANY, embedder=Dishonest(texts, _honest))
    picked = roll.select("thing with number 7", k=3)
    assert picked.names[0] == "tool_7" and picked.degraded == ("embedder",)
    with pytest.raises(EmbedderUnavailable):
        roll.select("thing with number 7", k=3, strict=True)
    with pytest.raises(EmbedderUnavailable):
        roll.refresh(MANY)


@each_row(
    "query",
    [_fails, lambda n: np.full((n, 8), np.nan), lambda n: np.zeros((n, 8)), lambda n: _honest(n)[:, :4]],
)
def test_a_message_that_an_embedder_cannot_embed_is_read_by_words_and_the_embedder_is_named(query):
    roll = Toolroll.from_tools(MANY, embedder=Dishonest(_honest, query))
    picked = roll.select("thing with number 7", k=3)
    assert picked.names[0] == "tool_7" and picked.degraded == ("embedder",)


def test_vectors_of_another_float_type_are_vectors():
    roll = Toolroll.from_tools(MANY, embedder=Dishonest(_honest, lambda n: _honest(n).astype(np.float64)))
    assert roll.select("thing with number 7", k=3).degraded == ()


@each_row("name", ["dense", "lexical", "intents", "threshold", "route_weight"])
def test_a_weight_beyond_all_measure_is_refused(name):
    with pytest.raises(InvalidInput, match=f"parameter {name}"):
        Profile(**{name: 1e300})


# What a call always includes.


def test_a_tool_that_is_always_included_is_selected_whatever_the_message_and_k_does_not_count_it():
    roll = Toolroll.demo()
    without = roll.select("Should I bring an umbrella?", k=3)
    wanted = roll.select("Should I bring an umbrella?", k=20).names[-1]
    assert wanted not in without
    picked = roll.select("Should I bring an umbrella?", k=3, always_include=[wanted])
    assert set(picked.names) == {*without.names, wanted}
    assert picked.missing_required == ()


def test_a_denied_tool_is_not_included_and_is_named_as_missing():
    tools = [Tool("wire_money", "Sends money"), *(Tool(f"tool_{n}", f"Does thing {n}") for n in range(20))]
    roll = Toolroll.from_tools(tools, rules=[Rule("no money", "deny", "org", {"org": ""}, tool="wire_money")])
    picked = roll.select("thing 3", k=2, always_include=["wire_money", "nobody"])
    assert "wire_money" not in picked
    assert picked.missing_required == ("wire_money", "nobody")


def test_a_tool_that_is_always_included_twice_is_selected_once():
    roll = Toolroll.from_tools(
        [Tool("now", toolkit="base"), Tool("later")], toolkits=[Toolkit("base", base=True)]
    )
    picked = roll.select("", k=0, always_include=["later", "now", "later", "now"])
    assert picked.names == ("now", "later")
    assert picked.schemas("openai")


@pytest.mark.parametrize("names", ["wire_money", [3], 7])
def test_what_is_no_collection_of_names_cannot_be_included(names):
    with pytest.raises(InvalidInput, match="always_include"):
        Toolroll.demo().select("x", always_include=names)


# Every roll can be closed, flushed, asked for its health and used in a `with`.


def test_a_roll_without_tools_is_true():
    with Toolroll.from_tools([]) as roll:
        assert len(roll) == 0 and roll


def test_a_roll_in_memory_is_closed_and_flushed_and_well():
    with Toolroll.demo() as roll:
        assert roll.flush(0)
        roll.warm_up()
        assert roll.ready
        assert roll.health() == {
            "ready": True,
            "degraded": [],
            "why": [],
            "catalog_revision": roll.catalog.revision,
            "tools": 214,
            "graph": {"state": "none", "rows": 0},
            "sessions": {"held": 0},
            "revision": None,
            "age_s": None,
            "organisations": None,
            "recording": None,
        }
    assert roll.select("rain?").names  # it goes on serving
    assert not roll.ready and not roll.health()["ready"] and "is closed" in roll.health()["why"][0]


def test_an_embedder_that_fails_degrades_a_roll_that_stays_ready():
    def fails(count):
        raise EmbedderUnavailable("the model is away")

    with Toolroll.from_tools(MANY, embedder=Dishonest(fails, _honest)) as roll:
        health = roll.health()
        assert roll.ready and health["ready"] and health["degraded"] == ["embedder"]
        assert "the model is away" in health["why"][0]


def test_every_call_that_may_wait_has_a_twin_for_event_loops():
    async def main():
        async with Toolroll.from_tools([Tool("a", "alpha"), Tool("b", "beta")]) as roll:
            session = await roll.asession("talk", Context(user="ann"))
            assert (await session.aselect("beta", k=1)).names[0] == "b"
            picked = await roll.aselect("beta", k=1)
            receipt = await roll.areceipt(picked)
            assert (await roll.arecord(receipt, {"b": True}, reporter="ann")).event_id == picked.event_id
            assert len(await roll.arefresh([Tool("c", "gamma")])) == 1
            await roll.awarm_up(["acme"])
            assert await roll.aflush(0)
            with pytest.raises(InvalidInput, match="not kept"):
                await roll.aforget_outcomes(actor="ann", event=picked.event_id)
        assert not roll.ready

    asyncio.run(main())


def test_embedders_that_hang_do_not_take_the_threads_of_the_hosts_event_loop():
    let_go = threading.Event()

    class Hanging(Lying):
        is_instant = False

        def embed_query(self, text):
            let_go.wait(60)
            return super().embed_query(text)

    roll = Toolroll.from_tools([Tool("a", "alpha")], embedder=Hanging(np.ones(8) / np.sqrt(8)))

    async def main():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        selecting = [asyncio.ensure_future(roll.aselect("alpha", k=1)) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 30) == "free"
        assert (await roll.areceipt(roll.select("alpha", Context(required=("a",))))) != ""
        assert not any(one.done() for one in selecting)
        selecting[0].cancel()
        let_go.set()
        done = await asyncio.gather(*selecting, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError)
        assert [one.names for one in done[1:]] == [("a",)] * 9
        assert (await roll.aselect("alpha", k=1)).degraded == ()

    asyncio.run(main())


def test_a_turn_that_finds_no_thread_for_its_embedder_is_decided_by_words(monkeypatch):
    monkeypatch.setattr(engine, "_EMBEDDINGS", 2)
    monkeypatch.setattr(engine, "_EMBEDDING_PATIENCE_S", 0.1)
    let_go = threading.Event()

    class Hanging(Lying):
        is_instant = False

        def embed_query(self, text):
            let_go.wait(60)
            return super().embed_query(text)

    roll = Toolroll.from_tools([Tool("a", "alpha"), Tool("b", "beta")], embedder=Hanging(np.eye(8)[0]))

    async def main():
        hanging = [asyncio.ensure_future(roll.aselect("beta", k=1)) for _ in range(2)]
        picked = await asyncio.wait_for(roll.aselect("beta", k=1), 30)
        assert picked.names == ("b",) and picked.degraded == ("embedder",)
        assert isinstance(picked.failures[0].error, Overloaded)
        assert "2 calls run and 0 wait" in str(picked.failures[0])
        let_go.set()
        await asyncio.gather(*hanging)

    asyncio.run(main())


def test_a_receipt_of_a_roll_in_memory_can_be_recorded():
    roll = Toolroll.demo()
    picked = roll.select("rain?", k=3)
    assert roll.record(roll.receipt(picked), [picked.names[-1]]).counted
    with pytest.raises(NotFound, match="another organisation"):
        roll.record(roll.receipt(picked), org="acme")


def test_outcomes_in_memory_are_not_kept_so_none_can_be_taken_back():
    with pytest.raises(InvalidInput, match=r"Toolroll\.open"):
        Toolroll.demo().forget_outcomes(actor="ann", event="e")


def test_a_turn_is_a_plain_value_that_can_be_pickled():
    roll = Toolroll.demo()
    session = roll.session("s")
    picked = session.select("rain tomorrow, then plan a run", history=["hello there"])
    roll.record(picked, [picked.names[0]])
    turn = session.select("and on Friday?").turn
    copy = pickle.loads(pickle.dumps(turn))
    assert turn.learned is not None
    assert copy.learned.to_bytes() == turn.learned.to_bytes()
    assert copy.conversation == turn.conversation
    assert (copy.text, copy.context, copy.seed, copy.engine_id) == (
        turn.text,
        turn.context,
        turn.seed,
        turn.engine_id,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_a_fork_can_record_and_refresh_whatever_other_threads_were_doing():
    roll = Toolroll.from_folder(DEMO)
    home = roll._home
    picked = roll.select("rain?", k=3)
    held = threading.Event()

    def work() -> None:
        with home._building, home._memory.recording:
            held.set()
            time.sleep(0.3)

    thread = threading.Thread(target=work)
    thread.start()
    assert held.wait(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: that is the test
        child = os.fork()
    if not child:  # a child that waits for a lock of the parent's thread is ended by the alarm
        signal.alarm(20)
        roll.record(picked, [picked.names[0]])
        roll.refresh()
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


@each_row(
    ("call", "problem"),
    [
        (lambda roll: roll.why("rain", "ann"), "context"),
        (lambda roll: roll.may("rain", "ann"), "context"),
        (lambda roll: roll.select("rain").deliver("openai", strict=[]), "strict"),
        (lambda roll: roll.select("rain").schemas("openai", returns=1), "returns"),
        (lambda roll: roll.select("rain").sent_names([]), "provider"),
        (lambda roll: roll.close("soon"), "timeout_s"),
        (lambda roll: Toolroll.from_folder(None), "path"),
        (lambda roll: Toolroll.from_tools([], hnsw="yes"), "hnsw"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(call, problem):
    roll = Toolroll.from_tools([Tool("rain", "weather")])
    with pytest.raises(InvalidInput, match=problem):
        call(roll)
    assert roll.ready


def test_what_is_no_name_is_no_tool():
    with pytest.raises(NotFound, match="no name"):
        Toolroll.from_tools([]).why(["a"])


@pytest.mark.parametrize(
    ("make", "argument", "option"),
    [
        (Toolroll.from_tools, [], "embeder"),
        (Toolroll.from_definitions, Definitions(), "rules"),
        (Toolroll.load, "tools.catalog", "hnsw"),
    ],
)
def test_an_option_that_a_call_does_not_have_is_refused_with_those_that_it_has(make, argument, option):
    with pytest.raises(
        TypeError, match=rf"^Toolroll\.{make.__name__}\(\) got .* '{option}'; it takes embedder"
    ):
        make(argument, **{option: None})
