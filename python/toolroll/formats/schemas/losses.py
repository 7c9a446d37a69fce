"""What is lost on the way to a provider, told when somebody asks.

A conversion itself stays silent: it runs on every turn, and a warning on every turn is read by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolroll.errors import InvalidInput
from toolroll.formats.providers import provider_of
from toolroll.formats.schemas.form import PLAIN, Form, Loss
from toolroll.formats.schemas.gemini_schema import gemini_schema
from toolroll.formats.schemas.original import said_beside
from toolroll.formats.schemas.references import Notes, rooted
from toolroll.formats.schemas.strict import NotStrictError, strict_schema
from toolroll.tools import Tool

# Which of what is said beside name, description and parameters each provider has a place for.
_CARRIED: Mapping[str, tuple[str, ...]] = {
    "openai": ("strict",),
    "openai_responses": ("strict", "outputSchema", "allowed_callers"),
    "anthropic": ("strict", "cache_control", "input_examples", "allowed_callers", "eager_input_streaming"),
    "gemini": ("outputSchema", "behavior"),
    "mcp": ("title", "outputSchema", "annotations", "icons", "_meta", "execution"),
}
_ONLY_OWN = ("strict", "allowed_callers")  # said by several providers, and meant differently


def losses_of(tool: Tool, provider: str, form: Form = PLAIN) -> list[Loss]:
    """What the provider is not told of this tool that does not go out as its own original."""
    notes = Notes()
    from_anthropic = isinstance(tool.original, Mapping) and "input_schema" in tool.original
    for key in said_beside(tool):
        if key not in _CARRIED[provider] or (
            key in _ONLY_OWN and from_anthropic != (provider == "anthropic")
        ):
            notes.append((key, f"{provider} has no place for it"))
        elif key == "outputSchema" and provider != "mcp" and not form.returns:
            notes.append((key, "is sent with returns=True only, since the model reads it in each prompt"))
    if provider == "gemini" and not form.json_schema:
        gemini_schema(tool.parameters or {}, notes)
    elif form.strict:
        try:
            notes += strict_schema(tool.parameters)[1]
        except NotStrictError as error:
            notes.append((error.where, f"{error.why}: sent without strict mode"))
            rooted(tool.parameters or {}, again := Notes())
            notes += again
    elif provider != "mcp":
        rooted(tool.parameters or {}, notes)
    return [Loss(tool.name, where, what) for where, what in dict.fromkeys(notes)]


def check_form(provider: str, form: Form) -> None:
    """Raises InvalidInput for a choice that the provider does not have."""
    if form.strict and not provider_of(provider).takes_strict:
        raise InvalidInput(f"strict is True, must be False for {provider}: strict mode is OpenAI's")
    if form.json_schema and provider != "gemini":
        raise InvalidInput(
            f"json_schema is True, must be False for {provider}: only Gemini has a form of its own beside it"
        )
