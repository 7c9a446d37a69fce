"""Decisions under changed rules: the effect of a rule before anybody saves it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolroll.model.rules import Rule
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy import policy
from toolroll.selection.policy.rule_checks import wrong
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.stages.visibility import Visibility


def with_rules(
    snapshot: Snapshot, rules: Iterable[Rule], without: Iterable[tuple[str, str]], orgs: Iterable[str]
) -> Snapshot:
    """The snapshot under other rules, for contexts of these organisations alone. No catalog is built.

    rules: in force beside the present ones, or in place of one with the same organisation and name.
    without: organisation and name of rules that are not in force.

    Raises:
        InvalidDefinition: a rule makes no sense, or two of `rules` have one name.
    """
    source, new = snapshot.policy.policy_source, dict[tuple[str, str], Rule]()
    for rule in rules:
        policy.check(rule, source.tiers)
        if (rule.org, rule.name) in new:
            raise wrong(rule, "name", "is taken by another rule: must be unique in an organisation")
        new[rule.org, rule.name] = rule
    gone = {*without, *new}
    wanted = frozenset(orgs)
    kept = [rule for rule in source.of(("", *wanted)).rules if (rule.org, rule.name) not in gone]
    effective = replace(snapshot.policy, policy_source=replace(source, rules=(*kept, *new.values())))
    shared = snapshot.shared.governed(*effective.stages(snapshot.shared.catalog))
    platform = next((stage.policy for stage in shared.hard if isinstance(stage, Visibility)), None)

    def governed(org: str, pipeline: Pipeline) -> Pipeline:
        return pipeline.governed(*effective.concerning(org).stages(pipeline.catalog, platform))

    own = {org: governed(org, pipeline) for org, pipeline in snapshot.own.items() if org in wanted}
    return replace(snapshot, shared=shared, own=own, policy=effective)
