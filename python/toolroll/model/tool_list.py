"""The tools of one request, as the request's own objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class ItemRows(NamedTuple):
    """The rows of the tools of one item in a list.

    Attributes:
        rows: rows of its tools in the catalog; several for a group, none for an item that is never chosen.
            Two items of one name have the same row. Rows beyond the catalog's belong to members that are
            always returned.
        key: in a group, the key of the list whose members have these rows, in order; "" for a single tool.
        hosted: the row, beyond the catalog's, of an item that is always returned, or of the rest of a group
            beside its tools; -1 for none.
    """

    rows: tuple[int, ...]
    key: str = ""
    hosted: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class ToolList:
    """A list of tools as its sender wrote it, and the row of each in the catalog of these tools.

    Attributes:
        items: the sender's own objects.
        places: the rows of each item.
        size: rows of the catalog.
        withheld: rows beyond the catalog's that this caller may not have.
        unjudged: names of withheld items that may bring unknown tools.
        memory_bytes: estimated, for the list and its catalog.
    """

    items: Sequence[Any]
    places: Sequence[ItemRows]
    size: int
    withheld: frozenset[int] = frozenset()
    unjudged: tuple[str, ...] = ()
    memory_bytes: int = 0

    def of(self, rows: Collection[int]) -> tuple[Any, ...]:
        """The items with these rows and the hosted items, in order. Groups keep only the chosen members."""
        chosen = set(rows)
        kept = []
        for item, place in zip(self.items, self.places, strict=True):
            if place.key:
                if (group := self._group_of(item, place, chosen)) is not None:
                    kept.append(group)
            elif self._hands_on(place.hosted) or (place.rows and place.rows[0] in chosen):
                kept.append(item)
        return tuple(kept)

    @property
    def hosted(self) -> tuple[Any, ...]:
        """The items that are always returned; of a group, the rest beside its tools."""
        return self.of(())

    def _hands_on(self, row: int) -> bool:
        return row >= self.size and row not in self.withheld

    def _group_of(
        self, item: Mapping[str, Any], place: ItemRows, chosen: Collection[int]
    ) -> Mapping[str, Any] | None:
        """The group with the chosen members only: itself if these are all, None if nothing is left."""
        members = item[place.key]
        kept = [
            member
            for member, row in zip(members, place.rows, strict=True)
            if row in chosen or self._hands_on(row)
        ]
        has_rest = self._hands_on(place.hosted)
        if len(kept) == len(members) and has_rest == (place.hosted >= 0):
            return item if kept or has_rest else None
        if kept:
            return {**item, place.key: kept} if has_rest else {place.key: kept}
        rest = {key: value for key, value in item.items() if key != place.key}
        return rest if has_rest else None
