"""Named compositions: which stages run, in which order, with which parameters. Nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from toolroll._core import Bitset, Fusion, Weights
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.message_text import Reader
from toolroll.catalog.tool2vec import DESCRIPTION_COUNTS
from toolroll.context import Turn, names
from toolroll.conversation import Retention
from toolroll.embedder import TEMPERATURE, Scale
from toolroll.errors import InvalidInput, NotFound
from toolroll.formats.providers import MOST_TOOLS
from toolroll.rules import OnPolicyError
from toolroll.selection.candidates import Candidates
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.pages import NO_PAGES
from toolroll.selection.stages import Stage
from toolroll.selection.stages.affinity import Affinity
from toolroll.selection.stages.always_included import AlwaysIncluded
from toolroll.selection.stages.availability import Availability
from toolroll.selection.stages.cap import Cap
from toolroll.selection.stages.conversation_list import ConversationList
from toolroll.selection.stages.learning import Learning, Thompson
from toolroll.selection.stages.learning import Rule as LearningRule
from toolroll.selection.stages.page import Page
from toolroll.selection.stages.required import Required
from toolroll.selection.stages.retrieval import OnNoTool, Retrieval
from toolroll.selection.stages.routes import Reading, Routes
from toolroll.selection.stages.stable_order import StableOrder
from toolroll.selection.stages.visibility import Visibility
from toolroll.tools import MODES, Mode

Retrieve: TypeAlias = Literal["tools", "none"]

_GREATEST = 1_000_000  # of a weight or threshold


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile sets.

    Attributes:
        retrieve: whether "tools" are looked for in the message, or "none" are: then toolkits are there whole,
            as routes say.
        k: how many tools retrieval adds, unless the call says.
        dense: weight of the cosine of message and tool.
        lexical, lexical_saturation: weight of BM25, and the best BM25 score in reach of a message at which
            the weight halves: among many words more match by chance.
        intents, intent_floor: weight of the nearest group of a tool's examples, and the cosine from which on
            it counts.
        description_counts: as how many examples the description counts in a tool's vector; 0: for tools
            without examples only, as in Tool2Vec.
        clauses: in [0, 1]: how far a tool that fits one clause of the message gains on those that fit all.
        damping: whether tools that are found for everybody's messages, alone or with their toolkit, count
            less.
        threshold: least score of a retrieved tool.
        minimum: how many are kept even below the threshold.
        least_confidence: below it no tool applies: `Selection.has_match` is False.
        on_no_tool: what then happens: "tell" says so and keeps the nearest, "empty" keeps none of them.
        toolkit_threshold: cosine of message and toolkit from which on the toolkit counts as hit by a route;
            None leaves toolkits to their routes.
        candidates: how many retrieved tools are kept until the cut; the cut ones show up in explanations.
        routes: whether a hit adds to a tool's score ("favour"), leaves only its toolkits ("narrow") or puts
            them behind what retrieval finds ("fill"), or nothing hits ("ignore").
        route_weight: what a hit adds, with "favour".
        no_hit: else, toolkits that count as hit when nothing is. None: all stay, and none are put behind.
        keyword_mode: how keywords stand in a message where their author did not say: "substring", "word" or
            "prefix"; None for what their script asks for.
        spelling: whether misspelt words of a message are mended before it is read.
        max_tools: how many tools at the most, core tools included; None for the provider's limit.
        unranked_tools: how many tools at the most where nothing could be ranked, as when retrieval fails.
        on_policy_error: what counts where the rules of a registry cannot be read: "closed" leaves only public
            tools, "last_known" the rules before them (and closed where there are none), "open" no rules.
        learning: whose rule reads the outcomes of earlier selections: ours ("outcomes"), that of seed 4
            ("thompson", see docs/learning.md), or None for nobody's. Nothing was learnt: nothing changes.
        temperature: units of score that are one nat: what e times the odds of being called is worth.
        rescored: how many retrieved tools outcomes may put in another order.
        reliability, lift: weights of whether a tool works, and of what it is called for.
        exploration_scale: how much of what is not known yet is drawn, as a share of its standard deviation.
        most_up, most_down: nats by which outcomes may lift or sink a tool, at the most.
        protected_leaders: so many of retrieval's best tools stay selected unless they are known to be broken;
            at most a third of the selection.
        reliability_in_order: extra weight of reliability in the order of the selected tools: models call what
            they read first.
        explore: how often the last place goes to the tool of which least is known.
        affinity: what the toolkits of tools gain that a conversation called in its last turn.
        idle_turns: a loaded tool goes when it was not called for more than so many turns.
        sticky_turns, sticky_tools: tools called in a conversation's last turns stay, so many at the most.
        opening: a conversation's first list has so many times k retrieved tools.
        newcomers: later turns add what is among the first so many times k.
        growth: its list grows to so many times k; 0: each turn sends what it selects and no more.
        pass_through_tools, pass_through_tokens: a catalog of at most so many tools that cost at most so many
            tokens is handed on whole, unless the call sets k: searching ten tools helps nobody.
    """

    retrieve: Retrieve = "tools"
    k: int | None = 7
    dense: float = 1.0
    lexical: float = 0.05
    lexical_saturation: float = 200.0
    intents: float = 0.5
    intent_floor: float = 0.3
    description_counts: float = DESCRIPTION_COUNTS
    clauses: float = 0.3
    damping: bool = True
    threshold: float = 0.0
    minimum: int = 0
    least_confidence: float = 0.05
    on_no_tool: OnNoTool = "tell"
    toolkit_threshold: float | None = None
    candidates: int = 20
    routes: Reading = "favour"
    route_weight: float = 0.25
    no_hit: tuple[str, ...] | None = None
    keyword_mode: Mode | None = None
    spelling: bool = True
    max_tools: int | None = None
    unranked_tools: int = 128
    on_policy_error: OnPolicyError = "last_known"
    learning: LearningRule | None = "outcomes"
    temperature: float = TEMPERATURE
    rescored: int = 40
    reliability: float = 1.25
    lift: float = 1.0
    exploration_scale: float = 0.1
    most_up: float = 1.0
    most_down: float = 4.0
    protected_leaders: int = 2
    reliability_in_order: float = 8.0
    explore: float = 0.0
    affinity: float = 0.2
    idle_turns: int = 5
    sticky_turns: int = 3
    sticky_tools: int = 8
    opening: float = 1.5
    newcomers: float = 0.75
    growth: float = 3.0
    pass_through_tools: int = 10
    pass_through_tokens: int = 2_000

    def __post_init__(self) -> None:
        for name in (
            "k",
            "candidates",
            "minimum",
            "max_tools",
            "unranked_tools",
            "rescored",
            "protected_leaders",
            "idle_turns",
            "sticky_turns",
            "sticky_tools",
            "pass_through_tools",
            "pass_through_tokens",
        ):
            value = getattr(self, name)
            if value is None and name in ("k", "max_tools"):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidInput(
                    f"parameter {name}: is {value!r:.80}, must be a whole number of at least 0"
                )
        for name in (
            "dense",
            "lexical",
            "intents",
            "description_counts",
            "threshold",
            "route_weight",
            "reliability",
            "lift",
            "most_up",
            "most_down",
            "reliability_in_order",
            "affinity",
            "opening",
            "newcomers",
            "growth",
        ):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value <= _GREATEST:
                raise InvalidInput(
                    f"parameter {name}: is {value!r:.80}, must be a number from 0 to {_GREATEST:,}"
                )
        for name, least in (
            ("clauses", 0),
            ("exploration_scale", 0),
            ("explore", 0),
            ("least_confidence", 0),
            ("intent_floor", -1),
            ("toolkit_threshold", -1),
        ):
            value = getattr(self, name)
            if value is None and name == "toolkit_threshold":
                continue
            if not isinstance(value, (int, float)) or not least <= value <= 1:
                raise InvalidInput(f"parameter {name}: is {value!r:.80}, must be between {least} and 1")
        for name in ("lexical_saturation", "temperature"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not value > 0:
                raise InvalidInput(f"parameter {name}: is {value!r:.80}, must be above 0")
        if self.on_no_tool not in ("tell", "empty"):
            raise InvalidInput(f"parameter on_no_tool: is {self.on_no_tool!r:.80}, must be tell or empty")
        if self.retrieve not in get_args(Retrieve):
            raise InvalidInput(f"parameter retrieve: is {self.retrieve!r:.80}, must be tools or none")
        if self.routes not in get_args(Reading):
            raise InvalidInput(
                f"parameter routes: is {self.routes!r:.80}, must be favour, narrow, fill or ignore"
            )
        if self.no_hit is not None:  # a list in JSON, and on the command line
            object.__setattr__(self, "no_hit", names(self.no_hit, "parameter no_hit:"))
        if self.keyword_mode not in (*MODES, None):
            raise InvalidInput(
                f"parameter keyword_mode: is {self.keyword_mode!r:.80}, "
                "must be substring, word, prefix or None"
            )
        if self.on_policy_error not in ("closed", "last_known", "open"):
            raise InvalidInput(
                f"parameter on_policy_error: is {self.on_policy_error!r:.80}, "
                "must be closed, last_known or open"
            )
        if self.learning not in ("outcomes", "thompson", None):
            raise InvalidInput(
                f"parameter learning: is {self.learning!r:.80}, must be outcomes, thompson or None"
            )
        for name in ("spelling", "damping"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"parameter {name}: is {getattr(self, name)!r:.80}, must be True or False")

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
    """Whether the candidates are few and cheap enough to be handed on whole."""

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
    tuned = catalog.tuned(fusion, p.damping)
    retrieval = Retrieval(
        tuned.retriever,
        fusion,
        p.threshold,
        p.minimum,
        max(p.candidates, p.k or 0),
        len(core),
        tuned.calibration,
        p.least_confidence,
        p.on_no_tool,
        tuned.damping,
        catalog.keys if p.learning == "outcomes" else None,
        p.rescored,
    )
    learning = _learning(catalog, p)
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
            *_reading(catalog, p, retrieval, learning, cap),
            AlwaysIncluded(catalog.base, catalog.pinned, catalog.names),
            cap,
            listing,
            order,
        ),
        finding=(retrieval, *learning, replace(cap, core={}, max_tools=None)),
        passes_through=PassThrough(catalog, p.pass_through_tools, p.pass_through_tokens),
        reader=Reader(
            catalog.speller if p.spelling else None,
            catalog.indexes.postings.terms,
            p.clauses > 0 and at_once and p.retrieve == "tools",
        ),
        retention=retention,
        reads_vectors=p.retrieve == "tools" or p.toolkit_threshold is not None,
    )


def _reading(
    catalog: Catalog, p: Profile, retrieval: Retrieval, learning: tuple[Stage, ...], cap: Cap
) -> tuple[Stage, ...]:
    """The stages that read the message, and what was called before it."""
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
        return (routes,)
    affinity = Affinity(p.affinity, catalog.tools, catalog.names, catalog.below)
    if p.routes == "fill":
        return (affinity, retrieval, *learning, routes)
    return (routes, affinity, retrieval, *learning)


def _learning(catalog: Catalog, p: Profile) -> tuple[Stage, ...]:
    """The stage that reads outcomes, if any does."""
    if p.learning == "thompson":
        return (Thompson(catalog.keys),)
    if p.learning is None:
        return ()
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
        draw="normal",
    )
    core = Bitset.of(len(catalog), np.union1d(catalog.base, catalog.pinned).astype(np.int32))
    return (Learning(catalog.keys, core, weights, p.temperature, p.k),)


# The seeds: every message is read as it was written, whatever was said and sent before, and no list is small
# enough to be handed on whole.
_SEED = Profile(
    spelling=False,
    learning=None,
    affinity=0.0,
    sticky_tools=0,
    opening=1.0,
    growth=0.0,
    pass_through_tools=0,
)
_TOOL2VEC = _SEED.with_(lexical=0.0, intents=0.0, clauses=0.0, description_counts=0.0, damping=False)

PROFILES: Mapping[str, Profile] = {
    "default": Profile(),
    "static": Profile(learning=None),
    # Seed 1: toolkits that have their settings; of these the ones whose keyword is in the message, or all.
    "domains": _SEED.with_(retrieve="none", routes="narrow", keyword_mode="substring"),
    # Seed 2: what the model asked for, beside the base.
    "on_demand": _SEED.with_(retrieve="none", routes="ignore", no_hit=()),
    # Seed 3: the base, toolkits whose keyword is in the message, and those whose description is near to it.
    "layers": _SEED.with_(
        retrieve="none", routes="narrow", no_hit=(), keyword_mode="substring", toolkit_threshold=0.4
    ),
    # Seed 4: the nearest by Tool2Vec, in the order of a Beta draw for each tier and page.
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
    ),
}


def profile(name: str) -> Profile:
    """The parameters of a named profile.

    Raises:
        NotFound: no profile of that name.
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise NotFound(f"profile {name!r}: unknown; known are {', '.join(PROFILES)}") from None
