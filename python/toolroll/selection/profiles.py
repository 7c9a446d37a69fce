"""Profiles: the parameters of selection, and the named sets of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from toolroll.catalog.tool2vec import DESCRIPTION_COUNTS
from toolroll.model.context import names
from toolroll.model.conversation import Retention, StickyCount
from toolroll.model.embedder import TEMPERATURE
from toolroll.model.errors import InvalidInput, NotFound, nearest, quoted
from toolroll.model.rules import OnPolicyError
from toolroll.model.tools import Mode
from toolroll.runtime.plugins import known_names, plugin
from toolroll.selection.routes import RouteMode

LearningRule: TypeAlias = Literal["outcomes", "thompson"]
OnNoTool: TypeAlias = Literal["tell", "empty"]
Retrieve: TypeAlias = Literal["tools", "none"]

_GREATEST = 1_000_000  # the most for a weight or threshold
_MOST = 1_000_000_000  # the most for a count


@dataclass(frozen=True, slots=True)
class Domain:
    """The allowed values of a parameter, in the metadata of its field.

    Attributes:
        holds: tells whether a value is allowed.
        description: the words of an error after "must be".
    """

    holds: Callable[[Any], bool]
    description: str


def _domain(holds: Callable[[Any], bool], description: str) -> Mapping[str, Domain]:
    return {"domain": Domain(holds, description)}


def _or_none(metadata: Mapping[str, Domain]) -> Mapping[str, Domain]:
    domain = metadata["domain"]
    return _domain(lambda value: value is None or domain.holds(value), domain.description)


def _one_of(*choices: str | None) -> Mapping[str, Domain]:
    *first, last = map(str, choices)
    return _domain(
        lambda value: isinstance(value, (str, type(None))) and value in choices,
        f"{', '.join(first)} or {last}",
    )


def _within(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (int, float)) and least <= value <= most


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


_COUNT = _domain(_is_count, f"a whole number of at least 0, at most {_MOST:,}")
_WEIGHT = _domain(_within(0, _GREATEST), f"a number from 0 to {_GREATEST:,}")
_SHARE = _domain(_within(0, 1), "between 0 and 1")
_COSINE = _domain(_within(-1, 1), "between -1 and 1")
_POSITIVE = _domain(
    lambda value: (isinstance(value, float) and value > 0) or (_is_count(value) and value > 0), "above 0"
)
_FLAG = _domain(lambda value: isinstance(value, bool), "True or False")


@dataclass(frozen=True, slots=True)
class Profile:
    """The parameters of selection.

    Attributes:
        retrieve: "tools" searches for tools that fit the message; with "none", routes select whole toolkits.
        k: how many tools retrieval adds, unless the call says.
        dense: weight of the cosine of message and tool.
        lexical, lexical_saturation: weight of BM25, and the best BM25 score in reach of a message at which
            the weight halves: among many words more match by chance.
        intents, intent_floor: weight of the nearest group of a tool's examples, and the cosine from which on
            it counts.
        description_counts: the description counts as this many examples in a tool's vector; 0: only in
            tools without examples, as in Tool2Vec.
        clauses: in [0, 1]: how far a tool that fits one clause of the message gains on those that fit all.
        damping: whether tools that are found for most messages, alone or with their toolkit, count less.
        threshold: least score of a retrieved tool.
        minimum: how many are kept even below the threshold.
        least_confidence: below this confidence no tool applies: `Selection.has_match` is False.
        on_no_tool: if no tool applies, "tell" says so and keeps the nearest tools, or a fallback if
            nothing matched; "empty" keeps none of them.
        toolkit_threshold: cosine of message and toolkit from which on the toolkit counts as hit by a route;
            None leaves toolkits to their routes.
        spare_embedding: without retrieval, skips the embedding of a message if a keyword or pattern names
            a toolkit in each of its parts.
        candidates: how many retrieved tools are kept until the cut; the cut ones show up in explanations.
        routes: whether a hit adds to a tool's score ("favour"), leaves only its toolkits ("narrow") or puts
            them behind what retrieval finds ("fill"), or nothing hits ("ignore").
        route_weight: the gain by a hit, with "favour".
        services: the gain of a service's tools if the message names the service.
        marks: the gain of tools for a mark of the message, such as a file ending or a ticket key; half of
            it if the message has several clauses.
        no_hit: toolkits that count as hit if the message hits none. None: "narrow" keeps all tools, and
            "fill" adds none.
        keyword_mode: how keywords match, unless their author says: "substring", "word" or "prefix"; None
            for the mode that suits their script.
        spelling: whether misspelt words of a message are corrected first.
        max_tools: how many tools at the most, core tools included; None for the provider's limit.
        on_policy_error: where rules of a registry were changed by hand, "closed" leaves only public tools,
            "last_known" the rules before them (public tools where there are none), "open" all as they are.
        learning: the rule by which earlier outcomes count: "outcomes", "thompson" (a Beta draw for each
            tool in one tier on one page), or None. Without outcomes, nothing changes.
        temperature: units of score that multiply the odds of a call by e (one nat).
        rescored: the number of retrieved tools that outcomes may reorder.
        reliability, lift: weights of a tool's share of successful calls, and of the messages that lead to
        calls.
        exploration_scale: the factor of the posterior's standard deviation in a draw.
        most_up, most_down: nats by which outcomes may lift or sink a tool, at the most.
        protected_leaders: this many of retrieval's best tools stay selected unless outcomes show them broken;
            at most a third of the selection.
        reliability_in_order: extra weight of reliability in the order of the selected tools: models call what
            they read first.
        explore: the probability that the last place goes to the tool with the fewest outcomes.
        affinity: the gain of tools whose toolkit a conversation called in its last turn.
        idle_turns: a loaded tool is unloaded after more than this many turns without a call.
        sticky_turns, sticky_tools: tools called in a conversation's last `sticky_turns` turns stay, at most
            `sticky_tools`.
        sticky_count: whether `sticky_tools` counts all of these ("called"), or only those that the turn does
            not select anyway ("added").
        opening: a conversation's first list has `opening` times k retrieved tools.
        newcomers: later turns add the tools among the first `newcomers` times k.
        growth: its list grows to `growth` times k; 0: each turn sends only its own selection.
        loading: whether the model may load and unload tools: otherwise no delivery has `manage_tools`.
        pass_through_tools, pass_through_tokens: a catalog within both limits is selected whole, unless
        the call sets k.
    """

    retrieve: Retrieve = field(default="tools", metadata=_one_of(*get_args(Retrieve)))
    k: int | None = field(default=7, metadata=_or_none(_COUNT))
    dense: float = field(default=1.0, metadata=_WEIGHT)
    lexical: float = field(default=0.05, metadata=_WEIGHT)
    lexical_saturation: float = field(default=200.0, metadata=_POSITIVE)
    intents: float = field(default=0.5, metadata=_WEIGHT)
    intent_floor: float = field(default=0.3, metadata=_COSINE)
    description_counts: float = field(default=DESCRIPTION_COUNTS, metadata=_WEIGHT)
    clauses: float = field(default=0.3, metadata=_SHARE)
    damping: bool = field(default=True, metadata=_FLAG)
    threshold: float = field(default=0.0, metadata=_WEIGHT)
    minimum: int = field(default=0, metadata=_COUNT)
    least_confidence: float = field(default=0.05, metadata=_SHARE)
    on_no_tool: OnNoTool = field(default="tell", metadata=_one_of(*get_args(OnNoTool)))
    toolkit_threshold: float | None = field(default=None, metadata=_or_none(_COSINE))
    spare_embedding: bool = field(default=False, metadata=_FLAG)
    candidates: int = field(default=20, metadata=_COUNT)
    routes: RouteMode = field(default="favour", metadata=_one_of(*get_args(RouteMode)))
    route_weight: float = field(default=0.25, metadata=_WEIGHT)
    services: float = field(default=0.15, metadata=_WEIGHT)
    marks: float = field(default=0.1, metadata=_WEIGHT)
    no_hit: tuple[str, ...] | None = None
    keyword_mode: Mode | None = field(default=None, metadata=_one_of(*get_args(Mode), None))
    spelling: bool = field(default=True, metadata=_FLAG)
    max_tools: int | None = field(default=None, metadata=_or_none(_COUNT))
    on_policy_error: OnPolicyError = field(default="last_known", metadata=_one_of(*get_args(OnPolicyError)))
    learning: LearningRule | None = field(default="outcomes", metadata=_one_of(*get_args(LearningRule), None))
    temperature: float = field(default=TEMPERATURE, metadata=_POSITIVE)
    rescored: int = field(default=40, metadata=_COUNT)
    reliability: float = field(default=1.25, metadata=_WEIGHT)
    lift: float = field(default=1.0, metadata=_WEIGHT)
    exploration_scale: float = field(default=0.1, metadata=_SHARE)
    most_up: float = field(default=1.0, metadata=_WEIGHT)
    most_down: float = field(default=4.0, metadata=_WEIGHT)
    protected_leaders: int = field(default=2, metadata=_COUNT)
    reliability_in_order: float = field(default=8.0, metadata=_WEIGHT)
    explore: float = field(default=0.0, metadata=_SHARE)
    affinity: float = field(default=0.2, metadata=_WEIGHT)
    idle_turns: int = field(default=5, metadata=_COUNT)
    sticky_turns: int = field(default=3, metadata=_COUNT)
    sticky_tools: int = field(default=8, metadata=_COUNT)
    sticky_count: StickyCount = field(default="called", metadata=_one_of(*get_args(StickyCount)))
    opening: float = field(default=1.5, metadata=_WEIGHT)
    newcomers: float = field(default=0.75, metadata=_WEIGHT)
    growth: float = field(default=3.0, metadata=_WEIGHT)
    loading: bool = field(default=True, metadata=_FLAG)
    pass_through_tools: int = field(default=10, metadata=_COUNT)
    pass_through_tokens: int = field(default=2_000, metadata=_COUNT)

    def __post_init__(self) -> None:
        for parameter in fields(self):
            domain: Domain | None = parameter.metadata.get("domain")
            if domain is not None and not domain.holds(value := getattr(self, parameter.name)):
                raise InvalidInput(
                    f"parameter {parameter.name}: is {quoted(value)}, must be {domain.description}"
                )
        if self.no_hit is not None:  # a list in JSON, and on the command line
            object.__setattr__(self, "no_hit", names(self.no_hit, "parameter no_hit:"))

    @property
    def retention(self) -> Retention:
        """How long a conversation keeps its tools."""
        return Retention(
            self.idle_turns,
            self.sticky_turns,
            self.sticky_tools,
            self.opening,
            self.newcomers,
            self.growth,
            self.sticky_count,
            self.loading,
        )

    def with_(self, **changes: object) -> Profile:
        """A changed copy.

        Raises:
            InvalidInput: there is no such parameter.
        """
        unknown = sorted(set(changes) - set(self.__slots__))
        if unknown:
            raise InvalidInput(f"parameter {unknown[0]!r}: unknown; known are {', '.join(self.__slots__)}")
        return replace(self, **changes)  # type: ignore[arg-type]


_DEFAULT = Profile()

# Reads every message as it was written and on its own, and never selects a catalog whole.
_PLAIN = Profile(
    spelling=False,
    learning=None,
    services=0.0,
    marks=0.0,
    affinity=0.0,
    sticky_tools=0,
    opening=1.0,
    growth=0.0,
    pass_through_tools=0,
)
_TOOL2VEC = _PLAIN.with_(lexical=0.0, intents=0.0, clauses=0.0, description_counts=0.0, damping=False)

GROUP = "toolroll.profiles"  # the group of entry points

PROFILES: Mapping[str, Profile] = {
    "default": _DEFAULT,
    "static": Profile(learning=None),
    # Toolkits that have their settings; of these the ones whose keyword is in the message, or all.
    "domains": _PLAIN.with_(retrieve="none", routes="narrow", keyword_mode="substring"),
    # The tools that the model loaded, beside the base.
    "on_demand": _PLAIN.with_(retrieve="none", routes="ignore", no_hit=()),
    # The base, toolkits whose keyword is in the message, and those whose description is near to it.
    "layers": _PLAIN.with_(
        retrieve="none",
        routes="narrow",
        no_hit=(),
        keyword_mode="substring",
        toolkit_threshold=0.4,
        spare_embedding=True,
    ),
    # The nearest by Tool2Vec that do not fail, in the order of a Beta draw for each tier and page.
    "learned": _TOOL2VEC.with_(candidates=7, learning="thompson"),
    # The nearest tools, and behind them the toolkits that keywords and patterns name.
    "merged": _TOOL2VEC.with_(
        k=15,
        candidates=15,
        threshold=0.3,
        minimum=5,
        routes="fill",
        no_hit=("search", "memory"),
        max_tools=25,
        sticky_tools=8,
        sticky_count="added",
    ),
}


def profile_names() -> list[str]:
    """The names of our profiles, then of profiles in installed packages."""
    return known_names(GROUP, PROFILES)


def profile(name: str) -> Profile:
    """The parameters of a built-in profile, or of one that an installed package offers (`GROUP`).

    Raises:
        NotFound: no profile has that name.
        InvalidInput: an installed package offers something else under this name.
    """
    found = PROFILES.get(name) or plugin(GROUP, name)
    if found is None:
        known = profile_names()
        raise NotFound(f"profile {quoted(name)}: unknown; known are {', '.join(known)}{nearest(name, known)}")
    if not isinstance(found, Profile):
        raise InvalidInput(
            f"profile {quoted(name)}: its entry point in {GROUP} is {quoted(found)}, must be a Profile"
        )
    return found
