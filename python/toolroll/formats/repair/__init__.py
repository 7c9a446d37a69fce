"""Repairs a model's output: arguments, tool calls in text, claims without a call, histories; counts cost.

Users import it as `from toolroll import repair`. Every function works alone, on the forms of OpenAI,
Anthropic and Gemini, and needs no catalog. A new repair is a file here and a name in `__all__`.
"""

from __future__ import annotations

from toolroll.formats.repair.arguments import Change, Injection, RepairResult, repair
from toolroll.formats.repair.claims import Advice, Claim, check_claim, claims_action
from toolroll.formats.repair.compaction import Compaction, acompact, compact
from toolroll.formats.repair.cost import CostLimits, CostMonitor, Pause, Usage
from toolroll.formats.repair.history import History, HistoryChange, repair_history
from toolroll.formats.repair.leaked_calls import Call, RecoveryResult, recover
from toolroll.formats.repair.trimming import truncate_results, window
from toolroll.formats.schemas.relax import relax

__all__ = [
    "Advice",
    "Call",
    "Change",
    "Claim",
    "Compaction",
    "CostLimits",
    "CostMonitor",
    "HistoryChange",
    "History",
    "Injection",
    "Pause",
    "RecoveryResult",
    "RepairResult",
    "Usage",
    "acompact",
    "check_claim",
    "claims_action",
    "compact",
    "recover",
    "relax",
    "repair",
    "repair_history",
    "truncate_results",
    "window",
]
