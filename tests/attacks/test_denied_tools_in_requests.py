"""A tool that the registry refuses to a caller is in no request that goes on to a provider, whatever its form.

Before, rules counted by name alone: of 15,666 tools that 1,600 callers in random worlds may not have, 7,836 were sent. A
tool denied by name passed in 450 of 496 other ways to write it, and on every path without a reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from tests.attacks import bounded
from tests.decisions.oracle import permitted
from tests.decisions.worlds import Draw, roll_of
from tests.integration.conftest import (  # noqa: F401
    database_url,
    new_database_url,
    postgresql,
    postgresql_template,
    sqlite_template,
)
from tests.integration.test_drop_in import Upstream, ask, served
from tests.loopback_server import closed_at_the_end
from toolroll import Recording, Registry, Rule, Tool, Toolkit, Toolroll
from toolroll.adapters.http_client import toolroll_client
from toolroll.adapters.provider_requests import RequestForm, RequestHeaders, RequestSelector
from toolroll.formats.providers import PROVIDERS
from toolroll.model.errors import Denied, ToolrollError

OPENAI, GEMINI = (PROVIDERS[name].requests[0] for name in ("openai", "gemini"))
OPENAI_RESPONSES, _, INPUT_TOKENS = PROVIDERS["openai_responses"].requests
ANTHROPIC, COUNT_TOKENS = PROVIDERS["anthropic"].requests

WORLDS = bounded(12, 1_000)
DENIED = ("by_name", "by_toolkit", "by_tier", "retired", "waiting", "unset", "own_denied")
HIDDEN = (*DENIED, "nowhere")  # the last is denied by name and in no registry
SHOWN = ("shown", "own_shown", "unknown")
ACME = {"x-toolroll-context": json.dumps({"org": "acme", "tier": "free"})}


def written(form: RequestForm, name: str) -> dict[str, Any]:
    """A function in the form of a provider."""
    text, schema = f"Does {name}.", {"type": "object", "properties": {"q": {"type": "string"}}}
    if form.provider == "openai":
        return {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
    if form.provider == "openai_responses":
        return {"type": "function", "name": name, "description": text, "parameters": schema}
    if form.provider == "anthropic":
        return {"name": name, "description": text, "input_schema": schema}
    return {"name": name, "description": text, "parametersJsonSchema": schema}


def body(form: RequestForm, tools: list[Any], **members: Any) -> bytes:
    """A request with these tools; of Gemini, functions are declarations in one group."""
    said = {"role": "user", "content": "do it", "parts": [{"text": "do it"}]}
    if form.provider == "gemini":
        functions = [tool for tool in tools if isinstance(tool, dict) and "name" in tool]
        tools = [{"functionDeclarations": functions}, *[tool for tool in tools if tool not in functions]]
    return json.dumps({"model": "m", form.messages[0]: [said], "tools": tools, **members}).encode()


def names_in(sent: bytes, names: tuple[str, ...]) -> set[str]:
    """Those of the names that stand in the bytes, however they are written there."""
    text = json.dumps(json.loads(sent), ensure_ascii=False).casefold().replace("-", "_")
    return {name for name in names if f'"{name}"' in text or f"__{name}" in text or f".{name}" in text}


@pytest.fixture
def registry_url(database_url: str) -> str:  # noqa: F811
    """Tools that acme, on the tier free, may not have for seven reasons, and two that it may have."""
    with Registry.open(database_url, actor="ada") as registry:
        registry.set_tiers(("free", "pro"))
        registry.toolkits.put(Toolkit("deals"))
        registry.toolkits.put(Toolkit("big deals", parent="deals"))
        registry.toolkits.put(Toolkit("paid", tier="pro"))
        registry.toolkits.put(Toolkit("keyed", settings_keys=("api_key",)))
        for name, toolkit in (
            ("by_name", ""),
            ("by_toolkit", "big deals"),
            ("by_tier", "paid"),
            ("unset", "keyed"),
        ):
            registry.create(Tool(name, f"Does {name}.", toolkit=toolkit))
        registry.create(Tool("nowhere", "Is deleted below, and its rule stays."))
        registry.create(Tool("retired", "Is gone.", status="retired"))
        registry.create(Tool("shown", "Does what is asked."))
        registry.sync(
            [{"name": "waiting", "inputSchema": {"type": "object"}}], plugin="p", toolkit="p", review="all"
        )
        registry.create(Tool("own_shown", "Does it.", toolkit="own"), org="acme")
        registry.create(Tool("own_denied", "Does it, too.", toolkit="own deals"), org="acme")
        registry.rules.add(Rule("no deals", "deny", "org", {"org": "acme"}, toolkit="deals"))
        registry.rules.add(
            Rule("no own deals", "deny", "org", {"org": "acme"}, toolkit="own deals", org="acme")
        )
        for name in ("by_name", "nowhere"):
            registry.rules.add(Rule(f"no {name}", "deny", "org", {"org": "acme"}, tool=name))
        registry.delete("nowhere")
    return database_url


@contextmanager
def drop_in(registry_url: str, folder: Path, **settings: Any) -> Iterator[tuple[int, Upstream]]:
    """A drop-in over the registry, and the provider behind it. Acme's own tools are read when it first asks."""
    outbox = str(folder / "outbox")
    with (
        closed_at_the_end(Upstream()) as upstream,
        served(upstream.url, catalog=registry_url, outbox=outbox, **settings) as port,
    ):
        listed = [written(OPENAI, name) for name in (*HIDDEN, *SHOWN)]
        for at in range(100):
            said = {"role": "user", "content": f"do it, {at}"}  # all steps of one turn have one list
            ask(port, body(OPENAI, listed, messages=[said]), **ACME)
            sent = upstream.requests[-1]["body"]
            assert names_in(sent, HIDDEN) == set()
            if b"own_shown" in sent:
                break
        upstream.requests.clear()
        yield port, upstream


FORMS = {
    "/v1/chat/completions": OPENAI,
    "/v1/responses": OPENAI_RESPONSES,
    "/v1/messages": ANTHROPIC,
    "/v1beta/models/gemini-2.5-flash:generateContent": GEMINI,
    "/v1/messages/count_tokens": COUNT_TOKENS,
    "/v1/responses/input_tokens": INPUT_TOKENS,
}


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["replace", "allow"])
def test_the_registry_decides_about_the_tools_of_requests(
    registry_url: str, tmp_path: Path, delivery: str
) -> None:
    """Before: `by_toolkit`, `by_tier`, `retired` and all but the two that are denied by name were sent."""
    with drop_in(registry_url, tmp_path, upstream_delivery=delivery) as (port, upstream):
        for path, form in FORMS.items():
            tools = [written(form, name) for name in (*HIDDEN, *SHOWN)]
            assert ask(port, body(form, tools), path, **ACME)[0] == 200
            sent = upstream.requests[-1]["body"]
            assert names_in(sent, HIDDEN) == set(), path
            assert names_in(sent, SHOWN) == {*SHOWN}, path


def hidden_in(form: RequestForm, name: str) -> list[Any]:
    """Ways to write a tool so that a provider may read its name and a careless reader does not."""
    schema = {"type": "object", "properties": {}}
    ways: list[Any] = [
        {"type": "custom", "name": name},
        {"type": "custom", "custom": {"name": name}},
        {"type": "whatever", "tool": {"id": name}},
        {
            "type": "namespace",
            "name": "n",
            "tools": [{"type": "function", "name": name, "parameters": schema}],
        },
        {"type": "mcp", "server_label": "s", "server_url": "https://s.example"},
        {"type": "mcp", "server_label": "s", "server_url": "https://s.example", "allowed_tools": [name]},
        {"type": "mcp_toolset", "mcp_server_name": "s"},
        {"type": "function", "Function": {"Name": name}},
        {"type": "function", "name": name, "function": {"name": "fine"}},
        {"type": "function", "function": {"name": "fine"}, "functionDeclarations": [{"name": name}]},
        {"type": "function", "function": {"name": name}, "functionDeclarations": []},
        {"functionDeclarations": [{"name": "fine"}], "function_declarations": [{"name": name}]},
        {"functionDeclarations": [{"Name": name}]},
        {"tools": [{"type": "custom", "name": name}]},
        [{"type": "function", "function": {"name": name}}],
        name,
    ]
    for other in (
        name.upper(),
        name.title(),
        name.replace("_", "-"),
        f" {name}",
        f"{name}\u200b",
        f"\ufeff{name}",
    ):
        ways.append(written(form, other))
        ways.append({"type": "custom", "name": other})
    for other in (f"functions.{name}", f"mcp__server__{name}", f"mcp__a__b__{name}"):
        ways.append(written(form, other))
    wide = "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in name)
    return [*ways, written(form, wide), {**written(form, name), "toolkit": "own", "public": True}]


@pytest.mark.slow
def test_no_way_of_writing_brings_a_hidden_tool_past(registry_url: str, tmp_path: Path) -> None:
    """Before: 450 of 496 ways passed: `custom`, other cases, namespaces, remote servers, unknown members."""
    with Toolroll.open(registry_url, recording=Recording(outbox=tmp_path / "outbox")) as roll:
        roll.warm_up(["acme"])
        headers = RequestHeaders(context={"org": "acme", "tier": "free"})
        passed = []
        for delivery in ("replace", "allow"):
            selector = RequestSelector(roll, delivery=delivery)
            for form in (OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI):
                for name in bounded(("by_toolkit",), HIDDEN):
                    for tool in hidden_in(form, name):
                        fine = written(form, "shown")
                        try:
                            sent = selector.select(body(form, [fine, tool]), form, headers).body
                        except ToolrollError:
                            continue
                        remote = b"s.example" in sent or b"mcp_toolset" in sent
                        if remote or names_in(sent, HIDDEN) or name.encode() in sent:
                            passed.append((form.provider, tool))
                        assert b'"shown"' in sent  # and no more is refused than has to be
        assert passed == []


BESIDE = [
    {"Tools": [written(OPENAI, "by_toolkit")]},
    {"TOOLS": [written(OPENAI, "by_toolkit")]},
    {"functions": {"by_toolkit": {}}},
    {"mcp_servers": [{"type": "url", "url": "https://s.example", "name": "s"}]},
    {"extra_body": {"tools": [written(OPENAI, "by_toolkit")]}},
    {"chat_template_kwargs": {"tools": [written(OPENAI, "by_toolkit")]}},
    {"cachedContent": "cachedContents/1"},
    {"prompt": {"id": "pmpt_1"}},
    {"tools": [], "x": {"y": [{"function_declarations": [{"name": "by_toolkit"}]}]}},
]


@pytest.mark.slow
def test_tools_beside_the_list_are_refused_and_no_reader_sees_another_list(
    registry_url: str, tmp_path: Path
) -> None:
    """Before: each of these passed on as it came, with the denied tool in it."""
    with Toolroll.open(registry_url, recording=Recording(outbox=tmp_path / "outbox")) as roll:
        roll.warm_up(["acme"])
        selector = RequestSelector(roll)
        headers = RequestHeaders(context={"org": "acme", "tier": "free"})
        said = {"role": "user", "content": "do it"}
        for form in (OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI):
            for members in BESIDE:
                with pytest.raises(ToolrollError):
                    selector.select(json.dumps({form.messages[0]: [said], **members}).encode(), form, headers)
            loaded = {"type": "tool_search_output", "tools": [written(form, "by_toolkit")]}
            with pytest.raises(Denied):
                selector.select(json.dumps({form.messages[0]: [said, loaded]}).encode(), form, headers)
            twice = body(form, [written(form, "shown")]).replace(
                b'"name": "shown"', b'"name":"by_tier","name":"shown"'
            )
            with pytest.raises(ToolrollError, match="twice"):
                selector.select(twice, form, headers)
        others = RequestHeaders(context={"org": "acme", "tier": "free"})
        schema = {
            "response_format": {"json_schema": {"schema": {"properties": {"tools": {"type": "array"}}}}}
        }
        plain = json.dumps({"messages": [said], **schema}).encode()
        assert selector.select(plain, OPENAI, others).body is plain


PATHS = [
    "/v1/batches",
    "/v1/messages/batches",
    "/v1/threads/runs",
    "/v1/threads/t/runs",
    "/v1/assistants",
    "/v1/files",
    "/v1/realtime/sessions",
    "/v1beta/models/gemini-2.5-flash:batchGenerateContent",
    "/v1beta/models/gemini-2.5-flash:countTokens",
    "/v1beta/cachedContents",
    "/v1/chat/completions;a=b",
    "/v1/chat/completions//",
    "/v1//chat/completions",
    "/v1/chat/completions%20",
    "/v1/Chat/Completions",
    "/v1/chat/completions.",
    "/v1/chat/%63ompletions",
    "/v1/embeddings/../chat/completions",
    "/v1/embeddings%2F..%2Fchat/completions",
    "/v1/chat/completions/x",
    "/v1/batches%3Fx=/v1/embeddings",
]


@pytest.mark.slow
def test_a_body_on_a_path_that_nobody_reads_is_refused_where_there_are_rules(
    registry_url: str, tmp_path: Path
) -> None:
    """Before: all of these passed, with every denied tool in them."""
    tools = [written(OPENAI, "by_toolkit"), {"type": "custom", "name": "by_tier"}]
    with drop_in(registry_url, tmp_path, upstream_allowed=["/v1/vector_stores"]) as (port, upstream):
        for path in (*PATHS, "/v1/vector_stores/../batches", "/v1/vector_stores.x"):
            for method in ("POST", "PUT", "PATCH", "GET") if path == PATHS[0] else ("POST",):
                status, _, answer = ask(port, body(OPENAI, tools), path, method, **ACME)
                assert status == 403 and b"upstream_allowed" in answer, (method, path)
        assert upstream.requests == []
        for path in ("/v1/completions", "/v1/responses/compact", "/v1/responses/input_tokens"):
            ask(port, body(OPENAI, tools), path, **ACME)
            assert names_in(upstream.requests[-1]["body"], HIDDEN) == set()
        passing = ("/v1/embeddings", "/v1/audio/speech", "/v1/images/edits", "/v1/vector_stores/v/files")
        for path in (*passing, "/v1beta/models/embedding-001:embedContent"):
            assert ask(port, b'{"input": "a"}', path, **ACME)[0] == 200
            assert upstream.requests[-1]["body"] == b'{"input": "a"}'
        assert ask(port, None, "/v1/batches/b", "GET", **ACME)[0] == 200
        assert ask(port, b"", "/v1/batches/b/cancel", **ACME)[0] == 200


def test_the_client_in_the_process_refuses_what_the_proxy_refuses() -> None:
    """Before: it passed all other paths on."""
    rules = [Rule("no", "deny", "org", {"org": ""}, tool="nowhere")]
    with (
        closed_at_the_end(Upstream()) as upstream,
        toolroll_client(Toolroll.from_tools([], rules=rules)) as client,
    ):
        for path in PATHS:
            answer = client.post(upstream.url + path, content=body(OPENAI, [written(OPENAI, "nowhere")]))
            assert answer.status_code == 403 or names_in(upstream.requests[-1]["body"], HIDDEN) == set(), path
        with toolroll_client() as free:
            assert free.post(upstream.url + "/v1/batches", content=b"{}").status_code == 200


def test_of_random_worlds_no_request_has_a_tool_that_the_oracle_hides() -> None:
    """Before: 31 % of the decisions were others than the registry's."""
    forms, checked = (OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI), 0
    for seed in range(WORLDS):
        draw = Draw(seed)
        case = draw.case()
        roll = roll_of(case, embedder=None)
        names = tuple(tool.name for tool in case.world.tools)
        for form in forms:
            context = draw.context(case)
            allowed = permitted(case.world, context)
            tools = [written(form, name) for name in names]
            others = [written(form, name.upper()) for name in names]
            others += [{"type": "custom", "name": name} for name in names if form is not GEMINI]
            delivery = draw.choice(("replace", "allow"))
            sent = RequestSelector(roll, delivery=delivery).select(
                body(form, tools), form, RequestHeaders(), context
            )
            assert names_in(sent.body, names) <= allowed, (seed, context)
            visible = roll.with_tools(tools).visible(context)
            assert {*visible} == allowed, (seed, context)
            try:
                tricked = (
                    RequestSelector(roll).select(body(form, others), form, RequestHeaders(), context).body
                )
            except ToolrollError:
                continue
            # What a caller excludes itself, it excludes by the very name.
            own = replace(context, exclude=(), only=())
            assert names_in(tricked, names) <= permitted(case.world, own), (seed, context)
            checked += len(names)
    assert checked > WORLDS
