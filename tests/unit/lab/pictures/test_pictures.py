"""The picture."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from tests.unit.lab.worlds import QUERIES, write
from toolroll.lab.evaluation.quality import evaluate
from toolroll.lab.pictures.latency_quality import Point, draw, front
from toolroll.model.errors import InvalidInput


def point(recall: float, p50: float) -> Point:
    return Point("default", f"{recall} {p50}", recall, None, p50, 2 * p50)


def test_the_front_is_what_no_other_beats_at_its_time():
    points = [
        point(0.8, 50),
        point(0.7, 30),
        point(0.75, 60),
        point(0.9, 900),
        point(0.8, 55),
        point(0.7, 20),
    ]
    assert front(points) == [point(0.7, 20), point(0.8, 50), point(0.9, 900)]
    assert front([]) == []
    for one in points:
        beaten = any(o.recall >= one.recall and o.p50 <= one.p50 and o != one for o in points)
        assert (one in front(points)) == (not beaten)


def test_a_png_of_one_or_several_is_drawn(tmp_path):
    folder = write(tmp_path / "set")
    results = [evaluate(folder, embedder=name) for name in ("static", "none")]
    for count in (1, 2):
        draw(results[:count], tmp_path / "front.png")
        content = (tmp_path / "front.png").read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) > 10_000


def test_without_a_message_that_needs_a_tool_there_is_nothing_to_draw(tmp_path):
    silent = [line for line in QUERIES if not line["gold"]]
    result = evaluate(write(tmp_path, queries=silent))
    with pytest.raises(InvalidInput, match="no recall to draw"):
        draw([result], tmp_path / "front.png")
