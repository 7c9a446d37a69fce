"""Evaluates selections on labelled messages, for `toolroll eval`.

The catalog is built from the folder's tools, with example messages from its train split only. Every message
of the other split is asked once for its ranking, and again for its time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

from toolroll.embedders.named import EmbedderChoice
from toolroll.lab.evaluation.dataset import (
    Dataset,
    Examples,
    Query,
    Split,
    divide,
    read_dataset,
    sample,
    with_examples,
)
from toolroll.lab.evaluation.metrics import Figures, RankedAnswer, figures
from toolroll.lab.evaluation.runner import (
    Latency,
    Progress,
    RollRecipe,
    Times,
    answer,
    ask_elsewhere,
    select,
    time_messages,
)
from toolroll.lab.offline.work import On
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Definitions
from toolroll.roll import Toolroll
from toolroll.selection.profiles import Profile
from toolroll.selection.profiles import profile as named

KS = (1, 3, 5, 7, 10)
DEPTH = 20  # tools ranked for each message at the least
_PLAIN = (
    *("folder", "profile", "parameters", "embedder", "split", "examples", "taught", "history"),
    *("tools", "catalog_revision"),
)


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one folder, profile and embedder.

    Attributes:
        parameters: changes to the profile.
        taught: messages of the train split that became examples.
        by: figures for each value of a context key.
        repeated: queries whose text is also an example of a tool.
        learns: whether the profile orders tools by outcomes only. The evaluation records none, so retrieval
            decides their order.
        degraded: failed part → selections; failure: the text of the first error.
    """

    folder: str
    profile: str
    parameters: Mapping[str, object]
    embedder: str
    split: Split
    examples: Examples
    taught: int
    history: bool
    tools: int
    catalog_revision: str
    figures: Figures
    by: Mapping[str, Figures]
    latency: Latency
    repeated: int
    learns: bool
    degraded: Mapping[str, int]
    failure: str
    seconds: float
    queries: tuple[Query, ...]
    answers: tuple[RankedAnswer, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `toolroll eval --json`; None for a value that does not exist."""
        latency = self.latency
        values: dict[str, Any] = {
            **{name: getattr(self, name) for name in _PLAIN},
            "parameters": {  # JSON has no infinity
                name: "inf" if value == float("inf") else value for name, value in self.parameters.items()
            },
            **self.figures.to_dict(),
            "latency_us": {
                **asdict(latency),
                "with_embedding": _rounded(latency.with_embedding),
                "without_embedding": _rounded(latency.without_embedding),
            },
            "repeated": self.repeated,
            "learns": self.learns,
            "degraded": dict(self.degraded),
            "seconds": round(self.seconds, 3),
        }
        if self.by:
            values["by"] = {value: part.to_dict() for value, part in self.by.items()}
        return values


def evaluate(
    folder: str | PathLike[str] | Dataset,
    *,
    profile: str | Profile = "default",
    parameters: Mapping[str, object] | None = None,
    embedder: EmbedderChoice = "static",
    ks: Sequence[int] = KS,
    split: Split = "test",
    examples: Examples = "train",
    most_examples: int | None = None,
    history: bool = True,
    limit: int | None = None,
    by: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    on: On = "here",
    jobs: int = 1,
    kept: str | None = None,
) -> Evaluation:
    """Builds a catalog from the folder and evaluates its selections.

    folder: a dataset folder, or a dataset. profile, embedder: as for `Toolroll`; parameters: changes to the
    profile. ks: numbers of tools to evaluate at, ascending. split: of the queries to ask. examples: "train"
    adds the train split's messages to the tools' own examples, "given" keeps their own only, "none" removes
    these, too; most_examples: of a tool. history: whether earlier messages are passed. limit: queries to
    draw. by: a context key; each of its values is also evaluated separately. seed: of every draw. progress:
    called with (step, done, total). on, jobs, kept: where queries are asked, as for `work.run`; the answers
    are the same, and times are always measured here.

    Raises:
        NotFound: no such folder, profile or embedder.
        InvalidDefinition: with file and line of an error in the folder.
        InvalidInput: an argument is out of range, or there is no query to ask.
        Unavailable: the embedder failed on the tools.
    """
    start = time.perf_counter()
    depths = _places(ks)
    if most_examples is not None and most_examples < 0:
        raise InvalidInput(f"most_examples: is {most_examples}, must be at least 0")
    changes = dict(parameters or {})
    settings = (named(profile) if isinstance(profile, str) else profile).with_(**changes)
    dataset = folder if isinstance(folder, Dataset) else read_dataset(folder)
    asked, teachers = divide(dataset.queries, split, examples)
    if not asked:
        there = Counter(query.split for query in dataset.queries)
        found = ", ".join(f"{count} of {name!r}" for name, count in there.items()) or "none at all"
        raise InvalidInput(
            f"dataset {dataset.name!r}: has no query to ask of split {split!r}; it has {found}"
        )
    asked = sample(asked, limit, seed)
    definitions = with_examples(dataset.definitions, teachers, keep=examples != "none", most=most_examples)
    report = progress or (lambda what, done, of: None)
    roll = Toolroll.from_definitions(
        definitions,
        embedder=embedder,
        profile=settings,
        progress=lambda done, of: report("embedding", done, of),
    )
    depth = max(*depths, DEPTH)
    answers: list[RankedAnswer] = []
    failure = ""
    if on == "here" and jobs == 1 and kept is None:
        for done, query in enumerate(asked):
            report("asking", done, len(asked))
            picked = select(roll, query, depth, history)
            answers.append(answer(picked, depth))
            failure = failure or next(map(str, picked.failures), "")
    else:
        for some in ask_elsewhere(
            RollRecipe(definitions, embedder, settings, depth, history),
            asked,
            on=on,
            jobs=jobs,
            kept=kept,
            progress=lambda done, of: report("asking", done, of),
        ):
            answers += some.answers
            failure = failure or some.failure
    latency = time_messages(roll, asked, depth, history, seed, report)
    return Evaluation(
        folder=dataset.name,
        profile=profile if isinstance(profile, str) else "custom",
        parameters=changes,
        embedder=_identity(embedder),
        split=split,
        examples=examples,
        taught=sum(bool(query.gold) for query in teachers),
        history=history,
        tools=len(roll),
        catalog_revision=roll.catalog.revision,
        figures=figures(asked, answers, depths, seed),
        by=_by(by, asked, answers, depths, seed),
        latency=latency,
        repeated=_repeated(asked, definitions),
        learns=settings.learning == "thompson",
        degraded=Counter(name for answer in answers for name in answer.degraded),
        failure=failure,
        seconds=time.perf_counter() - start,
        queries=asked,
        answers=tuple(answers),
    )


def _rounded(times: Times) -> dict[str, float]:
    return {name: round(value, 1) for name, value in asdict(times).items()}


def _identity(embedder: EmbedderChoice) -> str:
    if embedder is None:
        return "none"
    return embedder if isinstance(embedder, str) else embedder.identity


def _by(
    key: str | None, asked: Sequence[Query], answers: Sequence[RankedAnswer], ks: Sequence[int], seed: int
) -> dict[str, Figures]:
    if key is None:
        return {}
    values = [str(query.context.get(key)) for query in asked]
    if all(key not in query.context for query in asked):
        keys = sorted({key for query in asked for key in query.context})
        raise InvalidInput(
            f"by: no query has {key!r} in its context; they have {', '.join(keys) or 'nothing'}"
        )
    parts = {}
    for value in sorted(set(values)):
        places = [at for at, found in enumerate(values) if found == value]
        parts[value] = figures([asked[at] for at in places], [answers[at] for at in places], ks, seed)
    return parts


def _repeated(asked: Sequence[Query], definitions: Definitions) -> int:
    known = {text.strip() for tool in definitions.tools for text in tool.examples}
    return sum(query.text.strip() in known for query in asked)


def _places(ks: Sequence[int]) -> tuple[int, ...]:
    places = tuple(ks)
    if not places or any(type(k) is not int or k < 1 for k in places):
        raise InvalidInput(f"k: is {quoted(ks)}, must be whole numbers of at least 1")
    if list(places) != sorted(set(places)):
        raise InvalidInput(f"k: is {', '.join(map(str, places))}, must be ascending, each once")
    return places
