"""Names in a context that its catalog and policy do not know: most likely misspelt values."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from toolroll.model.context import Context
from toolroll.selection.listed_visibility import ListedVisibility
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.rule_checks import tier_problem
from toolroll.selection.stages.visibility import Visibility
from toolroll.selection.visible import VisibleTools

_NEAR_AMONG = 5_000  # names to compare a misspelt one with; bounds the time of a sentence

_LISTED = 10  # toolkits in a sentence, and sentences about the tools of one argument


def unknown_values(pipeline: Pipeline, context: Context, visible: VisibleTools) -> Iterator[str]:
    """Sentences about unknown tiers, unknown tools and a page that no mapping or condition reads.

    visible: the tools that the caller may have if it excludes none. A hidden tool counts as unknown.
    """
    reads: frozenset[str] = frozenset()
    for stage in pipeline.hard:
        stage = stage.rules if isinstance(stage, ListedVisibility) else stage
        if isinstance(stage, Visibility) and stage.policy is not None:
            reads = stage.policy.reads(context.org)
            if context.tier and (problem := tier_problem(context.tier, stage.policy.tiers)):
                yield f"tier {problem}; it counts as unknown"
            if not context.tier and (gated := sorted(stage.policy.gates)):
                shown = ", ".join(gated[:_LISTED]) + (", …" if len(gated) > _LISTED else "")
                yield f"no tier is given, so toolkits that have one are hidden: {shown}"
    for argument in ("required", "exclude", "only"):
        absent = [name for name in dict.fromkeys(getattr(context, argument)) if name not in visible]
        for name in absent[:_LISTED]:
            near = get_close_matches(name[:200], visible.names[:_NEAR_AMONG], n=1)
            hint = f"; did you mean {near[0]!r:.80}?" if near else ""
            yield f"{argument} {name!r:.80}: this caller has no such tool{hint}"
        if len(absent) > _LISTED:
            yield f"{argument}: this caller has no tools of {len(absent) - _LISTED:,} more names"
    if context.page and "page" not in reads and pipeline.on_page(context) is None:
        yield f"page {context.page!r:.80}: no mapping matches it, and no rule reads pages"
