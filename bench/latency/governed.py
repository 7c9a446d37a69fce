"""What rules, page mappings and settings cost a selection, caches warm: the same messages without them."""

from __future__ import annotations

from collections.abc import Iterator

from bench import workloads
from bench.harness import Case, sizes
from toolroll import Context, Toolroll
from toolroll.embedders.static import StaticEmbedder
from toolroll.formats.sources.dicts import read_tools
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Toolkit

MESSAGES = 4096
K = 7
_WITHOUT = "without rules, pages and settings"
#: At most so many times the selection without.
_MOST = {158: 1.5, 10_000: 1.2}
_TIERS = ("free", "team", "enterprise")
_USERS, _PAGES = 50, 10


def cases(quick: bool) -> Iterator[Case]:
    for n in sizes(158) if quick else sizes(158, 10_000):
        yield _case(n)


def _case(n: int) -> Case:
    tools = read_tools(workloads.tools(n)).tools
    names = sorted({tool.toolkit for tool in tools if tool.toolkit})
    toolkits = [
        Toolkit(name, settings_keys=(f"{name}_key",) if at % 3 == 0 else ()) for at, name in enumerate(names)
    ]
    settings = tuple(f"{name}_key" for name in names)
    embedder = StaticEmbedder()
    # Every toolkit on every page, and denials that concern a few: the same tools are in play as without, but
    # for those few, so that the difference is what the stages cost.
    rules = [
        Rule("no-guests", "deny", "role", {"role": "guest"}, toolkit="*", priority=9),
        *(
            Rule(
                f"tool {at}",
                "deny",
                "composite",
                {"all": [{"tier": {"lt": "team"}}, {"org": f"org-{at}"}]},
                tool=tools[at].name,
                priority=at % 5,
            )
            for at in range(0, min(n, 200), 4)
        ),
    ]
    pages = [PageMapping(f"page-{at}*", tuple(names)) for at in range(_PAGES)]
    plain = Toolroll.from_tools(tools, embedder=embedder)
    governed = Toolroll.from_tools(
        tools, toolkits=toolkits, rules=rules, pages=pages, tiers=_TIERS, embedder=embedder
    )
    contexts = [
        Context(
            org=f"org-{at}",
            user=f"user-{at}",
            roles=("member",),
            tier=_TIERS[at % 3],
            page=f"page-{at % _PAGES}",
            settings=settings,
        )
        for at in range(_USERS)
    ]
    asked = workloads.messages(MESSAGES, n)

    def ours(i: int) -> tuple[str, ...]:
        return governed.select(asked[i % MESSAGES], contexts[i % _USERS], k=K).names

    def without(i: int) -> tuple[str, ...]:
        return plain.select(asked[i % MESSAGES], contexts[i % _USERS], k=K).names

    def check() -> str:
        denied = shown = 0
        for i in range(400):
            context = contexts[i % _USERS]
            for name in ours(i):
                assert governed.why(name, context).visible, f"{name} is denied and shown"
                shown += 1
            denied += sum(not governed.why(tool.name, context).visible for tool in tools[:50])
        assert denied, "no rule denies anything"
        return f"{shown} tools shown, each visible; {denied} denials among them"

    return Case(
        operation=f"select under rules, pages and settings, k={K}",
        size=f"{n:,} tools",
        ours=ours,
        peers={_WITHOUT: without},
        check=check,
        bars={_WITHOUT: 1 / _MOST[n]} if n in _MOST else {},
        beside=(_WITHOUT,),
        note=f"{len(rules)} rules, {len(pages)} mappings, {len(toolkits)} toolkits; {_USERS} contexts, warm",
        repeats=4000,
    )
