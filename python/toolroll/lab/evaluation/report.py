"""Evaluations as text and as one JSON object."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from toolroll.lab.evaluation.dataset import Query
from toolroll.lab.evaluation.metrics import Abstention, RankedAnswer
from toolroll.lab.evaluation.quality import Evaluation
from toolroll.runtime.files import replace_file

NOTHING = "–"
_BY_K = ("recall", "complete", "hit", "ndcg")


def to_json(results: Sequence[Evaluation]) -> dict[str, Any]:
    """The result as JSON; several as `results` with their `mean` (`means` for several set-ups)."""
    if len(results) == 1:
        return results[0].to_dict()
    means = mean_over_folders(results)
    return {"results": [result.to_dict() for result in results]} | (
        {"mean": means[0]} if len(means) == 1 else {"means": means}
    )


def mean_over_folders(results: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """The mean of every metric over the folders, for each profile and embedder."""
    means = []
    for (profile, embedder), group in setups(results).items():
        figures = [result.figures for result in group]
        whole = {"profile": profile, "embedder": embedder, "folders": len(group)}
        for name in _BY_K:
            columns = zip(*(getattr(part, name) for part in figures), strict=True)
            whole[name] = {str(k): _mean(column) for k, column in zip(figures[0].ks, columns, strict=True)}
        whole["mrr"] = _mean(part.mrr for part in figures)
        whole["abstention"] = {
            name: _mean(getattr(part.abstention, name) for part in figures if part.abstention.messages)
            for name in ("precision", "recall", "false_refusals", "auroc", "recognised_at_5_percent")
        }
        means.append(whole)
    return means


def setups(results: Sequence[Evaluation]) -> Mapping[tuple[str, str], list[Evaluation]]:
    """(profile, embedder) → its results, in order."""
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    for result in results:
        groups.setdefault((_profile(result), result.embedder), []).append(result)
    return groups


def table(results: Sequence[Evaluation]) -> str:
    """One result in full; several as a line each, with lines for the means and the groups."""
    lines = _one(results[0]) if len(results) == 1 else _many(results)
    for result in results:
        if result.by:
            head = "" if len(results) == 1 else f"{result.folder}, {_setup(result)}: "
            lines += ["", *aligned(_groups(result, head))]
    notes = dict.fromkeys(note for result in results for note in _notes(result, len(results) > 1))
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _one(result: Evaluation) -> list[str]:
    figures, latency = result.figures, result.latency
    silent = figures.abstention.messages
    rows: list[Sequence[str]] = [("k", *map(str, figures.ks))]
    for name in _BY_K:
        rows.append((name, *map(_share, getattr(figures, name))))
        if name == "recall":
            rows += [
                ("  95 % from", *(_share(pair and pair[0]) for pair in figures.recall_interval)),
                ("  to", *(_share(pair and pair[1]) for pair in figures.recall_interval)),
            ]
    times = (("with embedding", latency.with_embedding), ("without", latency.without_embedding))
    return [
        f"{result.folder}: {result.tools:,} tools, {figures.queries:,} messages of split {result.split} "
        f"({figures.answerable:,} need a tool, {silent:,} need none)",
        f"profile {_profile(result)}, embedder {result.embedder}, examples {_examples(result)}, "
        f"{'with' if result.history else 'without'} history",
        "",
        *aligned(rows),
        f"mrr {_share(figures.mrr)}",
        "",
        f"no tool applies: {_refusals(figures.abstention)}",
        "",
        *aligned(
            [
                ("latency, µs", "p50", "p95", "p99"),
                *((what, *map(_micros, (t.p50, t.p95, t.p99))) for what, t in times),
            ]
        ),
        f"{latency.messages:,} messages, {latency.rounds} rounds; {result.seconds:,.1f} s in all",
    ]


def _many(results: Sequence[Evaluation]) -> list[str]:
    ks = results[0].figures.ks
    k = 5 if 5 in ks else ks[-1]
    at = ks.index(k)
    head = ("folder", "profile", "embedder", "tools", "messages", *(f"recall@{one}" for one in ks))
    head += ("95 %", f"complete@{k}", f"ndcg@{k}", "mrr", "auroc", "p50 µs", "p99 µs")
    rows: list[Sequence[str]] = [head]
    for result in results:
        figures, times = result.figures, result.latency.with_embedding
        pair = figures.recall_interval[at]
        rows.append(
            (
                result.folder,
                _profile(result),
                result.embedder,
                f"{result.tools:,}",
                f"{figures.queries:,}",
                *map(_share, figures.recall),
                NOTHING if pair is None else f"±{(pair[1] - pair[0]) / 2:.3f}",
                _share(figures.complete[at]),
                _share(figures.ndcg[at]),
                _share(figures.mrr),
                _share(figures.abstention.auroc),
                _micros(times.p50),
                _micros(times.p99),
            )
        )
    if len({result.folder for result in results}) > 1:
        for mean in mean_over_folders(results):
            by_k = {name: [_share(value) for value in mean[name].values()] for name in _BY_K}
            figures_of = (by_k["complete"][at], by_k["ndcg"][at], _share(mean["mrr"]))
            row = ("mean", mean["profile"], mean["embedder"], "", "", *by_k["recall"], "", *figures_of)
            rows.append((*row, _share(mean["abstention"]["auroc"]), "", ""))
    return [
        f"split {results[0].split}, examples {results[0].examples}, "
        f"{'with' if results[0].history else 'without'} history; 95 %: of recall@{k}",
        "",
        *aligned(rows, left=3),
    ]


def _groups(result: Evaluation, head: str) -> list[Sequence[str]]:
    ks = result.figures.ks
    recalls = (f"recall@{k}" for k in ks)
    rows: list[Sequence[str]] = [
        (f"{head}by value", "messages", *recalls, "mrr", "false refusals", "refused rightly")
    ]
    for value, part in result.by.items():
        refused = _share(part.abstention.false_refusals), _share(part.abstention.recall)
        rows.append((value, f"{part.queries:,}", *map(_share, part.recall), _share(part.mrr), *refused))
    return rows


def _refusals(found: Abstention) -> str:
    if not found.messages:
        return f"no such message here; false refusals {_share(found.false_refusals)}"
    return (
        f"precision {_share(found.precision)}, recall {_share(found.recall)}, "
        f"false refusals {_share(found.false_refusals)}, auroc {_share(found.auroc)}, "
        f"{_share(found.recognised_at_5_percent)} recognised at 5 % false refusals"
    )


def _notes(result: Evaluation, named: bool) -> Iterable[str]:
    folder = f"{result.folder}: " if named else ""
    setup = f"{result.folder}, {_setup(result)}: " if named else ""
    asked = f"{result.figures.queries:,}"
    if result.repeated:
        yield f"{folder}{result.repeated:,} of {asked} messages are word for word an example too"
    if result.learns:
        yield (
            f"{setup}orders tools by outcomes, and nothing has been learnt here: this is the order of "
            "retrieval; `toolroll simulate` measures learning"
        )
    for what, count in result.degraded.items():
        yield f"{setup}{what} failed in {count:,} of {asked} selections: {result.failure}"


def _setup(result: Evaluation) -> str:
    return f"{_profile(result)}, {result.embedder}"


def _profile(result: Evaluation) -> str:
    return " ".join([result.profile, *(f"{name}={value}" for name, value in result.parameters.items())])


def _examples(result: Evaluation) -> str:
    return f"train ({result.taught:,} messages)" if result.examples == "train" else result.examples


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows as lines: the first `left` columns left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(widths[at]) if at < left else cell.rjust(widths[at]) for at, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _micros(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def write_run(
    path: str | os.PathLike[str],
    queries: Sequence[Query],
    answers: Sequence[RankedAnswer],
    spellings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes one line for each answer, and replaces the file atomically.

    spellings: as in `Dataset`: the file has the names of the dataset.

    Raises:
        InvalidInput: it cannot be written.
    """
    lines = []
    for query, answer in zip(queries, answers, strict=True):
        ranked = [spellings.get(name, name) for name in answer.ranked]
        line = {"id": query.id, "ranked": ranked, "score": answer.confidence, "abstain": answer.abstained}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    replace_file(path, "".join(lines).encode())
