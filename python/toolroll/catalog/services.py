"""The names that people use for services: Outlook is a part of a server called ms365.

The table holds general knowledge of well-known products and of the names of their servers.
"""

from __future__ import annotations

from typing import NamedTuple


class Service(NamedTuple):
    """A product, or a family of products with a common name ("our wiki").

    Attributes:
        names: in messages, the usual one first. A name with a capital at its beginning is also a common word,
            so it counts only with a capital inside a sentence.
        servers: words in the names or toolkits of its servers' tools.
    """

    names: tuple[str, ...]
    servers: tuple[str, ...]


def _alone(*names: str) -> tuple[Service, ...]:
    """Services whose servers have the name of the service."""
    return tuple(Service((name,), (name.casefold(),)) for name in names)


_MICROSOFT = ("ms365", "ms 365", "m365", "microsoft 365", "microsoft365", "office 365", "office365", "o365")
_GOOGLE = ("google workspace", "workspace mcp", "gsuite", "g suite")

SERVICES = (
    Service(("outlook",), ("outlook", *_MICROSOFT)),
    Service(
        ("microsoft teams", "ms teams", "on teams", "in teams", "Teams"),
        ("microsoft teams", "ms teams", "msteams", *_MICROSOFT),
    ),
    Service(("onedrive", "one drive"), ("onedrive", *_MICROSOFT)),
    Service(("sharepoint",), ("sharepoint", *_MICROSOFT)),
    Service(("onenote",), ("onenote", *_MICROSOFT)),
    Service(("microsoft to do", "ms to do", "microsoft todo", "ms todo"), ("microsoft todo", *_MICROSOFT)),
    Service(("microsoft planner", "ms planner", "Planner"), ("planner", *_MICROSOFT)),
    Service(("microsoft excel", "Excel"), ("excel", *_MICROSOFT)),
    Service(("powerpoint",), ("powerpoint", *_MICROSOFT)),
    Service(("gmail", "google mail"), ("gmail", *_GOOGLE)),
    Service(("google calendar", "gcal"), ("google calendar", "gcal", *_GOOGLE)),
    Service(("google drive", "gdrive"), ("google drive", "gdrive", *_GOOGLE)),
    Service(("google docs", "google doc", "gdoc", "gdocs"), ("google docs", "gdocs", *_GOOGLE)),
    Service(("google sheets", "google sheet", "gsheet", "gsheets"), ("google sheets", "gsheets", *_GOOGLE)),
    Service(("google slides",), ("google slides", *_GOOGLE)),
    Service(("google forms", "google form"), ("google forms", *_GOOGLE)),
    Service(("google tasks",), ("google tasks", *_GOOGLE)),
    Service(("google chat",), ("google chat", *_GOOGLE)),
    Service(("google meet",), ("google meet", *_GOOGLE)),
    Service(("google maps",), ("google maps", "gmaps")),
    Service(("confluence",), ("confluence", "atlassian")),
    Service(("jira",), ("jira", "atlassian")),
    Service(("lark", "feishu"), ("lark", "feishu")),
    Service(("yahoo finance", "yahoo"), ("yahoo", "yfinance")),
    Service(("home assistant", "homeassistant"), ("home assistant", "homeassistant", "hass")),
    Service(("twitter", "tweet"), ("twitter",)),
    Service(("postgres", "postgresql"), ("postgres", "postgresql")),
    Service(("mongodb", "mongo"), ("mongodb", "mongo")),
    Service(("kubernetes", "k8s", "kubectl"), ("kubernetes", "k8s", "kubectl")),
    Service(("our wiki", "the wiki", "team wiki", "company wiki"), ("confluence", "notion", "wiki")),
    Service(
        ("the board", "our board", "sprint board", "kanban board"), ("jira", "trello", "linear", "asana")
    ),
    Service(("our repo", "the repo"), ("github", "gitlab", "bitbucket")),
    Service(("our crm", "the crm"), ("hubspot", "salesforce", "pipedrive", "crm")),
    Service(("our helpdesk", "the helpdesk", "the help desk"), ("zendesk", "freshdesk", "intercom")),
    *_alone("airtable", "arxiv", "asana", "bitbucket", "Brave", "clickup", "datadog", "discord", "docker"),
    *_alone("dropbox", "figma", "github", "gitlab", "grafana", "hubspot", "linkedin", "Linear", "mysql"),
    *_alone("notion", "pagerduty", "paypal", "reddit", "redis", "salesforce", "sentry", "shopify", "slack"),
    *_alone("spotify", "sqlite", "stripe", "telegram", "trello", "whatsapp", "wikipedia", "youtube"),
    *_alone(
        "zendesk", "Zoom", "airbnb", "uber", "snowflake", "bigquery", "elasticsearch", "jenkins", "quickbooks"
    ),
)
