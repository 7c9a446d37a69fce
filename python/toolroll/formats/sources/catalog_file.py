"""Reads a folder's catalog.json, which has the tiers and page mappings of all toolkits.

{"tiers": ["free", "pro"], "pages": [{"pattern": "contacts*", "toolkits": ["crm", "email"]}]}
"""

from __future__ import annotations

from typing import Any

from toolroll.formats.sources import fields
from toolroll.formats.sources.fields import Field, FieldError, InvalidValue
from toolroll.model.errors import quoted
from toolroll.model.rules import PageMapping, pattern_problem
from toolroll.model.tools import Definitions

NAME = "catalog.json"


def is_catalog_file(name: str, value: Any) -> bool:
    """Whether this is the catalog file, and not a toolkit of the same name."""
    return name == NAME and isinstance(value, dict) and not value.keys() & {"tasks", "tools", "name"}


def read_catalog_file(value: Any) -> Definitions:
    """The tiers and page mappings. Raises FieldError."""
    read = fields.read_fields(value, _CATALOG)
    pages = []
    for i, page in enumerate(read.get("pages", ())):
        try:
            pages.append(_read_page(page))
        except FieldError as error:
            raise error.under("pages", i) from None
    return Definitions(pages=tuple(pages), tiers=read.get("tiers", ()))


def _read_page(page: Any) -> PageMapping:
    if type(page) is not dict:
        raise FieldError(
            f"a page mapping is {fields.shown(page)}, must be an object with pattern and toolkits"
        )
    values = fields.read_fields(page, _PAGE)
    for key in ("pattern", "toolkits"):
        if key not in values:
            raise FieldError(f"{key} is missing")
    return PageMapping(**values)


def _tiers(value: Any) -> tuple[str, ...]:
    tiers = fields.texts(value)
    for i, tier in enumerate(tiers):
        if not tier:
            raise InvalidValue("the name of a tier", tier, (i,))
        if tier in tiers[:i]:
            raise InvalidValue("different names, lowest first", tier, (i,))
    return tiers


def _pattern(value: Any) -> str:
    pattern: str = fields.name(value)
    if problem := pattern_problem(pattern):
        raise FieldError(f"pattern is {quoted(pattern)}, {problem}", ("pattern",))
    return pattern


def _toolkits(value: Any) -> tuple[str, ...]:
    toolkits = fields.texts(value)
    if not toolkits or "" in toolkits:
        raise InvalidValue("a list of at least one toolkit", value)
    return toolkits


_CATALOG: dict[str, Field] = {"tiers": ("tiers", _tiers), "pages": ("pages", fields.items)}
_PAGE: dict[str, Field] = {
    "pattern": ("pattern", _pattern),
    "toolkits": ("toolkits", _toolkits),
    "priority": ("priority", fields.whole),
}
