"""The result of a turn: the tools in the order to send them, and why these and no others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from toolroll.catalog.catalog import Catalog
from toolroll.formats.foreign_text import line_text, name_text
from toolroll.formats.providers import How
from toolroll.formats.providers.form import form_of
from toolroll.formats.schemas import Loss, SentTools, losses, provider_names, sent_tools
from toolroll.formats.schemas.conversion import json_text, plain_copy
from toolroll.model.arrays import Rows
from toolroll.model.context import Turn
from toolroll.model.errors import Failure, InvalidInput, NotFound, quoted
from toolroll.model.tools import Tool
from toolroll.selection import explanation
from toolroll.selection.calls import Calls, FixedCalls, check_call
from toolroll.selection.candidates import Candidates
from toolroll.selection.delivery import Delivery, Offer, deliver
from toolroll.selection.explanation import ToolAccount, Trail, TrailStep


@dataclass(frozen=True)
class Tokens:
    """Estimated tokens of tool schemas.

    Attributes:
        selected: the tools in the selection.
        total: all tools that this caller may see.
    """

    selected: int
    total: int

    @property
    def saved(self) -> int:
        """Tokens that the selection keeps out of the prompt."""
        return self.total - self.selected


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The tools for one turn. Immutable; explanations are made on demand.

    Attributes:
        names: in the order to send.
        failures: failures of stages and dependencies; `degraded` has their names.
        timings: (stage, nanoseconds), in order.
        event_id: identifies this selection in outcomes.
        calls: the policy and conversation for `check`.
    """

    names: tuple[str, ...]
    candidates: Candidates
    catalog: Catalog
    turn: Turn
    failures: tuple[Failure, ...]
    timings: tuple[tuple[str, int], ...]
    event_id: str
    calls: Calls
    _deliveries: list[Delivery] = field(default_factory=list, init=False)  # the last one counts

    @classmethod
    def of(
        cls,
        candidates: Candidates,
        catalog: Catalog,
        turn: Turn,
        failures: tuple[Failure, ...],
        timings: tuple[tuple[str, int], ...],
        event_id: str,
        calls: Calls | None = None,
    ) -> Selection:
        """The selection of the final candidates. calls: None for the policy of this decision."""
        if candidates.pool is not None:  # the stage that cuts has failed: everything allowed, by name
            candidates = candidates.narrow(candidates.pool.rows(), "failed.open")
        names = catalog.names_of(candidates.in_order)
        calls = FixedCalls(catalog, candidates.allowed) if calls is None else calls
        selection = object.__new__(cls)
        selection.__dict__.update(  # a frozen dataclass sets each field by a call, together a microsecond
            names=names,
            candidates=candidates,
            catalog=catalog,
            turn=turn,
            failures=failures,
            timings=timings,
            event_id=event_id,
            calls=calls,
            _deliveries=[],
        )
        return selection

    @property
    def rows(self) -> Rows:
        """int32[n]: the selected rows of `catalog`, in order."""
        return self.candidates.rows

    @property
    def tools(self) -> tuple[Any, ...]:
        """The caller's own tool objects, unchanged; a `Tool` for a tool from a file.

        Hosted tools are always among them. They come after the others; for tools that came with a request
        (`Toolroll.with_tools`), they keep their places in the list.
        """
        if (tool_list := self.turn.tool_list) is not None:
            return tool_list.of(self.rows.tolist())
        own = (tool if tool.original is None else tool.original for tool in self.definitions)
        return (*own, *self.catalog.hosted)

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """The selected tools as `Tool` values."""
        tools = self.catalog.tools
        return tuple([tools[row] for row in self.candidates.rows.tolist()])

    def schemas(
        self,
        provider: str,
        *,
        strict: bool = False,
        json_schema: bool = False,
        returns: bool = False,
        deferred: Collection[str] = (),
    ) -> list[dict[str, Any]]:
        """The value of `tools` for "openai", "openai_responses", "anthropic", "gemini" or "mcp".

        A name that the provider refuses is replaced; `sent_names` maps it back. The caller may change the
        dictionaries: they share nothing with the catalog. Hosted tools come after the others, unchanged.

        strict: in OpenAI's strict mode, wherever it can express the parameters.
        json_schema: Gemini's parameters as JSON Schema, not translated to its own subset of OpenAPI.
        returns: with the schemas of results, if the provider has a field for them.
        deferred: names of tools that stay out of the prompt until a search finds them (Anthropic, Responses).

        Raises:
            InvalidInput: the provider is unknown, or does not support an argument; all of Anthropic's tools
                are deferred.
        """
        sent = self._sent(provider, strict, json_schema, returns, deferred)
        hosted = self._hosted()
        return [*sent.schemas(), *hosted] if hosted else sent.schemas()

    def schemas_json(
        self,
        provider: str,
        *,
        strict: bool = False,
        json_schema: bool = False,
        returns: bool = False,
        deferred: Collection[str] = (),
    ) -> bytes:
        """`schemas` as compact JSON in UTF-8, for a program that writes the request itself.

        The tools' JSON is cached, so this takes a tenth of the time of `schemas`.

        Raises:
            InvalidInput: as for `schemas`; a tool holds an object that JSON does not have.
        """
        text = self._sent(provider, strict, json_schema, returns, deferred).text()
        hosted = self._hosted()
        if not hosted:
            return text
        try:
            behind = json_text(hosted)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"tools: a hosted tool cannot be written as JSON: {error}") from error
        if behind is None:
            raise InvalidInput("tools: a hosted tool cannot be written as JSON: it holds an object")
        return behind if text == b"[]" else b"".join((text[:-1], b",", behind[1:]))

    def _sent(
        self, provider: str, strict: bool, json_schema: bool, returns: bool, deferred: Collection[str]
    ) -> SentTools:
        """The selected tools in a provider's form."""
        form = form_of(strict, json_schema, returns)
        return sent_tools(self.definitions, provider, form, deferred, are_distinct=True)

    def _hosted(self) -> list[dict[str, Any]]:
        """The hosted tools that are dictionaries, as copies."""
        tool_list = self.turn.tool_list
        hosted = self.catalog.hosted if tool_list is None else tool_list.hosted
        if not hosted:
            return []
        try:
            return [plain_copy(tool) for tool in hosted if isinstance(tool, dict)]
        except RecursionError as error:
            raise InvalidInput("tools: a hosted tool is nested too deeply to be copied") from error

    def conversion_losses(
        self, provider: str, *, strict: bool = False, json_schema: bool = False, returns: bool = False
    ) -> tuple[Loss, ...]:
        """Keywords, annotations and marks of these tools that the provider's form cannot express.

        Raises:
            InvalidInput: the provider is unknown, or does not support an argument.
        """
        return losses(self.definitions, provider, form_of(strict, json_schema, returns))

    def deliver(
        self,
        provider: str,
        how: How = "replace",
        *,
        core: Collection[str] | None = None,
        meta_tools: Iterable[Tool] | None = None,
        must_call: bool = False,
        strict: bool = False,
        json_schema: bool = False,
        returns: bool = False,
    ) -> Delivery:
        """The fields to merge into the provider's request, in one of four ways.

        "replace": the selected tools. "allow": all tools that this caller may see, the same on each turn; the
        model may call only the selected ones. "defer": the core and a search, all others out of the prompt.
        "meta-tools": the core, and tools to search and to call.

        core: names of tools that every turn has; None for pinned tools and tools of base toolkits, or for
        the context's required tools if it has some. Tools that the caller may not see are ignored.
        meta_tools: sent in front of all others; None for the default ones of `how`.
        must_call: the model must call a tool.
        strict, json_schema, returns: as in `schemas`.

        The check of calls and the learning from outcomes use the tools of the last delivery.

        Raises:
            InvalidInput: the provider is unknown, does not support an argument, or takes fewer tools.
        """
        form = form_of(strict, json_schema, returns)
        delivery = deliver(
            self._offer, provider, how, core=core, meta_tools=meta_tools, must_call=must_call, form=form
        )
        self._deliveries[:] = [delivery]
        self.calls.deliver(self.event_id, delivery.record, self.catalog)
        return delivery

    @property
    def shown(self) -> tuple[str, ...]:
        """Own names of the tools that the model may call at once: the tools of the last delivery.

        Without a delivery, the selected tools.
        """
        if self._deliveries:
            return self._deliveries[0].record.shown
        elsewhere = self.calls.shown(self.event_id) if self.calls.knows_deliveries else None
        return self.names if elsewhere is None else elsewhere

    @property
    def delivery(self) -> Delivery | None:
        """The last delivery."""
        return self._deliveries[0] if self._deliveries else None

    def sent_names(self, provider: str) -> dict[str, str]:
        """Name that the provider's model will call → the tool's own name."""
        return provider_names(self.names, provider)

    def check(self, name: str) -> Tool:
        """The tool that the model may call under this name: the tool's own name or the name that was sent.

        This selection must have shown the tool, or its conversation must have found or loaded it since. The
        newest policy must allow it. `Delivery.check` and `Session.check` decide alike.

        Raises:
            Denied: the tool does not exist, was not offered, or is no longer allowed by policy.
        """
        delivery = self.delivery
        if delivery is not None:
            return delivery.check(name)
        return check_call(name, self.turn.context, self.shown, self.calls, event_id=self.event_id)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._offered

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @cached_property
    def _offered(self) -> frozenset[str]:
        return frozenset(self.names)

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a Selection cannot be copied or pickled: send its `names`, `to_dict()` or a receipt "
            "(`Toolroll.receipt`) to the other process"
        )

    def __repr__(self) -> str:
        return f"<Selection {self.summary()}>"

    @property
    def catalog_revision(self) -> str:
        """The revision of the catalog."""
        return self.catalog.revision

    @property
    def total(self) -> int:
        """The number of tools for this caller, including tools of toolkits that lack their settings."""
        return len(explanation.known_rows(self.candidates))

    @property
    def confidence(self) -> float | None:
        """How sure retrieval is that some tool serves the message, in [0, 1]; None if it did not run.

        It is the share of messages with a right tool in this catalog that look no better. At 0.05, a limit of
        this value would turn away one in twenty of such messages.
        """
        retrieved = self.candidates.retrieved
        return None if retrieved is None else retrieved.confidence

    @property
    def has_match(self) -> bool:
        """False if no tool seems to serve the message.

        Then nothing matched, or the confidence is below the profile's `least_confidence`.
        """
        retrieved = self.candidates.retrieved
        return self.candidates.fallback is None if retrieved is None else retrieved.has_match

    @property
    def degraded(self) -> tuple[str, ...]:
        """Stages and dependencies that failed; empty when all went well."""
        return tuple(dict.fromkeys(failure.where for failure in self.failures))

    @property
    def spelling_corrections(self) -> tuple[tuple[str, str], ...]:
        """Corrected words of the message, in order: (as written, as read)."""
        text = self.turn.text
        if self.turn.query == text:
            return ()
        found = self.catalog.corrections(text, self.candidates.allowed)
        return tuple((text[start:end], word) for start, end, word in found)

    @property
    def missing_required(self) -> tuple[str, ...]:
        """Names in `Context.required` or `always_include` that are unknown or not allowed here."""
        wanted = (*self.turn.context.required, *self.turn.always_include)
        return tuple(name for name in dict.fromkeys(wanted) if name not in self._offered)

    @cached_property
    def tokens(self) -> Tokens:
        """Estimated tokens of the selection, and of all tools that this caller may see."""
        catalog, allowed = self.catalog, self.candidates.allowed
        if len(allowed) == len(catalog):
            total = catalog.remembered("tokens", lambda: catalog.tokens_of(allowed.rows()))
        else:
            total = catalog.tokens_of(allowed.rows())
        return Tokens(catalog.tokens_of(self.rows), total)

    @property
    def timings_us(self) -> dict[str, float]:
        """Microseconds by stage, with their sum as "total"; "pick" is all soft stages in the core."""
        spent: dict[str, float] = {}
        for stage, nanoseconds in self.timings:
            spent[stage] = spent.get(stage, 0.0) + nanoseconds / 1e3
        return spent | {"total": sum(spent.values())}

    @cached_property
    def activated(self) -> dict[str, str]:
        """Toolkit with a selected tool → the strongest reason for it, such as "keyword 'rain'"."""
        return explanation.activated(self._trail)

    def explain(self, name: str | None = None) -> str:
        """A table of each tool, with its score and the stage that put it there or took it out.

        name: explains only this tool.

        Raises:
            NotFound: the catalog has no tool of that name, or rules hide it from this caller.
        """
        if name is not None and not (
            isinstance(name, str)
            and (row := self.catalog.names.get(name)) is not None
            and row in explanation.known_rows(self.candidates)
        ):
            raise NotFound(f"tool {quoted(name)}: is not in the catalog, or hidden; `why` tells an operator")
        table = explanation.explain(self._trail, name)
        if name is not None:
            return table
        read = (f"read {written!r} as {word!r}" for written, word in self.spelling_corrections)
        return "\n".join([table, *read, *map(line_text, map(str, self.failures)), *self._delivered()])

    def accounts(self, known: bool = True) -> tuple[ToolAccount, ...]:
        """Why each tool is in or out: the selected tools in their order, then the others by name.

        known: leaves out tools that a rule or their status hides from this caller. Takes 20 µs a tool.
        """
        rows = explanation.known_rows(self.candidates).rows() if known else range(len(self.catalog))
        chosen = self.rows.tolist()
        others = sorted(set(map(int, rows)).difference(chosen))
        return tuple(explanation.account(self._trail, row) for row in [*chosen, *others])

    def steps(self, known: bool = True) -> tuple[TrailStep, ...]:
        """The steps of this selection in their order, with the number of tools in play after each.

        known: leaves out the steps that say how many tools this caller may not see.
        """
        return explanation.steps(self._trail, known=known)

    def scores(self, names: Iterable[str], known: bool = True) -> list[tuple[float | None, ...]]:
        """For each of these tools, its score after each of `steps`; None if it is not in play.

        A score of 0 is no evidence. known: as in `steps`.
        """
        rows = [self.catalog.names[name] for name in names]
        return explanation.scores(self._trail, rows, known=known)

    def _delivered(self) -> Iterator[str]:
        """Yields sentences about the last delivery."""
        delivery = self.delivery
        if delivery is not None:
            shown = set(self.shown)
            unsent = [name for name in self.names if name not in shown]
            rest = f"; selected and not sent: {', '.join(map(name_text, unsent))}" if unsent else ""
            yield f"delivered to {delivery.provider} by {delivery.how}: {len(shown)} callable at once{rest}"

    def summary(self) -> str:
        """One line for a log: 18/35 tools | activated: weather(keyword 'rain'), mail(dense 0.52) | 0.21 ms.

        Toolkits that every message activates are left out.
        """
        parts = [f"{len(self)}/{self.total} tools"]
        if wanted := len(set(self.turn.context.required)):
            parts.append(f"required: resolved={wanted - len(self.missing_required)}/{wanted}")
        elif toolkits := explanation.by_message(self.activated):
            parts.append(f"activated: {', '.join(toolkits)}")
        if not self.has_match:
            parts.append(f"no tool seems to apply ({self.confidence or 0.0:.2f})")
        if self.degraded:
            parts.append(f"degraded: {', '.join(self.degraded)}")
        parts.append(f"{self.timings_us['total'] / 1e3:.2f} ms")
        return " | ".join(parts)

    def log_lines(self) -> tuple[str, ...]:
        """The origins of the tools, as `key=value` for a log; further lines for cuts and routes.

        tool selection: method=retrieval+routes, core=5, retrieved=10, routes=8, total=23/72, top_score=0.682
        tool cap: kept=25/35, dropped=10: browser_click, browser_open, … tool routes: hit=1: email(pattern
        'email|inbox|compose')
        """
        return explanation.log_lines(self._trail, self.degraded)

    def to_dict(self) -> dict[str, Any]:
        """The values that `toolroll select --json` prints, ready for JSON."""
        accounts = [explanation.account(self._trail, row) for row in self.rows.tolist()]
        tokens, confidence = self.tokens, self.confidence
        return {
            "tools": [
                {
                    "name": one.name,
                    "toolkit": one.toolkit,
                    "score": round(one.score, 6),
                    "reasons": list(one.reasons),
                }
                for one in accounts
            ],
            "selected": len(self),
            "total": self.total,
            "tokens": {"selected": tokens.selected, "total": tokens.total, "saved": tokens.saved},
            "timings_us": {stage: round(spent, 3) for stage, spent in self.timings_us.items()},
            "activated": self.activated,
            "confidence": None if confidence is None else round(confidence, 6),
            "has_match": self.has_match,
            "spelling_corrections": [list(pair) for pair in self.spelling_corrections],
            "degraded": [str(failure) for failure in self.failures],
            "missing_required": list(self.missing_required),
            "shown": list(self.shown),
            "event_id": self.event_id,
            "catalog_revision": self.catalog_revision,
        }

    @property
    def _trail(self) -> Trail:
        return Trail(self.candidates, self.catalog, self.turn)

    @property
    def _offer(self) -> Offer:
        return Offer(
            self.catalog,
            self.candidates.allowed,
            self.rows,
            self.candidates.scores,
            bool(self.turn.context.required),
            self.turn.context,
            self.calls,
            self.event_id,
            self.turn.loading,
        )
