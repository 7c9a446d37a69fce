"""The samples of a catalog with changes: equal to a whole build's, at the cost of the new tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from toolroll.catalog.build_record import BuildRecord, Samples
from toolroll.catalog.calibration import CalibrationSet, HeldOut, message_of
from toolroll.catalog.damping import NO_PROBES, Probes
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import ToolText
from toolroll.catalog.toolkits import numbers_in_toolkits
from toolroll.model.embedder import Embedder, vectors_of
from toolroll.model.tools import Tool


def changed_samples(
    known: Samples,
    record: BuildRecord,
    tools: Sequence[Tool],
    embed: Callable[[Sequence[ToolText]], ToolVectors] | None,
    embedder: Embedder | None,
) -> Samples:
    """The samples of these tools.

    The texts and vectors of a tool that is the same object come from the known samples.

    known: of any earlier catalog. record: of the tools. embed: the vectors of tools' texts; None without an
    embedder.
    """
    probes, descriptions = NO_PROBES, dict(known.descriptions)
    if record.probe_digests is not None:
        descriptions = {}

        def description_of(row: int) -> str:
            tool = tools[row]
            before = known.descriptions.get(tool.name)
            text = before[1] if before and before[0] is tool else ToolText.of(tool).description
            descriptions[tool.name] = tool, text
            return text

        toolkits = numbers_in_toolkits(record.toolkit_names, record.toolkit_numbers)
        probes = record.probe_digests.probes(tools, toolkits, description_of)
        if embed is not None and embedder is not None:
            probes = _embedded(probes, known, tools, embed, embedder)
    held_out = record.example_digests.held_out()
    calibration_set = None
    if held_out is not None:
        calibration_set = _calibration_set(held_out, known, tools, embed, embedder)
    return Samples(
        probes,
        calibration_set,
        tuple(tools[owners[0]] for owners in probes.owners),
        tuple(tools[row] for row in held_out.rows.tolist()) if held_out is not None else (),
        descriptions,
    )


def _embedded(
    probes: Probes,
    known: Samples,
    tools: Sequence[Tool],
    embed: Callable[[Sequence[ToolText]], ToolVectors],
    embedder: Embedder,
) -> Probes:
    vectors = np.empty((len(probes.texts), embedder.dim), np.float32)
    before = {text: at for at, text in enumerate(known.probes.texts)}
    left = []
    for at, (text, owners) in enumerate(zip(probes.texts, probes.owners, strict=True)):
        place = before.get(text)
        if (
            place is not None
            and known.probes.vectors is not None
            and known.probe_tools[place] is tools[owners[0]]
        ):
            vectors[at] = known.probes.vectors[place]
        else:
            left.append(at)
    if left:
        rows = list(dict.fromkeys(probes.owners[at][0] for at in left))
        texts = [ToolText.of(tools[row]) for row in rows]
        some = replace(
            NO_PROBES,
            texts=tuple(probes.texts[at] for at in left),
            owners=tuple((rows.index(probes.owners[at][0]),) for at in left),
        )
        found = some.embedded(texts, embed(texts), embedder, np.float32).vectors
        assert found is not None
        vectors[left] = found
    return probes.in_space_of(embedder, vectors)


def _calibration_set(
    held_out: HeldOut,
    known: Samples,
    tools: Sequence[Tool],
    embed: Callable[[Sequence[ToolText]], ToolVectors] | None,
    embedder: Embedder | None,
) -> CalibrationSet | None:
    before = known.calibration_set
    rows = held_out.rows.tolist()
    out = _numbers_by_row(held_out)
    sources = np.full(len(rows), -1, np.int32)
    turns = {}
    if before is not None and before.held_out is not None:
        rows_before = before.held_out.rows.tolist()
        places = {row: place for place, row in enumerate(rows_before)}
        turns = {
            (id(known.held_out_tools[places[row]]), at): turn
            for (row, at), turn in zip(before.held_out.messages, before.turns, strict=True)
        }
        out_before = _numbers_by_row(before.held_out)
        by_name = {tool.name: place for place, tool in enumerate(known.held_out_tools)}
        for at, row in enumerate(rows):
            place = by_name.get(tools[row].name)
            if place is None or known.held_out_tools[place] is not tools[row]:
                continue
            if out.get(row) == out_before.get(rows_before[place]):
                sources[at] = place
    fresh = [row for row, source in zip(rows, sources.tolist(), strict=True) if source < 0]
    messages = []
    for row, at in held_out.messages:
        turn = turns.get((id(tools[row]), at))
        if turn is None:
            text = ToolText.of(tools[row]).examples[at]
            vector = None if embedder is None or embed is None else vectors_of(embedder, [text])[0]
            turn = message_of(text, vector, embedder)
        messages.append(turn)
    texts = [ToolText.of(tools[row]) for row in fresh]
    rest = [held_out.rest(row, text) for row, text in zip(fresh, texts, strict=True)]
    vectors = None
    if embed is not None:
        vectors = embed(texts)
        kept = np.ones(len(vectors.examples), np.bool_)
        for place, row in enumerate(fresh):
            kept[[int(vectors.begins[place]) + at for at in out.get(row, ())]] = False
        vectors = vectors.part(np.arange(len(fresh), dtype=np.int32), kept)
    if before is None:
        return held_out.over(Indexes.of(rest, vectors), messages)
    return held_out.over(before.indexes.with_changes(sources, rest, vectors), messages)


def _numbers_by_row(held_out: HeldOut) -> dict[int, frozenset[int]]:
    """Row → the numbers of its held-out examples."""
    found: dict[int, set[int]] = {}
    for row, at in held_out.out:
        found.setdefault(row, set()).add(at)
    return {row: frozenset(numbers) for row, numbers in found.items()}
