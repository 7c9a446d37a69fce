"""Reads the description of a function and of each parameter from a docstring.

Three styles are recognised by their headings: Google (``Args:``), numpy (``Parameters`` underlined) and
Sphinx (``:param x:``). Text in none of these styles is all description.
"""

from __future__ import annotations

import re
from inspect import cleandoc

_GOOGLE = re.compile(r"(Args|Arguments|Parameters|Params|Keyword Args|Other Parameters|Attributes):\s*$")
_HEADING = re.compile(
    r"[A-Z][A-Za-z ]{2,30}:\s*$"
)  # the heading of any Google section: Returns, Raises, Example...
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"(Parameters|Other Parameters|Attributes)\s*$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_NUMPY_ITEM = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_OTHER = re.compile(r":(?:type|returns?|rtype|raises?|var|ivar|cvar|meta|except|exception)\b")


def read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and each parameter's text."""
    lines = cleandoc(docstring).splitlines()
    starts = [i for i in range(len(lines)) if _starts_section(lines, i)]
    described: dict[str, str] = {}
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        body = lines[start:end]
        if _SPHINX.match(body[0]):
            described.update(_items(body, _SPHINX, 0))
        elif _GOOGLE.match(body[0]):
            described.update(_items(body[1:], _GOOGLE_ITEM, None))
        elif _NUMPY.match(body[0]):
            described.update(_numpy_items(body[2:]))
    description = "\n".join(lines[: starts[0]] if starts else lines).strip()
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", description)]
    return "\n\n".join(part for part in paragraphs if part), described


def _starts_section(lines: list[str], i: int) -> bool:
    line = lines[i]
    if _SPHINX.match(line) or _SPHINX_OTHER.match(line):
        return True
    if i + 1 < len(lines) and _UNDERLINE.match(lines[i + 1]):
        return bool(line.strip())
    follows = lines[i + 1] if i + 1 < len(lines) else ""
    return bool(_HEADING.match(line)) and (not follows.strip() or follows[:1].isspace())


def _items(lines: list[str], pattern: re.Pattern[str], indent: int | None) -> dict[str, str]:
    """Reads ``name: text`` items; further indented lines and other text continue the item before."""
    found: dict[str, list[str]] = {}
    name = None
    for line in lines:
        if not line.strip():
            continue
        margin = len(line) - len(line.lstrip())
        indent = margin if indent is None else indent
        match = pattern.match(line.strip()) if margin <= indent else None
        if match:
            name = match.group(1)
            found[name] = [match.group(2)]
        elif name is not None:
            found[name].append(line.strip())
    return {key: text for key, parts in found.items() if (text := " ".join(part for part in parts if part))}


def _numpy_items(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        if line.strip() and not line[0].isspace():
            match = _NUMPY_ITEM.match(line)
            names = [name.strip(" *") for name in match.group(1).split(",")] if match else []
        else:
            for name in names:
                found.setdefault(name, []).append(line.strip())
    return {key: text for key, parts in found.items() if (text := " ".join(part for part in parts if part))}
