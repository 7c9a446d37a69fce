"""The tools of a registry, whose new examples are versions that wait for approval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from toolroll.model.tools import Definitions
from toolroll.registry.editing.records import ToolRecord
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.registry import Registry

_PAGE = 1_000
_REASON = "examples written by a language model"


class RegistryTools:
    """The tools of an organisation's catalog; see `EditableTools`.

    An organisation may only change its own tools. For a tool that waits for approval, its waiting examples
    count as its examples.
    """

    def __init__(self, registry: Registry, *, org: str = "", reason: str = "") -> None:
        """Reads the tools. org: "" for the platform. Raises StoreUnavailable."""
        self._registry, self._org, self._reason = registry, org, reason or _REASON
        replica = catch_up(registry.database, Replica(followed=frozenset({org})))
        served = Definitions.joined([replica.definitions(owner) for owner in dict.fromkeys(("", org))])
        self._records = {record.name: record for record in _records(registry, org)}
        self.definitions = replace(
            served,
            tools=tuple(
                replace(tool, examples=self._records[tool.name].tool.examples)
                if tool.name in self._records
                else tool
                for tool in served.tools
            ),
        )
        self.names: Sequence[str] = tuple(tool.name for tool in served.tools if tool.name in self._records)
        self.closed: Mapping[str, str] = {
            tool.name: "belongs to the platform" for tool in served.tools if tool.name not in self._records
        }

    def write(self, examples: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Proposes a version of each tool, in a transaction of its own. Returns the names.

        Raises:
            Conflict: a tool has changed in the meantime.
            Denied: a person has rejected these examples.
            StoreUnavailable: the database failed.
        """
        for name, texts in examples.items():
            record = self._records[name]
            changes = {"examples": [*record.tool.examples, *texts]}
            self._records[name] = self._registry.propose(
                name, changes, version=record.version, org=self._org, reason=self._reason
            )
        return tuple(examples)


def _records(registry: Registry, org: str) -> Iterator[ToolRecord]:
    after = ""
    while True:
        page = registry.tools(org=org, status="active", after=after, limit=_PAGE)
        yield from page.records
        if not page.next:
            return
        after = page.next
