"""Which toolkits are on for whom: a toolkit that needs settings is on only where one of them has a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolroll._core import Bitset
from toolroll.arrays import Rows
from toolroll.context import Context, Turn
from toolroll.tools import Toolkit

_REMEMBERED = 1024  # sets of settings whose answer is kept; forgotten all at once when there are more


@dataclass(frozen=True, slots=True, eq=False)
class Switches:
    """Turns the settings that are present into the set of rows that are off.

    Attributes:
        size: rows in the catalog.
        needs: toolkit's settings keys → the rows that hang on them (those of the toolkits below it too).
        keys: every key that some toolkit reads.
    """

    size: int
    needs: tuple[tuple[frozenset[str], Bitset], ...]
    keys: frozenset[str]
    _answers: dict[frozenset[str], Bitset] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        size: int,
        toolkits: Iterable[Toolkit],
        rows_below: Mapping[str, Rows],
    ) -> Switches:
        """Collects the toolkits that need settings. rows_below: toolkit → rows of it and those below it."""
        needs = tuple(
            (frozenset(toolkit.settings_keys), Bitset.of(size, rows_below[toolkit.name]))
            for toolkit in toolkits
            if toolkit.settings_keys
        )
        return cls(size, needs, frozenset().union(*(keys for keys, _ in needs)))

    def off(self, asking: Context | Turn) -> Bitset | None:
        """The rows that are off for who asks; None where no toolkit needs a setting."""
        if not self.keys:
            return None
        # Only presence is read, so presence is the whole key: no value can leak through the cache.
        present = asking.present(self.keys)
        answer = self._answers.get(present)
        if answer is None:
            answer = Bitset.empty(self.size)
            for keys, rows in self.needs:
                if not keys & present:
                    answer = answer | rows
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[present] = answer
        return answer


@dataclass(frozen=True, slots=True, eq=False)
class StackedSwitches:
    """Those of the shared part and of the own one; both remember their own answers, so nothing is kept here.

    Attributes:
        own: of the rows of the own part, which may hang on shared toolkits too.
    """

    shared: Switches | StackedSwitches
    own: Switches | StackedSwitches

    @property
    def size(self) -> int:
        """Rows in both parts."""
        return self.shared.size + self.own.size

    @property
    def keys(self) -> frozenset[str]:
        """Every key that some toolkit reads."""
        return self.shared.keys | self.own.keys

    def off(self, asking: Context | Turn) -> Bitset | None:
        """The rows that are off for who asks; None where no toolkit needs a setting."""
        shared, own = self.shared.off(asking), self.own.off(asking)
        if shared is None and own is None:
            return None
        return Bitset.join(
            Bitset.empty(self.shared.size) if shared is None else shared,
            Bitset.empty(self.own.size) if own is None else own,
        )
