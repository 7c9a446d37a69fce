"""Which unit gets which variant."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from tests.table import each_row
from toolroll.learning.experiments import Experiment
from toolroll.model.errors import InvalidInput

EVEN = Experiment("e", {"static": 0.5, "default": 0.5})


def test_units_are_dealt_out_by_their_shares_and_independently_of_other_experiments():
    uneven = Experiment("uneven", {"a": 0.5, "b": 0.3, "c": 0.2})
    users = [f"user-{number}" for number in range(60_000)]
    names = list(uneven.variants)
    assigned = np.array([names.index(uneven.assign(user)) for user in users])
    counts = np.bincount(assigned)
    assert stats.chisquare(counts, np.array([0.5, 0.3, 0.2]) * len(users)).pvalue > 1e-4
    for other in (Experiment("other", uneven.variants), Experiment("uneven", uneven.variants, salt="2")):
        again = np.array([names.index(other.assign(user)) for user in users])
        table = np.histogram2d(assigned, again, bins=3)[0]
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_a_unit_keeps_its_variant_in_every_process_and_version():
    # written down: whoever changes these moves users of experiments that run
    assigned = [Experiment("ranking", {"a": 0.5, "b": 0.5}).assign(f"u{n}") for n in range(8)]
    assert assigned == ["b", "a", "b", "a", "a", "a", "a", "a"]
    assert pickle.loads(pickle.dumps(EVEN)) == EVEN
    assert EVEN.assign("user-1") == EVEN.assign("user-1")


def test_nobody_is_in_no_experiment():
    assert EVEN.assign("") is None
    assert EVEN.control == "static"


@each_row(
    ("arguments", "said"),
    [
        ({"name": ""}, "name is"),
        ({"variants": {"a": 1.0}}, "at least two"),
        ({"variants": {"a": 0.5, "b": 0.6}}, "add up to 1.1"),
        ({"variants": {"a": 1, "b": 0}}, "share of"),
        ({"variants": {"a": True, "b": 0.5}}, "share of"),
        ({"variants": {"": 0.5, "b": 0.5}}, "variant ''"),
        ({"unit": "page"}, "must be one of user, session, org"),
        ({"salt": 3}, "salt is 3"),
    ],
)
def test_an_experiment_that_cannot_be_is_refused(arguments, said):
    with pytest.raises(InvalidInput, match=said):
        Experiment(**{"name": "e", "variants": {"a": 0.5, "b": 0.5}, **arguments})
