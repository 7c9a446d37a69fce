"""Profiles, and `compose`, which alone says which stages run and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from toolroll._core import Bitset, Fusion, Weights
from toolroll.catalog.calibration import AT_LARGE
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.message_text import Reader
from toolroll.catalog.tool2vec import DESCRIPTION_COUNTS
from toolroll.formats.providers import MOST_TOOLS
from toolroll.model.context import Turn, names
from toolroll.model.conversation import Retention, StickyCount
from toolroll.model.embedder import TEMPERATURE, Scale
from toolroll.model.errors import InvalidInput, NotFound, quoted
from toolroll.model.rules import OnPolicyError
from toolroll.model.tools import Mode
from toolroll.runtime.plugins import plugin, plugin_names
from toolroll.selection.candidates import Candidates
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.pages import NO_PAGES
from toolroll.selection.stages import Stage
from toolroll.selection.stages.affinity import Affinity
from toolroll.selection.stages.always_included import AlwaysIncluded
from toolroll.selection.stages.availability import Availability
from toolroll.selection.stages.cap import Cap
from toolroll.selection.stages.continued_turn import ContinuedTurn
from toolroll.selection.stages.conversation_list import ConversationList
from toolroll.selection.stages.learning import SPARE, Learning, LearningRule, Thompson
from toolroll.selection.stages.lexical_retrieval import LexicalRetrieval
from toolroll.selection.stages.marks import Marks
from toolroll.selection.stages.no_match import NoMatch
from toolroll.selection.stages.page import Page
from toolroll.selection.stages.required import Required
from toolroll.selection.stages.retrieval import OnNoTool, Retrieval
from toolroll.selection.stages.routes import KeywordsSuffice, RouteMode, Routes
from toolroll.selection.stages.stable_order import StableOrder
from toolroll.selection.stages.visibility import Visibility

Retrieve: TypeAlias = Literal["tools", "none"]

_GREATEST = 1_000_000  # of a weight or threshold
_MOST = 1_000_000_000  # of what is counted


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a parameter may have, in the metadata of its field.

    Attributes:
        holds: whether a value is one of them.
        description: what an error says about them, after "must be".
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
        description_counts: as how many examples the description counts in a tool's vector; 0: for tools
            without examples only, as in Tool2Vec.
        clauses: in [0, 1]: how far a tool that fits one clause of the message gains on those that fit all.
        damping: whether tools count less that are found, alone or with their toolkit, for most messages.
        threshold: least score of a retrieved tool.
        minimum: how many are kept even below the threshold.
        least_confidence: below it no tool applies: `Selection.has_match` is False.
        on_no_tool: then "tell" says so and keeps the nearest tools, or a fallback where nothing matched at
            all; "empty" keeps none of them.
        toolkit_threshold: cosine of message and toolkit from which on the toolkit counts as hit by a route;
            None leaves toolkits to their routes.
        spare_embedding: whether, without retrieval, a message is not embedded if a keyword or pattern names a
            toolkit in each of its parts.
        candidates: how many retrieved tools are kept until the cut; the cut ones show up in explanations.
        routes: whether a hit adds to a tool's score ("favour"), leaves only its toolkits ("narrow") or puts
            them behind what retrieval finds ("fill"), or nothing hits ("ignore").
        route_weight: what a hit adds, with "favour".
        services: what the tools of a service gain if the message names it.
        marks: what tools gain that deal with a mark of the message, such as a file ending or a ticket key;
            half of it where the message has several clauses.
        no_hit: otherwise, toolkits that count as hit when none is. None: all stay, and none are put behind.
        keyword_mode: how keywords stand in a message where their author did not say: "substring", "word" or
            "prefix"; None for what their script asks for.
        spelling: whether misspelt words of a message are corrected first.
        max_tools: how many tools at the most, core tools included; None for the provider's limit.
        unranked_tools: how many tools at the most where ranking failed.
        on_policy_error: where rules of a registry were changed by hand, "closed" leaves only public tools,
            "last_known" the rules before them (public tools where there are none), "open" all as they are.
        learning: the rule by which outcomes of earlier selections count: "outcomes", "thompson" (that of
            seed 4, see docs/learning.md), or None. Where nothing was learnt, nothing changes.
        temperature: units of score that are one nat, that is, worth e times the odds of being called.
        rescored: how many retrieved tools outcomes may put in another order.
        reliability, lift: weights of whether a tool works, and of the messages that it is called for.
        exploration_scale: the factor of the posterior's standard deviation in a draw.
        most_up, most_down: nats by which outcomes may lift or sink a tool, at the most.
        protected_leaders: so many of retrieval's best tools stay selected unless they are known to be broken;
            at most a third of the selection.
        reliability_in_order: extra weight of reliability in the order of the selected tools: models call what
            they read first.
        explore: how often the last place goes to the tool of which least is known.
        affinity: what tools gain whose toolkit a conversation called in its last turn.
        idle_turns: a loaded tool goes when it was not called for more than so many turns.
        sticky_turns, sticky_tools: tools called in a conversation's last turns stay, so many at the most.
        sticky_count: whether `sticky_tools` counts all of these ("called"), or only those that the turn does
            not select anyway ("added").
        opening: a conversation's first list has so many times k retrieved tools.
        newcomers: later turns add what is among the first so many times k.
        growth: its list grows to so many times k; 0: each turn sends what it selects and no more.
        loading: whether the model may load and unload tools: otherwise no delivery has `manage_tools`.
        pass_through_tools, pass_through_tokens: a catalog of at most so many tools and tokens is selected
            whole, unless the call sets k: to search ten tools is of no use.
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
    unranked_tools: int = field(default=128, metadata=_COUNT)
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


@dataclass(frozen=True, slots=True)
class PassThrough:
    """Whether the candidates are few and cheap enough to be selected whole."""

    catalog: Catalog
    most_tools: int
    most_tokens: int

    def __call__(self, candidates: Candidates, turn: Turn) -> bool:
        """True where the call leaves k open and everything allowed is within both limits."""
        if turn.k is not None or len(candidates.allowed) > self.most_tools:
            return False
        return self.catalog.tokens_of(candidates.allowed.rows()) <= self.most_tokens


def fusion_of(p: Profile, scale: Scale) -> Fusion:
    """The weights of retrieval, for cosines of this scale."""
    return Fusion(
        dense=p.dense * scale.gain,
        dense_floor=scale.floor,
        lexical=p.lexical,
        lexical_saturation=p.lexical_saturation,
        intents=p.intents * scale.gain,
        intent_floor=max(-1.0, min(1.0, scale.floor + p.intent_floor / scale.gain)),
        clauses=p.clauses,
        threshold=0.0,
    )


_NO_RULES, _NO_PAGES = Visibility(None), Page(NO_PAGES)


def compose(
    catalog: Catalog,
    p: Profile,
    at_once: bool = True,
    visibility: Visibility = _NO_RULES,
    page: Page = _NO_PAGES,
) -> Pipeline:
    """The order of the stages, in one place.

    at_once: whether texts are embedded without waiting, so that each clause of a message may be.
    visibility, page: the rules and page mappings in force; none by default.
    """
    core = {
        row: at for at, row in enumerate(dict.fromkeys((*catalog.pinned.tolist(), *catalog.base.tolist())))
    }
    retention = p.retention
    cap = Cap(
        core,
        catalog.names,
        catalog.costs,
        p.k,
        p.max_tools,
        p.unranked_tools if p.retrieve == "tools" else None,
        MOST_TOOLS,
    )
    listing = ConversationList(catalog.names, cap, retention)
    order = StableOrder(catalog.names)
    fusion = fusion_of(p, catalog.scale)
    retriever = catalog.retriever(fusion, p.damping)
    retrieval = Retrieval(
        retriever.retriever,
        fusion,
        p.threshold,
        p.minimum,
        max(p.candidates, p.k or 0),
        len(core),
        retriever.calibration,
        p.least_confidence,
        p.on_no_tool,
        retriever.damping,
        catalog.keys if p.learning == "outcomes" else None,
        p.rescored,
        SPARE if p.learning == "thompson" else 0,
    )
    learning = _learning(catalog, p)
    by_words = _by_words(catalog, p, retrieval)
    without_match = _without_match(catalog, p, cap)
    uncut = replace(cap, max_tools=None, unranked=None)
    return Pipeline(
        catalog,
        hard=(visibility, Availability(catalog.switches, catalog.names)),
        required=(Required(catalog.names),),
        whole=(
            replace(cap, unranked=None),
            replace(listing, retention=replace(retention, growth=0.0)),
            order,
        ),
        soft=(
            page,
            *_reading(catalog, p, retrieval, (by_words, without_match), learning, cap),
            AlwaysIncluded(catalog.base, catalog.pinned, catalog.names),
            cap,
            listing,
            order,
        ),
        everything=(uncut, replace(listing, cap=uncut, retention=replace(retention, growth=0.0)), order),
        search=(retrieval, *by_words, *learning, replace(cap, core={}, max_tools=None)),
        continued=(ContinuedTurn(catalog.names, cap, retention),),
        passes_through=PassThrough(catalog, p.pass_through_tools, p.pass_through_tokens),
        reader=Reader(
            catalog.speller if p.spelling else None,
            clauses=p.clauses > 0 and at_once and p.retrieve == "tools",
            may_show=catalog.may_show,
        ),
        retention=retention,
        reads_vectors=p.retrieve == "tools" or p.toolkit_threshold is not None,
        keywords_suffice=KeywordsSuffice(catalog.routes)
        if p.spare_embedding and p.retrieve == "none"
        else None,
    )


def recomposed(pipeline: Pipeline, p: Profile, at_once: bool = True) -> Pipeline:
    """The same catalog, rules and page mappings under another profile.

    The catalog stays as it was indexed: `description_counts` and `keyword_mode` are those of its own profile.
    """
    return replace(
        compose(pipeline.catalog, p, at_once),
        lasting_failures=pipeline.lasting_failures,
        withdrawn=pipeline.withdrawn,
    ).governed(pipeline.hard[0], pipeline.soft[0])


def _reading(
    catalog: Catalog,
    p: Profile,
    retrieval: Retrieval,
    otherwise: tuple[tuple[Stage, ...], tuple[Stage, ...]],
    learning: tuple[Stage, ...],
    cap: Cap,
) -> tuple[Stage, ...]:
    """The stages that read the message, and what was called before it.

    otherwise: the stages for messages that retrieval finds nothing for, and those for which nothing does.
    """
    by_words, without_match = otherwise
    routes = Routes(
        catalog.routes,
        p.routes,
        p.route_weight,
        p.no_hit,
        catalog.toolkit_index if p.toolkit_threshold is not None else None,
        p.toolkit_threshold or 0.0,
        cap,
        scores=p.retrieve == "none",
    )
    if p.retrieve == "none":
        return (routes, *without_match)
    affinity = Affinity(p.affinity, catalog.tools, catalog.names, catalog.below)
    marks: tuple[Stage, ...] = ()
    if p.services or p.marks:
        marks = (Marks(catalog.marks, p.services, p.marks, retrieval.damping),)
    if p.routes == "fill":
        return (*marks, affinity, retrieval, *learning, routes, *by_words, *without_match)
    return (routes, *marks, affinity, retrieval, *by_words, *without_match, *learning)


def _by_words(catalog: Catalog, p: Profile, retrieval: Retrieval) -> tuple[Stage, ...]:
    """The stage that reads words where vectors find nothing, if the profile ranks by vectors alone."""
    if p.lexical or not p.dense:
        return ()
    weights = p.with_(dense=0.0, intents=0.0, lexical=_DEFAULT.lexical, clauses=_DEFAULT.clauses)
    return (
        LexicalRetrieval(
            replace(
                retrieval,
                fusion=fusion_of(weights, catalog.scale),
                threshold=0.0,
                calibration=AT_LARGE,
                keys=None,
            )
        ),
    )


def _without_match(catalog: Catalog, p: Profile, cap: Cap) -> tuple[Stage, ...]:
    """The stage for messages that nothing matches, unless the profile then wants no tools."""
    if p.on_no_tool == "empty":
        return ()
    most, least = max(p.candidates, 1), p.rescored if p.learning == "thompson" else 0
    keys = None if p.learning is None else catalog.keys
    return (NoMatch(cap, p.retention, keys, most, least),)


def _learning(catalog: Catalog, p: Profile) -> tuple[Stage, ...]:
    """The stage that reads outcomes, if any does."""
    if p.learning is None:
        return ()
    core = Bitset.of(len(catalog), np.concatenate((catalog.base, catalog.pinned)))
    if p.learning == "thompson":
        return (Thompson(catalog.keys, core, p.k),)
    weights = Weights(
        reliability=p.reliability,
        lift=p.lift,
        exploration_scale=p.exploration_scale,
        sd_max=2.0,
        most_up=p.most_up,
        most_down=p.most_down,
        protected_leaders=p.protected_leaders,
        reliability_in_order=p.reliability_in_order,
        explore=p.explore,
    )
    return (Learning(catalog.keys, core, weights, p.temperature, p.k),)


_DEFAULT = Profile()

# The seeds read every message as it was written and on its own, and never select a catalog whole.
_SEED = Profile(
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
_TOOL2VEC = _SEED.with_(lexical=0.0, intents=0.0, clauses=0.0, description_counts=0.0, damping=False)

GROUP = "toolroll.profiles"  # of entry points

PROFILES: Mapping[str, Profile] = {
    "default": _DEFAULT,
    "static": Profile(learning=None),
    # Seed 1: toolkits that have their settings; of these the ones whose keyword is in the message, or all.
    "domains": _SEED.with_(retrieve="none", routes="narrow", keyword_mode="substring"),
    # Seed 2: what the model asked for, beside the base.
    "on_demand": _SEED.with_(retrieve="none", routes="ignore", no_hit=()),
    # Seed 3: the base, toolkits whose keyword is in the message, and those whose description is near to it.
    "layers": _SEED.with_(
        retrieve="none",
        routes="narrow",
        no_hit=(),
        keyword_mode="substring",
        toolkit_threshold=0.4,
        spare_embedding=True,
    ),
    # Seed 4: the nearest by Tool2Vec that do not fail, in the order of a Beta draw for each tier and page.
    "learned": _TOOL2VEC.with_(candidates=7, learning="thompson"),
    # Seed 5: the nearest tools, and behind them the toolkits that keywords and patterns name.
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
    """Our profiles, then those of installed packages."""
    return [*PROFILES, *plugin_names(GROUP)]


def profile(name: str) -> Profile:
    """The parameters of a built-in profile, or of one that an installed package offers (`GROUP`).

    Raises:
        NotFound: no profile of that name.
        InvalidInput: an installed package offers something else under this name.
    """
    found = PROFILES.get(name) or plugin(GROUP, name)
    if found is None:
        raise NotFound(f"profile {quoted(name)}: unknown; known are {', '.join(profile_names())}")
    if not isinstance(found, Profile):
        raise InvalidInput(
            f"profile {quoted(name)}: its entry point in {GROUP} is {quoted(found)}, must be a Profile"
        )
    return found
