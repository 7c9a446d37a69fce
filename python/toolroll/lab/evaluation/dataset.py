"""Reads labelled messages, and divides them into test messages and examples.

    tools.jsonl     {"name", "description", "parameters", "server", "examples"} a line
    queries.jsonl   {"id", "text", "gold": [names], "split", "context": {...}} a line

A folder may have toolkit files instead of `tools.jsonl`. An empty `gold` means that no tool applies. The
context has four known keys:

- `alt`: gold name → names that are equally correct.
- `candidates`: the only tools to choose from.
- `history`: earlier messages, `{"role", "content"}` each.
- `dialog`: messages of one dialog are never on both sides of a division.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from toolroll.formats import strict_json
from toolroll.formats.sources.bad_tools import OnBadTool, clean_name
from toolroll.formats.sources.fields import FieldError
from toolroll.formats.sources.folder import read_folder
from toolroll.model.errors import InvalidDefinition, InvalidInput, NotFound, quoted
from toolroll.model.tools import Definitions

QUERIES = "queries.jsonl"

Split = Literal["test", "train", "all"]
Examples = Literal["train", "given", "none"]
SPLITS: tuple[Split, ...] = get_args(Split)
EXAMPLES: tuple[Examples, ...] = get_args(Examples)


@dataclass(frozen=True, slots=True)
class Query:
    """One labelled message.

    Attributes:
        id: unique in its folder.
        gold: names of the needed tools; empty if no tool applies.
        split: "test", "train" or another name from the folder.
        alternatives: gold name → names that are equally correct.
        candidates: the only tools to choose from; empty for the whole catalog.
        history: earlier messages, oldest first.
        context: the whole object from the file.
    """

    id: str
    text: str
    gold: tuple[str, ...] = ()
    split: str = "test"
    alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    candidates: tuple[str, ...] = ()
    history: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    context: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tools and labelled messages.

    Attributes:
        name: of the folder.
        definitions: the tools, with the examples of their own file only.
        queries: in the order of their file.
        spellings: name of a tool → another spelling in the queries, such as with spaces at its ends.
    """

    name: str
    definitions: Definitions
    queries: tuple[Query, ...]
    spellings: Mapping[str, str] = field(default_factory=dict)


def read_dataset(folder: str | PathLike[str], on_bad_tool: OnBadTool | None = None) -> Dataset:
    """Reads a dataset folder. on_bad_tool: as in `read_folder`; queries may name tools that were left out.

    Raises:
        NotFound: there is no such folder, or no `queries.jsonl` in it.
        InvalidDefinition: with file and line of the error.
    """
    path = Path(folder)
    if not path.is_dir():
        raise NotFound(f"dataset {str(folder)!r}: no such folder")
    file = path / QUERIES
    if not file.is_file():
        raise NotFound(f"dataset {str(folder)!r}: has no {QUERIES}, the labelled messages, a line each")
    definitions = read_folder(path, on_bad_tool=on_bad_tool)
    if not definitions.tools:
        raise InvalidDefinition(
            "holds no tools, must have a tools.jsonl or toolkit files beside its queries", file=str(folder)
        )
    names = {tool.name for tool in definitions.tools} | {
        clean_name(error.tool) for error in definitions.skipped if error.tool
    }
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InvalidDefinition(f"cannot be read: {error.strerror}", file=str(file)) from error
    queries, spellings = _read_queries(strict_json.decode(content, str(file)), str(file), names)
    return Dataset(path.resolve().name, definitions, queries, spellings)


def divide(
    queries: Sequence[Query], split: Split, examples: Examples
) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
    """The queries to ask, and the queries whose texts become examples; no query is in both.

    Examples come from "train" only. If the split to ask is "train", too, every second dialog is asked and the
    others become examples. A query without a dialog counts as a dialog.

    Raises:
        InvalidInput: split is "all" and examples is "train": no query can be both asked and an example.
    """
    if split not in SPLITS:
        raise InvalidInput(f"split: is {quoted(split)}, must be one of {', '.join(SPLITS)}")
    if examples not in EXAMPLES:
        raise InvalidInput(f"examples: is {quoted(examples)}, must be one of {', '.join(EXAMPLES)}")
    if split == "all" and examples == "train":
        raise InvalidInput(
            "split: is 'all' with examples from 'train', but a message that is asked cannot be an example: "
            "take examples 'given' or 'none', or split 'test' or 'train'"
        )
    asked = tuple(query for query in queries if split in ("all", query.split))
    if examples != "train":
        return asked, ()
    train = [query for query in queries if query.split == "train"]
    if split != "train":
        return asked, tuple(train)
    sides: dict[tuple[bool, str], int] = {}
    halves: tuple[list[Query], list[Query]] = ([], [])
    for query in train:
        dialog = query.context.get("dialog")
        key = (True, query.id) if dialog is None else (False, str(dialog))
        halves[sides.setdefault(key, len(sides) % 2)].append(query)
    return tuple(halves[1]), tuple(halves[0])


def sample(queries: Sequence[Query], limit: int | None, seed: int) -> tuple[Query, ...]:
    """`limit` queries, in their own order. With one random seed, a larger sample contains a smaller one."""
    if limit is None or limit >= len(queries):
        return tuple(queries)
    if limit < 1:
        raise InvalidInput(f"limit: is {limit}, must be at least 1")
    drawn = np.random.default_rng(seed).permutation(len(queries))[:limit]
    return tuple(queries[place] for place in np.sort(drawn).tolist())


def with_examples(
    definitions: Definitions, teachers: Sequence[Query], *, keep: bool = True, most: int | None = None
) -> Definitions:
    """The definitions with every teacher's text as an example of each of its gold tools, in file order.

    keep: whether a tool's own examples stay, in front. most: the most examples of a tool, in all.
    """
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for query in teachers:
        for name in query.gold:
            texts[name].append(query.text)
    tools = tuple(
        replace(
            tool, examples=((*tool.examples, *texts[tool.name]) if keep else tuple(texts[tool.name]))[:most]
        )
        for tool in definitions.tools
    )
    return replace(definitions, tools=tools)


def _read_queries(text: str, file: str, names: set[str]) -> tuple[tuple[Query, ...], dict[str, str]]:
    queries: list[Query] = []
    spellings: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines(): U+2028 may stand in a string
        if not line or line.isspace():
            continue
        value = strict_json.parse(line, file, number)
        try:
            query = _query(value, names, spellings)
            first = lines.setdefault(query.id, number)
            if first != number:
                raise FieldError(f"id {query.id!r} is there twice, first in line {first}", ("id",))
        except FieldError as error:
            raise error.invalid(file=file, line=number) from None
        queries.append(query)
    return tuple(queries), spellings


def _query(value: Any, names: set[str], spellings: dict[str, str]) -> Query:
    if type(value) is not dict:
        raise FieldError(f"is {quoted(value)}, must be an object with id, text and gold")
    for key in ("id", "text", "gold"):
        if key not in value:
            raise FieldError(f"{key} is missing", (key,))
    for key in ("id", "text", "split"):
        if not isinstance(found := value.get(key, "test"), str) or (key != "text" and not found):
            raise FieldError(
                f"{key} is {quoted(found)}, must be a string" + " of some length" * (key != "text"), (key,)
            )
    gold = _names(value["gold"], "gold", spellings)
    for name in gold:
        if name not in names:
            raise FieldError(f"gold names {quoted(name)}, which is no tool of this folder", ("gold",))
    if len(set(gold)) != len(gold):
        raise FieldError(f"gold names a tool twice: {', '.join(gold)}", ("gold",))
    context = value.get("context")
    if context is None:
        context = {}
    if type(context) is not dict:
        raise FieldError(f"context is {quoted(context)}, must be an object", ("context",))
    alternatives = context.get("alt", {})
    if type(alternatives) is not dict:
        raise FieldError(
            f"context.alt is {quoted(alternatives)}, must be gold name → names", ("context", "alt")
        )
    candidates: tuple[str, ...] = ()
    if "candidates" in context and not (candidates := _names(context["candidates"], "candidates", spellings)):
        raise FieldError("context.candidates is empty, must name a tool", ("context", "candidates"))
    return Query(
        value["id"],
        value["text"],
        gold,
        value.get("split", "test"),
        {clean_name(name): _names(same, "alt", spellings) for name, same in alternatives.items()},
        candidates,
        _history(context.get("history", ())),
        context,
    )


def _names(value: Any, key: str, spellings: dict[str, str]) -> tuple[str, ...]:
    """The names as in the catalog; records differing spellings in `spellings`."""
    if type(value) is not list or not all(type(name) is str for name in value):
        raise FieldError(f"{key} is {quoted(value)}, must be a list of names", (key,))
    clean = [clean_name(name) for name in value]
    spellings |= {name: raw for name, raw in zip(clean, value, strict=True) if name != raw}
    return tuple(clean)


def _history(value: Any) -> tuple[Mapping[str, Any], ...]:
    for message in value if type(value) in (list, tuple) else [None]:
        if type(message) is not dict or type(message.get("role")) is not str or "content" not in message:
            raise FieldError(
                f"context.history holds {quoted(message)}, must be a list of objects with role and content",
                ("context", "history"),
            )
    return tuple(value)
