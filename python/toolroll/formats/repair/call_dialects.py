"""Readers of tool calls in the formats of models' templates, each with its own mark.

If a server's parser misses a call, the call arrives as text. A reader gets the scan and the match of its
mark, and returns the calls there, or None if they cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from toolroll.formats.repair.scanner import NAME, Call, Scan, ScanMatch

Reader = Callable[[Scan, "re.Match[str]"], ScanMatch | None]

# No two runs of white space may be adjacent in a pattern: a long run would then take quadratic time.
_TAGS = r"(?:tool_?calls?|function_?calls?|tool_use)"
_OPENING = re.compile(rf"\s*<\|?{_TAGS}\|?>", re.IGNORECASE)
_CLOSING = re.compile(rf"\s*(?:</{_TAGS}>|<\|/{_TAGS}\|>)", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*[;,]?\s*")
_FUNCTION = re.compile(rf"<function[=/]\s*[\"']?({NAME})[\"']?\s*>?\s*")
_PARAMETER = re.compile(r"\s*<parameter[=/]\s*([^\s<>][^<>\n]{0,199})>")
_INVOKE = re.compile(r"\s*<(?:[\w-]{1,40}:)?invoke\s+name=[\"']([^\"'<>\n]{1,200})[\"'][^<>\n]{0,200}>")
_INVOKED = re.compile(r"\s*<(?:[\w-]{1,40}:)?parameter\s+name=[\"']([^\"'<>\n]{1,200})[\"'][^<>\n]{0,200}>")
_INVOKES = re.compile(r"\s*</?(?:[\w-]{1,40}:)?(?:function_calls|tool_call)>")
_INVOKE_END = re.compile(r"\s*</(?:[\w-]{1,40}:)?invoke>")
_INVOKES_END = re.compile(r"\s*</(?:[\w-]{1,40}:)?(?:function_calls|tool_call)>")
_BRACKET, _SEMICOLON, _NOTHING = re.compile(r"\s*>?"), re.compile(r"\s*;"), re.compile(r"")
_GLM = re.compile(rf"({NAME})\s*(?=<arg_key>|</{_TAGS}>)")
_ARGUMENT = re.compile(r"\s*<arg_key>([^<>]{1,200})</arg_key>\s*<arg_value>")
_MISTRAL = re.compile(
    rf"\s*(?:\[TOOL_CALLS\]\s*)?({NAME})\s*(?:\[CALL_ID\]\w{{1,40}}\s*)?(?:\[ARGS\]\s*)?(?=\{{)"
)
_DEEPSEEK = re.compile(
    r"\s*(?:<[｜|]tool▁calls▁begin[｜|]>\s*)?<[｜|]tool▁call▁begin[｜|]>\s*(?:function\s*<[｜|]tool▁sep[｜|]>\s*)?"
    rf"({NAME})\s*(?:<[｜|]tool▁sep[｜|]>\s*)?(?:```json\s*)?(?=\{{)"
)
_DEEPSEEK_END = re.compile(r"(?:\s*```)?(?:\s*<[｜|]tool▁calls?▁end[｜|]>)*")
_KIMI = re.compile(
    rf"\s*(?:<\|tool_calls_section_begin\|>\s*)?<\|tool_call_begin\|>\s*({NAME})\s*"
    r"<\|tool_call_argument_begin\|>\s*(?=\{)"
)
_KIMI_END = re.compile(r"(?:\s*<\|tool_call(?:s_section)?_end\|>)*")
_HARMONY = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?(?:commentary|analysis)?[ ]?to=functions\."
    rf"({NAME})\s*(?:<\|channel\|>(?:commentary|analysis)\s*)?(?:<\|constrain\|>\s*)?(?:(?:json|code)\s*)?"
    r"(?:<\|message\|>\s*)?(?=\{)"
)
_END_OF_TURN = re.compile(
    r"(?:\s*(?:<\|(?:eom_id|eot_id|im_end|end|call|return|endoftext)\|>|</s>|<｜end▁of▁sentence｜>))+"
)


def _tagged(scan: Scan, match: re.Match[str]) -> ScanMatch:
    """Hermes, Qwen, GLM, Granite, Phi: ``<tool_call>`` around JSON, functions, keys and values, or Python."""
    calls: list[Call] = []
    at, read = match.end(), False
    while True:
        start = at
        while (opening := _OPENING.match(scan.text, start)) is not None:
            start = opening.end()
        found = _element(scan, scan.space(start))
        if found is None:
            break
        calls += found.calls
        read = True
        at = _skipped(_SEPARATOR, scan, found.end)
        while (closing := _CLOSING.match(scan.text, at)) is not None:
            at = closing.end()
        at = _skipped(_SEPARATOR, scan, at)
    return ScanMatch(_trimmed(scan, at) if read else start, tuple(calls))


def _element(scan: Scan, at: int) -> ScanMatch | None:
    if (json := scan.json(at)) is not None:
        return ScanMatch(json[1], scan.calls(json[0]))
    if scan.text.startswith("[", at):
        return pythonic_list(scan, at)
    if (function := _FUNCTION.match(scan.text, at)) is not None:
        return _function(scan, function)
    if (named := _GLM.match(scan.text, at)) is not None:
        return _keys_and_values(scan, named)
    return scan.pythonic(at)


def _function(scan: Scan, match: re.Match[str]) -> ScanMatch | None:
    """Llama and Qwen3-coder: ``<function=name>`` around JSON, or around a ``<parameter=key>`` for each."""
    arguments: Any = {}
    at, has_arguments = match.end(), False
    if (json := scan.json(at)) is not None:
        arguments, at = json
        at = _skipped(_BRACKET, scan, at)
        has_arguments = True
    else:
        while (parameter := _PARAMETER.match(scan.text, at)) is not None:
            value, at = _value(scan, parameter.end(), "</parameter>", ("<parameter", "</function>"))
            arguments[parameter.group(1).rstrip()] = value
            has_arguments = True
    closing = scan.space(at)
    if scan.text.startswith("</function>", closing):
        at = closing + len("</function>")
    elif not has_arguments:
        return None
    return ScanMatch(at, _one(scan, match.group(1), arguments))


def _invoked(scan: Scan, match: re.Match[str]) -> ScanMatch:
    """Claude's own: ``<invoke name="...">`` with a ``<parameter name="...">`` for each argument."""
    calls: list[Call] = []
    at, read = match.start(), False
    while True:
        start = at
        while (wrapper := _INVOKES.match(scan.text, start)) is not None:
            start = wrapper.end()
        invoke = _INVOKE.match(scan.text, start)
        if invoke is None:
            break
        arguments: dict[str, Any] = {}
        at = invoke.end()
        while (parameter := _INVOKED.match(scan.text, at)) is not None:
            tag = parameter.group().strip()[1:].split()[0]  # the tag's name with its namespace
            value, at = _value(scan, parameter.end(), f"</{tag}>", ("<invoke", "</invoke>"))
            arguments[parameter.group(1)] = value
        at = _skipped(_INVOKE_END, scan, at)
        calls += _one(scan, invoke.group(1), arguments)
        read = True
    while read and (wrapper := _INVOKES_END.match(scan.text, at)) is not None:
        at = wrapper.end()
    return ScanMatch(at if read else start, tuple(calls))


def _keys_and_values(scan: Scan, match: re.Match[str]) -> ScanMatch | None:
    """GLM: the name, then ``<arg_key>`` and ``<arg_value>`` for each argument."""
    arguments: dict[str, Any] = {}
    at = match.end()
    while (argument := _ARGUMENT.match(scan.text, at)) is not None:
        value, at = _value(scan, argument.end(), "</arg_value>", ("<arg_key>", "</tool_call>"))
        arguments[argument.group(1).strip()] = value
    return ScanMatch(at, _one(scan, match.group(1), arguments))


def _value(scan: Scan, start: int, closing: str, before: tuple[str, ...]) -> tuple[str, int]:
    """A value up to its closing tag or, if that is missing, up to one of `before`."""
    end = scan.find(closing, start)
    others = [other for mark in before if (other := scan.find(mark, start)) != -1]
    if end == -1 or (
        others and min(others) < end and closing != "</arg_value>" and _is_tag(scan, min(others))
    ):
        end = min(others, default=len(scan.text))
        closing = ""
    text = scan.text[start:end]
    return text.removeprefix("\n").removesuffix("\n"), end + len(closing)


def _is_tag(scan: Scan, at: int) -> bool:
    """Whether a tag begins its line: one inside a line more likely belongs to the value."""
    return scan.text[max(0, at - 1) : at] in ("", "\n")


def _bracketed(scan: Scan, match: re.Match[str]) -> ScanMatch | None:
    """Mistral: ``[TOOL_CALLS]``, then a JSON list, or a name and JSON for each call."""
    at = scan.space(match.end())
    if (json := scan.json(at)) is not None:
        return ScanMatch(_trimmed(scan, json[1]), scan.calls(json[0]))
    return _named(scan, match.end(), _MISTRAL, _NOTHING)


def _python_tag(scan: Scan, match: re.Match[str]) -> ScanMatch | None:
    """Llama: ``<|python_tag|>``, then JSON or Python, several parted by semicolons."""
    calls: list[Call] = []
    at, read = match.end(), False
    while (found := _element(scan, scan.space(at))) is not None:
        calls += found.calls
        at, read = found.end, True
        at = _skipped(_SEMICOLON, scan, at)
    return ScanMatch(_trimmed(scan, at), tuple(calls)) if read else None


def _named(scan: Scan, start: int, head: re.Pattern[str], tail: re.Pattern[str]) -> ScanMatch | None:
    """The calls that consist of a head with the name, a JSON object, and a tail."""
    calls: list[Call] = []
    at, read = start, False
    while (named := head.match(scan.text, at)) is not None:
        if (json := scan.json(named.end())) is None:
            break
        calls += _one(scan, named.group(1), json[0])
        at, read = _skipped(tail, scan, json[1]), True
    return ScanMatch(_trimmed(scan, at), tuple(calls)) if read else None


def pythonic_list(scan: Scan, start: int) -> ScanMatch | None:
    """Llama 3.2 and 4: ``[get_weather(city="Oslo"), get_time()]``."""
    calls: list[Call] = []
    at = scan.space(start + 1)
    while True:
        found = scan.pythonic(at)
        if found is None:
            return None
        calls += found.calls
        at = scan.space(found.end)
        mark = scan.text[at : at + 1]
        if mark == "]":
            return ScanMatch(at + 1, tuple(calls))
        if mark != ",":
            return None
        at = scan.space(at + 1)


def _one(scan: Scan, name: str, arguments: Any) -> tuple[Call, ...]:
    call = scan.call(name, arguments)
    return () if call is None else (call,)


def _trimmed(scan: Scan, at: int) -> int:
    """The place after tokens that end a turn; white space alone is not skipped."""
    return _skipped(_END_OF_TURN, scan, at)


def _skipped(pattern: re.Pattern[str], scan: Scan, at: int) -> int:
    match = pattern.match(scan.text, at)
    return at if match is None else match.end()


# Name of the mark, its expression, and its reader.
MARKED: tuple[tuple[str, str, Reader], ...] = (
    ("tagged", rf"(?i:<\|?{_TAGS}\|?>)(?!\s*<(?:[\w-]{{1,40}}:)?invoke\s)", _tagged),
    ("function", r"<function[=/]", lambda scan, match: _from(scan, match, _FUNCTION, _function)),
    ("invoked", r"<(?:[\w-]{1,40}:)?(?:function_calls>|tool_call>|invoke\s)", _invoked),
    ("bracketed", r"\[TOOL_CALLS\]", _bracketed),
    ("python_tag", r"<\|python_tag\|>", _python_tag),
    (
        "deepseek",
        r"<[｜|]tool▁calls?▁begin[｜|]>",
        lambda scan, match: _named(scan, match.start(), _DEEPSEEK, _DEEPSEEK_END),
    ),
    (
        "kimi",
        r"<\|tool_calls?_(?:section_)?begin\|>",
        lambda scan, match: _named(scan, match.start(), _KIMI, _KIMI_END),
    ),
    (
        "harmony",
        r"(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?(?:commentary|analysis)?[ ]?to=functions\.",
        lambda scan, match: _named(scan, match.start(), _HARMONY, _END_OF_TURN),
    ),
)


def _from(scan: Scan, match: re.Match[str], head: re.Pattern[str], reader: Reader) -> ScanMatch | None:
    whole = head.match(scan.text, match.start())
    return None if whole is None else reader(scan, whole)
