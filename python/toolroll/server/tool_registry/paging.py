"""Pages of lists that the registry returns whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from toolroll.model.errors import InvalidInput

T = TypeVar("T")


def page_of(
    name: str,
    items: Sequence[T],
    id_of: Callable[[T], str],
    form: Callable[[T], Any],
    after: str,
    limit: int,
) -> dict[str, Any]:
    """The items behind the one with the id `after`, under this name; `next` is the `after` of the next page.

    `total` is the number of items on all pages.

    Raises:
        InvalidInput: no item has this id.
    """
    begin = 0
    if after:
        places = [place for place, item in enumerate(items) if id_of(item) == after]
        if not places:
            raise InvalidInput(f"after is {after!r:.80}, must be the `next` of a page")
        begin = places[0] + 1
    part = items[begin : begin + limit]
    is_last = begin + limit >= len(items)
    return {
        name: [form(item) for item in part],
        "next": "" if is_last else id_of(part[-1]),
        "total": len(items),
    }
