"""Which tools are damped by everyday messages."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.catalog.test_damping import probes_of
from toolroll import Tool, Toolroll
from toolroll.catalog.everyday import LEAST_TOOLS, damping_of_found, everyday_messages, everyday_vectors
from toolroll.catalog.refresh import ToolChanges, with_changes
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.tools import Definitions

N, SUBJECTS, EACH = 600, 30, 30


def world(greedy: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """30 subjects with 20 tools and 30 messages each; tool 0 is the third best for every ninth message."""
    random = np.random.default_rng(0)
    subjects = random.normal(size=(SUBJECTS, 32))
    vectors = np.repeat(subjects, EACH, axis=0) + 0.5 * random.normal(size=(SUBJECTS * EACH, 32))
    scores = np.sort(random.uniform(0.3, 0.6, (SUBJECTS * EACH, 16)))[:, ::-1]
    rows = np.array(
        [20 * (at // EACH) + random.permutation(20)[:16] for at in range(SUBJECTS * EACH)], np.int32
    )
    rows[rows == 0] = 1
    reached = np.arange(0, SUBJECTS * EACH, 9) if greedy else np.arange(EACH)
    rows[reached, 2] = 0
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows, scores.astype(np.float32), vectors.astype(np.float32)


def test_a_tool_that_is_found_for_messages_of_every_subject_is_damped_and_nobody_else():
    factors = damping_of_found(*world(greedy=True), N)
    assert 0.4 <= factors[0] < 0.95
    assert (factors[1:] == 1).all()


def test_a_tool_that_is_found_for_messages_of_its_subject_keeps_its_score():
    assert (damping_of_found(*world(greedy=False), N) == 1).all()


def test_nothing_is_damped_where_nothing_is_found():
    rows, scores, vectors = world(greedy=True)
    assert (damping_of_found(rows, np.zeros_like(scores), vectors, N) == 1).all()


def test_the_messages_are_a_thousand_different_ones():
    assert len(set(everyday_messages())) == len(everyday_messages()) == 1_000


@pytest.mark.parametrize(("n", "examples"), [(LEAST_TOOLS - 1, ()), (LEAST_TOOLS, ("say it",))])
def test_small_catalogs_and_those_with_examples_do_without(n, examples):
    roll = Toolroll.from_tools([Tool(f"t{at}", "does it", examples=examples) for at in range(n)])
    assert roll.catalog.probes.everyday is None


def test_a_large_catalog_without_examples_is_probed_and_saved_with_them(tmp_path):
    tools = [Tool(f"t{at}", f"does thing {at}") for at in range(LEAST_TOOLS)]
    roll = Toolroll.from_tools(tools, embedder="static")
    everyday = roll.catalog.probes.everyday
    assert np.array_equal(everyday, everyday_vectors(StaticEmbedder()))
    roll.save(tmp_path / "catalog")
    assert np.array_equal(Toolroll.load(tmp_path / "catalog").catalog.probes.everyday, everyday)
    assert len(probes_of(tools).texts) == 300


def test_a_changed_catalog_is_damped_as_one_that_is_built_whole():
    tools = [Tool(f"t{at}", f"does thing {at} for {at % 7} people") for at in range(LEAST_TOOLS)]
    greedy = Tool("z", " ".join(everyday_messages()[:300]))
    catalog = Toolroll.from_tools(tools, embedder="static").catalog
    whole = Toolroll.from_tools([*tools, greedy], embedder="static").catalog
    changes = ToolChanges.between(catalog, [*tools, greedy])
    changed = with_changes(catalog, changes, Definitions(()), StaticEmbedder(), catalog.options).measured()
    (ours,), (theirs,) = changed._retrievers.values(), whole._retrievers.values()
    assert theirs.damping is not None and theirs.damping[whole.names["z"]] < 1
    assert np.array_equal(ours.damping, theirs.damping)
