"""No entry point shows, or tells of, a tool that the caller may not have; a fault only takes tools away."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.decisions.audit import Audit
from toolroll import Tool
from toolroll._core import Bitset
from toolroll.formats.providers import PROVIDERS
from toolroll.selection.delivery import _DeliveryRequest
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.policy import Policy
from toolroll.sessions.name_lookup import NameLookup

pytestmark = pytest.mark.slow

ANSWERS = int(os.environ.get("TOOLROLL_DECISIONS", "20000"))
PLANTED = 9_000  # answers in which a planted leak must be found
# Each entry point is asked, in this share of the answers at the least.
ENTRIES = {
    "select", "aselect", "required", "everything", "visible", "may", "core", "why", "check", "used", "search", "request list",
    "session.select", "session.selection", "session.loaded", "session.check", "session.load", "session.unload",
    "session.fallback", "session.manage", "session.search_tools", "session.call_tool", "session.loadkit",
    *(f"{name} {how}" for name, provider in PROVIDERS.items() for how in provider.hows),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of injected faults would each be logged with a traceback."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(14_400)
def test_no_answer_of_any_entry_point_holds_a_tool_that_the_oracle_hides(tmp_path):
    audit = Audit().run(ANSWERS, tmp_path)
    print(audit.summary())
    assert not audit.problems, "\n".join(audit.problems[:5])
    assert audit.answers.keys() >= ENTRIES
    assert audit.faulty > 0.08 * audit.total  # a tenth of the callers meets a fault
    assert 0.3 < audit.hidden / audit.verdicts < 0.9  # else the worlds would ask nothing


def plant_in_policy(patch: pytest.MonkeyPatch) -> None:
    """Four of a hundred answers of the policy lack a denied tool."""
    real, draw = Policy.denied, random.Random(1)

    def denied(policy: Policy, context: object) -> Bitset | None:
        found = real(policy, context)
        if found is None or draw.random() > 0.04:
            return found
        return found - Bitset.of(found.size, found.rows()[:1])

    patch.setattr(Policy, "denied", denied)


def plant_in_deliveries(patch: pytest.MonkeyPatch) -> None:
    """Requests hold all tools of the catalog."""
    real = _DeliveryRequest.whole

    def whole(request: _DeliveryRequest, *core: object) -> object:
        everything = replace(request.offer, allowed=Bitset.full(len(request.offer.catalog)))
        return real(replace(request, offer=everything), *core)

    patch.setattr(_DeliveryRequest, "whole", whole)


def plant_in_replies(patch: pytest.MonkeyPatch) -> None:
    """A meta-tool knows every tool by its name."""

    def get(lookup: NameLookup, name: str | None) -> Tool | None:
        catalog = lookup.visible.catalog
        return catalog.tools[catalog.names[name]] if name in catalog.names else None

    patch.setattr(NameLookup, "get", get)


def plant_in_failures(patch: pytest.MonkeyPatch) -> None:
    """A hard stage that fails hides no tool that it could have hidden."""
    patch.setattr(Pipeline, "_closed_by", lambda pipeline, stage, turn: pipeline.catalog.not_public)


@pytest.mark.parametrize("plant", [plant_in_policy, plant_in_deliveries, plant_in_replies, plant_in_failures])
def test_a_planted_leak_is_found(plant, tmp_path, monkeypatch):
    plant(monkeypatch)
    problems = Audit().run(PLANTED, tmp_path, stops=True).problems
    assert any("leaks" in problem for problem in problems)
