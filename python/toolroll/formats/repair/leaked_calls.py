"""Finds tool calls that a model wrote as text.

A call with the marks of a model's template counts, unless it is quoted: in thoughts, or in the middle of a
sentence. JSON or Python without such marks may be an example for the user: it counts only if nothing but
calls follows it and the line before it does not announce an example. Only offered tools count, and everything
else stays in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from toolroll.formats.repair.call_dialects import MARKED, pythonic_list
from toolroll.formats.repair.scanner import NAME, Call, Scan, ScanMatch
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Tool

__all__ = ["Call", "RecoveryResult", "recover"]

MAX_BLOCKS = 1_000  # blocks of calls in one reply; the rest stays text

_OWN_FENCES = frozenset(
    {"tool_call", "tool_calls", "tool_code", "tool_use", "function_call", "function_calls"}
)
_OPEN_FENCES = _OWN_FENCES | {"", "json", "json5", "jsonc"}

_READERS = {name: reader for name, _, reader in MARKED}
_MARK = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern, _ in MARKED))
_ANY = re.compile(
    r"(?P<fence>^[ \t]{0,3}```(?=[^\n`]*$)[ \t]*(?P<language>[\w+-]{0,40})[^\n`]*)"
    r"|(?P<quoted>`[^`\n]+`)"
    r"|(?P<thought><(?:think|thinking|reasoning)>|\[THINK\])"
    rf"|(?P<react>^Action:[ \t]*(?P<action>{NAME})[ \t]*\r?\n[ \t]*Action Input:[ \t]*(?=\{{))"
    r"|(?P<bare>^[ \t]*(?=[{\[](?!TOOL_CALLS)|[A-Za-z_][\w.]{0,199}\()"
    r"|[.!:…。！：][ \t]{0,3}(?=\{\s*[\"']|\[\s*\{))"
    f"|{_MARK.pattern}",
    re.MULTILINE,
)
_SEPARATORS = re.compile(r"(?:[;,]|[^\S\n])*")
_FENCE_END = re.compile(r"\s*(?:```|\Z)")
_PRINTED = re.compile(r"print\(\s*")
_EXAMPLE = re.compile(  # in the line before it: "for example:", "a call looks like this:"
    r"example|e\.g\.|instance|looks? like|would (?:be|look)|could (?:be|look)|format|sample|such as|schema"
    r"|\byou (?:could|can|may|might|would)(?: \w+)? (?:call|use|invoke|run|write|send|do)\b"
    r"|syntax|template|illustrat|something like|hypothetical|beispiel|exemple|ejemplo|esempio|exemplo"
    r"|voorbeeld|예시|예를|예:|例",
    re.IGNORECASE,
)
_SHOWN = re.compile(  # code for the reader, if the line before it does not speak of the writer
    r"\b(?:code|json|body|request|signature|structure|defin\w+|line|script|shell|traceback|log|written|following"
    r"|yourself|yours?|like so|this way|you)\b"
    r"|^\W*(?:use|run|call|try|type|send|add|paste|put|write|replace|copy|enter|execute|invoke)\b"
    r"|\bto\b.*\b(?:use|run|call|try|type|send|add|write|enter|execute|invoke)\W*$",
    re.IGNORECASE,
)
_OWN_CALL = re.compile(r"\b(?:(?:tool|function) calls?|I|I['’]\w+|let me|we|ich)\b", re.IGNORECASE)
_TAG = re.compile(r"<[^<>\n]{1,40}>")
_WORD = re.compile(r"\w")
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
_NEAR = 300  # characters before and after a call in which the rest of its line is looked for
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The calls and the text of a reply.

    Attributes:
        calls: in the order of the text.
        text: for the user; the reply itself if it has no calls.
    """

    calls: tuple[Call, ...]
    text: str


class _Block(NamedTuple):
    start: int
    end: int
    calls: tuple[Call, ...]
    marked: bool
    fenced: bool = False  # in a fence of a general language


def recover(text: str, tools: Iterable[str | Tool]) -> RecoveryResult:
    """Separates the tool calls of a reply from its text, in linear time.

    Arguments stay as the model wrote them; `repair` makes them fit the tool's schema. The model may write a
    tool's sent name; the returned calls have the tool's own name. So `tools` can be `picked.names`,
    `picked.definitions` or `delivery.allowed`.

    Args:
        text: the reply, as the provider gave it.
        tools: the offered tools, or their names.

    Raises:
        InvalidInput: `text` is not a string, or `tools` holds something else.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"text is {quoted(text)}, must be a string")
    scan = Scan(text, _names(tools))
    blocks = _actual_calls(text, _blocks(scan))
    if not blocks:
        return RecoveryResult((), text)
    kept, at = [], 0
    for block in blocks:
        kept.append(text[at : block.start])
        at = block.end
    kept.append(text[at:])
    rest = _BLANK_LINES.sub("\n\n", "".join(kept)).strip()
    return RecoveryResult(tuple(call for block in blocks for call in block.calls), rest)


def _names(tools: object) -> list[str]:
    if isinstance(tools, (str, bytes)) or not isinstance(tools, Iterable):
        raise InvalidInput(f"tools are {quoted(tools)}, must be a list of names or tools")
    names = [tool.name if isinstance(tool, Tool) else tool for tool in tools]
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"tools hold {quoted(name)}, must be names or tools")
    return names


def _actual_calls(text: str, blocks: list[_Block]) -> list[_Block]:
    """The blocks that are calls. A block without marks must end the text and be no example."""
    called: list[_Block] = []
    behind = len(text)
    for block in reversed(_outside_sentences(text, blocks)):
        if not block.marked and text[block.end : behind].strip():
            continue
        line = text[max(0, block.start - _NEAR) : block.start].rstrip().rpartition("\n")[2]
        if (block.fenced or not block.marked) and _is_announced_example(line):
            continue
        called.append(block)
        behind = block.start
    return called[::-1]


def _is_announced_example(line: str) -> bool:
    return bool(_EXAMPLE.search(line) or (_SHOWN.search(line) and not _OWN_CALL.search(line)))


def _outside_sentences(text: str, blocks: list[_Block]) -> list[_Block]:
    """The blocks that are not in the middle of a sentence."""
    outside: list[_Block] = []
    first = 0
    while first < len(blocks):
        last = first
        while last + 1 < len(blocks) and not text[blocks[last].end : blocks[last + 1].start].strip():
            last += 1
        start, end = blocks[first].start, blocks[last].end
        line = text.rfind("\n", max(0, start - _NEAR), start) + 1
        before = _TAG.sub(
            "", text[max(line, start - _NEAR, outside[-1].end if outside else 0) : start]
        ).rstrip()
        block = text[max(start, end - _NEAR) : end]  # may have taken the line's end with it
        after = block[len(block.rstrip()) :] + text[end : end + _NEAR]
        after = _TAG.sub("", after.partition("\n")[0])
        goes_on = _WORD.search(before) and not before.endswith(_SENTENCE_ENDS) and _WORD.search(after)
        if not goes_on:
            outside += blocks[first : last + 1]
        first = last + 1
    return outside


def _blocks(scan: Scan) -> list[_Block]:
    blocks: list[_Block] = []
    at = 0
    while len(blocks) < MAX_BLOCKS and (match := _ANY.search(scan.text, at)) is not None:
        kind = match.lastgroup
        assert kind is not None
        at = max(match.end(), match.start() + 1)
        if kind == "quoted":
            continue
        if kind == "thought":
            mark = match.group()
            closing = scan.find(f"{mark[0]}/{mark[1:]}", at)
            at = at if closing == -1 else closing  # an unclosed thought may be the whole reply
            continue
        if kind == "fence":
            block = _fenced(scan, match)
            at = block.end
        elif kind == "bare":
            block = _Block(match.end(), *_bare(scan, match.end()), False)
        elif kind == "react":
            found = scan.json(match.end())
            call = None if found is None else scan.call(match["action"], found[0])
            block = _Block(match.start(), at if found is None else found[1], (call,) if call else (), False)
        else:
            block = _Block(match.start(), *(_READERS[kind](scan, match) or ScanMatch(at)), True)
        at = max(at, block.end)
        if block.calls:
            blocks.append(block)
    return blocks


def _bare(scan: Scan, at: int) -> ScanMatch:
    """Reads JSON or Python calls, alone on the line or after a sentence, up to the end of the line."""
    found = None
    if (json := scan.json(at)) is not None:
        found = ScanMatch(json[1], scan.calls(json[0], strict=True))
    elif scan.text.startswith("[", at):
        found = pythonic_list(scan, at)
    elif (python := scan.pythonic(at)) is not None:
        # Without arguments, it may as well be the name of a function.
        found = ScanMatch(python.end, tuple(call for call in python.calls if call.arguments))
    if found is None:
        return ScanMatch(at + 1)
    separators = _SEPARATORS.match(scan.text, found.end)
    assert separators is not None
    ends = separators.end()
    is_alone = scan.text[ends : ends + 1] in ("", "\n") or _MARK.match(scan.text, ends) is not None
    return ScanMatch(ends, found.calls) if is_alone else ScanMatch(found.end)


def _fenced(scan: Scan, match: re.Match[str]) -> _Block:
    """Reads a fence. It counts as calls if it holds nothing else; otherwise it is text for the user."""
    language = match["language"].lower()
    closing = scan.find("\n```", match.end())
    shown = _Block(match.start(), len(scan.text) if closing == -1 else closing + 4, (), False)
    if language not in _OPEN_FENCES:
        return shown
    own = language in _OWN_FENCES
    calls: list[Call] = []
    at, marked = match.end(), own
    while (end := _FENCE_END.match(scan.text, at)) is None:
        found = _fenced_element(scan, scan.space(at), own)
        if found is None or not found[0].calls:
            return shown
        calls += found[0].calls
        marked = marked or found[1]
        at = found[0].end
    return _Block(match.start(), end.end(), tuple(calls), marked, not own) if calls else shown


def _fenced_element(scan: Scan, at: int, own: bool) -> tuple[ScanMatch, bool] | None:
    if (json := scan.json(at)) is not None:
        return ScanMatch(json[1], scan.calls(json[0], strict=not own)), False
    if (mark := _MARK.match(scan.text, at)) is not None:
        assert mark.lastgroup is not None
        found = _READERS[mark.lastgroup](scan, mark)
        return None if found is None else (found, True)
    if not own:
        return None
    if scan.text.startswith("[", at):
        found = pythonic_list(scan, at)
        return None if found is None else (found, False)
    printed = _PRINTED.match(scan.text, at)
    found = scan.pythonic(at if printed is None else printed.end())
    if found is not None and printed is not None:
        end = scan.space(found.end)
        found = ScanMatch(end + 1, found.calls) if scan.text.startswith(")", end) else None
    return None if found is None else (found, False)
