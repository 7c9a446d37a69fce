"""Repairs for what a model sends back: arguments, leaked calls, empty claims, histories; and what it costs.

Each piece works alone, on plain dictionaries in OpenAI's or Anthropic's form. None needs a catalog.
"""

from __future__ import annotations

from toolroll.guards.arguments import Change, Injection, Repaired, repair
from toolroll.guards.calls import Call, Recovered, recover
from toolroll.guards.claims import Advice, Claim, check_claim, claims_action
from toolroll.guards.cost import CostLimits, CostMonitor, Pause, Usage
from toolroll.guards.history import Fix, History, repair_history
from toolroll.guards.trimming import truncate_results, window

__all__ = [
    "Advice",
    "Call",
    "Change",
    "Claim",
    "CostLimits",
    "CostMonitor",
    "Fix",
    "History",
    "Injection",
    "Pause",
    "Recovered",
    "Repaired",
    "Usage",
    "check_claim",
    "claims_action",
    "recover",
    "repair",
    "repair_history",
    "truncate_results",
    "window",
]
