"""Seeded data for the benchmarks, named by size: the same bytes on every machine and in every process.

The tool catalogs look like what people have: ``app_verb_noun`` names, descriptions of ten to forty words,
two to six described parameters. They measure time, not quality; quality is measured on real datasets.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

ToolDict = dict[str, Any]

#: name → tools in the catalog.
SIZES = {
    "tools_158": 158,
    "tools_1k": 1_000,
    "tools_10k": 10_000,
    "tools_100k": 100_000,
    "tools_1m": 1_000_000,
}

LATENT_DIMS = 32


def clustered_vectors(n: int, dim: int = 384, seed: int = 0) -> NDArray[np.float32]:
    """float32[n, dim] of unit rows that lie as sentence vectors do.

    About sqrt(n) clusters in 32 latent dimensions, all of them leaning towards one common direction, with a
    little noise in every dimension. `queries_near` makes the queries.
    """
    generator = np.random.default_rng([seed, n, dim])
    latent = min(LATENT_DIMS, dim)
    basis, _ = np.linalg.qr(generator.standard_normal((dim, latent)))
    centres = generator.standard_normal((max(2, round(n**0.5)), latent))
    common = generator.standard_normal(dim) / dim**0.5
    rows = np.empty((n, dim), dtype=np.float32)
    for start in range(0, n, 50_000):  # in blocks: a million rows never exist as float64
        m = min(50_000, n - start)
        points = centres[generator.integers(len(centres), size=m)]
        points = points + 0.5 * generator.standard_normal((m, latent))
        block = points @ basis.T / latent**0.5
        block += 0.6 * common + 0.25 * generator.standard_normal((m, dim)) / dim**0.5
        rows[start : start + m] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return rows


def queries_near(vectors: NDArray[np.float32], count: int, seed: int = 1) -> NDArray[np.float32]:
    """float32[count, dim] unit queries: rows of the set moved a good way off, as a message is from a tool."""
    generator = np.random.default_rng([seed, *vectors.shape])
    picked = vectors[generator.integers(len(vectors), size=count)]
    noise = generator.standard_normal(picked.shape) * (0.6 / vectors.shape[1] ** 0.5)
    moved = picked + noise
    return np.ascontiguousarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), dtype=np.float32)


def _words(text: str) -> list[str]:
    return text.split()


_VERBS = _words(
    "get list create update delete search send archive export import sync approve assign merge close "
    "open start stop pause resume schedule cancel invite share tag rename copy move upload download "
    "validate publish restore preview subscribe duplicate estimate summarize translate convert verify "
    "revoke rotate enable disable link unlink"
)
_NOUNS = _words(
    "invoice ticket issue branch commit message channel thread file folder document sheet page record "
    "contact lead deal campaign order product customer refund payment subscription event calendar "
    "meeting task project board card comment report dashboard metric alert incident deployment pod node "
    "secret token user role policy webhook pipeline release forecast reminder playlist recipe workout "
    "flight hotel booking receipt budget expense transfer account contract proposal quote shipment "
    "warehouse coupon review survey audience segment template snippet backup volume certificate"
)
_APPS = _words(
    "stripe github gitlab slack notion linear jira salesforce hubspot zendesk shopify asana trello "
    "google outlook dropbox box figma datadog sentry pagerduty kubernetes aws azure gcp postgres mongo "
    "redis snowflake airtable discord zoom spotify strava todoist plex docker grafana intercom "
    "mailchimp twilio xero quickbooks netsuite workday greenhouse"
)
_ADJECTIVES = _words(
    "overdue recent pending shared archived scheduled internal external recurring draft urgent regional "
    "monthly weekly unassigned duplicate expired active stale billable public private pinned starred "
    "failed"
)
_PURPOSES = (
    "so that the team can follow up without leaving the conversation",
    "and returns the full object with its metadata, timestamps, owner and status",
    "with optional filters and pagination in the given workspace",
    "for everyone who has access to the parent folder",
    "without notifying the people who are subscribed to it",
    "and writes an entry to the audit log",
    "using the default settings of the organisation",
    "before the end of the current billing period",
    "when the user asks for something that happened in the past",
    "across all regions and environments",
    "and attaches a link to the original source",
    "in the time zone of the account",
)
_PARAMETERS = (
    ("workspace", "Workspace or team to look in"),
    ("limit", "How many results to return at most"),
    ("cursor", "Where to go on from, as given by the last page"),
    ("owner", "Person who is responsible, by e-mail address"),
    ("status", "Only those in this state"),
    ("since", "Start of the period, ISO 8601"),
    ("until", "End of the period, ISO 8601"),
    ("title", "Short name that people will see"),
    ("body", "Text, Markdown allowed"),
    ("priority", "One of low, normal, high"),
    ("labels", "Labels to put on it, separated by commas"),
    ("notify", "Whether to tell the people concerned"),
    ("currency", "Three-letter code of the currency"),
    ("amount", "Amount in the smallest unit of the currency"),
)


def _parameters(rng: random.Random, noun: str) -> dict[str, Any]:
    chosen = rng.sample(_PARAMETERS, rng.randint(1, 5))
    properties = {f"{noun}_id": {"type": "string", "description": f"Identifier of the {noun}"}}
    for name, description in chosen:
        kind = "integer" if name in ("limit", "amount") else "boolean" if name == "notify" else "string"
        properties[name] = {"type": kind, "description": description}
    return {"type": "object", "properties": properties, "required": [f"{noun}_id"]}


@lru_cache(maxsize=2)
def tools(n: int, seed: int = 0) -> list[ToolDict]:
    """Makes n tools as plain dicts: ``name, description, parameters, server``. Do not edit them.

    Names are unique; a larger catalog begins with the smaller ones.
    """
    rng = random.Random(seed)
    seen: dict[str, int] = {}
    made = []
    for _ in range(n):
        app, verb, noun = rng.choice(_APPS), rng.choice(_VERBS), rng.choice(_NOUNS)
        name = f"{app}_{verb}_{noun}"
        count = seen[name] = seen.get(name, 0) + 1
        adjective, purposes = rng.choice(_ADJECTIVES), rng.sample(_PURPOSES, rng.randint(1, 2))
        if count > 1:  # catalogs of this size have near-twins too
            name = f"{name}_{adjective}_{count}"
        start = f"{verb.capitalize()} one {adjective} {noun} or several in {app.capitalize()}"
        made.append(
            {
                "name": name,
                "description": f"{start} {' '.join(purposes)}.",
                "parameters": _parameters(rng, noun),
                "server": app,
            }
        )
    return made


_ASKS = (
    "please {verb} the {adjective} {noun} in {app} for our team",
    "can you {verb} a {noun} in {app}?",
    "I need to {verb} that {adjective} {noun} from last week, it is in {app}",
    "{verb} {noun} {app}",
    "hey, the customer called again, not happy; could you {verb} their {noun} in {app} and let me know",
)


def messages(n: int, catalog: int = 158, seed: int = 1) -> list[str]:
    """Makes n messages of a user, each about one of ``catalog`` tools; `targets` names it.

    No two are the same: a cache keyed by the text helps nobody.
    """
    return [text for text, _ in _asked(n, catalog, seed)]


def targets(n: int, catalog: int = 158, seed: int = 1) -> list[tuple[str, str, str]]:
    """(app, verb, noun) that each of `messages` asks for: a good answer has a tool of that name in it."""
    return [target for _, target in _asked(n, catalog, seed)]


def _asked(n: int, catalog: int, seed: int) -> list[tuple[str, tuple[str, str, str]]]:
    rng = random.Random(seed)
    known = tools(catalog)
    asked = []
    for i in range(n):
        app, verb, noun = rng.choice(known)["name"].split("_")[:3]
        text = rng.choice(_ASKS).format(app=app, verb=verb, noun=noun, adjective=rng.choice(_ADJECTIVES))
        asked.append((f"{text} #{10_000 + 7 * i}", (app, verb, noun)))
    return asked


_SYLLABLES = _words(
    "ba be bi bo ca ce co da de di do fa fi ga go ha la le li lo ma me mi mo na ne ni no pa pe pi po ra "
    "re ri ro sa se si so ta te ti to va ve vi"
)


def keywords(n: int, seed: int = 2) -> list[str]:
    """Makes n distinct lower-case keywords of one to three words, such as routes have."""
    rng = random.Random(seed)
    stock = [*_VERBS, *_NOUNS, *_APPS, *_ADJECTIVES]
    made: dict[str, None] = dict.fromkeys(rng.sample(stock, min(n // 4, len(stock))))
    while len(made) < n:
        invented = "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 4)))
        pair = f"{rng.choice(stock)} {rng.choice(stock)}"
        made[rng.choice((invented, f"{invented} {rng.choice(stock)}", pair))] = None
    return list(made)


def keyword_messages(count: int, length: int, patterns: list[str], seed: int = 3) -> list[str]:
    """Makes count ASCII messages of just ``length`` characters; about one word in twelve begins a keyword."""
    rng = random.Random(seed)
    small = _words("the a my our please with and for of to in on it that this could")
    stock = [*_VERBS, *_NOUNS, *_ADJECTIVES, *small]
    made = []
    for _ in range(count):
        words: list[str] = []
        size = 0
        while size <= length:
            word = rng.choice(patterns) if rng.random() < 1 / 12 else rng.choice(stock)
            words.append(word)
            size += len(word) + 1
        made.append(" ".join(words)[:length])
    return made
