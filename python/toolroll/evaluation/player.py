"""A `Toolroll` as a player: the application's own calls, on the world's clock and with the world's luck."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from toolroll.evaluation.model_user import Act
from toolroll.evaluation.worlds import World
from toolroll.profiles import profile
from toolroll.roll import Toolroll
from toolroll.selection import Selection

# Name → profile and what is changed of it.
POLICIES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "static": ("default", {}),
    "learned": ("default", {}),
    "default": ("default", {}),
}


class RollPlayer:
    """Selects with a `Toolroll` under a policy, and reports to it."""

    def __init__(
        self, world: World, policy: str, k: int, changes: Mapping[str, object] | None = None
    ) -> None:
        self._world, self._k = world, k
        self._at = 0
        name, own = POLICIES[policy]
        self._roll = Toolroll(
            world.definitions(0),
            profile=profile(name).with_(**{**own, **(changes or {})}),
        )
        self._place = {tool.name: at for at, tool in enumerate(world.tools)}
        self._picked: dict[int, Selection] = {}

    def arrive(self, at: int) -> None:
        """Newcomers are in the catalog from now on; what was learnt stays."""
        self._roll.refresh(tools=self._world.definitions(at).tools)

    def select(self, at: int) -> tuple[int, ...]:
        """The tools shown for message `at`, in order."""
        self._at = at
        world = self._world
        message = world.material.messages[world.message[at]]
        picked = self._roll.select(
            message.text, world.context_of(at), self._k, history=message.history, strict=True
        )
        self._picked[at] = picked
        self._picked.pop(at - world.scenario.delay - 1, None)
        return tuple([self._place[name] for name in picked.names])

    def report(self, at: int, act: Act) -> None:
        """What the model did with what was shown for message `at`."""

    def _now(self) -> float:
        return self._world.now(self._at)

    def _seed(self) -> int:
        """The same luck for every policy."""
        text = f"{self._world.seed}:{self._at}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
