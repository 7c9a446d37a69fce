"""The tools that came with one request, in the objects of that request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Place(NamedTuple):
    """What one item of a list of tools is.

    Attributes:
        rows: of its tools in the catalog; several where the item is a group, none where it is not chosen
            from. Two items of one name have the same row. Rows behind the catalog's are of members that are
            handed on.
        key: of the list in a group, whose members have these rows, in order; "" for a single tool.
        hosted: the row, behind the catalog's, of an item that is handed on whatever is selected, or of what
            stands beside a group's tools; -1 for none.
    """

    rows: tuple[int, ...]
    key: str = ""
    hosted: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class ToolList:
    """A list of tools as its sender wrote it, and the row of each in the catalog of these tools.

    Attributes:
        items: the sender's own objects.
        places: of each item.
        size: rows of the catalog.
        withheld: rows behind the catalog's that this caller may not have.
        unjudged: names of those among them that may bring tools which nobody can name.
        memory_bytes: of the list and its catalog, by estimate.
    """

    items: Sequence[Any]
    places: Sequence[Place]
    size: int
    withheld: frozenset[int] = frozenset()
    unjudged: tuple[str, ...] = ()
    memory_bytes: int = 0

    def of(self, rows: Collection[int]) -> tuple[Any, ...]:
        """The items with these rows and the hosted ones, in the list's own order; groups without the rest."""
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
        """The items that are handed on whatever is selected; of a group, what it has beside its tools."""
        return self.of(())

    def _hands_on(self, row: int) -> bool:
        return row >= self.size and row not in self.withheld

    def _group_of(
        self, item: Mapping[str, Any], place: Place, chosen: Collection[int]
    ) -> Mapping[str, Any] | None:
        """The group with the chosen members only: itself where these are all, None where nothing is left."""
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
