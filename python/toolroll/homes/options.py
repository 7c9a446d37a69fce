"""The options of the ways to make a `Toolroll`: declared once, checked once.

`Toolroll.from_tools` documents them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

from toolroll.catalog.catalog import Progress
from toolroll.embedders import named
from toolroll.embedders.named import EmbedderChoice
from toolroll.formats.sources.bad_tools import OnBadTool
from toolroll.formats.sources.dicts import read_tools
from toolroll.learning.experiments import Experiment
from toolroll.model.argument_checks import check_callable, check_hnsw, items_of
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions, Route, Toolkit
from toolroll.selection.observer import Observer
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import Profile, profile
from toolroll.selection.steps import Step, own_steps

PROGRESS = "(texts embedded, in all)"  # the arguments of `progress`, for messages


class EngineOptions(TypedDict, total=False):
    """Options of every way to make a Toolroll in memory."""

    embedder: EmbedderChoice
    profile: str | Profile
    experiment: Experiment | None
    observers: Iterable[Observer]
    steps: Iterable[Step]


class BuildOptions(EngineOptions, total=False):
    """Options of calls that build a catalog."""

    hnsw: bool | Literal["auto"]
    progress: Progress | None


class SourceOptions(BuildOptions, total=False):
    """Options of calls that also read tools."""

    rules: Iterable[Rule] | None
    pages: Iterable[PageMapping] | None
    tiers: Iterable[str] | None
    on_bad_tool: OnBadTool | None


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """The options of one call. Rules, pages or tiers are None if the caller passed none."""

    embedder: EmbedderChoice = "static"
    profile: str | Profile = "default"
    experiment: Experiment | None = None
    observers: Iterable[Observer] = ()
    steps: Iterable[Step] = ()
    hnsw: bool | Literal["auto"] = "auto"
    progress: Progress | None = None
    rules: Iterable[Rule] | None = None
    pages: Iterable[PageMapping] | None = None
    tiers: Iterable[str] | None = None
    on_bad_tool: OnBadTool | None = None

    @classmethod
    def of(
        cls, call: str, options: Mapping[str, Any], known: type[Any], **more: Iterable[Any] | None
    ) -> CheckedOptions:
        """The options that a caller passed. known: the typed dictionary of the call. more: other options.

        Raises TypeError if an option has another name, or InvalidInput if a value is of the wrong type.
        """
        for name in options.keys() - known.__optional_keys__:
            raise TypeError(
                f"Toolroll.{call}() got an unexpected keyword argument {name!r}; "
                f"it takes {', '.join(sorted(known.__optional_keys__))}"
            )
        checked = cls(**options, **more)  # type: ignore[arg-type]
        check_callable(checked.progress, "progress", PROGRESS)
        listed: dict[str, Any] = {
            name: items_of(value, name, kind)
            for name, kind in (("rules", Rule), ("pages", PageMapping), ("tiers", str))
            if (value := getattr(checked, name)) is not None
        }
        return replace(checked, **listed)

    @property
    def policy(self) -> tuple[Any, Any, Any]:
        """Rules, pages and tiers, as tuples; None for each that the caller did not pass."""
        return self.rules, self.pages, self.tiers

    def declared(self, toolkits: Iterable[Toolkit] = (), routes: Iterable[Route] = ()) -> Definitions:
        """Definitions without tools, with the caller's rules, pages and tiers."""
        return Definitions(
            (),
            items_of(toolkits, "toolkits", Toolkit),
            items_of(routes, "routes", Route),
            *(part or () for part in self.policy),
        )

    def builder(self) -> PipelineBuilder:
        """The builder for the profile and for the experiment's profiles."""
        check_hnsw(self.hnsw)
        experiment = self.experiment
        if experiment is not None and not isinstance(experiment, Experiment):
            raise InvalidInput(f"experiment: is {quoted(experiment)}, must be toolroll.Experiment or None")
        variants = {} if experiment is None else {name: profile_of(name) for name in experiment.variants}
        return PipelineBuilder(
            named.embedder(self.embedder),
            profile_of(self.profile),
            self.hnsw,
            variants,
            own_steps(self.steps),
        )


def profile_of(choice: str | Profile) -> Profile:
    """The profile of that name, or the profile itself.

    Raises NotFound if there is no profile of that name.
    """
    if isinstance(choice, Profile):
        return choice
    if not isinstance(choice, str):
        raise InvalidInput(f"profile: is {quoted(choice)}, must be a name or toolroll.Profile")
    return profile(choice)


def with_tools(
    declared: Definitions, tools: Iterable[Any], on_bad_tool: OnBadTool | None = None
) -> Definitions:
    """The declared definitions with these tools. Declared toolkits win over toolkits that tools imply."""
    read = read_tools(tools, on_bad_tool=on_bad_tool)
    known = {toolkit.name for toolkit in declared.toolkits}
    implied = (toolkit for toolkit in read.toolkits if toolkit.name not in known)
    return replace(
        declared,
        tools=read.tools,
        toolkits=(*implied, *declared.toolkits),
        routes=(*read.routes, *declared.routes),
        hosted=read.hosted,
        skipped=read.skipped,
        repaired=read.repaired,
    )
