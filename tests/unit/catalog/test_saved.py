"""A saved catalog answers as the built one, shares its memory, and refuses every damaged file."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as some
from tests.table import each_row
from toolroll import Context, Profile, Route, Rule, Tool, Toolkit, Toolroll
from toolroll import roll as toolroll_roll
from toolroll._core import Bm25Index, SectionFile, SectionWriter, SortedStrings, VectorIndex
from toolroll.catalog import saved
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.saved import is_saved, save
from toolroll.embedders import named
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import InvalidInput, NotFound
from toolroll.model.tools import Definitions
from toolroll.selection.selection import Selection

DEMO = Path(toolroll_roll.__file__).parent / "demo" / "toolkits"
EMBEDDER = HashingEmbedder(64)
MESSAGES = (
    "Send the overdue invoice to Anna and book a table for two",
    "turn the lihgts off",
    "merge PAY-310 and put costs.xlsx next to it",
    "내일 서울 날씨 어때",
    "wie wird das Wetter morgen?",
    "",
)
DAMAGED = int(os.environ.get("TOOLROLL_DAMAGED", "200")) // 4


@pytest.fixture(autouse=True, scope="module")
def _fast_disk() -> Iterator[None]:
    """Waiting for the disk takes most of the time of a small file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def said(picked: Selection) -> dict[str, object]:
    """Everything that a selection says, but for its time and the number of its event."""
    found = picked.to_dict()
    return {name: found[name] for name in found.keys() - {"event_id", "timings_us"}} | {
        "explained": picked.explain().splitlines(),
        "schemas": picked.schemas("openai"),
        "definitions": [replace(tool, original=None) for tool in picked.definitions],
        "failed": [str(failure) for failure in picked.degraded],
    }


def assert_same(built: Toolroll, loaded: Toolroll, messages=MESSAGES, context: Context | None = None) -> None:
    context = Context(session="s") if context is None else replace(context, session="s")
    assert loaded.catalog.revision == built.catalog.revision
    for message in messages:
        assert said(loaded.select(message, context)) == said(built.select(message, context))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Toolroll, Path]]:
    path = tmp_path_factory.mktemp("saved") / "demo.catalog"
    roll = Toolroll.from_folder(DEMO)
    roll.save(path)
    yield roll, path


def test_a_loaded_catalog_answers_as_the_built_one(demo: tuple[Toolroll, Path]) -> None:
    built, path = demo
    loaded = Toolroll.load(path)
    settings = tuple(built.catalog.switches.keys)
    assert_same(built, loaded)
    for context in (Context(settings=settings), Context(everything=True), Context(tier="pro")):
        assert_same(built, loaded, MESSAGES[:1], context)
    assert built.catalog.names == dict(loaded.catalog.names)
    assert [replace(tool, original=None) for tool in built.catalog.tools] == list(loaded.catalog.tools)


def test_what_was_measured_is_loaded_and_the_rest_is_measured_as_before(demo: tuple[Toolroll, Path]) -> None:
    built, path = demo
    loaded = Toolroll.load(path)
    assert loaded.catalog._retrievers.keys() == built.catalog._retrievers.keys()
    other = Profile(dense=0.5, damping=True)
    assert_same(Toolroll.from_folder(DEMO, profile=other), Toolroll.load(path, profile=other))


@given(some.definitions(), some.parameters(), st.lists(some.messages(), max_size=2), some.contexts())
def test_every_catalog_answers_as_before(tmp_path_factory, definitions, profile, messages, context) -> None:
    path = tmp_path_factory.mktemp("any") / "catalog"
    built = Toolroll.from_definitions(definitions, embedder=EMBEDDER, profile=profile)
    built.save(path)
    loaded = Toolroll.load(path, embedder=EMBEDDER, profile=profile)
    assert_same(built, loaded, messages, context)
    for tool in definitions.tools:
        assert loaded.may(tool.name, context) == built.may(tool.name, context)
    assert loaded.visible(context).names == built.visible(context).names


def test_a_graph_and_grouped_examples_are_saved(tmp_path: Path) -> None:
    rng = random.Random(0)
    tools = [
        Tool(f"tool_{at:04}", " ".join(rng.choices(some.WORDS, k=6)), examples=(f"do {at}",) * (at % 12))
        for at in range(400)
    ]
    built = Toolroll.from_tools(tools, embedder=EMBEDDER, hnsw=True)
    built.save(tmp_path / "c")
    loaded = Toolroll.load(tmp_path / "c", embedder=EMBEDDER)
    assert loaded.catalog.indexes.vectors.has_graph
    assert loaded.catalog.indexes.intents.count == built.catalog.indexes.intents.count > 0
    assert_same(built, loaded, ("rain mail", "deal song 날씨", "do 7"))


def test_all_fields_of_a_tool_are_saved(tmp_path: Path) -> None:
    tool = Tool(
        "tøøl",
        "説明",
        {"type": "object", "properties": {"x": {"type": "number", "default": 1e-7}}},
        toolkit="kit",
        summary="s",
        when_to_use="w",
        limitations="l",
        tags=("a", "b"),
        examples=("one", "two"),
        public=True,
        pinned=True,
        pin_weight=-3,
        version="2.0.0",
        tool_id="id",
        display_name="d",
        returns={"type": "string"},
        annotations={"readOnlyHint": True},
        icons=({"src": "x"},),
        meta={"half": "\ud800"},
        execution={"taskSupport": "optional"},
        execution_type="rest",
        execution_config={"url": "u"},
        interchangeable="group",
    )
    hosted = {"type": "web_search", "max_uses": 5}
    built = Toolroll.from_tools([tool, hosted], embedder="none")
    built.save(tmp_path / "c")
    loaded = Toolroll.load(tmp_path / "c", embedder="none")
    assert tuple(loaded.catalog.tools) == (tool,)
    assert loaded.catalog.tools[-1] == tool and loaded.catalog.tools[:1] == (tool,)
    assert loaded.select("one").tools == (tool, hosted)
    assert loaded.catalog.tool_key(0) == built.catalog.tool_key(0)
    with pytest.raises(IndexError):
        loaded.catalog.tools[1]


def test_names_are_found_in_the_file_as_in_a_dictionary(demo: tuple[Toolroll, Path]) -> None:
    built, path = demo
    names, known = Toolroll.load(path).catalog.names, built.catalog.names
    for name in (*known, "", "zzz", "a\x00", "\ud800", "\ufffd", 7, None):
        assert names.get(name) == known.get(name)
        assert (name in names) == (name in known)
    assert list(names) == list(known) and len(names) == len(known)
    with pytest.raises(KeyError):
        names["absent"]


def test_outcomes_teach_a_loaded_catalog_as_the_built_one(demo: tuple[Toolroll, Path]) -> None:
    _, path = demo
    rolls = [Toolroll.from_folder(DEMO), Toolroll.load(path)]
    for roll in rolls:
        for _ in range(5):
            picked = roll.select("Will it rain tomorrow?", Context(session="s"))
            roll.record(picked, {picked.names[-1]: True})
    assert_same(*rolls, ("Will it rain tomorrow?", "is it sunny"))


def test_a_refresh_reads_the_file_that_took_its_place(tmp_path: Path) -> None:
    path = tmp_path / "c"
    Toolroll.from_tools([Tool("forecast", "weather")], embedder="none").save(path)
    roll = Toolroll.load(path, embedder="none")
    Toolroll.from_tools([Tool("outlook", "weather")], embedder="none").save(path)
    assert roll.select("weather").names == ("forecast",)
    roll.refresh()
    assert roll.select("weather").names == ("outlook",)
    roll.refresh([Tool("climate", "weather")])
    assert roll.select("weather").names == ("climate",)
    path.write_bytes(b"TOOLSECT")
    with pytest.raises(InvalidInput):
        roll.refresh()
    assert roll.select("weather").names == ("climate",)


def test_rules_pages_and_tiers_are_saved_and_can_be_replaced(tmp_path: Path) -> None:
    rule = Rule("no", "deny", "tier", {"tier": {"lt": "pro"}}, tool="pay")
    tools = [Tool("pay", "pay an invoice"), Tool("show", "show an invoice")]
    kits = [Toolkit("k", members=("p*",))]
    routes = [Route(("k",), ("money",), (r"\binvoi\w+",), ("substring",))]
    built = Toolroll.from_tools(
        tools, toolkits=kits, routes=routes, rules=[rule], tiers=["free", "pro"], embedder="none"
    )
    built.save(tmp_path / "c")
    free, pro = Context(tier="free"), Context(tier="pro")
    loaded = Toolroll.load(tmp_path / "c", embedder="none")
    for context in (free, pro):
        assert_same(built, loaded, ("pay the invoice", "MONEY", "invoices"), context)
    assert loaded.select("pay", free).names == ("show",)
    assert Toolroll.load(tmp_path / "c", embedder="none", rules=[]).may("pay", free)


def test_a_loaded_catalog_can_be_saved_again(demo: tuple[Toolroll, Path], tmp_path: Path) -> None:
    built, path = demo
    Toolroll.load(path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert_same(built, Toolroll.load(tmp_path / "again"))


def test_an_organisations_tools_stand_on_a_loaded_catalog(demo: tuple[Toolroll, Path]) -> None:
    built, path = demo
    loaded = Toolroll.load(path).catalog
    own = Definitions((Tool("zz_own", "Books a table"),), (Toolkit("mine", members=("*mail*",)),))
    embedder = named.embedder("static")
    for one, other in zip(
        *(Catalog.stacked(catalog, own, embedder).tools for catalog in (built.catalog, loaded)), strict=True
    ):
        assert replace(one, original=None) == replace(other, original=None)
    rows = [
        Catalog.stacked(catalog, own, embedder).routes.rows["mine"] for catalog in (built.catalog, loaded)
    ]
    assert rows[0].tolist() == rows[1].tolist() != []


@each_row(
    ("options", "problem"),
    [
        ({"embedder": "none"}, "was built with the embedder 'static"),
        ({"embedder": EMBEDDER}, "was built with the embedder 'static"),
        ({"profile": Profile(toolkit_threshold=0.3)}, "toolkits_by_meaning"),
        ({"profile": Profile(description_counts=1.0)}, "description_counts"),
        ({"profile": Profile(keyword_mode="prefix")}, "keyword_mode"),
    ],
)
def test_another_embedder_or_kind_of_profile_is_refused(demo, options, problem) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        Toolroll.load(demo[1], **options)
    assert "build it again" in str(caught.value)


def test_a_file_without_vectors_is_for_no_embedder(tmp_path: Path) -> None:
    Toolroll.from_tools([Tool("a", "b")], embedder="none").save(tmp_path / "c")
    with pytest.raises(InvalidInput, match="was built without an embedder"):
        Toolroll.load(tmp_path / "c", embedder=EMBEDDER)


def test_another_version_is_refused_and_told_what_to_do(tmp_path: Path, monkeypatch) -> None:
    roll = Toolroll.from_tools([Tool("a", "b")], embedder="none")
    monkeypatch.setattr(saved, "__version__", "0.0.1")
    roll.save(tmp_path / "c")
    monkeypatch.undo()
    with pytest.raises(InvalidInput, match="was saved by toolroll '0.0.1', this is .*: build it again"):
        Toolroll.load(tmp_path / "c", embedder="none")
    monkeypatch.setattr(saved, "_VERSION", 99)
    roll.save(tmp_path / "c")
    monkeypatch.undo()
    with pytest.raises(InvalidInput, match="is of version 99, this build reads version 1: build it again"):
        Toolroll.load(tmp_path / "c", embedder="none")


def test_what_is_no_saved_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file"):
        Toolroll.load(tmp_path / "absent")
    for content in (b"", b"TOOLSECT", b"{}", b"TOOLROLL" * 20):
        (tmp_path / "c").write_bytes(content)
        with pytest.raises(InvalidInput, match="catalog"):
            Toolroll.load(tmp_path / "c")
    with pytest.raises(InvalidInput):
        Toolroll.load(tmp_path)
    with pytest.raises(InvalidInput, match="path"):
        Toolroll.load(7)
    assert not is_saved(tmp_path / "absent") and not is_saved(tmp_path)


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "c"
    tools = [Tool(f"t{at}", "rain " * at, examples=(f"rain {at}",)) for at in range(20)]
    Toolroll.from_tools(tools, embedder=EMBEDDER).save(path)
    whole = path.read_bytes()
    rng = random.Random(1)
    header = range(0, 64, 3)
    places = [*header, *(rng.randrange(len(whole)) for _ in range(DAMAGED))]
    damaged = [whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :] for at in places]
    cut = [whole[: rng.randrange(len(whole))] for _ in range(20)]
    for content in (*damaged, *cut, whole + b"\0", whole[4096:], whole[:4096] + whole):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="catalog"):
            Toolroll.load(path, embedder=EMBEDDER)


def copied(path: Path, target: Path, changes: dict[str, object]) -> None:
    """Writes the file again with other sections, under right checksums; None leaves a section out."""
    file = SectionFile.open(str(path), "catalog", 1)
    writer = SectionWriter(str(target), "catalog", 1)
    readers = (file.array, file.vectors, file.postings, file.intents, file.lexicon, file.strings)
    for name in file.names:
        if name in changes:
            if changes[name] is not None:
                writer.add(name, changes[name])
            continue
        for read in readers:
            try:
                content = read(name)
            except ValueError:
                continue
            writer.add(name, content)
            break
    writer.finish()


def about(path: Path) -> dict[str, object]:
    return json.loads(bytes(SectionFile.open(str(path), "catalog", 1).array("about")))


def as_section(value: object) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def test_a_hostile_file_under_right_checksums_is_refused(tmp_path: Path) -> None:
    path, crafted = tmp_path / "c", tmp_path / "crafted"
    tools = [
        Tool(f"t{at}", "rain", toolkit="k", pinned=at == 0, public=at == 1, examples=(f"rain {at}",) * 9)
        for at in range(20)
    ]
    Toolroll.from_tools(tools, embedder=EMBEDDER).save(path)
    copied(path, crafted, {})
    Toolroll.load(crafted, embedder=EMBEDDER).select("rain")
    rows = [np.array([value], np.int32) for value in (-1, 20, 2**31 - 1)]
    wrong: list[dict[str, object]] = [
        {name: value} for name in ("base", "pinned", "public", "inactive", "below.rows") for value in rows
    ]
    wrong += [{name: np.zeros(19, np.int32)} for name in ("costs", "keys.arm", "keys.group")]
    wrong += [{"costs": np.zeros(20, np.int64)}, {"tools.ends": np.arange(20, dtype=np.uint64)[::-1].copy()}]
    wrong += [{"tools.ends": np.full(20, 2**63, np.uint64)}, {"tools": np.zeros(3, np.uint8)}]
    wrong += [{"below.begins": np.array(value, np.int64)} for value in ([0, -5, 20], [0, 99], [1, 20], [])]
    wrong += [{"names": SortedStrings.of(["a"])}, {"names": None}, {"postings": None}, {"tools": None}]
    wrong += [{"vectors": VectorIndex.build(np.ones((20, 9), np.float32))}]
    wrong += [{"vectors": VectorIndex.build(np.ones((19, 64), np.float32))}]
    wrong += [
        {"postings": Bm25Index.build([["rain"]], [1.0])},
        {"postings": VectorIndex.build(np.ones((20, 64), np.float32))},
    ]
    wrong += [{"probe.vectors": np.zeros(64, np.float32)}, {"probe.vectors": np.zeros(63, np.float32)}]
    wrong += [{"measured.0.best": np.array([np.nan], np.float32)}]
    sound = about(path)
    for name, values in {
        "tools": (21, -1, "x", None),
        "dim": (63, 0, "x"),
        "options": ({}, {"hnsw": 1, "other": 2}, 7),
        "scale": ({}, {"gain": 1, "floor": 0, "centre": "!"}),
        "toolkits": ([{"name": ""}], [7], [{}], None),
        "routes": ([{"toolkits": ["absent"], "keywords": ["a"], "patterns": [], "modes": []}], 7),
        "below": (["k", "x"], [], None, [[]]),
        "marks": (["service unknown"], 7),
        "probes": ({}, {**sound["probes"], "owners": [[99]]}, {**sound["probes"], "texts": []}),
        "measured": ([{"weights": [1]}], [{}], 7),
        "hosted": (7,),
        "extra": ({}, {"rules": [{}], "pages": [], "tiers": []}, 7),
    }.items():
        wrong += [{"about": as_section({**sound, name: value})} for value in values if value != sound[name]]
    wrong += [{"about": as_section(value)} for value in ([], 7, {})]
    wrong += [{"about": np.frombuffer(b"\xff{", np.uint8)}, {"about": as_section(0)[:0]}]
    let_through = []
    for changes in wrong:
        copied(path, crafted, changes)
        try:
            roll = Toolroll.load(crafted, embedder=EMBEDDER)
        except InvalidInput:
            continue
        let_through.append({name: str(value)[:80] for name, value in changes.items()})
        roll.select("rain")  # ... but is harmless
    harmless = [{"about"}]
    assert all(set(changes) in harmless for changes in let_through), let_through


def test_a_row_that_is_no_tool_fails_its_selection_alone(tmp_path: Path) -> None:
    path, crafted = tmp_path / "c", tmp_path / "crafted"
    Toolroll.from_tools([Tool("a", "rain"), Tool("b", "snow")], embedder="none").save(path)
    text, ends = b'{"name":"a"}[]', np.array([12, 14], np.uint64)
    copied(path, crafted, {"tools": np.frombuffer(text, np.uint8), "tools.ends": ends})
    roll = Toolroll.load(crafted, embedder="none")
    assert roll.catalog.tools[0].name == "a"
    with pytest.raises(InvalidInput, match="row 1 is no tool"):
        roll.catalog.tools[1]


def test_a_catalog_that_cannot_be_saved_says_why(tmp_path: Path) -> None:
    path = tmp_path / "c"
    roll = Toolroll.from_tools([Tool("a", "b", execution_config={"call": print})], embedder="none")
    with pytest.raises(InvalidInput, match="tool 'a': cannot be saved as JSON"):
        roll.save(path)
    assert list(tmp_path.iterdir()) == []
    roll = Toolroll.from_tools([Tool("a", "b")], embedder="none")
    with pytest.raises(InvalidInput, match="that of one request"):
        roll.with_tools([Tool("c", "d")]).save(path)
    with pytest.raises(InvalidInput, match="organisation's"):
        own = Definitions((Tool("own", "own"),))
        save(Catalog.stacked(roll.catalog, own, None), path, {})
    with pytest.raises(InvalidInput, match="cannot be written"):
        roll.save(tmp_path / "absent" / "c")
    with pytest.raises(InvalidInput, match="path"):
        roll.save(None)


def test_an_empty_catalog_is_saved(tmp_path: Path) -> None:
    Toolroll.from_tools([], embedder=EMBEDDER).save(tmp_path / "c")
    roll = Toolroll.load(tmp_path / "c", embedder=EMBEDDER)
    assert roll.select("rain").names == () and len(roll.catalog) == 0


def test_the_command_line_builds_and_reads_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from toolroll.cli import main

    path = tmp_path / "c"
    assert main(["build", str(DEMO), "--to", str(path), "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert built["tools"] == len(Toolroll.load(path).catalog) and built["bytes"] == path.stat().st_size
    found = []
    for catalog in (DEMO, path):
        assert main(["select", MESSAGES[0], "--catalog", str(catalog)]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] != ""
    assert main(["build", str(DEMO), "--to", str(tmp_path / "absent" / "c")]) == 1


def _private_bytes(path: str, ready, done) -> None:
    roll = Toolroll.load(path, embedder=EMBEDDER)
    roll.select("rain mail deal")
    ready.send(_memory(path))
    done.recv()


def _memory(path: str) -> dict[str, int]:
    """Bytes of this process's mapping of the file: resident, and in proportion to those who share it."""
    found: dict[str, int] = {}
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0] and ":" not in line.split()[0]:
            inside = line.endswith(os.path.basename(path))
        elif inside and line.split()[0] in ("Rss:", "Pss:", "Private_Dirty:"):
            name = line.split()[0]
            found[name] = found.get(name, 0) + int(line.split()[1]) * 1024
    return found


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: in memory, where tmp_path may be, each page of a file counts as changed."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_load_the_same_file_share_its_memory(disk: Path, method: str) -> None:
    path = str(disk / "shared.catalog")
    rng = np.random.default_rng(0)
    tools = [
        Tool(f"tool_{at}", " ".join(rng.choice(some.WORDS, 12)), {"type": "object", "properties": {"x": {}}})
        for at in range(20_000)
    ]
    Toolroll.from_tools(tools, embedder=EMBEDDER).save(path)
    size = os.path.getsize(path)
    context = multiprocessing.get_context(method)
    workers, pipes = [], []
    for _ in range(4):
        (parent, child), (answer, wait) = context.Pipe(), context.Pipe()
        worker = context.Process(target=_private_bytes, args=(path, child, wait))
        worker.start()
        workers.append(worker)
        pipes.append((parent, answer))
    first = [parent.recv() for parent, _ in pipes]
    for _, answer in pipes:
        answer.send(None)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    for memory in first:
        assert memory["Rss:"] > 0.5 * size and memory["Private_Dirty:"] == 0
    assert min(memory["Pss:"] for memory in first) < 0.7 * size


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
def test_forked_workers_share_what_the_parent_loaded(disk: Path) -> None:
    path = str(disk / "shared.catalog")
    tools = [Tool(f"tool_{at}", f"rain {at} mail " * 8) for at in range(20_000)]
    Toolroll.from_tools(tools, embedder=EMBEDDER).save(path)
    roll = Toolroll.load(path, embedder=EMBEDDER)
    roll.select("rain mail")
    alone = _memory(path)["Pss:"]
    (told, tell), (hold, release) = os.pipe(), os.pipe()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            for message in ("rain mail", "mail deal"):
                roll.select(message)
            os.write(tell, b"x")  # all have touched their pages ...
            os.read(hold, 1)
            os.write(tell, json.dumps(_memory(path)).encode() + b"\n")  # ... before one counts them
            os.read(hold, 1)
            os._exit(0)
        children.append(child)
    for _ in children:
        os.read(told, 1)
    os.write(release, b"xxx")
    text = b""
    while text.count(b"\n") < len(children):
        text += os.read(told, 4096)
    found = [_memory(path), *map(json.loads, text.splitlines())]
    os.write(release, b"xxx")
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    for end in (told, tell, hold, release):
        os.close(end)
    assert sum(memory["Pss:"] for memory in found) < 1.1 * alone
    assert all(memory["Rss:"] > 0.3 * alone and memory["Private_Dirty:"] == 0 for memory in found)
