"""Finds replies such as "I've sent the email" when no tool was called.

English sentences are read by their grammar; phrases of nine other languages are searched in each sentence.
Questions, offers, conditions, negations, quotations and actions of others are no claims. The filter finds
plain statements: it misses a claim rather than reject a correct answer.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from toolroll.formats.repair.claim_phrases import PHRASES
from toolroll.formats.repair.english_claims import claim_in
from toolroll.formats.schemas.requests import required
from toolroll.model.errors import InvalidInput, quoted

LANGUAGES = ("en", *PHRASES)
FALLBACK = "I wasn't able to complete this action. Please try again."
MAX_TEMPERATURE = 0.3

_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_QUOTED = re.compile(
    r"„[^„“”\n]{0,300}[“”]|“[^“”\n]{0,300}”|\"[^\"\n]{0,300}\"|«[^«»\n]{0,300}»|「[^「」\n]{0,300}」|『[^『』\n]{0,300}』"
    r"|`[^`\n]{1,300}`"
)
_FOLLOWING = 300  # characters behind a sentence that may show its work
_CLAUSE = re.compile(r"[,;:—–(、，；：]")


@dataclass(frozen=True, slots=True)
class Claim:
    """An action that a reply claims.

    Attributes:
        language: of the phrase: en, de, fr, es, it, pt, nl, ko, ja or zh.
        phrase: the words of the claim.
        start, end: their place in the text, half-open.
    """

    language: str
    phrase: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice about a claim: ask again and require a tool call; without one, answer `fallback`.

    Attributes:
        claim: the claim.
        max_temperature: the limit for the second request.
        fallback: the answer if the second reply calls no tool either, or fails.
    """

    claim: Claim
    max_temperature: float = MAX_TEMPERATURE
    fallback: str = FALLBACK

    def request(self, provider: str) -> dict[str, Any]:
        """The fields that make the model call one of the request's tools.

        They replace a `tool_choice` or `tool_config` that restricts the list. If a delivery restricts it
        ("allow"), ask again with `deliver(..., must_call=True)`, which keeps the restriction.

        Raises InvalidInput for an unknown provider.
        """
        return required(provider)

    def temperature(self, usual: float | None) -> float:
        """The temperature of the second request. usual: the temperature of the first one."""
        return self.max_temperature if usual is None else min(usual, self.max_temperature)


def claims_action(text: str) -> Claim | None:
    """The first claim in the text; None if there is none. Linear time.

    Raises InvalidInput for anything but a string.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"text is {quoted(text)}, must be a string")
    text = text.encode("utf-8", "replace").decode()  # RE2 rejects lone surrogates
    unquoted = _QUOTED.sub(lambda match: "~" * len(match.group()), text)
    any_claim, compiled = _compiled()
    for sentence in _SENTENCE.finditer(unquoted):
        words = sentence.group()
        if words.rstrip().endswith(("?", "？")):
            continue
        if (english := claim_in(words, unquoted[sentence.end() : sentence.end() + _FOLLOWING])) is not None:
            start, end = sentence.start() + english.start, sentence.start() + english.end
            return Claim("en", text[start:end].strip(), start, end)
        if any_claim.search(words) is None:
            continue
        for language, (claims, before, after) in compiled.items():
            match = claims.search(words)
            if match is None:
                continue
            clause = words[_clause_start(words, match.start()) : match.end()]
            if before.search(clause) or (after is not None and after.search(words[match.end() :])):
                continue
            start, end = sentence.start() + match.start(), sentence.start() + match.end()
            return Claim(language, text[start:end].strip(), start, end)
    return None


def check_claim(text: str, called: bool) -> Advice | None:
    """The advice about a reply; None if a tool was called or the reply claims nothing.

    Args:
        text: the reply.
        called: whether a tool was called in this turn; calls recovered from text count.

    Raises:
        InvalidInput: `text` is not a string.
    """
    claim = claims_action(text)
    return None if called or claim is None else Advice(claim)


def _clause_start(sentence: str, before: int) -> int:
    start = 0
    for mark in _CLAUSE.finditer(sentence, 0, before):
        start = mark.end()
    return start


@functools.cache
def _compiled() -> tuple[Any, dict[str, tuple[Any, Any, Any]]]:
    """One expression for all languages, enough for most sentences, and one for each language."""
    import re2  # imported on first use: it is slow to import

    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = 64 << 20
    unions = {
        language: "|".join(f"(?:{pattern})" for pattern in phrases.claims)
        for language, phrases in PHRASES.items()
    }
    compiled = {}
    for language, phrases in PHRASES.items():
        after = re2.compile(phrases.unless_after, options) if phrases.unless_after else None
        before = re2.compile(phrases.unless_before, options)
        compiled[language] = (re2.compile(unions[language], options), before, after)
    return re2.compile("|".join(unions.values()), options), compiled
