"""Requests keep every byte but their tools; rules hold whatever fails."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from typing import Any

import pytest

from tests.table import each_row
from tests.unit.adapters.generated_requests import FORMS, HOSTED, POOL, generated
from toolroll import Context, Recording, Rule, Toolroll
from toolroll.adapters import ToolSelector
from toolroll.adapters.provider_requests import RequestHeaders, RequestSelector, form_of
from toolroll.adapters.provider_requests.forms import error_body
from toolroll.formats.providers import PROVIDERS
from toolroll.model.errors import InvalidInput, Unavailable

OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI = (
    PROVIDERS[name].requests[0] for name in ("openai", "openai_responses", "anthropic", "gemini")
)

COUNT = int(os.environ.get("TOOLROLL_REQUESTS", "150"))  # 10,000 in the long tier
NOTHING = RequestHeaders()
FIRST, SECOND, THIRD = (tool["name"] for tool in POOL[:3])


def message_for(name: str) -> str:
    server, verb, *noun = name.split("_")
    return f"Could you {verb} the {' '.join(noun)} in {server.capitalize()} for me?"


def chat(message: str = message_for(FIRST), names: Any = None, **members: Any) -> bytes:
    """A chat completion over the pool."""
    tools = [tool for tool in POOL if names is None or tool["name"] in names]
    sent = [
        {"type": "function", "function": {"name": tool["name"], "description": tool["description"]}}
        for tool in tools
    ]
    body = {"model": "m", "messages": [{"role": "user", "content": message}], "tools": sent, **members}
    return json.dumps(body).encode()


def names_in(body: bytes) -> list[str]:
    return [tool["function"]["name"] for tool in json.loads(body).get("tools", [])]


def denying(*names: str) -> Toolroll:
    rules = [Rule(name, "deny", "org", {"org": "acme"}, tool=name) for name in names]
    return Toolroll.from_tools([], rules=rules)


ACME = RequestHeaders(context={"org": "acme"})


@each_row("form", FORMS)
def test_of_generated_requests_all_bytes_but_the_tools_stay(form):
    selector = RequestSelector(max_tools=7)
    changed = 0
    for request in map(generated, range(COUNT)):
        if request.form is not form:
            continue
        body = request.body
        found = selector.select(body, form, NOTHING)
        assert found.report is not None and not found.report.has_failed
        if found.body is body:
            assert found.report.came == found.report.sent
            continue
        changed += 1
        text = found.body.decode()
        before, behind = request.before, request.behind
        assert text.startswith(before) and text.endswith(behind)
        inside = text[len(before) : len(text) - len(behind)]
        by_text = dict(zip(request.items, request.names, strict=True))
        kept = _divided(inside, by_text)
        assert kept is not None
        hosted = [text for text, name in by_text.items() if not name]
        assert kept[: len(hosted)] == hosted
        assert 0 < len(kept) - len(hosted) <= 7
    assert changed > COUNT // 20


def _divided(text: str, items: Any) -> list[str] | None:
    """The items that this text consists of, with commas between them; None if there is anything else."""
    found = []
    while text:
        item = next(
            (one for one in items if text.startswith(one) and text[len(one) :][:1] in ("", ",")), None
        )
        if item is None:
            return None
        found.append(item)
        text = text[len(item) + 1 :]
    return found


def test_a_request_without_tools_comes_back_as_the_very_object():
    selector = RequestSelector()
    for body in (b"{}", b'{"messages":[]}', b'{"tools":[]}', b'{"tools":null}', b"[]", b"", b"\xff", b"{"):
        changed = selector.select(body, OPENAI, NOTHING)
        assert changed.body is body and changed.report is None


@each_row(
    "body",
    [
        b'{"tools":[{}]',
        b'{"tools":[{}]} x',
        b'{"tools":[{}],"tools":[]}',
        b'{"tools":{"a":1}}',
        b'{"tools":[{}],"functions":[{}]}',
        b'{"tools":[{}],}',
        b"\x1f\x8b",
        b'{"tools":' + b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_passes_without_rules_and_is_refused_with_them(body):
    assert RequestSelector().select(body, OPENAI, NOTHING).body is body
    with pytest.raises(InvalidInput, match="cannot be read"):
        RequestSelector(denying(FIRST)).select(body, OPENAI, ACME)


def test_a_denied_tool_is_never_sent_not_even_if_the_choice_names_it():
    choice = {"type": "function", "function": {"name": FIRST}}
    changed = RequestSelector(denying(FIRST), max_tools=5).select(chat(tool_choice=choice), OPENAI, ACME)
    assert names_in(changed.body) and FIRST not in names_in(changed.body)
    assert "tool_choice" not in json.loads(changed.body)
    assert FIRST.encode() not in changed.body


@pytest.mark.parametrize("form", [OPENAI, GEMINI], ids=lambda form: form.provider)
def test_tools_of_the_same_name_are_always_sent_so_that_the_provider_refuses_them(form):
    first, second = POOL[20], {**POOL[20], "description": "Something else."}
    tools: list[Any] = [*POOL[:20], first, *POOL[21:30]]
    if form is OPENAI:
        listed = [{"type": "function", "function": tool} for tool in (*tools, second)]
        body = {"messages": [{"role": "user", "content": message_for(FIRST)}], "tools": listed}
    else:
        listed = [{"functionDeclarations": tools}, {"functionDeclarations": [second]}]
        body = {"contents": [{"role": "user", "parts": [{"text": message_for(FIRST)}]}], "tools": listed}

    def names_sent(selector: RequestSelector, headers: RequestHeaders) -> list[str]:
        sent = json.loads(selector.select(json.dumps(body).encode(), form, headers).body)["tools"]
        functions = [one for item in sent for one in item.get("functionDeclarations", [item.get("function")])]
        return [function["name"] for function in functions]

    sent = names_sent(RequestSelector(max_tools=5), NOTHING)
    assert len(sent) == 7 and sent.count(first["name"]) == 2
    assert first["name"] not in names_sent(RequestSelector(denying(first["name"]), max_tools=5), ACME)


def test_without_an_allowed_tool_no_list_and_no_choice_is_left():
    body = chat(names={FIRST}, tool_choice="required", parallel_tool_calls=False)
    changed = RequestSelector(denying(FIRST)).select(body, OPENAI, ACME)
    assert json.loads(changed.body).keys() == {"model", "messages"}


@each_row(
    ("form", "choice", "names"),
    [
        (OPENAI, {"type": "function", "function": {"name": SECOND}}, {SECOND}),
        (ANTHROPIC, {"type": "tool", "name": SECOND}, {SECOND}),
        (OPENAI_RESPONSES, {"type": "function", "name": SECOND}, {SECOND}),
        (
            OPENAI_RESPONSES,
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": n} for n in (SECOND, THIRD)],
            },
            {SECOND, THIRD},
        ),
        (GEMINI, {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [SECOND]}}, {SECOND}),
    ],
)
def test_a_tool_that_the_choice_names_is_sent_and_the_choice_stays(form, choice, names):
    plain = [{"name": tool["name"], "description": tool["description"]} for tool in POOL]
    if form is OPENAI:
        plain = [{"type": "function", "function": tool} for tool in plain]
    tools = [{"functionDeclarations": plain}] if form is GEMINI else plain
    messages = [{"role": "user", "parts": [{"text": message_for(FIRST)}]}]
    if form is not GEMINI:
        messages = [{"role": "user", "content": message_for(FIRST)}]
    body = json.dumps({form.messages[0]: messages, "tools": tools, form.choice[0]: choice}).encode()
    changed = RequestSelector(max_tools=1).select(body, form, NOTHING)
    found = json.loads(changed.body)
    assert found[form.choice[0]] == choice
    text = json.dumps(found["tools"])
    assert all(f'"{name}"' in text for name in names)
    assert changed.report is not None and changed.report.sent <= 1 + len(names)


def test_an_allowed_list_loses_the_tools_that_are_denied():
    listed = [{"type": "function", "function": {"name": name}} for name in (FIRST, SECOND)]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": listed}}
    found = RequestSelector(denying(FIRST)).select(chat(tool_choice=choice), OPENAI, ACME)
    assert json.loads(found.body)["tool_choice"]["allowed_tools"] == {"mode": "required", "tools": listed[1:]}

    gemini = {
        "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": FIRST, "description": ""},
                    {"name": SECOND, "description": ""},
                ]
            }
        ],
        "toolConfig": {
            "retrievalConfig": {"languageCode": "de"},
            "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [FIRST]},
        },
    }
    found = RequestSelector(denying(FIRST)).select(json.dumps(gemini).encode(), GEMINI, ACME)
    assert json.loads(found.body)["toolConfig"] == {"retrievalConfig": {"languageCode": "de"}}


def test_tools_that_the_conversation_has_called_stay():
    called = {"id": "c1", "type": "function", "function": {"name": SECOND, "arguments": "{}"}}
    messages = [
        {"role": "user", "content": message_for(SECOND)},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": message_for(FIRST)},
    ]
    found = RequestSelector(max_tools=4).select(chat(messages=messages), OPENAI, NOTHING)
    assert {FIRST, SECOND} <= set(names_in(found.body))


def lists_of_turns(headers: RequestHeaders) -> list[list[str]]:
    """The lists of the turns of one conversation."""
    selector = RequestSelector()
    messages: list[dict[str, str]] = []
    lists = []
    for name in (FIRST, SECOND, THIRD):
        messages.append({"role": "user", "content": message_for(name)})
        lists.append(names_in(selector.select(chat(messages=messages), OPENAI, headers).body))
        assert name in lists[-1]
        messages.append({"role": "assistant", "content": "Done."})
    return lists


def test_the_list_of_a_named_conversation_keeps_its_beginning():
    lists = lists_of_turns(RequestHeaders("c-42"))
    for one, next_one in itertools.pairwise(lists):
        assert next_one[: len(one)] == one


def test_without_a_name_tools_that_stay_keep_their_places():
    lists = lists_of_turns(NOTHING)
    for one, next_one in itertools.pairwise(lists):
        both = [name for name in one if name in next_one]
        assert both and next_one[: len(both)] == both


def test_steps_of_a_turn_have_one_list():
    selector = RequestSelector(max_tools=5)
    call = {"id": "c1", "type": "function", "function": {"name": FIRST, "arguments": "{}"}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": message_for(FIRST)}]
    first = names_in(selector.select(chat(messages=messages), OPENAI, NOTHING).body)
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    assert names_in(selector.select(chat(messages=messages), OPENAI, NOTHING).body) == first


def test_a_request_without_a_message_of_the_user_keeps_all_tools_that_rules_allow():
    body = chat(messages=[{"role": "system", "content": "be kind"}])
    changed = RequestSelector(max_tools=3).select(body, OPENAI, NOTHING)
    assert changed.body is body
    found = RequestSelector(denying(FIRST), max_tools=3).select(body, OPENAI, ACME)
    assert set(names_in(found.body)) == {tool["name"] for tool in POOL} - {FIRST}


def test_a_list_of_which_all_tools_are_selected_keeps_its_bytes_and_order():
    body = chat(names={FIRST, SECOND, THIRD})
    assert RequestSelector().select(body, OPENAI, NOTHING).body is body


@pytest.mark.parametrize("form", [OPENAI, OPENAI_RESPONSES, GEMINI], ids=lambda form: form.provider)
def test_allow_keeps_the_list_and_restricts_the_model(form):
    selector = RequestSelector(max_tools=5, delivery="allow")
    plain = [{"name": tool["name"], "description": tool["description"]} for tool in POOL]
    tools: Any = [{"type": "function", "function": tool} for tool in plain]
    if form is OPENAI_RESPONSES:
        tools = [{"type": "function", **tool} for tool in plain]
    messages: Any = [{"role": "user", "content": message_for(FIRST)}]
    if form is GEMINI:
        tools = [{"functionDeclarations": plain}]
        messages = [{"role": "user", "parts": [{"text": message_for(FIRST)}]}]
    body = json.dumps({form.messages[0]: messages, "tools": tools}).encode()
    changed = selector.select(body, form, NOTHING)
    assert changed.report is not None and (changed.report.delivery, changed.report.sent) == ("allow", 5)
    assert changed.body.startswith(body[:-1])
    choice = json.loads(changed.body)[form.choice[0]]
    assert f'"{FIRST}"' in json.dumps(choice) and len(form.chosen(choice)) == 5

    hosted = json.dumps({form.messages[0]: messages, "tools": [*tools, *HOSTED[form.provider]]}).encode()
    if HOSTED[form.provider]:
        assert selector.select(hosted, form, NOTHING).report.delivery == "replace"


def test_allow_never_shows_a_denied_tool():
    found = RequestSelector(denying(FIRST), max_tools=5, delivery="allow").select(chat(), OPENAI, ACME)
    assert FIRST not in names_in(found.body)


class Broken:
    def __getattr__(self, name):
        raise RuntimeError("broken")


def broken_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: Any, **__: Any) -> Any:
        raise RuntimeError("odd")

    monkeypatch.setattr(ToolSelector, "turn", raises)
    monkeypatch.setattr(ToolSelector, "aturn", raises)


def test_if_selection_fails_the_request_goes_on_unchanged(monkeypatch):
    broken_turn(monkeypatch)
    body = chat()
    for changed in (
        RequestSelector().select(body, OPENAI, NOTHING),
        asyncio.run(RequestSelector().aselect(body, OPENAI, NOTHING)),
    ):
        assert changed.body is body
        assert str(changed.report).startswith("60->60 tools, selection failed")


def test_if_selection_fails_the_rules_still_hold(monkeypatch):
    broken_turn(monkeypatch)
    found = RequestSelector(denying(FIRST)).select(chat(), OPENAI, ACME)
    assert len(names_in(found.body)) == len(POOL) - 1 and FIRST not in names_in(found.body)
    excluded = RequestHeaders(context={"exclude": [SECOND]})
    assert SECOND not in names_in(RequestSelector().select(chat(), OPENAI, excluded).body)


def test_if_rules_cannot_be_applied_nothing_is_sent(monkeypatch):
    broken_turn(monkeypatch)
    selector = RequestSelector(denying(FIRST))
    monkeypatch.setattr(Toolroll, "visible", Broken)
    with pytest.raises(Unavailable):
        selector.select(chat(), OPENAI, ACME)


def test_outcomes_are_read_from_the_results_in_the_next_request():
    from tests.adapters.scenario import Reports

    reports = Reports()
    selector = RequestSelector(Toolroll.from_tools([], observers=[reports]), max_tools=5)
    call = {"id": "c1", "type": "function", "function": {"name": FIRST, "arguments": "{}"}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": message_for(FIRST)}]
    selector.select(chat(messages=messages), OPENAI, NOTHING)
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Error: no"},
    ]
    for _ in range(2):
        selector.select(chat(messages=messages), OPENAI, NOTHING)
    assert reports.outcomes == [(FIRST, "failed")] and len(reports.events) == 1


@each_row(
    ("method", "path", "form"),
    [
        ("POST", "/v1/chat/completions", OPENAI),
        ("POST", "/openai/deployments/x/chat/completions", OPENAI),
        ("POST", "/v1/responses", OPENAI_RESPONSES),
        ("POST", "/v1/messages", ANTHROPIC),
        ("POST", "/messages", ANTHROPIC),
        ("POST", "/v1beta/models/gemini-3-pro:generateContent", GEMINI),
        ("POST", "/v1beta/models/gemini-3-pro:streamGenerateContent", GEMINI),
        ("GET", "/v1/responses", None),
        ("POST", "/v1/responses/x/cancel", None),
        ("POST", "/v1/threads/x/messages", None),
        ("POST", "/v1/messages/batches", None),
        ("POST", "/v1beta/models/gemini-3-pro:countTokens", None),
        ("POST", "/v1/embeddings", None),
    ],
)
def test_the_path_says_the_form(method, path, form):
    assert form_of(method, path) is form


def test_headers_say_who_asks_and_refuse_what_they_do_not_know():
    headers = [
        (b"x-toolroll-conversation", b"c-42"),
        (b"x-toolroll-context", b'{"org": "acme", "user": "ann"}'),
    ]
    said = RequestHeaders.of([*headers, (b"authorization", b"Bearer x")])
    context = said.of_org("acme")
    assert (context, said.conversation_of(context)) == (Context(org="acme", user="ann"), "acme/ann/c-42")
    for wrong in (b"[]", b"{", b'{"organisation": "x"}', b'{"settings": ["x"]}'):
        with pytest.raises(InvalidInput, match="x-toolroll-context"):
            RequestHeaders.of([(b"x-toolroll-context", wrong)])
    at_most = RequestHeaders.of([(b"x-toolroll-conversation", b"n" * 1_015)])
    assert len(at_most.conversation_of(context) or "") == 1_024
    with pytest.raises(
        InvalidInput, match=r"x-toolroll-conversation: is too long: 1,025 .* at most 1,024"
    ) as error:
        RequestHeaders.of([(b"x-toolroll-conversation", b"n" * 1_016)]).conversation_of(context)
    assert "nnn" not in str(error.value)


@each_row("form", [None, *FORMS])
def test_an_error_has_the_providers_form(form):
    error = json.loads(error_body(form, 502, "x"))["error"]
    assert error["message"] == "toolroll: x" and ("code" in error) is (form is not ANTHROPIC)


def test_a_further_step_of_a_turn_has_no_tool_that_is_denied_by_then(tmp_path):
    pytest.importorskip("sqlalchemy")
    from toolroll import Registry, Tool

    url = f"sqlite:///{tmp_path}/tools.db"
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool(FIRST, "Somebody else's tool of that name"))
        with Toolroll.open(url, recording=Recording(outbox=tmp_path / "outbox")) as roll:
            selector = RequestSelector(roll, max_tools=5)
            assert FIRST in names_in(selector.select(chat(), OPENAI, ACME).body)
            registry.rules.add(Rule("no", "deny", "org", {"org": "acme"}, tool=FIRST))
            roll.refresh()
            assert FIRST not in names_in(selector.select(chat(), OPENAI, ACME).body)
