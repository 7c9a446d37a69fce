"""The rows of tool names in a catalog with changes, by the table of the catalog before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolroll.model.arrays import Rows
from toolroll.model.tools import Tool


class RowNames(Mapping[str, int]):
    """Name → row, without a new table of all names.

    The old table gives the old row of a name; an array maps old rows to new ones.
    """

    __slots__ = ("_added", "_before", "_moved", "_tools", "targets")

    def __init__(
        self, before: Mapping[str, int], targets: Rows, added: Mapping[str, int], tools: Sequence[Tool]
    ) -> None:
        """before: the old names. targets: for each old row the new one, or -1. added: all other names."""
        self._before, self._added, self._tools = before, added, tools
        self.targets, self._moved = targets, targets.data  # a memoryview returns Python's integers

    def get(self, name: str, default: int | None = None) -> int | None:  # type: ignore[override]
        """The row of a name."""
        row = self._added.get(name)
        if row is not None:
            return row
        row = self._before.get(name)
        if row is None:
            return default
        row = self._moved[row]
        return default if row < 0 else row

    def __getitem__(self, name: str) -> int:
        row = self.get(name)
        if row is None:
            raise KeyError(name)
        return row

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (tool.name for tool in self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def before(self) -> Mapping[str, int]:
        """The old table."""
        return self._before

    @property
    def added(self) -> Mapping[str, int]:
        """The names that the old table lacks or has for another row."""
        return self._added
