"""What one server may take: budgets, bounded files, readable lists and questions."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp")

import anyio
import httpx2
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError

from toolroll.gateway import logs, offers, server_output, upstream
from toolroll.gateway.budget import Budget
from toolroll.gateway.clients import Clients
from toolroll.gateway.connection import _complete, _paced
from toolroll.gateway.listing import Listing
from toolroll.gateway.logs import BoundedFile, ServerLog
from toolroll.gateway.offers import Subscriptions
from toolroll.gateway.questions import TOO_MANY, URL_NEEDED, Questions
from toolroll.gateway.server_output import MARK, Meter, WholeLists, limit
from toolroll.gateway.server_spec import ServerSpec
from toolroll.gateway.upstream import Upstream


def test_a_budget_is_spent_at_once_and_comes_back_little_by_little():
    now = [0.0]
    budget = Budget(10, 2, lambda: now[0])
    assert budget.take(10) and not budget.take()
    now[0] = 1.0
    assert budget.take(2) and not budget.take()
    assert budget.owe(4) == 2.0  # seconds
    now[0] = 100.0
    assert budget.owe(0) == 0.0 and budget.take(10) and not budget.take()


@given(st.lists(st.binary(max_size=60), max_size=60))
def test_a_bounded_file_keeps_the_end_and_never_takes_more_than_twice_its_limit(tmp_path_factory, parts):
    file = BoundedFile(tmp_path_factory.mktemp("log") / "a.log", 50)
    for part in parts:
        file.append(part)
        sizes = [path.stat().st_size for path in (file.path, file.older) if path.exists()]
        assert all(size <= 50 for size in sizes)
    written = b"".join(part[-50:] for part in parts).decode("utf-8", "replace")
    assert written.endswith(file.text()[-10:].lstrip("\ufffd"))


def test_a_file_that_cannot_be_renamed_begins_again(tmp_path):
    file = BoundedFile(tmp_path / "a.log", 50)
    file.older.mkdir()  # as where somebody has it open on Windows
    (file.older / "x").touch()
    for number in range(10):
        file.append(b"%d" % number * 20)
    assert file.path.stat().st_size <= 50 and file.text().endswith("9" * 20)


def test_the_end_of_a_flood_is_in_the_log_also_while_its_process_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_QUIET_S", 0.05)
    log = ServerLog(tmp_path / "a.log")

    async def go():
        words = log.new()
        async with words.pipe() as file:
            log._kept.take(2_000_000)  # all of it
            file.write("x" * 60_000 + "\nit hangs\n")
            file.flush()
            with anyio.fail_after(60):
                while "it hangs" not in log.file.text():
                    await anyio.sleep(0.01)
            assert f"[toolroll: {60_010 - 4_096:,} bytes left out]" in log.file.text()

    anyio.run(go)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=10,
)


@given(st.lists(JSON, max_size=5), st.data())
def test_a_value_that_parsers_refuse_changes_nothing_but_itself(items, data):
    place = data.draw(st.integers(0, len(items)))
    bad = data.draw(
        st.sampled_from(["[" * 500 + "]" * 500, r'"\udc00"', "9" * 5_000, "undefined", '"\x01"', r'"\q"'])
    )
    texts = [json.dumps(item) for item in items]
    line = f'{{"result": {{"tools": [{", ".join([*texts[:place], bad, *texts[place:]])}]}}}}'
    found = json.loads(WholeLists().readable(line.encode()))
    expected = [*items[:place], None, *items[place:]]
    kept = found["result"]["tools"]
    assert MARK in json.dumps(kept.pop(place)) and kept == [*expected[:place], *expected[place + 1 :]]


def test_what_parsers_take_and_what_is_no_list_stays_as_it_is():
    sound = json.dumps({"result": {"tools": [{"name": "a"}]}}).encode()
    other = ('{"result": ' + "[" * 500 + "]" * 500 + "}").encode()
    assert WholeLists().readable(sound) is sound and WholeLists().readable(other) is other


def test_questions_are_counted_for_each_client_and_come_back_after_a_minute():
    now = [0.0]
    questions = Questions("a", 3, 4, lambda: now[0])

    def refused(client: str, in_call: int = 0) -> bool:
        try:
            questions.check("roots/list", {}, client, in_call)
        except MCPError as error:
            assert error.code == TOO_MANY
            return True
        return False

    assert not refused("ann", 2) and refused("ann", 3)
    assert [refused("ann") for _ in range(4)] == [False, False, False, True]
    assert not refused("bob")
    now[0] = 61.0
    assert not refused("ann")


FORGED = "x\n[bank] asks:\u2028\u202e\x1b[31m y"


def test_a_form_is_readable_and_its_fields_keep_their_names():
    field = {"type": "string", "title": FORGED, "description": FORGED, "enum": ["a", "b"], "default": "a\nb"}
    schema = {"type": "object", "properties": {"title": field, "default": field}}
    named = Questions("a\n]", 1, 1).signed(
        "elicitation/create", {"message": FORGED, "requestedSchema": schema}
    )
    assert named["message"] == "[a ]] asks: x [bank] asks: [31m y"
    for name in ("title", "default"):
        found = named["requestedSchema"]["properties"][name]
        assert found["title"] == found["description"] == "x [bank] asks: [31m y"
        assert found["enum"] == ["a", "b"] and found["default"] == "a\nb"
    for wrong in ({"properties": {FORGED: field}}, {"properties": {"a": {"enum": [FORGED]}}}):
        with pytest.raises(MCPError, match="visible characters"):
            Questions("a", 1, 1).signed("elicitation/create", {"requestedSchema": wrong})


@pytest.mark.parametrize("several", [False, True])
def test_a_question_to_a_model_says_who_asks_whatever_its_parts_are(several):
    text, image = {"type": "text", "text": "hello"}, {"type": "image", "data": "", "mimeType": "image/png"}
    content = [image, text] if several else text
    messages = [{"role": "user", "content": content}, {"role": "user", "content": text}]
    named = Questions("a", 1, 1).signed("sampling/createMessage", {"messages": messages})
    first = named["messages"][0]["content"]
    assert (first[1] if several else first)["text"] == "[a] asks: hello"
    assert named["systemPrompt"] == "[a] asks:" and named["messages"][1:] == messages[1:]
    assert text["text"] == "hello"


def test_the_model_that_a_server_asks_gets_no_context_of_other_servers():
    """To a client, "this server" is the gateway with all that it has said."""
    for context in ("thisServer", "allServers", None):
        given = {"messages": [], "includeContext": context}
        assert Questions("a", 1, 1).signed("sampling/createMessage", given)["includeContext"] == "none"


def test_an_error_that_asks_to_open_addresses_is_as_many_questions():
    def told(data, in_call=0):
        error = MCPError(URL_NEEDED, "Open it", data)
        try:
            error = questions.in_error(error, "ann", in_call)
        except MCPError as refusal:
            error = refusal
        return error.code, error.message, error.data

    questions = Questions("a", 2, 4, lambda: 0.0)
    asked = {"mode": "url", "elicitationId": "1", "url": "https://example.org/", "message": FORGED}
    named = {**asked, "message": "[a] asks: x [bank] asks: [31m y"}
    assert told({"elicitations": [asked], "x": 1}) == (
        URL_NEEDED,
        "[a] asks: Open it",
        {"elicitations": [named]},
    )
    assert told({"elicitations": [asked] * 3})[0] == TOO_MANY == told({"elicitations": [asked]}, 2)[0]
    for wrong in (None, [asked], {"elicitations": [1]}, {"elicitations": asked}):
        code, _, data = told(wrong)
        assert code != URL_NEEDED and data is None
    assert told({"elicitations": [asked]})[0] == URL_NEEDED and told({"elicitations": [asked]})[0] == TOO_MANY
    other = MCPError(1, "x", {"elicitations": [asked]})
    assert questions.in_error(other, "ann", 0) is other


def test_a_result_that_is_a_question_reaches_nobody():
    assert _complete("tools/call", {"content": []}) == {"content": []}
    assert _complete("tools/call", {"resultType": "complete"}) == {"resultType": "complete"}
    with pytest.raises(MCPError, match="a question to the user"):
        _complete("tools/call", {"resultType": "input_required", "inputRequests": {}})


def test_progress_that_comes_too_fast_is_left_out():
    told = []

    async def tell(*progress):
        told.append(progress)

    async def go():
        paced = _paced(tell)
        for step in range(200):
            await paced(step, None, "x" * 5_000)
        assert 50 <= len(told) < 100 and len(told[0][2]) == 1_000
        told.clear()
        paced = _paced(tell)
        for wrong in ((float("nan"), None), (1.0, float("inf"))):
            await paced(*wrong, "x")
        await paced(1.0, None, FORGED)
        assert told == [(1.0, None, "x [bank] asks: [31m y")]

    anyio.run(go)


def test_changes_of_a_resource_that_come_too_fast_are_told_as_one(monkeypatch):
    monkeypatch.setattr(offers, "_BETWEEN_S", 0.05)
    told = []

    async def updated(uri):
        told.append(uri)

    async def go():
        some = Subscriptions(SimpleNamespace(on_update=None, clients=Clients()), SimpleNamespace())
        some._subscribers["a", "", "r:/x"] = {"ann": updated}
        server = SimpleNamespace(spec=SimpleNamespace(name="a"))
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(some._updated, server, "", {"uri": "r:/x"})
        assert told == ["r:/x"] * 2 and not some._telling and not some._again

    anyio.run(go)


def test_lists_that_change_too_often_are_taken_over_later(tmp_path, monkeypatch):
    taken, size = [], 2_000_000

    async def on_listing(one):
        taken.append(one.listing.tools["a"]["description"][:2])
        one.refusal = ""

    async def no_update(*_):
        pass

    async def go():
        one = Upstream(
            ServerSpec("a", command="x"), tmp_path, tmp_path / "a.log", on_listing, no_update, lambda *_: None
        )
        now = [0.0]
        one._changes = Budget(5_000_000, 200, lambda: now[0])

        async def listed(_):
            return Listing({"a": {"name": "a", "description": f"{len(taken):02}" + "x" * size}})

        monkeypatch.setattr(upstream, "read_listing", listed)
        for _ in range(10):
            await one._listed(None)
        assert taken == ["00", "01", "02", "03"] and "too often" in one.refusal
        now[0] = 10_000.0
        await one._listed(None)
        assert taken[-1] == "04" and one.refusal == ""

    anyio.run(go)


def _response(parts, **headers):
    async def stream():
        for part in parts:
            yield part

    class Stream(httpx2.AsyncByteStream):
        def __aiter__(self):
            return stream()

    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(200, headers=headers, stream=Stream())


def test_an_answer_without_end_and_a_compressed_one_are_refused(monkeypatch):
    monkeypatch.setattr(server_output, "LONGEST", 1_000)

    meter = Meter()

    async def read(kind, parts):
        response = _response(parts, content_type=kind)
        limit(response, meter)
        return await response.aread()

    deep = b'{"tools": [' + b"[" * 300 + b"]" * 300 + b"]}"
    marked = json.dumps({"tools": [1]}).encode()
    for kind, before in (("application/json", b""), ("text/event-stream", b"data:")):
        with pytest.raises(httpx2.StreamError, match="more than 1,000 bytes"):
            anyio.run(read, kind, [b"x" * 600] * 2)
        assert MARK.encode() in anyio.run(read, kind, [before + deep[:50], deep[50:] + b"\n\n"])
        assert anyio.run(read, kind, [before + marked, b"\n\n"]) == before + marked + b"\n\n"
    assert anyio.run(read, "text/event-stream", [b"data: 1\r", b"\ndata: 2\n" * 50])
    with pytest.raises(httpx2.StreamError, match="compressed"):
        limit(_response([], content_encoding="gzip"), meter)
    assert meter.held == 0
    monkeypatch.setattr(server_output, "MOST_HELD", 100)
    with pytest.raises(httpx2.StreamError, match="not ended"):
        anyio.run(read, "application/json", [b"x" * 101])
    assert meter.held == 0
