"""The tools that one turn of a conversation showed the model, as a record for other processes."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from toolroll.formats.providers import MOST_TOOLS, provider_of
from toolroll.learning.exposure import Exposure, ShownTool, pack_tools, unpack_tools
from toolroll.model.errors import InvalidInput, quoted
from toolroll.selection.calls import DeliveryRecord
from toolroll.selection.exposure import packed
from toolroll.selection.selection import Selection

MOST_RECORDS = 6  # records of one conversation: a turn's selection, or its last searches
MOST_SHOWN = 1_024  # tools in a record; beyond, the conversation's list is the better record
_LONGEST = 4_096  # characters of a text


class TurnRecord(NamedTuple):
    """One event of a conversation: a selection, or a search if nothing was selected.

    It tells which tools the model may call, and holds the data for learning from the calls.

    Attributes:
        event_id: the selection's or search's.
        turn: number of the turn.
        at: the time of the decision, seconds since the epoch.
        revision: the registry's revision of the policy; 0 without a registry.
        names: own names of the tools that were shown, in order.
        keys: the packed keys of these tools (`pack_tools`).
        page, tier, category: the context of its outcomes.
        selected: names of the selection, if the delivery sent other tools; () if they are `names`.
        provider, how: of the delivery; "" before it.
        meta_tools: names of the meta-tools that were sent.
        is_reported: whether outcomes were reported.
        wanted: tools that were called in this turn and not shown.
        added: tools that were found or loaded in this turn and then delivered; they stay callable in it.
        vector: the message's vector as float16 bytes, in the process that selected; b"" elsewhere.
        space: identity of the vector's embedder.
    """

    event_id: str
    turn: int
    at: float
    revision: int
    names: tuple[str, ...]
    keys: bytes
    page: str = ""
    tier: str = ""
    category: str = ""
    selected: tuple[str, ...] = ()
    provider: str = ""
    how: str = ""
    meta_tools: tuple[str, ...] = ()
    max_tools: int | None = None
    budget_tokens: int | None = None
    is_search: bool = False
    is_reported: bool = False
    is_over: bool = False
    wanted: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    vector: bytes = b""
    space: str = ""

    @classmethod
    def of(cls, selection: Selection, category: str, turn: int, *, is_search: bool = False) -> TurnRecord:
        """The record of a selection before its delivery. category, turn: the message's."""
        decided = selection.turn
        context, (keys, vector) = decided.context, packed(selection)
        return cls(
            selection.event_id,
            turn,
            decided.at,
            decided.revision,
            selection.names,
            keys,
            context.page,
            context.tier,
            category,
            max_tools=None if is_search else decided.max_tools,
            budget_tokens=None if is_search else decided.budget_tokens,
            is_search=is_search,
            vector=b"" if vector is None else vector.tobytes(),
            space="" if vector is None else selection.catalog.space,
        )

    @property
    def sends_loaded(self) -> bool:
        """Whether its deliveries send loaded tools. If not, the model reaches them by `call_tool`."""
        return self.how not in ("defer", "meta-tools")

    @property
    def most_tools(self) -> int | None:
        """The longest list: `max_tools`, or the provider's limit less the meta-tools."""
        taken = MOST_TOOLS[self.provider]
        limits = (self.max_tools, None if taken is None else max(0, taken - len(self.meta_tools)))
        return min((limit for limit in limits if limit is not None), default=None)

    def exposure(self, org: str, reporter: str) -> Exposure:
        """The exposure of the shown tools, for a report."""
        vector = np.frombuffer(self.vector, np.float16) if self.vector else None
        return Exposure(
            self.event_id,
            org,
            self.at,
            reporter,
            self.page,
            self.tier,
            self.category,
            self._tools(),
            vector,
            self.space if self.vector else "",
        )

    def delivered(
        self, delivery: DeliveryRecord, added: tuple[str, ...], others: Mapping[str, ShownTool]
    ) -> TurnRecord:
        """The record after a delivery of these tools. others: delivered tools that the turn did not show."""
        known = {tool.name: tool for tool in self._tools()}
        shown = [known.get(name) or others[name] for name in delivery.shown]
        names, selected = tuple([tool.name for tool in shown]), self.selected or self.names
        return self._replace(
            names=names,
            keys=pack_tools(shown),
            selected=() if selected == names else selected,
            provider=delivery.provider,
            how=delivery.how,
            meta_tools=tuple([tool.name for tool in delivery.meta_tools]),
            added=added[:MOST_SHOWN],
        )

    def is_delivered(self, delivery: DeliveryRecord) -> bool:
        """Whether the record has this delivery already."""
        return (self.provider, self.how, self.names, self.meta_tools) == (
            delivery.provider,
            delivery.how,
            delivery.shown,
            tuple([tool.name for tool in delivery.meta_tools]),
        )

    def to_record(self) -> dict[str, Any]:
        """Plain values for JSON, without the vector."""
        return {
            "id": self.event_id,
            "turn": self.turn,
            "at": self.at,
            "revision": self.revision,
            "names": list(self.names),
            "keys": b64encode(self.keys).decode(),
            "where": [self.page, self.tier, self.category],
            "selected": list(self.selected),
            "delivery": [self.provider, self.how, list(self.meta_tools)],
            "limits": [self.max_tools, self.budget_tokens],
            "flags": [self.is_search, self.is_reported, self.is_over],
            "wanted": list(self.wanted),
            "added": list(self.added),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TurnRecord:
        """Reads the result of `to_record`. Raises InvalidInput if the record has another form."""
        try:
            names = _texts(record["names"])
            keys = b64decode(record["keys"], validate=True)
            unpack_tools(names, keys)
            page, tier, category = _texts(record["where"])
            provider, how, meta_tools = record["delivery"]
            if provider and how not in provider_of(provider).hows:
                raise ValueError(f"has a delivery by {quoted(how)}")
            max_tools, budget_tokens = (None if one is None else int(one) for one in record["limits"])
            is_search, is_reported, is_over = map(bool, record["flags"])
            return cls(
                event_id=_texts([record["id"]])[0],
                turn=int(record["turn"]),
                at=float(record["at"]),
                revision=int(record["revision"]),
                names=names,
                keys=keys,
                page=page,
                tier=tier,
                category=category,
                selected=_texts(record["selected"]),
                provider=provider,
                how=how,
                meta_tools=_texts(meta_tools),
                max_tools=max_tools,
                budget_tokens=budget_tokens,
                is_search=is_search,
                is_reported=is_reported,
                is_over=is_over,
                wanted=_texts(record["wanted"]),
                added=_texts(record["added"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"turn: the record is no turn of ours: {error}"[:300]) from error

    def _tools(self) -> tuple[ShownTool, ...]:
        return unpack_tools(self.names, self.keys)


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)) or len(values) > MOST_SHOWN:
        raise TypeError(f"has a {type(values).__name__} where a list of texts must be")
    for value in values:
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise TypeError(f"has a {type(value).__name__} where a text must be")
        value.encode()  # half of a surrogate pair is no text
    return tuple([sys.intern(value) for value in values])
