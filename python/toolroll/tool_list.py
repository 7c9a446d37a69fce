"""The tools that came with one request, in the objects of that request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Place(NamedTuple):
    """What one item of a list of tools is.

    Attributes:
        rows: of its tools in the catalog; several where the item is a group, none where it is not chosen
            from. Two items of one name have the same row.
        key: of the list in a group, whose members have these rows, in order; "" for a single tool.
        is_hosted: whether the item, or something beside its tools, is handed on whatever is selected.
    """

    rows: tuple[int, ...]
    key: str = ""
    is_hosted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ToolList:
    """A list of tools as its sender wrote it, and the row of each in the catalog of these tools.

    Attributes:
        items: the sender's own objects.
        places: of each item.
        memory_bytes: of the list and its catalog, by estimate.
    """

    items: Sequence[Any]
    places: Sequence[Place]
    memory_bytes: int = 0

    def of(self, rows: Collection[int]) -> tuple[Any, ...]:
        """The items with these rows and the hosted ones, in the list's own order; groups without the rest."""
        chosen = set(rows)
        kept = []
        for item, place in zip(self.items, self.places, strict=True):
            if place.key:
                if (group := _group_of(item, place, chosen)) is not None:
                    kept.append(group)
            elif place.is_hosted or place.rows[0] in chosen:
                kept.append(item)
        return tuple(kept)

    @property
    def hosted(self) -> tuple[Any, ...]:
        """The items that are handed on whatever is selected; of a group, what it has beside its tools."""
        return self.of(())


def _group_of(item: Mapping[str, Any], place: Place, chosen: Collection[int]) -> Mapping[str, Any] | None:
    """The group with the chosen members only: itself where these are all, None where nothing is left."""
    members = item[place.key]
    kept = [member for member, row in zip(members, place.rows, strict=True) if row in chosen or row < 0]
    if len(kept) == len(members):
        return item if kept or place.is_hosted else None
    if kept:
        return {**item, place.key: kept}
    rest = {key: value for key, value in item.items() if key != place.key}
    return rest if place.is_hosted else None
