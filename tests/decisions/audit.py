"""Asks every entry point what a caller may have, and compares each answer with the oracle.

An answer is one set of tools that an entry point returned to one caller. It says of each tool of the world
whether the caller got it: that many verdicts. An answer of some entry points must be the oracle's set, that
of the others must lie within it. Texts (explanations, requests to providers, replies to a model) must not
hold a token of a tool outside it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from tests.decisions.faults import Flaky, fault
from tests.decisions.oracle import World, permitted
from tests.decisions.worlds import KITS, SETTINGS, TIERS, TOKEN, WORDS, Case, Draw, roll_of
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.formats.meta_tools import CALL_TOOL, MANAGE_TOOLS, META_TOOLS, SEARCH_TOOLS
from toolroll.formats.providers import PROVIDERS
from toolroll.model.errors import Denied, InvalidInput, NotFound
from toolroll.model.rules import Rule
from toolroll.registry.registry import Registry
from toolroll.selection.effective_policy import EffectivePolicy, PolicySource
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot

CALLERS = 12  # of a world
FAULTY = 0.13  # the share of them that also meets a fault
AFTER_DAMAGE = 2  # callers of a registry with a damaged rule
TURNS = 4  # of a conversation
REGISTRY_EACH = 8  # so many worlds, one is in a database

Run: TypeAlias = Callable[[Any], Any]  # what a coroutine returns


@dataclass
class Audit:
    """Counts what was asked and keeps what was wrong.

    Attributes:
        answers: by entry point.
        texts: that were searched for tokens.
        faulty: answers that were given during a fault.
        hidden: verdicts of the oracle that hide a tool.
        opened: public tools that a caller may have only because a rule was changed by hand.
    """

    answers: Counter[str] = field(default_factory=Counter)
    verdicts: int = 0
    texts: int = 0
    faulty: int = 0
    hidden: int = 0
    opened: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many answers there were."""
        return sum(self.answers.values())

    def summary(self) -> str:
        """The figures, as a line."""
        return (
            f"{self.total:,} answers with {self.verdicts:,} verdicts ({self.hidden / self.verdicts:.0%} hide a "
            f"tool), {self.faulty:,} of them during a fault; {self.texts:,} texts; {self.opened:,} public tools "
            f"shown for want of a rule; {len(self.problems):,} problems"
        )

    def run(self, answers: int, folder: Path, *, stops: bool = False) -> Audit:
        """Goes through worlds until there are so many answers.

        folder: for databases. stops: ends with the first world in which something is wrong.
        """
        loop = asyncio.new_event_loop()
        try:
            for seed in count():
                ask_world = over_registry if seed % REGISTRY_EACH == 1 else in_memory
                ask_world(self, Draw(seed), f"world {seed}", folder, loop.run_until_complete)
                if self.total >= answers or (stops and self.problems):
                    return self
        finally:
            loop.close()


@dataclass
class Caller:
    """One caller in one world, and what it may have.

    Attributes:
        expected: names by the oracle.
        is_exact: whether answers that show all that a caller may have must be `expected`; otherwise, while
            a stage of the policy fails, they must lie within it.
    """

    audit: Audit
    case: Case
    roll: Toolroll
    draw: Draw
    context: Context
    where: str
    expected: frozenset[str]
    is_exact: bool = True
    is_faulty: bool = False

    @property
    def names(self) -> list[str]:
        """All tools of the world, in a random order."""
        names = [tool.name for tool in self.case.world.tools]
        self.draw.shuffle(names)
        return names

    def within(self, entry: str, names: Collection[str]) -> None:
        """The tools that a caller got, of whatever it may have."""
        got = frozenset(names)
        if not got <= self.expected:
            self.wrong(entry, f"leaks {sorted(got - self.expected)}")
        if len(got) < len(names):
            self.wrong(entry, f"has a tool twice: {names}")
        self.count(entry)

    def exactly(self, entry: str, names: Collection[str], among: Iterable[str] | None = None) -> None:
        """All that the caller may have. among: of these names only."""
        expected = self.expected if among is None else self.expected.intersection(among)
        if self.is_exact and not expected.issubset(names):
            self.wrong(entry, f"lacks {sorted(expected.difference(names))}")
        self.within(entry, names)

    def text(self, entry: str, text: str, said: Iterable[str] = ()) -> None:
        """A text for a model or a log. said: names that the caller wrote itself."""
        told = {self.case.tokens[token] for token in set(TOKEN.findall(text)).difference(said)}
        if not told <= self.expected:
            self.wrong(entry, f"tells of {sorted(told - self.expected)}: {text[:300]!r}")
        self.audit.texts += 1

    def count(self, entry: str) -> None:
        tools = len(self.case.world.tools)
        self.audit.answers[entry] += 1
        self.audit.verdicts += tools
        self.audit.hidden += tools - len(self.expected)
        self.audit.faulty += self.is_faulty

    def wrong(self, entry: str, problem: str) -> None:
        self.audit.problems.append(f"{self.where}, {self.context}: {entry} {problem}")

    def passes(self, check: Callable[[str], Any]) -> list[str]:
        """The names that a check lets pass."""
        passed = []
        for name in self.names:
            try:
                check(name)
            except (Denied, NotFound):
                continue
            passed.append(name)
        return passed


def message(draw: Draw) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randrange(5)))


def options(draw: Draw, caller: Caller) -> dict[str, Any]:
    """Arguments of a selection, some of them rare."""
    found: dict[str, Any] = {"k": draw.choice((None, 0, 3, 7, 99))}
    if draw.maybe(0.2):
        found["max_tools"] = draw.choice((1, 5, 99))
    if draw.maybe(0.1):
        found["budget_tokens"] = draw.choice((0, 200, 9_999))
    if draw.maybe(0.3):
        found["always_include"] = draw.choices(caller.names, k=3)
    if draw.maybe(0.3):
        found["history"] = [{"role": "user", "content": message(draw)} for _ in range(draw.randrange(3))]
    return found


# Entry points.


def ask_selections(caller: Caller, run: Run) -> None:
    """`select` and `aselect` in all forms."""
    draw, roll, context = caller.draw, caller.roll, caller.context
    for entry, select in (("select", roll.select), ("aselect", lambda *a, **b: run(roll.aselect(*a, **b)))):
        given = options(draw, caller)
        if draw.maybe(0.3):
            given["sent"] = draw.choices(caller.names, k=5)
        picked = select(message(draw), context, **given)
        caller.within(entry, picked.names)
        if entry == "select" or draw.maybe(0.3):
            ask_outputs(caller, picked, given.get("always_include", ()))
    wanted = replace(context, required=tuple(caller.names))
    caller.exactly("required", roll.select(message(draw), wanted).names)
    few = tuple(draw.choices(caller.names, k=3))
    caller.exactly("required", roll.select("", replace(context, required=few), max_tools=99).names, few)
    if picked.names and not caller.is_faulty:
        roll.record(picked, called={picked.names[0]: draw.maybe(0.5)})


def ask_everything(caller: Caller) -> None:
    """Clients that get all; another oracle, because settings do not count for them."""
    whole = replace(caller, context=replace(caller.context, everything=True))
    if caller.is_exact or not caller.is_faulty:
        whole.expected = permitted(caller.case.world, whole.context)
        whole.exactly("everything", caller.roll.select("", whole.context).names)


def ask_request_tools(caller: Caller) -> None:
    """Tools that come with a request: the catalog decides about its own, the rules about all others by name."""
    names = caller.names[:8]
    listed = [{"type": "function", "function": {"name": name, "description": name}} for name in names]
    roll = caller.roll.with_tools(listed)
    world, own = caller.case.world, {"", caller.context.org}
    known = tuple(
        tool if world.owners.get(tool.name, "") in own else Tool(tool.name)  # it does not know another's tool
        for tool in world.tools
        if tool.name in names
    )
    world = replace(world, tools=known, owners={})
    twin = replace(caller, roll=roll, case=replace(caller.case, world=world))
    twin.expected = permitted(world, caller.context)
    twin.exactly("request list", roll.visible(caller.context).names)
    picked = roll.select(message(caller.draw), caller.context)
    twin.within("request list select", picked.names)
    twin.within("request list tools", [one["function"]["name"] for one in picked.tools])
    twin.within("request list check", twin.passes(picked.check))
    twin.text("request list explain", f"{picked.explain()} {json.dumps(picked.to_dict())}")


def ask_lists(caller: Caller) -> None:
    """`visible`, `may`, `core` and `why`."""
    roll, context = caller.roll, caller.context
    visible = roll.visible(context)
    caller.exactly("visible", visible.names)
    caller.exactly("visible.rows", [tool.name for tool in visible.definitions])
    caller.exactly("may", [name for name in caller.names if roll.may(name, context)])
    caller.within("core", roll.core(context).names)
    if caller.is_exact:
        caller.exactly("why", [name for name in caller.names if is_visible(roll, name, context)])


def is_visible(roll: Toolroll, name: str, context: Context) -> bool:
    try:
        return roll.why(name, context).visible
    except NotFound:  # another organisation's
        return False


def ask_outputs(caller: Caller, picked: Selection, said: Iterable[str] = ()) -> None:
    """All that can be read from a selection and sent of it."""
    caller.within("definitions", [tool.name for tool in picked.definitions])
    caller.within("tools", [tool.name for tool in picked.tools])
    caller.within("in", [name for name in caller.names if name in picked])
    caller.within("check", caller.passes(picked.check))
    caller.text("to_dict", json.dumps(picked.to_dict()), said)
    caller.text("explain", picked.explain(), said)
    caller.text("summary", f"{picked.summary()} {picked!r} {picked.log_lines()}", said)
    provider = caller.draw.choice(list(PROVIDERS))
    caller.text("schemas", json.dumps(picked.schemas(provider)))
    caller.text("losses", repr(picked.conversion_losses(provider)))
    for name in PROVIDERS if caller.draw.maybe(0.2) else (provider,):
        for how in PROVIDERS[name].hows:
            ask_delivery(caller, picked, name, how)


def ask_delivery(caller: Caller, source: Any, provider: str, how: Any) -> None:
    """One way to send a selection. source: a selection or a session."""
    draw = caller.draw
    core = draw.choices(caller.names, k=4) if draw.maybe(0.3) else None
    meta = META_TOOLS if draw.maybe(0.3) else None
    delivery = source.deliver(provider, how, core=core, meta_tools=meta)
    own = delivery.allowed - {tool.name for tool in META_TOOLS}
    caller.within(f"{provider} {how}", own)
    caller.text(f"{provider} {how}", json.dumps(delivery.request))
    caller.within(f"{provider} {how} left out", delivery.left_out)
    if draw.maybe(0.1):
        caller.within(f"{provider} {how} check", caller.passes(delivery.check))
        caller.within(f"{provider} {how} own_name", caller.passes(delivery.own_name))


def ask_session(caller: Caller, run: Run) -> None:
    """A conversation: turns, loading, searches and meta-tools; others of its organisation take part."""
    draw, roll = caller.draw, caller.roll
    session = roll.session(caller.where, caller.context)
    for _ in range(TURNS):
        if draw.maybe(0.4) and not caller.is_faulty:  # another user of the organisation goes on
            context = draw.context(caller.case, org=caller.context.org)
            caller = replace(caller, context=context, expected=permitted(caller.case.world, context))
            session.context = context
            loaded = {tool.name for tool in session.load(caller.names).tools}
            caller.exactly("session.load of all", loaded | set(roll.core(context)))
        given = options(draw, caller)
        said = given.get("always_include", ())
        select = session.select if draw.maybe(0.8) else lambda *a, **b: run(session.aselect(*a, **b))
        picked = select(message(draw), **given)
        caller.within("session.select", picked.names)
        for _ in range(draw.randrange(1, 4)):
            ask_session_once(caller, session, draw.choice(OPERATIONS))
        caller.within("session.selection", session.selection.names)
        caller.within("session.loaded", session.loaded)
        caller.within("session.check", caller.passes(session.check))
        caller.text("session.explain", session.selection.explain(), said)
        provider = draw.choice(list(PROVIDERS))
        ask_delivery(caller, session, provider, draw.choice(PROVIDERS[provider].hows))
        if draw.maybe(0.6):
            session.end_turn()


OPERATIONS = (
    "load", "unload", "fallback", "search", "hints", "used", "manage", "search_tools", "call_tool", "loadkit",
)  # fmt: skip


def ask_session_once(caller: Caller, session: Any, operation: str) -> None:
    draw, some = caller.draw, caller.draw.choices(caller.names, k=4)
    if operation == "search":
        caller.within("search", [tool.name for tool in session.search(message(draw) or "rain", k=9)])
        return
    if operation == "hints":
        caller.text("hints", session.hints())
        return
    if operation == "used":
        called = {name: draw.maybe(0.5) for name in some}
        refused = session.used(called)
        caller.within("used", set(some) - set(refused))
        return
    if operation == "load":
        answer = session.load(some)
    elif operation == "loadkit":
        some = list(caller.case.world.toolkits)
        answer = session.load(some)
    elif operation == "unload":
        answer = session.unload(some)
    elif operation == "fallback":
        answer = session.fallback()
    elif operation == "manage":
        mode = draw.choice(("load", "unload", "fallback"))
        answer = session.answer(MANAGE_TOOLS.name, json.dumps({"mode": mode, "tools": some}))
    elif operation == "search_tools":
        answer = session.answer(SEARCH_TOOLS.name, {"queries": [message(draw) or "song"], "limit": 9})
    else:
        answer = session.answer(CALL_TOOL.name, {"name": some[0], "arguments": {}})
        assert not answer.tools or [answer.call.tool] == list(answer.tools)
    caller.within(f"session.{operation}", [tool.name for tool in answer.tools])
    caller.text(f"session.{operation}", answer.text, some)


def ask(caller: Caller, run: Run) -> None:
    ask_lists(caller)
    ask_selections(caller, run)
    ask_everything(caller)
    if not caller.is_faulty and caller.draw.maybe(0.1):
        ask_request_tools(caller)
    if caller.draw.maybe(0.2):
        ask_session(caller, run)


# Worlds.


def in_memory(audit: Audit, draw: Draw, where: str, folder: Path, run: Run) -> None:
    """One world without a database, its callers, and the faults that some of them meet."""
    case, flaky = draw.case(), Flaky()
    roll = roll_of(case, flaky)
    for at in range(CALLERS):
        context = draw.context(case)
        expected = permitted(case.world, context)
        caller = Caller(audit, case, roll, draw, context, f"{where}, caller {at}", expected)
        if draw.maybe(FAULTY):
            with broken(caller, draw, flaky, rules=True) as asking:
                ask(asking, run)
        ask(caller, run)


def over_registry(audit: Audit, draw: Draw, where: str, folder: Path, run: Run) -> None:
    """One world in a SQLite file that changes between the callers; at the end a rule is damaged."""
    case, flaky = draw.case(orgs=("acme", "globex")), Flaky()
    path = folder / f"{where}.db"
    url = f"sqlite:///{path}"
    follow = Follow(poll_s=60.0, settings_s=60.0, listens=False)

    def open_roll(number: int) -> Toolroll:
        outbox = folder / f"{where}.{number}"
        return Toolroll.open(
            url, profile=case.profile, embedder=flaky, follow=follow, recording=Recording(outbox=outbox)
        )

    with Registry.open(url, actor="ada") as registry:
        case = write(registry, case)
        with open_roll(1) as roll:
            roll.warm_up()
            for at in range(CALLERS):
                if draw.maybe(0.3):
                    case = change(registry, case, draw)
                    roll.refresh()
                    roll.warm_up()
                context = draw.context(case)
                expected = permitted(case.world, context)
                caller = Caller(audit, case, roll, draw, context, f"{where}, caller {at}", expected)
                if draw.maybe(FAULTY):
                    with broken(caller, draw, flaky) as asking:
                        ask(asking, run)
                ask(caller, run)
    if (damaged := draw.damaged(case)) is None:
        return
    world, rule, altered = damaged
    overwrite(path, rule, altered)
    with open_roll(2) as roll:
        roll.warm_up()
        for at in range(AFTER_DAMAGE):
            context = draw.context(case)
            most = permitted(world, context)
            told = f"{where}, damaged {rule.name}, caller {at}"
            caller = Caller(audit, case, roll, draw, context, told, most, is_exact=False, is_faulty=True)
            ask(caller, run)


def write(registry: Registry, case: Case) -> Case:
    """The world as the registry took it: a rule of which it knows the target to be missing is refused."""
    world = case.world
    registry.set_tiers(world.tiers)
    for kit in world.toolkits.values():
        registry.toolkits.put(kit)
    for tool in world.tools:
        registry.create(tool, org=world.owners.get(tool.name, ""))
    rules = tuple(rule for rule in world.rules if is_taken(registry, rule))
    for page in case.pages:
        registry.pages.add(page)
    return replace(case, world=replace(world, rules=rules))


def is_taken(registry: Registry, rule: Rule) -> bool:
    try:
        registry.rules.add(rule)
    except InvalidInput:
        return False
    return True


def change(registry: Registry, case: Case, draw: Draw) -> Case:
    """The world after one change of a rule, a setting, a tier or a tool."""
    world = case.world
    what = draw.choice(("add", "delete", "set", "unset", "tier", "tool"))
    names = tuple(tool.name for tool in world.tools)
    if what == "add":
        rule = draw.rule(f"later {draw.token()}", names)
        if is_taken(registry, rule):
            world = replace(world, rules=(*world.rules, rule))
    elif what == "delete" and world.rules:
        rule = draw.choice(world.rules)
        registry.rules.delete(rule.name, org=rule.org)
        world = replace(world, rules=tuple(one for one in world.rules if one is not rule))
    elif what in ("set", "unset"):
        org, key = draw.choice(("", "acme")), draw.choice(SETTINGS)
        registry.settings.set(key, "value" if what == "set" else " ", org=org)
        stored = world.stored.get(org, frozenset())
        stored = stored | {key} if what == "set" else stored - {key}
        world = replace(world, stored={**world.stored, org: stored})
    elif what == "tier":
        kit = replace(world.toolkits[draw.choice(KITS)], tier=draw.choice((None, *TIERS)))
        registry.toolkits.put(kit)
        world = replace(world, toolkits={**world.toolkits, kit.name: kit})
    elif what == "tool":
        at = draw.randrange(len(world.tools))
        tool = replace(world.tools[at], status=draw.choice(("active", "retired")))
        org = world.owners.get(tool.name, "")
        version = registry.tool(tool.name, org=org).version
        registry.update(tool.name, {"status": tool.status}, version=version, org=org)
        world = replace(world, tools=(*world.tools[:at], tool, *world.tools[at + 1 :]))
    return replace(case, world=world)


def overwrite(path: Path, rule: Rule, altered: Rule | None) -> None:
    """Changes a rule past the registry, or removes it."""
    with closing(sqlite3.connect(path)) as connection:
        if altered is None:
            connection.execute("DELETE FROM visibility_rules WHERE name = ?", (rule.name,))
        else:
            columns = ("effect", "kind", "tool", "toolkit", "priority")
            values = [*(getattr(altered, name) for name in columns), json.dumps(altered.condition), rule.name]
            connection.execute(
                f"UPDATE visibility_rules SET {', '.join(f'{name} = ?' for name in columns)}, condition = ? "
                "WHERE name = ?",
                values,
            )
        connection.commit()


@contextmanager
def broken(caller: Caller, draw: Draw, flaky: Flaky, *, rules: bool = False) -> Iterator[Caller]:
    """The caller while something fails. rules: whether it may be a rule."""
    engine = caller.roll._engine
    sound: Snapshot = engine.snapshot
    found = fault(draw, sound.pipeline(caller.context.org), rules=rules)
    where = f"{caller.where}, {found.name}"
    caller = replace(caller, where=where, is_faulty=True, is_exact=not found.is_hard)
    if found.name == "embedder":
        flaky.mode = draw.choice(Flaky.MODES)
    elif found.name == "rule" and (damaged := draw.damaged(caller.case)) is not None:
        caller, pipeline = damage(caller, sound, *damaged)
        engine.swap(replace(sound, shared=pipeline))
    else:
        org = caller.context.org
        own = {**sound.own, org: found.pipeline} if org in sound.own else sound.own
        shared = sound.shared if org in sound.own else found.pipeline
        engine.swap(replace(sound, shared=shared, own=own))
    try:
        yield caller
    finally:
        flaky.mode = ""
        engine.swap(sound)


def damage(
    caller: Caller, sound: Snapshot, world: World, rule: Rule, altered: Rule | None
) -> tuple[Caller, Any]:
    """The caller and the pipeline of a world in which somebody has changed one rule by hand."""
    problems = {rule.org: ("are not as the registry wrote them",)}
    source = PolicySource(world.rules, caller.case.pages, TIERS, problems)
    policy = EffectivePolicy.of(source, "closed", None)
    pipeline = sound.shared.governed(*policy.stages(sound.shared.catalog))
    left = permitted(world, caller.context)
    opened = left - caller.expected
    assert all(tool.public for tool in world.tools if tool.name in opened)
    caller.audit.opened += len(opened)
    case = replace(caller.case, world=world)
    return replace(caller, case=case, expected=left, where=f"{caller.where} {rule.name}"), pipeline
