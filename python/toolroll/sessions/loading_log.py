"""Log records of the tools that conversations load and unload, for analysis."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Literal

from toolroll.formats.foreign_text import name_text
from toolroll.formats.visible_text import one_line
from toolroll.model.context import Context

_log = logging.getLogger("toolroll.sessions")
_LONGEST = 80  # characters of a name in the text of a record
_MOST = 50  # names in the text of a record

Action = Literal["load", "unload", "idle", "fallback"]


def log_loading(action: Action, context: Context, turn: int, names: Iterable[str]) -> None:
    """Writes one record at INFO if there are names. Its fields are in docs/observability.md."""
    if not _log.isEnabledFor(logging.INFO) or not (tools := list(names)):
        return
    said = " ".join(name_text(name[:_LONGEST]) for name in tools[:_MOST])
    _log.info(
        "%s: conversation %s, turn %d: %s",
        action,
        one_line(context.session, _LONGEST),
        turn,
        said if len(tools) <= _MOST else f"{said} …",
        extra={
            "org": context.org,
            "session": context.session,
            "turn": turn,
            "action": action,
            "tools": tools,
        },
    )
