"""The state of a conversation across its turns: an immutable value, and the change by each event.

A loaded tool stays until it was idle for some turns, a called tool for a few turns, and sent tools keep
their places. Turns are numbered by counting messages, so that the number survives a restart and is the
same in every process. Names, not rows: catalogs change while people talk.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from toolroll.model.errors import InvalidInput

MOST_LOADED = 128  # tools that one conversation may have loaded
MOST_LISTED = 1_024
MOST_CALLED = 64  # names called in one turn
MOST_FOUND = 64
_MOST_TURNS = 64  # turns with calls in a record
_LONGEST_NAME = 4_096
_LARGEST = 2**31 - 1  # number of a turn
_FORM = 1  # the version of a record


StickyCount: TypeAlias = Literal["called", "added"]


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a conversation keeps its tools, and whether a model may change them.

    Attributes:
        idle_turns: a loaded tool is unloaded after more than this many turns without a call.
        sticky_turns, sticky_tools: tools called in the last `sticky_turns` turns stay, at most
            `sticky_tools`.
        sticky_count: whether `sticky_tools` counts all of these ("called"), or only tools that the turn does
            not select anyway ("added").
        opening: a conversation's first list has `opening` times k retrieved tools, which stay in a provider's
            prompt cache.
        newcomers: later turns add new tools among the first `newcomers` times k.
        growth: a list grows to `growth` times k; then the third of its tools that were selected longest ago
            leaves at once. 0: each turn sends only its own selection.
        loading: whether the model may load and unload tools (`manage_tools`); the application always may.
    """

    idle_turns: int = 5
    sticky_turns: int = 3
    sticky_tools: int = 8
    opening: float = 1.5
    newcomers: float = 0.75
    growth: float = 3.0
    sticky_count: StickyCount = "called"
    loading: bool = True

    def room(self, conversation: Conversation | None) -> float:
        """The factor of k for retrieval in a turn of this conversation."""
        opens = conversation is not None and self.growth > 0 and not conversation.listed
        return self.opening if opens else 1.0


class LoadedTool(NamedTuple):
    """A tool that was loaded by name.

    Attributes:
        since, used: the turn of its load, and the turn of its last call.
    """

    name: str
    since: int
    used: int


@dataclass(slots=True, unsafe_hash=True)  # not frozen: as `Turn`, two are made in each turn
class Conversation:
    """The state of one conversation. Immutable: methods return changed copies.

    Attributes:
        turn: number of the present turn; 0 before the first.
        loaded: in the order of loading.
        called: (turn, names) of turns with calls, newest first; without core tools.
        whole: the turn for which every tool is loaded; 0 for none.
        listed: names in the order in which they were sent.
        picked: for each listed name, the last turn whose message selected it.
        found: tools found by searches, newest first: a model may call them, if policy allows.
        heard: 16 bits of the turn's message, to recognise it.
    """

    turn: int = 0
    loaded: tuple[LoadedTool, ...] = ()
    called: tuple[tuple[int, tuple[str, ...]], ...] = ()
    whole: int = 0
    listed: tuple[str, ...] = ()
    picked: tuple[int, ...] = ()
    found: tuple[str, ...] = ()
    heard: int = 0

    def begin(
        self,
        message: str,
        history: Sequence[object],
        turn: int | None,
        retention: Retention,
        *,
        is_open: bool,
    ) -> Conversation:
        """The conversation in the turn that this message begins or continues.

        turn: the turn's number; None to compute it (`number`). is_open: whether the last turn may continue.
        """
        mark = heard(message)
        if turn is None:
            turn = self.number(message, history, mark, is_open=is_open)
        return self.at(turn, retention, mark)

    def number(self, message: str, history: Sequence[object], mark: int, *, is_open: bool) -> int:
        """The number of the turn that this message begins or continues. mark: `heard` of the message.

        The messages are counted, whether they include this one or not (`ends_with`). If they are cut to a
        window, the count no longer rises: then another message is the next turn, and the same message is the
        same turn. Without a history, the same message is the same turn while that turn is open.
        """
        counted = turn_number(history) + (not ends_with(history, message)) if history else 0
        if counted > self.turn:
            return counted
        is_again = self.turn > 0 and mark == self.heard and (bool(history) or is_open)
        return self.turn if is_again else self.turn + 1

    def at(self, turn: int, retention: Retention, mark: int | None = None) -> Conversation:
        """The conversation in the turn of this number, without tools that were idle for too long.

        A lower number than before means that turns are counted differently now; then everything keeps its
        age. mark: `heard` of the message that begins the turn; None if none does.
        """
        mark = self.heard if mark is None else mark
        if turn == self.turn:
            if mark == self.heard:
                return self
            return Conversation(
                turn, self.loaded, self.called, self.whole, self.listed, self.picked, self.found, mark
            )
        now = self if turn > self.turn else self._older(self.turn - turn)
        stays, called = now.loaded, now.called
        if stays:
            last = turn - 1  # the turn that is over
            stays = tuple([one for one in stays if last - max(one.since, one.used) <= retention.idle_turns])
        if called and turn - called[-1][0] > retention.sticky_turns:
            called = tuple([entry for entry in called if turn - entry[0] <= retention.sticky_turns])
        whole = now.whole if now.whole == turn else 0
        return Conversation(turn, stays, called, whole, now.listed, now.picked, now.found, mark)

    def idle(self, turn: int, retention: Retention) -> tuple[str, ...]:
        """Names of loaded tools that are unloaded when that turn begins."""
        stays = {one.name for one in self.at(turn, retention).loaded}
        return tuple([one.name for one in self.loaded if one.name not in stays])

    def _older(self, turns: int) -> Conversation:
        return replace(
            self,
            loaded=tuple([LoadedTool(one.name, one.since - turns, one.used - turns) for one in self.loaded]),
            called=tuple([(turn - turns, names) for turn, names in self.called]),
            picked=tuple([turn - turns for turn in self.picked]),
        )

    @property
    def is_whole(self) -> bool:
        """Whether every tool is loaded in this turn."""
        return self.whole > 0 and self.whole == self.turn

    def load(self, names: Iterable[str]) -> Conversation:
        """The conversation with these tools loaded. A tool that was loaded before counts as loaded now.

        Raises InvalidInput if that would be more than `MOST_LOADED`.
        """
        loaded = {one.name: one for one in self.loaded}
        for name in names:
            was = loaded.get(name)
            loaded[name] = LoadedTool(name, self.turn, was.used if was is not None else self.turn)
        if len(loaded) > MOST_LOADED:
            raise InvalidInput(
                f"load: {len(loaded)} tools would be loaded, at most {MOST_LOADED} can be; unload some first"
            )
        return replace(self, loaded=tuple(loaded.values()))

    def unload(self, names: Collection[str]) -> Conversation:
        """The conversation without these tools, whether loaded, called, found or sent."""
        stays = [at for at, name in enumerate(self.listed) if name not in names]
        called = tuple([(turn, tuple([n for n in used if n not in names])) for turn, used in self.called])
        return replace(
            self,
            loaded=tuple([one for one in self.loaded if one.name not in names]),
            called=tuple([entry for entry in called if entry[1]]),
            listed=tuple([self.listed[at] for at in stays]),
            picked=tuple([self.picked[at] for at in stays]),
            found=tuple([name for name in self.found if name not in names]),
        )

    def fallback(self, *, is_open: bool = True) -> Conversation:
        """The conversation with every tool loaded: for this turn, or for the next if none is open."""
        return replace(self, whole=self.turn if is_open else self.turn + 1)

    def use(self, names: Sequence[str], core: Collection[str] = ()) -> Conversation:
        """The conversation after calls of these tools, latest last. core: tools that are selected anyway."""
        loaded = tuple([one._replace(used=self.turn) if one.name in names else one for one in self.loaded])
        new = [name for name in reversed(names) if name not in core]
        is_first = not self.called or self.called[0][0] != self.turn
        before, rest = ((), self.called) if is_first else (self.called[0][1], self.called[1:])
        together = tuple(dict.fromkeys((*new, *before)))[:MOST_CALLED]
        called = ((self.turn, together), *rest) if together else rest
        return replace(self, loaded=loaded, called=called)

    def find(self, names: Iterable[str]) -> Conversation:
        """The conversation after a search that showed the model these tools."""
        return replace(self, found=tuple(dict.fromkeys((*names, *self.found)))[:MOST_FOUND])

    def recent(self, retention: Retention) -> tuple[str, ...]:
        """Tools called in the last turns, newest first; `sticky` returns some of them."""
        if not self.called:
            return ()
        least = self.turn - retention.sticky_turns
        return tuple(dict.fromkeys([name for turn, names in self.called if turn >= least for name in names]))

    def sticky(self, retention: Retention, selected: Callable[[str], bool] | None = None) -> tuple[str, ...]:
        """Tools called in the last turns that stay, newest first.

        selected: whether the turn selects the tool of a name anyway; None if that is unknown.
        """
        recent, most = self.recent(retention), retention.sticky_tools
        if not recent:
            return ()
        if retention.sticky_count == "called" or selected is None:
            return recent[:most]
        added = dict.fromkeys([name for name in recent if not selected(name)][:most])
        return tuple([name for name in recent if name in added or selected(name)])

    def held(self, retention: Retention, selected: Callable[[str], bool] | None = None) -> tuple[str, ...]:
        """The tools that are in the list for any message: loaded ones, then sticky ones.

        selected: as for `sticky`.
        """
        sticky = self.sticky(retention, selected)
        if not self.loaded:
            return sticky
        return tuple(dict.fromkeys((*[one.name for one in self.loaded], *sticky)))

    def sent(self, names: Sequence[str], picked: Collection[str]) -> Conversation:
        """The conversation after these names were sent, in order. picked: names that this turn selected."""
        turn, listed, before = self.turn, tuple(names[:MOST_LISTED]), self.listed
        if listed[: len(before)] == before:  # as usual: sent names keep their places
            turns = [turn if name in picked else at for name, at in zip(before, self.picked, strict=True)]
            turns += [turn] * (len(listed) - len(before))
        else:
            last = dict(zip(before, self.picked, strict=True))
            turns = [turn if name in picked else last.get(name, turn) for name in listed]
        return self.listing(listed, tuple(turns))

    def listing(self, names: tuple[str, ...], turns: tuple[int, ...]) -> Conversation:
        """The conversation after these names were sent, in order. turns: last turn that selected each.

        A turn for which every tool is loaded does not change the list.
        """
        if self.is_whole:
            return self
        if len(names) > MOST_LISTED:
            names, turns = names[:MOST_LISTED], turns[:MOST_LISTED]
        return Conversation(
            self.turn, self.loaded, self.called, self.whole, names, turns, self.found, self.heard
        )

    def to_record(self) -> dict[str, Any]:
        """Plain values, for storage and logs."""
        return {
            "form": _FORM,
            "turn": self.turn,
            "loaded": [list(one) for one in self.loaded],
            "called": [[turn, list(names)] for turn, names in self.called],
            "whole": self.whole,
            "listed": list(self.listed),
            "picked": list(self.picked),
            "found": list(self.found),
            "heard": self.heard,
        }

    @classmethod
    def from_record(cls, record: Any) -> Conversation:
        """Reads the result of `to_record`. Raises InvalidInput if the record has another form."""
        try:
            if record["form"] != _FORM:
                raise ValueError(f"is of another form than {_FORM}")
            turn = _number(record["turn"])
            listed = tuple([_name(name) for name in record["listed"][:MOST_LISTED]])
            picked = tuple([min(_number(at), turn) for at in record["picked"][:MOST_LISTED]])
            if len(listed) != len(picked):
                raise ValueError(f"has {len(picked)} turns for {len(listed)} listed tools")
            loaded = [
                LoadedTool(_name(name), min(_number(since), turn), min(_number(used), turn))
                for name, since, used in record["loaded"][:MOST_LOADED]
            ]
            called = [
                (min(_number(at), turn), tuple(map(_name, names[:MOST_CALLED])))
                for at, names in record["called"][:_MOST_TURNS]
            ]
            found = tuple(map(_name, record["found"][:MOST_FOUND]))
            heard_of = _number(record["heard"])
            return cls(
                turn, tuple(loaded), tuple(called), _number(record["whole"]), listed, picked, found, heard_of
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"conversation: the record is no state of ours: {error}"[:300]) from error

    def fitting(self, most_bytes: int) -> dict[str, Any]:
        """The record, of at most `most_bytes` as JSON: the least valuable parts are left out."""
        lighter: tuple[dict[str, Any], ...] = (
            {},
            {"found": ()},
            {"listed": (), "picked": ()},
            {"called": self.called[:1]},
            {"called": ()},
            *({"loaded": self.loaded[: len(self.loaded) >> halves]} for halves in range(1, 9)),
        )
        conversation = self
        record = self.to_record()
        for less in lighter:
            conversation = replace(conversation, **less)
            record = conversation.to_record()
            if len(json.dumps(record)) <= most_bytes:
                break
        return record


def heard(message: str) -> int:
    """A hash of 16 bits: too few to tell the text of the message."""
    if not isinstance(message, str):
        return 0  # `Reader.read` raises for it
    return zlib.crc32(message.encode("utf-8", "surrogatepass")) & 0xFFFF


def turn_number(messages: Sequence[object]) -> int:
    """The number of the turn after these messages: the number of the user's messages.

    If user and assistant take turns that is (n + 1) // 2 for n messages. Calls, results and remarks within a
    turn do not change it.
    """
    return sum(1 for message in messages if _is_of_the_user(message))


def ends_with(messages: Sequence[object], said: str) -> bool:
    """Whether the user's last message is `said`, and no assistant has answered it in words.

    If so, the messages include the one that a turn is selected for, and perhaps the calls of its first steps.
    """
    for message in reversed(messages):
        if _is_of_the_user(message):
            return (message if isinstance(message, str) else text_of(content_of(message))) == said
        if field_of(message, "role") in ("assistant", "model") and _is_answer(message):
            return False
    return False


def _is_answer(message: object) -> bool:
    """Whether an assistant's message addresses the user: it has text, and no open calls."""
    content = content_of(message)
    blocks = content if isinstance(content, (list, tuple)) else ()
    calls = ("functionCall", "function_call")
    return (
        bool(text_of(content).strip())
        and not field_of(message, "tool_calls")
        and not any(field_of(block, "type") == "tool_use" for block in blocks)
        and not any(field_of(block, name) is not None for block in blocks for name in calls)
    )


def text_of(content: object) -> str:
    """The text of a message's content: a str, or a list of OpenAI's or Anthropic's blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    blocks = (field_of(block, "text") for block in content)
    return "\n".join(block for block in blocks if isinstance(block, str))


def _is_of_the_user(message: object) -> bool:
    """Whether the user wrote a message: not a system prompt, nor the result of a tool in the user's name."""
    if isinstance(message, str):
        return True
    role = field_of(message, "role")
    if role != "user":
        return False
    content = content_of(message)
    if isinstance(content, (list, tuple)):
        return any(_is_said(block) for block in content)
    return bool(content)


def _is_said(block: object) -> bool:
    """Whether a block of a message is text for people: no call, and no result of a tool."""
    if isinstance(block, str):
        return bool(block)
    answers = ("functionResponse", "function_response")
    if any(field_of(block, name) is not None for name in answers):
        return False
    return field_of(block, "type") not in ("tool_use", "tool_result", "function_call_output")


def content_of(message: object) -> Any:
    """The content of a message; for Gemini, its parts."""
    content = field_of(message, "content")
    return field_of(message, "parts") if content is None else content


def field_of(message: object, name: str) -> Any:
    """A field of a message, which may be a dictionary or a library's own object; None if it has none."""
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        raise TypeError(f"has a {type(value).__name__} where a name must be")
    value.encode()  # half of a surrogate pair is no name either
    return sys.intern(value)  # a hundred thousand conversations name the same tools


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -_LARGEST <= value <= _LARGEST:
        raise TypeError(f"has a {type(value).__name__} where a number of a turn must be")
    return value
