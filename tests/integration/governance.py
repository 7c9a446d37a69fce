"""What the tests of governance share: tools to name in rules, and texts that have broken other programs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import sqlalchemy as sa

from toolroll import Tool
from toolroll.registry.editing.audit import Audit
from toolroll.registry.editing.content import content_hash, content_of
from toolroll.registry.editing.page_mappings import Pages
from toolroll.registry.editing.rules import Rules
from toolroll.registry.editing.settings import Settings
from toolroll.registry.editing.toolkits import Toolkits
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

TRICKS = (
    "'; DROP TABLE tools; --",
    '" OR ""="',
    "../../etc/passwd",
    "C:\\windows\\..",
    "%",
    "_",
    "a%",
    "A",
    "a",
    "\u00e9",
    "e\u0301",
    "\u202egnirts",
    "a\u200bb",
    "two\nlines\x1b[31m",
    "NULL",
    "{0.__class__} %s :name ${x}",
    "\U0001f642",
    " leading and trailing ",
)


@dataclass
class Governed:
    """All that governs a registry, on behalf of one person."""

    database: Database
    actor: str = "ann"

    def __post_init__(self) -> None:
        self.toolkits = Toolkits(self.database, self.actor)
        self.rules = Rules(self.database, self.actor)
        self.pages = Pages(self.database, self.actor)
        self.settings = Settings(self.database, self.actor)
        self.audit = Audit(self.database)


def add_tool(database: Database, name: str, toolkit: str = "", org: str = "") -> str:
    tool, tool_id = Tool(name, toolkit=toolkit), uuid.uuid4().hex
    content = content_of(tool)
    content["semantic_version"] = content.pop("version")
    with database.writing("ann", org) as write:
        write.log("tool.create", name)
        row = {
            **content,
            "tool_id": tool_id,
            "org": org,
            "plugin": "",
            "content_hash": content_hash(tool),
            "review": "approved",
            "approved_version": 1,
            "served_version": None,
            "flags": [],
            "version": 1,
            "created_at": write.at,
            "updated_at": write.at,
            "updated_by": "ann",
            "deleted_at": None,
            "revision": write.revision,
        }
        write.connection.execute(sa.insert(tables.tools), row)
        write.digests.replace(tables.tools, None, row)
    return tool_id


def delete_tool(database: Database, tool_id: str) -> None:
    with database.writing("ann") as write:
        write.log("tool.delete", tool_id)
        is_it = tables.tools.c.tool_id == tool_id
        row = write.connection.execute(sa.select(tables.tools).where(is_it)).mappings().one()
        write.digests.replace(tables.tools, dict(row), None)
        write.connection.execute(
            sa.update(tables.tools).where(is_it), {"deleted_at": write.at, "revision": write.revision}
        )
