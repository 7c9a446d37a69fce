"""Seeded data for the benchmarks, named by size: the same bytes on every machine and in every process.

The tools look like real ones: ``app_verb_noun`` names, descriptions of ten to forty words, two to six
described parameters. They measure time; real datasets measure quality.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

ToolDict = dict[str, Any]


def words(text: str) -> list[str]:
    """The words of a text, as a short way to write lists here."""
    return text.split()


VERBS = words(
    "get list create update delete search send archive export import sync approve assign merge close open "
    "start stop pause resume schedule cancel invite share tag rename copy move upload download validate "
    "publish restore preview subscribe duplicate estimate summarize translate convert verify revoke "
    "rotate enable disable link unlink"
)
NOUNS = words(
    "invoice ticket issue branch commit message channel thread file folder document sheet page record "
    "contact lead deal campaign order product customer refund payment subscription event calendar meeting "
    "task project board card comment report dashboard metric alert incident deployment pod node secret "
    "token user role policy webhook pipeline release forecast reminder playlist recipe workout flight "
    "hotel booking receipt budget expense transfer account contract proposal quote shipment warehouse "
    "coupon review survey audience segment template snippet backup volume certificate"
)
APPS = words(
    "stripe github gitlab slack notion linear jira salesforce hubspot zendesk shopify asana trello google "
    "outlook dropbox box figma datadog sentry pagerduty kubernetes aws azure gcp postgres mongo redis "
    "snowflake airtable discord zoom spotify strava todoist plex docker grafana intercom mailchimp twilio "
    "xero quickbooks netsuite workday greenhouse"
)
ADJECTIVES = words(
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
        app, verb, noun = rng.choice(APPS), rng.choice(VERBS), rng.choice(NOUNS)
        name = f"{app}_{verb}_{noun}"
        count = seen[name] = seen.get(name, 0) + 1
        adjective, purposes = rng.choice(ADJECTIVES), rng.sample(_PURPOSES, rng.randint(1, 2))
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
    """Makes n different messages of a user, each about one of ``catalog`` tools."""
    return [text for text, _ in labelled_messages(n, catalog, seed)]


def labelled_messages(n: int, catalog: int = 158, seed: int = 1) -> list[tuple[str, tuple[str, str, str]]]:
    """Messages, each with the (app, verb, noun) of a right tool."""
    rng = random.Random(seed)
    known = tools(catalog)
    asked = []
    for i in range(n):
        app, verb, noun = rng.choice(known)["name"].split("_")[:3]
        text = rng.choice(_ASKS).format(app=app, verb=verb, noun=noun, adjective=rng.choice(ADJECTIVES))
        asked.append((f"{text} #{10_000 + 7 * i}", (app, verb, noun)))
    return asked
