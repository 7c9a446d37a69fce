"""Writes a tool as each provider takes it, and says what is lost on the way.

One file for each provider, `conversion.py` in front of them, and `sent.py`, which converts each tool once.
A new provider is a file here, a line in `conversion.py` and a row in `formats/providers.py`.
"""

from __future__ import annotations

from toolroll.formats.schemas.anthropic import to_anthropic
from toolroll.formats.schemas.conversion import PROVIDERS, convert, losses
from toolroll.formats.schemas.form import PLAIN, Form, Loss
from toolroll.formats.schemas.gemini import to_gemini
from toolroll.formats.schemas.mcp import to_mcp
from toolroll.formats.schemas.names import own_name_of, provider_name, provider_names
from toolroll.formats.schemas.openai import to_openai, to_openai_responses
from toolroll.formats.schemas.sent import SentTool, SentTools, convert_all, sent_tools

__all__ = [
    "PLAIN",
    "PROVIDERS",
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
    "to_anthropic",
    "to_gemini",
    "to_mcp",
    "to_openai",
    "to_openai_responses",
]
