"""Writes tools in a provider's form, and lists the losses."""

from __future__ import annotations

from toolroll.formats.providers.form import PLAIN, Form, Loss
from toolroll.formats.schemas.conversion import convert, losses
from toolroll.formats.schemas.names import own_name_of, provider_name, provider_names
from toolroll.formats.schemas.sent import SentTool, SentTools, convert_all, sent_tools

__all__ = [
    "PLAIN",
    "Form",
    "Loss",
    "SentTool",
    "SentTools",
    "convert",
    "convert_all",
    "losses",
    "own_name_of",
    "provider_name",
    "provider_names",
    "sent_tools",
]
