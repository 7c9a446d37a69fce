"""A toolkit that needs settings is on only for callers that have a value for one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolroll._core import Bitset
from toolroll.model.arrays import Rows
from toolroll.model.context import Context, Turn
from toolroll.model.tools import Toolkit

_REMEMBERED = 1024  # sets of settings whose answer is kept; forgotten all at once when there are more


@dataclass(frozen=True, slots=True, eq=False)
class Switches:
    """Computes the rows that are off, from the present settings.

    Attributes:
        size: rows in the catalog, including the shared part's.
        needs: toolkit's settings keys → own rows that depend on them, including its descendants'.
        keys: every key that some toolkit reads.
        shared: the switches of a stacked catalog's shared part, with their own cache.
    """

    size: int
    needs: tuple[tuple[frozenset[str], Bitset], ...]
    keys: frozenset[str]
    shared: Switches | None = None
    _answers: dict[frozenset[str], Bitset] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, size: int, toolkits: Iterable[Toolkit], rows_below: Mapping[str, Rows]) -> Switches:
        """Collects the toolkits that need settings. rows_below: toolkit → its rows and its descendants'."""
        needs = tuple(
            (frozenset(toolkit.settings_keys), Bitset.of(size, rows_below[toolkit.name]))
            for toolkit in toolkits
            if toolkit.settings_keys
        )
        return cls(size, needs, frozenset().union(*(keys for keys, _ in needs)))

    def behind(self, shared: Switches) -> Switches:
        """These switches after the shared part's. A shared toolkit may have own rows, too."""
        return Switches(shared.size + self.size, self.needs, shared.keys | self.keys, shared)

    def off(self, asking: Context | Turn) -> Bitset | None:
        """The rows that are off for this caller; None if no toolkit needs a setting."""
        if not self.keys:
            return None
        if self.shared is None:
            return self._off(asking, self.size)
        shared = self.shared.off(asking)
        return Bitset.join(
            Bitset.empty(self.shared.size) if shared is None else shared,
            self._off(asking, self.size - self.shared.size),
        )

    def all_needing(self) -> Bitset:
        """The rows of all toolkits that need a setting."""
        rows = Bitset.empty(self.size - (0 if self.shared is None else self.shared.size))
        for _, own in self.needs:
            rows = rows | own
        return rows if self.shared is None else Bitset.join(self.shared.all_needing(), rows)

    def _off(self, asking: Context | Turn, size: int) -> Bitset:
        """The own rows that are off."""
        # Only presence is read, so presence is the whole key: no value can leak through the cache.
        present = asking.present(self.keys)
        answer = self._answers.get(present)
        if answer is None:
            answer = Bitset.empty(size)
            for keys, rows in self.needs:
                if not keys & present:
                    answer = answer | rows
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[present] = answer
        return answer
