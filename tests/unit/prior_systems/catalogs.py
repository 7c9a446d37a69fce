"""Catalogs with the sizes of the earlier systems' catalogs. The single tools are made up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from toolroll import PageMapping, Tool, Toolkit
from toolroll.catalog.tokens import estimate_tokens
from toolroll.model.identity import schema_text
from toolroll.model.tools import Definitions, Route

# Talome: 16 domains with 234 tools, of which 117 need no settings. Of those 46 are in every chat; were it all
# 117, "torrent" could not come to the 50 to 80 tools that the system states for a routed message.
DOMAINS: Mapping[str, tuple[int, tuple[str, ...]]] = {  # toolkit → tools, keywords
    "core_basics": (46, ()),
    "core_containers": (24, ("container", "docker")),
    "core_files": (20, ("folder", "disk")),
    "core_backups": (12, ("backup", "restore")),
    "core_users": (9, ("user", "password")),
    "mdns": (6, ("mdns", "local network")),
    "arr": (22, ("sonarr", "radarr", "series")),
    "qbittorrent": (12, ("torrent", "seeding")),
    "jellyfin": (11, ("jellyfin",)),
    "plex": (9, ("plex",)),
    "overseerr": (7, ("overseerr",)),
    "homeassistant": (14, ("light", "thermostat")),
    "pihole": (8, ("dns", "pihole")),
    "vaultwarden": (5, ("vault",)),
    "nextcloud": (8, ("nextcloud",)),
    "immich": (6, ("photo", "album")),
    "tailscale": (4, ("tailscale",)),
    "unifi": (5, ("wifi", "unifi")),
    "audiobookshelf": (3, ("audiobook",)),
    "proxmox": (3, ()),  # without keywords: it is there where nothing else is named
}


def domains() -> Definitions:
    """Talome's: the domain `core` has five toolkits below it, of which one is in every chat."""
    tools, toolkits, routes = [], [Toolkit("core")], []
    for name, (size, keywords) in DOMAINS.items():
        is_core, is_open = name.startswith("core_"), name.startswith("core_") or name == "mdns"
        toolkits.append(
            Toolkit(
                name,
                parent="core" if is_core else None,
                settings_keys=() if is_open else (f"{name}_url",),
                base=name == "core_basics",
            )
        )
        tools += [Tool(f"{name}_{at:02}", f"Does thing {at} of {name}", toolkit=name) for at in range(size)]
        if keywords:
            routes.append(Route((name,), keywords))
    return Definitions(tuple(tools), tuple(toolkits), tuple(routes))


# Adverant Nexus: 158 tools in six categories; the 80 of the CRM in the 13 categories that the system lists for it.
CRM: Mapping[str, int] = {
    "contacts": 9, "companies": 7, "deals": 9, "campaigns": 8, "genesis": 5, "voice": 6, "intelligence": 7,
    "analytics": 7, "territory": 4, "sales": 6, "churn": 4, "system": 4, "activities": 4,
}  # fmt: skip
PLATFORM: Mapping[str, int] = {
    "graphrag_read": 17, "graphrag_write": 10, "workflow": 2, "admin": 2, "forge": 35, "skills": 12,
}  # fmt: skip

# The 27 pages of the dashboard. The first nine had a mapping before the system.
MAPPED_BEFORE = (
    "campaign-genesis", "contacts", "companies", "deals", "campaigns", "pipeline", "lead-scoring",
    "voice-center", "territory-map",
)  # fmt: skip
PAGES = (
    *MAPPED_BEFORE,
    "dossiers", "forecasting", "coaching", "digital-twin", "deal-simulation", "playbooks", "email-sequences",
    "ad-manager", "social-hub", "content-lab", "analytics", "revenue-leakage", "money-matrix", "personas",
    "research", "intelligence", "connectors", "settings",
)  # fmt: skip
# Two or three categories a page, as in the system's figure of its matrix.
MAPPINGS: tuple[tuple[str, tuple[str, ...], int], ...] = (  # pattern, toolkits, priority
    ("campaign-genesis", ("genesis", "campaigns", "intelligence"), 20),
    ("contacts", ("contacts", "activities"), 20),
    ("contacts", ("companies",), 5),
    ("companies", ("companies", "contacts"), 20),
    ("deals", ("deals",), 20),
    ("deals", ("sales",), 5),
    ("deal*", ("deals",), 10),
    ("campaigns", ("campaigns", "genesis", "analytics"), 20),
    ("pipeline", ("deals", "sales"), 20),
    ("lead-scoring", ("intelligence", "contacts"), 20),
    ("voice-*", ("voice", "sales", "activities"), 20),
    ("territory-*", ("territory", "sales", "intelligence"), 20),
    ("dossiers", ("intelligence", "companies", "contacts"), 20),
    ("forecast*", ("sales", "analytics", "deals"), 20),
    ("coaching", ("voice", "sales", "activities"), 20),
    ("digital-twin", ("intelligence", "analytics", "companies"), 20),
    ("*-simulation", ("sales", "analytics"), 20),
    ("playbooks", ("sales", "voice", "campaigns"), 20),
    ("email-sequences", ("campaigns", "contacts"), 20),
    ("ad-manager", ("campaigns", "analytics"), 20),
    ("social-hub", ("campaigns", "analytics"), 20),
    ("content-lab", ("genesis", "campaigns", "intelligence"), 20),
    ("*analytics*", ("analytics", "sales", "churn"), 20),
    ("revenue-leakage", ("churn", "analytics", "sales"), 20),
    ("money-matrix", ("analytics", "deals"), 20),
    ("personas", ("intelligence", "contacts"), 20),
    ("research", ("intelligence", "graphrag_read"), 20),
    ("intelligence", ("intelligence", "analytics", "companies"), 20),
    ("connectors", ("system", "skills"), 20),
    ("settings", ("system", "skills"), 20),
    ("settings", ("admin",), 5),
    ("*pipeline*", ("deals",), 1),
)
TOKENS = 120  # of each tool's schema: the system's mean


@cache  # making each schema cost 120 tokens takes most of a second
def platform() -> Definitions:
    """Adverant Nexus's: 19 categories, 32 page mappings, and each tool's schema at 120 tokens."""
    tools = [
        _of_120_tokens(Tool(f"nexus_ros_{name}_{at}", f"{name} of the CRM, step {at}", toolkit=name))
        for name, size in CRM.items()
        for at in range(size)
    ]
    tools += [
        _of_120_tokens(Tool(f"nexus_{name}_{at}", f"{name} of the platform, step {at}", toolkit=name))
        for name, size in PLATFORM.items()
        for at in range(size)
    ]
    toolkits = [
        Toolkit("nexus_ros"),
        *(Toolkit(name, parent="nexus_ros") for name in CRM),
        *map(Toolkit, PLATFORM),
    ]
    pages = [PageMapping(pattern, names, priority=priority) for pattern, names, priority in MAPPINGS]
    return Definitions(tuple(tools), tuple(toolkits), pages=tuple(pages))


def _of_120_tokens(tool: Tool) -> Tool:
    """The tool with as much said of it as makes its schema cost the mean."""
    filler = " and more of it" * 12
    for length in range(len(filler) * 4):
        said = f"{tool.description}{(filler * 4)[:length]}"
        padded = Tool(tool.name, said, toolkit=tool.toolkit)
        if estimate_tokens(schema_text(padded)) == TOKENS:
            return padded
    raise AssertionError(f"no description makes {tool.name} cost {TOKENS} tokens")
