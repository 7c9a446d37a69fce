"""Small worlds for property tests: at most eight tools find the same bugs as eight hundred."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import strategies as st

from tests.oracle.candidates import Candidates
from toolroll import Context, Profile, Route, Tool, Toolkit
from toolroll._core import Bitset
from toolroll.model.conversation import Conversation, LoadedTool
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions

WORDS = ("rain", "mail", "deal", "light", "song", "날씨", "backup", "note")
TOOLKITS = ("weather", "email", "sales", "home")
MEMBERS = ("tool_1", "tool_*", "*_7", "*o*_2*", "nothing_*")
SETTINGS = ("api_key", "token", "url")
ORGS = ("acme", "globex")
USERS = ("ann", "bob")
ROLES = ("admin", "sales")
TIERS = ("free", "pro", "team")  # lowest first
PAGES = ("contacts", "contacts/7", "my/contacts", "home")
PATTERNS = (*PAGES, "contacts*", "*contacts", "*tact*", "*")


def words() -> st.SearchStrategy[str]:
    return st.sampled_from(WORDS)


def texts() -> st.SearchStrategy[str]:
    return st.lists(words(), max_size=4).map(" ".join)


def messages() -> st.SearchStrategy[str]:
    return texts() | st.text(max_size=20) | st.sampled_from(("mail a@b.co at 3pm", "rain at 21°, PAY-3"))


def examples() -> st.SearchStrategy[tuple[str, ...]]:
    """None, a few, or so many that they are grouped and some can be held out."""
    many = st.tuples(words(), words()).map(
        lambda pair: tuple(f"{pair[at % 2]} number {at}" for at in range(24))
    )
    return st.lists(texts(), max_size=2).map(tuple) | many


def parameters() -> st.SearchStrategy[Profile]:
    """Profiles: how routes are read, and everything that retrieval can be told."""
    return st.builds(
        Profile,
        retrieve=st.sampled_from(("tools", "tools", "none")),
        k=st.none() | st.integers(0, 9),
        dense=st.sampled_from((0.0, 1.0)),
        lexical=st.sampled_from((0.0, 0.05, 1.0)),
        lexical_saturation=st.sampled_from((1.0, 200.0, float("inf"))),
        intents=st.sampled_from((0.0, 0.5)),
        intent_floor=st.sampled_from((-1.0, 0.0, 0.3, 1.0)),
        clauses=st.sampled_from((0.0, 0.3, 1.0)),
        damping=st.booleans(),
        threshold=st.sampled_from((0.0, 0.1, 0.5)),
        minimum=st.integers(0, 3),
        least_confidence=st.sampled_from((0.0, 0.05, 0.5, 1.0)),
        on_no_tool=st.sampled_from(("tell", "empty")),
        toolkit_threshold=st.sampled_from((None, -1.0, 0.3)),
        candidates=st.integers(0, 9),
        routes=st.sampled_from(("favour", "narrow", "fill", "ignore")),
        no_hit=st.none() | st.lists(st.sampled_from(TOOLKITS), max_size=2).map(tuple),
        keyword_mode=st.sampled_from((None, "substring", "prefix")),
    )


@st.composite
def definitions(draw: st.DrawFn) -> Definitions:
    names = draw(st.lists(st.sampled_from([f"tool_{i}" for i in range(8)]), unique=True, max_size=8))
    tools = tuple(
        Tool(
            name,
            draw(texts()),
            toolkit=draw(st.sampled_from(("", *TOOLKITS))),
            examples=draw(examples()),
            status=draw(st.sampled_from(("active", "active", "active", "draft", "retired"))),
            public=draw(st.booleans()),
            pinned=draw(st.sampled_from((False, False, True))),
            pin_weight=draw(st.integers(0, 2)),
        )
        for name in names
    )
    kits = tuple(
        Toolkit(
            name,
            parent=draw(st.sampled_from((None, *TOOLKITS[:at]))),
            settings_keys=tuple(draw(st.lists(st.sampled_from(SETTINGS), unique=True, max_size=2))),
            base=draw(st.sampled_from((False, False, False, True))),
            members=tuple(draw(st.lists(st.sampled_from(MEMBERS), max_size=2))),
        )
        for at, name in enumerate(TOOLKITS)
    )
    routes = tuple(
        Route((draw(st.sampled_from(TOOLKITS)),), tuple(draw(st.lists(words(), max_size=2))))
        for _ in range(draw(st.integers(0, 3)))
    )
    some = draw(st.just([]) | st.lists(rules(), max_size=4))
    numbered = tuple(replace(rule, name=f"{rule.name} {at}") for at, rule in enumerate(some))
    pages = tuple(draw(st.just([]) | st.lists(page_mappings(), max_size=2)))
    return Definitions(tools, kits, routes, numbered, pages, TIERS)


def callers() -> st.SearchStrategy[Context]:
    """Who asks, from where; everything may be left open."""
    return st.builds(
        Context,
        org=st.sampled_from(("", *ORGS)),
        user=st.sampled_from(("", *USERS)),
        roles=st.lists(st.sampled_from(ROLES), max_size=2).map(tuple),
        tier=st.sampled_from(("", "unheard_of", *TIERS)),
        page=st.sampled_from(("", *PAGES)),
    )


def annotations() -> st.SearchStrategy[dict[str, object] | None]:
    """What a tool says of itself; some of it damaged."""
    hint = st.sampled_from((True, False, None, 1, "true"))
    said = {"readOnlyHint": hint, "destructiveHint": hint, "x-pii": st.sampled_from(("high", "low", 1))}
    return st.none() | st.fixed_dictionaries({}, optional=said)


def comparisons(attribute: str) -> st.SearchStrategy[dict[str, object]]:
    if attribute == "annotation":
        name = st.sampled_from(("readOnlyHint", "destructiveHint"))
        value = st.booleans() | st.fixed_dictionaries({"ne": st.booleans()})
        custom = st.just("x-pii"), st.just("high") | st.fixed_dictionaries({"in": st.just(["low", True])})
        return st.one_of(
            st.builds(lambda name, value: {"annotation": {name: value}}, *pair)
            for pair in ((name, value), custom)
        )
    values = {"org": ORGS, "user": USERS, "role": ROLES, "tier": TIERS, "page": PATTERNS}[attribute]
    one, several = st.sampled_from(values), st.lists(st.sampled_from(values), max_size=2)
    compared = [st.fixed_dictionaries({operator: one}) for operator in ("eq", "ne")]
    compared.append(st.fixed_dictionaries({"in": several}))
    if attribute == "tier":
        compared += [st.fixed_dictionaries({operator: one}) for operator in ("gt", "gte", "lt", "lte")]
    return st.one_of(one, *compared).map(lambda value: {attribute: value})


@cache
def conditions(kind: str) -> st.SearchStrategy[dict[str, object]]:
    """Of one attribute, or of all for "composite"; nested a little."""
    read = ("org", "user", "page", "role", "tier", "annotation") if kind == "composite" else (kind,)
    leaf = st.one_of([comparisons(attribute) for attribute in read])
    return st.recursive(
        leaf,
        lambda inner: (
            st.fixed_dictionaries({"not": inner})
            | st.fixed_dictionaries({"all": st.lists(inner, max_size=2)})
            | st.fixed_dictionaries({"any": st.lists(inner, max_size=2)})
        ),
        max_leaves=4,
    )


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """A rule of any kind, on a tool or a toolkit that may not be there. Names may be the same."""
    kind = draw(st.sampled_from(("org", "user", "page", "role", "tier", "annotation", "composite")))
    is_tool = draw(st.booleans())
    return Rule(
        draw(st.sampled_from(("one", "two", "three"))),
        draw(st.sampled_from(("allow", "deny"))),
        kind,
        draw(conditions(kind)),
        tool=draw(st.sampled_from([f"tool_{i}" for i in range(8)])) if is_tool else "",
        toolkit="" if is_tool else draw(st.sampled_from((*TOOLKITS, "*", "unheard_of"))),
        priority=draw(st.integers(-1, 2)),
        org=draw(st.sampled_from(("", "", *ORGS))),
    )


def page_mappings() -> st.SearchStrategy[PageMapping]:
    return st.builds(
        PageMapping,
        st.sampled_from(PATTERNS),
        st.lists(st.sampled_from(TOOLKITS), min_size=1, max_size=2).map(tuple),
        priority=st.integers(0, 2),
        org=st.sampled_from(("", *ORGS)),
    )


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    caller = draw(callers())
    some = st.lists(st.sampled_from([f"tool_{i}" for i in range(8)]), max_size=3).map(tuple)
    return replace(
        caller,
        settings=tuple(draw(st.lists(st.sampled_from(SETTINGS), unique=True))),
        required=draw(st.just(()) | some),
        exclude=draw(some),
        only=draw(st.just(()) | some),
        everything=draw(st.booleans()),
        provider=draw(st.sampled_from(("", "openai"))),
    )


@st.composite
def candidate_sets(draw: st.DrawFn, size: int = 8) -> Candidates:
    """A set after a few verbs, with or without columns."""
    candidates = Candidates.everything(size)
    rows = st.lists(st.integers(0, size - 1), unique=True).map(lambda rows: np.array(rows, np.int32))
    candidates = candidates.forbid(Bitset.of(size, draw(rows)), "forbidden")
    candidates = candidates.narrow(Bitset.full(size) - Bitset.of(size, draw(rows)), "narrowed")
    scored = draw(rows)
    scores = np.array(draw(st.lists(st.floats(0, 1, width=32), min_size=len(scored), max_size=len(scored))))
    candidates = candidates.rescore(scores.astype(np.float32), "scored", scored)
    if draw(st.booleans()):
        candidates = candidates.narrow(draw(rows), "columns")
    return candidates


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """In some turn, with some of the eight tools loaded, called and sent, and one that is in no catalog."""
    some = st.lists(st.sampled_from([*(f"tool_{i}" for i in range(8)), "gone"]), unique=True, max_size=9)
    turn = draw(st.integers(1, 9))
    before = st.integers(0, turn)
    listed = tuple(draw(some))
    return Conversation(
        turn,
        tuple(LoadedTool(name, draw(before), draw(before)) for name in draw(some)),
        tuple((at, tuple(draw(some))) for at in sorted({draw(before), draw(before)}, reverse=True)),
        draw(st.sampled_from((0, 0, 0, turn))),
        listed,
        tuple(draw(before) for _ in listed),
        tuple(draw(some)),
    )
