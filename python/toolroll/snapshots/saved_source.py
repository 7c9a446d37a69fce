"""A saved catalog as a source: the file, and the rules and page mappings saved in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

from toolroll.catalog.catalog import Catalog
from toolroll.catalog.saved import SavedCatalog, save
from toolroll.model.errors import InvalidInput
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions
from toolroll.selection.effective_policy import PolicySource


@dataclass(frozen=True, slots=True, eq=False)
class SavedSource:
    """A file that a process selects from.

    Attributes:
        saved: the open file.
        declared: everything but the tools, from the file or from the caller.
    """

    saved: SavedCatalog
    declared: Definitions

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        rules: tuple[Rule, ...] | None = None,
        pages: tuple[PageMapping, ...] | None = None,
        tiers: tuple[str, ...] | None = None,
    ) -> SavedSource:
        """Opens the file. rules, pages, tiers: replace the saved ones; None keeps the saved ones.

        Raises:
            NotFound: there is no such file.
            InvalidInput: it is no saved catalog, is damaged, or is of another version.
        """
        saved = SavedCatalog.open(path)
        definitions = Definitions(toolkits=saved.toolkits, routes=saved.routes)
        try:
            written = saved.extra
            policy = replace(
                definitions,
                rules=tuple([Rule(**rule) for rule in written["rules"]]),
                pages=tuple([_page(page) for page in written["pages"]]),
                tiers=tuple(map(str, written["tiers"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"catalog {saved.path!r:.300}: is damaged, build it again: {error}") from error
        declared = replace(
            policy,
            rules=policy.rules if rules is None else rules,
            pages=policy.pages if pages is None else pages,
            tiers=policy.tiers if tiers is None else tiers,
        )
        return cls(saved, declared)


def save_catalog(catalog: Catalog, policy: PolicySource, path: str | PathLike[str]) -> None:
    """Writes a catalog with its rules and page mappings.

    Raises:
        InvalidInput: see `catalog.saved.save`.
    """
    save(
        catalog,
        path,
        {
            "rules": [
                {**asdict(replace(rule, condition={})), "condition": rule.condition} for rule in policy.rules
            ],
            "pages": [asdict(page) for page in policy.pages],
            "tiers": policy.tiers,
        },
    )


def _page(written: Mapping[str, Any]) -> PageMapping:
    return PageMapping(**{**written, "toolkits": tuple(written["toolkits"])})
