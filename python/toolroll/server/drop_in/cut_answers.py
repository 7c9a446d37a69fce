"""Answers that end before their end, because the provider's did: no fault of this service.

ASGI has no message for that. If an application returns early, uvicorn closes the connection and logs an
error, which is kept out of the log here. `Proxy` logs each cut in a line of its own.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

is_cut: ContextVar[bool] = ContextVar("is_cut", default=False)  # of the request in this task


def log_only_other_faults() -> None:
    """Keeps uvicorn's lines about such answers out of the log. May be called again."""
    logging.getLogger("uvicorn.error").addFilter(_is_of_another_fault)


def _is_of_another_fault(record: logging.LogRecord) -> bool:
    return not (is_cut.get() and record.getMessage() == "ASGI callable returned without completing response.")
