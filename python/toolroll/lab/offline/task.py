"""A piece of work that any process can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work.

    Attributes:
        name: of all that its result depends on; a kept result is that of the same name.
        call: a function of a module, which other processes import. It returns bytes.
        arguments: that can be pickled.
    """

    name: str
    call: Callable[..., bytes]
    arguments: tuple[Any, ...] = ()

    def run(self) -> bytes:
        """The result."""
        return self.call(*self.arguments)
