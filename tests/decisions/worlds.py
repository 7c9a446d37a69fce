"""Random worlds and callers. The same seed gives the same world.

Every tool has its own tokens, in its name and in each of its texts, so that a text that tells of a tool can
be recognised.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

from tests.decisions.oracle import World
from toolroll import Context, Profile, Route, Tool, Toolkit, Toolroll
from toolroll.model.rules import PageMapping, Rule
from toolroll.selection.profiles import PROFILES
from toolroll.selection.profiles import profile as profile_of

TOKEN = re.compile(r"zq[a-z]{8}")
WORDS = ("rain", "mail", "deal", "light", "song", "backup", "note", "weather", "invoice", "calendar")
TIERS = ("free", "pro", "team")  # lowest first
ORGS, USERS, ROLES = ("acme", "globex", "a|b"), ("ann", "bob", "a\x00b"), ("admin", "sales", "dev")
PAGES = ("contacts", "contacts/7", "deals", "my/contacts", "home")
PATTERNS = (*PAGES, "contacts*", "*contacts", "*tact*", "*", "h*")
SETTINGS = ("api_key", "token")
KITS = ("one", "two", "three", "four")
HINTS: dict[str, tuple[object, ...]] = {
    "readOnlyHint": (True, False),
    "destructiveHint": (True, False),
    "openWorldHint": (True, False),
    "x-pii": ("high", "low", True),
}
VALUES = {"org": ORGS, "user": USERS, "page": PATTERNS, "role": ROLES, "tier": TIERS}
BLANK = ("", "", " ", "\t")
TOOLS = 16


@dataclass(frozen=True)
class Case:
    """A world with everything around it that decides nothing.

    Attributes:
        tokens: token → the tool that it tells of.
    """

    world: World
    tokens: dict[str, str]
    routes: tuple[Route, ...]
    pages: tuple[PageMapping, ...]
    profile: Profile


def roll_of(case: Case, embedder: Any = "static") -> Toolroll:
    """The world in memory."""
    return Toolroll.from_tools(
        case.world.tools,
        toolkits=case.world.toolkits.values(),
        routes=case.routes,
        rules=case.world.rules,
        pages=case.pages,
        tiers=TIERS,
        profile=case.profile,
        embedder=embedder,
    )


class Draw(random.Random):
    """Draws worlds and callers."""

    def maybe(self, share: float) -> bool:
        return self.random() < share

    def some(self, values: tuple[str, ...], most: int) -> tuple[str, ...]:
        return tuple(self.choices(values, k=self.randrange(most + 1)))

    def token(self) -> str:
        return "zq" + "".join(self.choices("abcdefghijklmnopqrstuvwxyz", k=8))

    def case(self, orgs: tuple[str, ...] = ()) -> Case:
        """orgs: whose own tools there are, beside the platform's."""
        kits: dict[str, Toolkit] = {}
        names = tuple(self.token() for _ in range(TOOLS))
        for name in KITS:
            kits[name] = Toolkit(
                name,
                self.text(),
                parent=self.choice([None, *kits]),
                settings_keys=tuple(dict.fromkeys(self.some(SETTINGS, 2))) if self.maybe(0.3) else (),
                base=self.maybe(0.15),
                tier=self.choice(TIERS) if self.maybe(0.25) else None,
                members=(self.choice(names), "zq*")[: self.randrange(3)],
            )
        tokens: dict[str, str] = {}
        tools = tuple(self.tool(name, tokens) for name in names)
        owners = {name: self.choice(orgs) for name in names if orgs and self.maybe(0.3)}
        rules = tuple(self.rule(f"rule {at}", names) for at in range(self.choice((0, 1, 2, 4, 8))))
        drawn = (PageMapping(self.choice(PATTERNS), (self.choice(KITS),)) for _ in range(self.randrange(3)))
        pages = tuple(dict.fromkeys(drawn))
        routes = tuple(Route((self.choice(KITS),), self.some(WORDS, 2)) for _ in range(self.randrange(3)))
        return Case(World(tools, kits, rules, TIERS, owners, {}), tokens, routes, pages, self.profile())

    def profile(self) -> Profile:
        found = profile_of(self.choice(list(PROFILES)))
        return found.with_(
            pass_through_tools=self.choice((found.pass_through_tools, 0)),
            on_no_tool=self.choice(("tell", "empty")),
            sticky_tools=self.choice((0, 4)),
        )

    def text(self) -> str:
        return " ".join(self.choices(WORDS, k=self.randrange(1, 4)))

    def tool(self, name: str, tokens: dict[str, str]) -> Tool:
        tokens[name] = name

        def secret() -> str:
            token = self.token()
            tokens[token] = name
            return token

        public, pinned = self.maybe(0.4), self.maybe(0.2)
        return Tool(
            name,
            f"{self.text()} {secret()}",
            {"type": "object", "properties": {secret(): {"type": "string", "description": secret()}}},
            toolkit=self.choice(("", *KITS)),
            summary=f"{self.text()} {secret()}" if self.maybe(0.3) else "",
            when_to_use=secret() if self.maybe(0.3) else "",
            tags=(self.choice(WORDS), secret()) if self.maybe(0.3) else (),
            examples=(self.text(), f"{self.text()} {secret()}") if self.maybe(0.5) else (),
            status=self.choice(("draft", "deprecated", "retired")) if self.maybe(0.15) else "active",
            public=public,
            pinned=pinned,
            annotations=self.annotations(),
            interchangeable="pair" if self.maybe(0.1) else "",
            display_name=secret() if self.maybe(0.2) else "",
            meta={"said": secret()} if self.maybe(0.2) else None,
        )

    def annotations(self) -> dict[str, object] | None:
        """What a tool says of itself: nothing, a little, or something damaged."""
        if self.maybe(0.3):
            return None
        wrong = (None, 1, "true", [True])
        return {
            name: self.choice((*values, *values, *wrong)) for name, values in HINTS.items() if self.maybe(0.5)
        }

    def rule(self, name: str, tools: tuple[str, ...]) -> Rule:
        kind = self.choice(("org", "user", "page", "role", "tier", "annotation", "composite", "composite"))
        keys = (*VALUES, "annotation") if kind == "composite" else (kind,)
        is_tool = self.maybe(0.5)
        return Rule(
            name,
            "allow" if self.maybe(0.4) else "deny",
            kind,
            self.condition(keys, self.randrange(4)),
            tool=self.choice((*tools, "unheard_of")) if is_tool else "",
            toolkit="" if is_tool else self.choice((*KITS, "*", "unheard_of")),
            priority=self.randrange(-1, 3),
            org=self.choice(("", "", "acme", "globex")),
        )

    def condition(self, keys: tuple[str, ...], depth: int) -> dict[str, Any]:
        """All forms: comparisons, several keys in one object, and all, any and not within each other."""
        form = self.random()
        if depth == 0 or form < 0.45:
            return self.comparison(self.choice(keys))
        if form < 0.55:
            several = self.sample(keys, min(2, len(keys)))
            return {key: value for one in several for key, value in self.comparison(one).items()}
        if form < 0.7:
            return {"not": self.condition(keys, depth - 1)}
        parts = [self.condition(keys, depth - 1) for _ in range(self.randrange(4))]
        return {self.choice(("all", "any")): parts}

    def comparison(self, key: str) -> dict[str, Any]:
        if key == "annotation":
            name = self.choice(list(HINTS))
            return {key: {name: self.compared(HINTS[name], ("eq", "ne", "in"))}}
        order = ("gt", "gte", "lt", "lte") * 2 if key == "tier" else ()
        return {key: self.compared(VALUES[key], ("eq", "ne", "in", *order))}

    def compared(self, values: tuple[Any, ...], operators: tuple[str, ...]) -> Any:
        if self.maybe(0.3):
            return self.choice(values)
        return {
            operator: self.choices(values, k=self.randrange(4)) if operator == "in" else self.choice(values)
            for operator in self.sample(operators, 2 if self.maybe(0.2) else 1)
        }

    def context(self, case: Case, org: str | None = None) -> Context:
        """A caller. org: its organisation; None for any."""
        names = tuple(tool.name for tool in case.world.tools)
        values: tuple[object, ...] = (None, False, "", " ", "value", 0, [])
        settings: Any = self.some(SETTINGS, 2)
        if self.maybe(0.5):
            settings = {key: self.choice(values) for key in settings}
        return Context(
            org=self.choice(("", "", "other", *ORGS)) if org is None else org,
            user=self.choice((*BLANK, *USERS)),
            roles=self.some((*BLANK, *ROLES, *ROLES), 2),
            tier=self.choice((*BLANK, "unheard_of", *TIERS, *TIERS)),
            page=self.choice((*BLANK, *PAGES)),
            settings=settings,
            provider=self.choice(("", "", "openai", "anthropic", "gemini", "mcp")),
            exclude=self.some(names, 3) if self.maybe(0.2) else (),
            only=self.some(names, 9) if self.maybe(0.1) else (),
        )

    def damaged(self, case: Case) -> tuple[World, Rule, Rule | None] | None:
        """The world with a rule that somebody has changed by hand; None where there is none.

        Also the rule, and what it has become; None for one that is gone.
        """
        world = case.world
        if not world.rules:
            return None
        rule, names = self.choice(world.rules), tuple(tool.name for tool in world.tools)
        other = self.rule(rule.name, names)
        changes: tuple[dict[str, Any], ...] = (
            {"effect": "allow" if rule.effect == "deny" else "deny"},
            {"condition": other.condition, "kind": "composite"},
            {"tool": self.choice(names), "toolkit": ""},
            {"priority": rule.priority + self.choice((-5, 5))},
        )
        altered = None if self.maybe(0.4) else replace(rule, **self.choice(changes))
        rest = (one for one in world.rules if one is not rule)
        rules = (*rest, *(() if altered is None else (altered,)))
        return replace(world, rules=rules, closed=frozenset({rule.org})), rule, altered
