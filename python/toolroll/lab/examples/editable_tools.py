"""Where tools come from, and where their new examples go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from toolroll.model.tools import Definitions


class EditableTools(Protocol):
    """Tools whose examples can be changed."""

    @property
    def definitions(self) -> Definitions:
        """All tools of the catalog."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The tools that may get examples."""
        ...

    @property
    def closed(self) -> Mapping[str, str]:
        """Name → why a tool may not, for the others that are selected."""
        ...

    def write(self, examples: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Adds examples behind those of the tools. Returns the changed files, or the tools that now wait.

        Raises:
            ToolrollError: the tools cannot be written.
        """
        ...
