from __future__ import annotations

import ast
import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import Tool, Toolroll
from toolroll.formats.repair.leaked_calls import Call, RecoveryResult, recover
from toolroll.formats.repair.scanner import NotPythonic, read_call
from toolroll.formats.schemas.names import provider_name
from toolroll.model.errors import InvalidInput

ROOT = Path(__file__).parents[4]

TOOLS = ("get_weather", "send_email", "get_time", "crm.find")
OSLO = Call("get_weather", {"city": "Oslo"})
OSLO_JSON = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'

DIALECTS = {
    "plain JSON": OSLO_JSON,
    "JSON with parameters": '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
    "JSON with input": '{"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}',
    "JSON with a tool": '{"tool": "get_weather", "args": {"city": "Oslo"}}',
    "JSON with a tool's name": '[{"tool_name": "get_weather", "parameters": {"city": "Oslo"}}]',
    "LangChain's action": '{"action": "get_weather", "action_input": {"city": "Oslo"}}',
    "OpenAI's function": '{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}',
    "OpenAI's tool_calls": '{"tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]}',
    "OpenAI's function_call": '{"function_call": {"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}',
    "OpenAI's parallel": '{"tool_uses": [{"recipient_name": "functions.get_weather", "parameters": {"city": "Oslo"}}]}',
    "many lines": json.dumps(json.loads(OSLO_JSON), indent=2),
    "fenced": f"```json\n{OSLO_JSON}\n```",
    "fenced, without a language": f"```\n{OSLO_JSON}\n```",
    "fenced, never closed": f"```json\n{OSLO_JSON}",
    "fenced as a tool call": f"```tool_call\n{OSLO_JSON}\n```",
    "Hermes": f"<tool_call>\n{OSLO_JSON}\n</tool_call>",
    "Hermes, never closed": f"<tool_call>\n{OSLO_JSON}",
    "Hermes in a fence": f"```\n<tool_call>{OSLO_JSON}</tool_call>\n```",
    "Jamba": f"<tool_calls>[{OSLO_JSON}]</tool_calls>",
    "Nemotron": f"<TOOLCALL>[{OSLO_JSON}]</TOOLCALL>",
    "Phi": f"<|tool_call|>[{OSLO_JSON}]<|/tool_call|>",
    "Granite": f"<|tool_call|>[{OSLO_JSON}]",
    "functioncall": f"<functioncall> {OSLO_JSON}",
    "Llama's function": '<function=get_weather>{"city": "Oslo"}</function>',
    "Llama's function, as Groq leaks it": '<function=get_weather{"city": "Oslo"}></function>',
    "Llama's function, never closed": '<function=get_weather>{"city": "Oslo"}',
    "Qwen3-coder": "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
    "Qwen3-coder, tags forgotten": "<function=get_weather>\n<parameter=city>\nOslo\n</function>",
    "GLM": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
    "Claude": '<function_calls>\n<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>\n</function_calls>',
    "Claude, with a namespace": '<x:function_calls><x:invoke name="get_weather"><x:parameter name="city">Oslo</x:parameter></x:invoke></x:function_calls>',
    "MiniMax": '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>\n</minimax:tool_call>',
    "Mistral": f"[TOOL_CALLS] [{OSLO_JSON}]",
    "Mistral, newer": '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}</s>',
    "Mistral, between": '[TOOL_CALLS]get_weather{"city": "Oslo"}',
    "Llama's Python tag, JSON": '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo"}}<|eom_id|>',
    "Llama's Python tag, Python": '<|python_tag|>get_weather.call(city="Oslo")',
    "pythonic": '[get_weather(city="Oslo")]',
    "Gemini's code": '```tool_code\nprint(default_api.get_weather(city="Oslo"))\n```',
    "DeepSeek": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
    "DeepSeek, newer": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Oslo"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "Kimi": '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
    "gpt-oss": '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}<|call|>',
    "gpt-oss, the other order": '<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Oslo"}<|call|>',
    "gpt-oss, stripped": 'assistantcommentary to=functions.get_weather json{"city": "Oslo"}',
    "Python": 'get_weather(city="Oslo")',
    "Python, with a namespace": 'functions.get_weather(city="Oslo")',
    "JavaScript": 'functions.get_weather({"city": "Oslo"})',
    "TypeScript": "functions.get_weather({ city: 'Oslo' });",
    "Gemini's functionCall": '{"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}',
    "Gemini's parts": '{"role": "model", "parts": [{"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}]}',
    "Bedrock's toolUse": '{"toolUse": {"toolUseId": "t1", "name": "get_weather", "input": {"city": "Oslo"}}}',
    "single quotes": "{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}",
    "single quotes, in a list": "[{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}]",
    "single quotes in Hermes' tags": "<tool_call>{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}</tool_call>",
    "other capitals": '{"name": "Get_Weather", "arguments": {"city": "Oslo"}}',
    "camel case": 'getWeather(city="Oslo")',
    "ReAct": 'Action: get_weather\nAction Input: {"city": "Oslo"}',
}


@each_row("dialect", DIALECTS)
def test_a_call_is_found_in_every_dialect(dialect):
    assert recover(DIALECTS[dialect], TOOLS) == ((OSLO,), "") or recover(DIALECTS[dialect], TOOLS).calls == (
        OSLO,
    )
    assert recover(DIALECTS[dialect], TOOLS).text == ""


@each_row("dialect", DIALECTS)
def test_what_was_said_before_it_remains(dialect):
    found = recover(f"Let me look that up.\n\n{DIALECTS[dialect]}\n", TOOLS)
    assert found.calls == (OSLO,) and found.text == "Let me look that up."


@each_row("dialect", DIALECTS)
def test_a_tool_that_was_not_offered_is_not_called(dialect):
    text = f"Let me look.\n\n{DIALECTS[dialect]}"
    assert recover(text, ["send_email"]).calls == () and recover(text, ["send_email"]).text == text


@each_row("dialect", DIALECTS)
@each_row("quoted", ["Use `{}` for that.", "> {}", "```xml\n{}\n```\nThat is how.", "```python\n{}\n```"])
def test_what_is_quoted_is_not_called(dialect, quoted):
    text = DIALECTS[dialect]
    if "\n" in text or "```" in text or (quoted.startswith(">") and not text.startswith("{")):
        return
    text = quoted.format(text)
    assert recover(text, TOOLS) == recover("", TOOLS).__class__((), text)


@each_row(
    "text",
    [
        f"Here is an example of a call:\n```json\n{OSLO_JSON}\n```",
        f"Ein Beispiel:\n{OSLO_JSON}",
        f"```json\n{OSLO_JSON}\n```\nYou can change the city as you like.",
        f"{OSLO_JSON}\nis what a call looks like.",
        f"The JSON is {OSLO_JSON}",
        f"For example: {OSLO_JSON}",
        f'{{"shown": {OSLO_JSON}}}',
        f"{{shown: {OSLO_JSON}}}",
        f"{OSLO_JSON} is the JSON",
        '{"name": "get_weather", "description": "Weather", "parameters": {"type": "object", "properties": {}}}',
        '{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {}}}}',
        '{"name": "get_weather", "rating": 5, "arguments": {}}',
        '{"name": "get_weather"}',
        '[{"name": "get_weather", "arguments": {}}, {"name": "other", "arguments": {}}]',
        '{"name": "get_weather", "arguments": [1]}',
        '{"name": "get_weather", "arguments": {"city": "Os',
        '<tool_call>{"name": "get_weather", "argum',
        "<tool_call></tool_call>",
        "<function=get_weather>",
        "The get_weather(city='Oslo') function exists.",
        "get_time()",
        "get_weather(city)",
        "[get_weather(city=Oslo)]",
        "[get_weather('Oslo')]",
        "[1, 2, 3]",
        "",
        "Nothing here.",
    ],
)
def test_what_may_as_well_be_an_example_or_is_not_whole_stays_in_the_text(text):
    found = recover(text, TOOLS)
    assert found.calls == () and found.text == text


@each_row("dialect", DIALECTS)
@each_row("mark", ["<think>{}</think>", "<thinking>{}</thinking>", "[THINK]{}[/THINK]"])
def test_what_is_only_thought_is_not_called(dialect, mark):
    text = mark.format(f"\nI could do this:\n{DIALECTS[dialect]}\nbut not yet.\n") + "\nWhich city?"
    assert recover(text, TOOLS).calls == () and recover(text, TOOLS).text == text
    found = recover(f"{mark.format('First the weather.')}\n{DIALECTS[dialect]}", TOOLS)
    assert found.calls and found.text == mark.format("First the weather.")


MARKED = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'


@each_row(
    "text",
    [
        f"The file contains: {MARKED} which looks odd.",
        f"The file contains: {MARKED} {MARKED} which looks odd.",
        f"It says {MARKED}, and I do not know why.",
        'In the log is <function=get_weather>{"city": "Oslo"}</function> and nothing else.',
        f"Look at this. In it is {MARKED} for some reason.\nMore below.",
        f"You could call it like this:\n```json\n{MARKED}\n```",
        'You could call it like this:\n```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```',
        f"<think>The page says {MARKED}</think>",
    ],
)
def test_a_marked_call_inside_a_sentence_or_an_example_is_only_quoted(text):
    found = recover(text, TOOLS)
    assert found.calls == () and found.text == text


@each_row(
    "text",
    [
        f"Let me look that up: {MARKED}",
        f"I'll look. {MARKED} One moment, please.",
        f"Let me see:\n{MARKED}\nwhich takes a moment.",
        f"{MARKED} which takes a moment.",
        f"<response>{MARKED}</response>",
        f"<think>\nNever closed.\n{MARKED}",
        f"A sentence: {MARKED}\n\nAnother one.",
    ],
)
def test_a_marked_call_counts_on_its_own_line_at_the_end_and_between_sentences(text):
    assert recover(text, TOOLS).calls == (("get_weather", {"city": "Oslo"}),)


@pytest.mark.parametrize("said", ["Sure!", "I'll look that up:", "Ich sehe nach."])
def test_json_may_stand_behind_a_sentence(said):
    found = recover(f"{said} {OSLO_JSON}", TOOLS)
    assert found.calls == (OSLO,) and found.text == said


def test_several_calls_come_in_order():
    email = Call("send_email", {"to": "a@b.c"})
    written = '{"name": "send_email", "arguments": {"to": "a@b.c"}}'
    for text in (
        f"[{OSLO_JSON}, {written}]",
        f"{OSLO_JSON}\n{written}",
        f"```json\n{OSLO_JSON}\n{written}\n```",
        f"```json\n{OSLO_JSON}\n```\n\n```json\n{written}\n```",
        f"<tool_call>{OSLO_JSON}</tool_call>\n<tool_call>{written}</tool_call>",
        f"<tool_calls>\n<tool_call>{OSLO_JSON}</tool_call><tool_call>{written}</tool_call></tool_calls>",
        f"<|python_tag|>{OSLO_JSON}; {written}",
        f"[TOOL_CALLS][{OSLO_JSON}, {written}]",
        '[TOOL_CALLS]get_weather{"city": "Oslo"}[TOOL_CALLS]send_email{"to": "a@b.c"}',
        "[get_weather(city='Oslo'), send_email(to='a@b.c')]",
        '<function_calls><invoke name="get_weather"><parameter name="city">Oslo</parameter></invoke><invoke name="send_email"><parameter name="to">a@b.c</parameter></invoke></function_calls>',
        '<function=get_weather>{"city": "Oslo"}</function><function=send_email>{"to": "a@b.c"}</function>',
    ):
        assert recover(text, TOOLS).calls == (OSLO, email) and recover(text, TOOLS).text == "", text


def test_text_after_a_marked_call_remains():
    found = recover(f"First.\n\n<tool_call>{OSLO_JSON}</tool_call>\n\nThen.", TOOLS)
    assert found.calls == (OSLO,) and found.text == "First.\n\nThen."


def test_values_may_hold_what_looks_like_tags_and_quotes():
    code = "if a < b:\n    print('</x> \"quoted\" `code`')"
    text = f"<function=send_email>\n<parameter=body>\n{code}\n</parameter>\n</function>"
    assert recover(text, TOOLS).calls == (Call("send_email", {"body": code}),)
    nested = json.dumps(
        {"name": "send_email", "arguments": {"body": f"<tool_call>{OSLO_JSON}</tool_call>```"}}
    )
    assert recover(f"<tool_call>{nested}</tool_call>", TOOLS).calls[0].name == "send_email"


def test_a_call_without_arguments_needs_a_mark():
    assert recover('<tool_call>{"name": "get_time"}</tool_call>', TOOLS).calls == (Call("get_time", {}),)
    assert recover("<function=get_time></function>", TOOLS).calls == (Call("get_time", {}),)
    assert recover("[get_time()]", TOOLS).calls == (Call("get_time", {}),)


def test_names_may_have_dots_and_tools_may_be_tools():
    tools = [Tool("crm.find", "Finds a customer")]
    assert recover('{"name": "crm.find", "arguments": {}}', tools).calls == (Call("crm.find", {}),)
    assert (
        recover('<tool_call>{"name": "functions.crm.find", "arguments": {}}</tool_call>', tools).calls[0].name
        == "crm.find"
    )


RENAMED = ("uber.ride", "uber.eats", "send_email")
SENT = {provider: provider_name("uber.ride", provider) for provider in ("openai", "anthropic", "gemini")}


@each_row("provider", SENT)
@each_row("dialect", DIALECTS)
def test_a_tool_that_was_sent_under_another_name_is_recovered_to_its_own(provider, dialect):
    if "apital" in dialect or "camel" in dialect:
        return
    text = DIALECTS[dialect].replace("get_weather", SENT[provider])
    assert recover(text, RENAMED).calls == (Call("uber.ride", {"city": "Oslo"}),)
    assert recover(text, [Tool("uber.ride", "Rides")]).calls == (Call("uber.ride", {"city": "Oslo"}),)
    assert recover(text, ["uber.eats"]).calls == ()


def test_names_may_be_given_as_they_were_sent():
    sent = SENT["openai"]
    text = json.dumps({"name": sent, "arguments": {}})
    assert recover(text, [sent]).calls == (Call(sent, {}),)


@pytest.mark.parametrize("how", ["replace", "meta-tools", "allow"])
def test_the_names_of_a_selection_and_of_a_delivery_serve_as_tools(how):
    roll = Toolroll.from_tools([Tool("uber.ride", "Orders a ride home"), Tool("mail.send", "Sends a mail")])
    picked = roll.select("order a ride home")
    delivery = picked.deliver("openai", how)
    text = json.dumps({"name": SENT["openai"], "arguments": {"to": "home"}})
    names = picked.names if how == "meta-tools" else delivery.allowed
    for tools in (picked.names, picked.definitions, names):
        assert recover(text, tools).calls == (Call("uber.ride", {"to": "home"}),)
    assert delivery.own_name(SENT["openai"]) == "uber.ride"


def test_other_capitals_and_separators_count_only_if_they_fit_one_tool():
    text = '{"name": "Send-Email", "arguments": {}}'
    assert recover(text, ["send_email", "x"]).calls == (Call("send_email", {}),)
    assert recover(text, ["send_email", "sendEmail"]).calls == ()
    assert recover('{"name": "sendEmail", "arguments": {}}', ["send_email", "sendEmail"]).calls == (
        Call("sendEmail", {}),
    )


EXPLANATIONS = [
    "The function takes one argument:\n\nget_weather(city='Oslo')\n\nIt returns the temperature.",
    "To get the weather yourself, call:\nget_weather(city='Oslo')",
    "Run this in your shell:\nget_weather(city='Oslo')",
    "You can call it with\nget_weather(city='Oslo')",
    "The syntax is\nget_weather(city='Oslo')",
    "The signature is:\nget_weather(city='Oslo')",
    "Add this line to your script:\n\nget_weather(city='Oslo')",
    "Use the following code:\nget_weather(city='Oslo')",
    "Here's the code you asked for:\nget_weather(city='Oslo')",
    "In Python that is written as\nget_weather(city='Oslo')",
    "1. Import the module\n2. get_weather(city='Oslo')",
    "- `get_weather(city='Oslo')`: the weather in Oslo",
    "- get_weather(city='Oslo')",
    "Try get_weather(city='Oslo')",
    "The log says: get_weather(city='Oslo')",
    "```python\nget_weather(city='Oslo')\n```",
    "```\nget_weather(city='Oslo')\n```",
    "    >>> get_weather(city='Oslo')",
    "result = get_weather(city='Oslo')",
    "def get_weather(city='Oslo'):",
    "get_weather(city='Oslo') is the call that fails.",
    "functions.get_weather({city: 'Oslo'}) returns a promise.",
    "Send the following JSON:\n{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}",
    'The request body is:\n{"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}',
    'A functionCall part has this structure:\n{"functionCall": {"name": "get_weather", "args": {}}}',
    "Your code does this:\nget_weather(city='Oslo')",
    "The traceback ends with\nget_weather(city='Oslo')",
    "This line is wrong:\nget_weather(city='Oslo')",
    "You should replace line 3 with:\nget_weather(city='Oslo')",
    "It is defined like so:\nget_weather(city='Oslo')",
]


@each_row("text", EXPLANATIONS)
def test_an_explanation_of_a_call_is_no_call(text):
    assert recover(text, TOOLS) == RecoveryResult((), text)


ANNOUNCEMENTS = [
    "Let me check the weather.", "I'll look that up for you:", "Sure!", "One moment, please.",
    "Calling the weather service:", "I need the weather first.", "Checking the weather in Oslo now…",
    "Okay, using get_weather:", "Now I will call the tool.", "Thanks for the details. I'll run it now:",
    "Tool call:", "**Action**", "Ich rufe das Wetter ab:",
]  # fmt: skip


@each_row("said", ANNOUNCEMENTS)
@each_row("dialect", ["Python", "JavaScript", "single quotes", "Gemini's functionCall"])
def test_a_call_behind_an_announcement_is_one(said, dialect):
    assert recover(f"{said}\n{DIALECTS[dialect]}", TOOLS) == RecoveryResult((OSLO,), said)


@each_row("page", sorted((ROOT / "docs").rglob("*.md")))
def test_documentation_calls_nothing(page):
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"([A-Za-z_][\w.]*)\(", text)) | set(re.findall(r'"name": "([\w.]+)"', text))
    for shown in (text, *re.split(r"\n(?=#)", text)):
        if "<tool_call>" not in shown:  # the page that explains this has one as Python's string
            assert recover(shown, names).calls == ()


@each_row("wrong", [(5, []), (None, []), (b"x", []), ("x", "get_weather"), ("x", 5), ("x", [5])])
def test_wrong_use_is_refused(wrong):
    with pytest.raises(InvalidInput, match="must be"):
        recover(*wrong)


def test_a_value_too_deep_to_be_shown_is_refused_all_the_same():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for wrong in ((deep, []), ("x", deep), ("x", [deep])):
        with pytest.raises(InvalidInput, match="must be"):
            recover(*wrong)


# --- Python's syntax

literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), literals))
def test_a_call_is_read_as_python_writes_its_literals(arguments):
    written = f"f({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    assert read_call(written + " and more", 0) == ("f", arguments, len(written))


def test_an_object_as_the_only_argument_is_the_arguments():
    assert read_call('f({"a": 1, b: [{c: "x"}]})', 0)[1] == {"a": 1, "b": [{"c": "x"}]}
    for wrong in ("f({a})", "f({1: 2})", "f({}, {})", "f(a={b: 1})"):
        with pytest.raises(NotPythonic):
            read_call(wrong, 0)


@given(st.text(alphabet="abf(=)[]{}'\",:\\ 10.-nxu\n", max_size=30))
@settings(max_examples=500)
def test_what_is_read_means_to_python_what_it_means_here(text):
    try:
        _, arguments, end = read_call(f"f({text}", 0)
    except NotPythonic:
        return
    try:
        parsed = ast.parse(f"f({text}"[:end], mode="eval").body
    except (SyntaxError, Warning):  # 1_000 or 007, or an escape that Python warns about
        return
    if parsed.args:
        assert arguments == {key.value: _listed(ast.literal_eval(value)) for key, value in _members(parsed)}
        return
    assert arguments == {word.arg: _listed(ast.literal_eval(word.value)) for word in parsed.keywords}


def _members(call):
    (only,) = call.args
    return list(zip(only.keys, only.values, strict=True))


def _listed(value):
    if isinstance(value, (list, tuple)):
        return [_listed(item) for item in value]
    return {key: _listed(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_strings_in_python_may_be_long_and_escaped():
    written = r'''f(a="""two
"lines" """, b='it\'s \u00e9\n', c="\d")'''
    assert read_call(written, 0)[1] == {"a": 'two\n"lines" ', "b": "it's é\n", "c": r"\d"}


# --- whatever comes

pieces = st.sampled_from(
    [
        "```",
        "```json\n",
        "\n",
        " ",
        "`",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        ",",
        ":",
        "<",
        ">",
        "</",
        "a",
        OSLO_JSON,
    ]
    + [
        "<tool_call>",
        "</tool_call>",
        "<function=get_weather>",
        "</function>",
        "<parameter=city>",
        "</parameter>",
    ]
    + [
        '<invoke name="get_weather">',
        "</invoke>",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "get_weather",
        "city=",
        "'Oslo'",
    ]
    + [
        "to=functions.get_weather",
        "<|message|>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "<｜tool▁call▁begin｜>",
        "\ud800",
    ]
)


@given(st.lists(pieces, max_size=20).map("".join))
@settings(max_examples=500)
def test_no_text_crashes_and_only_offered_tools_are_called(text):
    found = recover(text, TOOLS)
    assert all(call.name in TOOLS and isinstance(call.arguments, dict) for call in found.calls)
    assert found.calls or found.text == text


def _repeated(piece, size=300_000):
    return (piece * (size // len(piece) + 1))[:size]


@pytest.mark.slow
@each_row(
    "text",
    [
        *map(_repeated, ["{", "[", "<", "`", "\n", " ", "\n ", '{"a":', '{"a":\n', "[1,\n", '{"a":[\n', "```\n", "```json\n", "```json\n{"]),
        *map(_repeated, ["<tool_call>", "<tool_call>{", '<tool_call>{"name":"get_weather","arguments":{"a":"', "<function=a>", "<function=get_weather><parameter=a>"]),
        *map(_repeated, ['<invoke name="get_weather">', '<invoke name="get_weather"><parameter name="a">', "<function_calls>", "[TOOL_CALLS]", "[TOOL_CALLS]a{"]),
        *map(_repeated, ["<|python_tag|>", "<|python_tag|>f(a=", "[f(a=[\n", "[f(a='", "to=functions.a", "to=functions.a ", "Action: a\nAction Input: {", "<arg_key>"]),
        *map(_repeated, ["<tool_call>get_weather\n<arg_key>a</arg_key><arg_value>", "<｜tool▁call▁begin｜>a", "<|tool_call_begin|>a<|tool_call_argument_begin|>{", "\\", "'''"]),
        *map(_repeated, [OSLO_JSON + "\n", f"<tool_call>{OSLO_JSON}</tool_call>", "`a` ", "```python\nx\n```\n", "\n[get_weather(a=1)]"]),
        '{"a":[\n' * 400 + _repeated("1,"),
        "[f(a=[\n" * 20 + _repeated("1,"),
        '<function=get_weather>{"a": "' + _repeated("x"),
        "<tool_call>" + _repeated(" "),
        '{"name": "get_weather", "arguments": {"a": "' + _repeated("x") + '"}}',
    ],
)  # fmt: skip
def test_any_text_takes_time_in_proportion(text):
    started = time.process_time()
    recover(text, TOOLS)
    assert time.process_time() - started < 10


@pytest.mark.slow
@each_row("dialect", [name for name, text in DIALECTS.items() if not text.startswith("{")])
@each_row("filler", [" ", "\n"])
def test_a_dialect_that_breaks_off_in_white_space_takes_time_in_proportion(dialect, filler):
    written = DIALECTS[dialect]
    started = time.process_time()
    for end in [mark.end() for mark in re.finditer(r"\w+|[^\w\s]+", written)]:
        recover(written[:end] + filler * 40_000 + "x", TOOLS)
        assert time.process_time() - started < 10
    recover(written + filler * 40_000 + "`", TOOLS)
    assert time.process_time() - started < 10


@pytest.mark.slow
@each_row(
    "text",
    [
        "```" + " " * 100_000 + "`",
        "<function=get_weather><parameter=" + "a " * 50_000 + ">",
        "<tool_call>" + ("[" * 300 + "]" * 300 + ",") * 60 + "</tool_call>",
        f"<tool_call>[{','.join(['[' * 300 + ']' * 300] * 60)}]</tool_call>" * 25,
        '. {"a":1}' * 110_000,
        "[{\n" * 300_000,
        "".join(f'<invoke name="get_time"><n{i}:parameter name="a"></invoke>' for i in range(20_000)),
    ],
)
def test_a_text_made_to_take_long_takes_about_a_second(text):
    started = time.process_time()
    recover(text, TOOLS)
    assert time.process_time() - started < 5


@each_row("piece", ["[1,\n", "[f(a=[\n", "<tool_call>{", "\n[get_weather(a=1)]"])
def test_a_megabyte_of_the_worst_takes_about_a_second(piece):
    started = time.process_time()
    recover(_repeated(piece, 1_000_000), TOOLS)
    assert time.process_time() - started < 10
