"""Whose word a report over REST is."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from toolroll.learning.reporters import UnnamedCaller
from toolroll.server.callers import Caller

REPORTS = frozenset({"select", "report"})


@pytest.mark.parametrize("named", [None, "", "ann"])
def test_a_key_reports_as_itself_unless_it_vouches(named):
    key = Caller("backend", REPORTS, "acme", key_id="1a2b")
    assert key.reporter_of(named) == UnnamedCaller("key 1a2b")
    assert Caller("backend", REPORTS | {"vouch"}, "acme", key_id="1a2b").reporter_of(named) == named


def test_a_person_reports_as_that_person():
    assert Caller("ada", REPORTS, "acme", sign_in="account").reporter_of("ann") == "ada"
    assert Caller("", REPORTS, "acme").reporter_of("ann") == UnnamedCaller("key ")


def test_a_host_that_trusts_its_callers_believes_them():
    assert Caller.anyone("").reporter_of("ann") == "ann"
    assert Caller.anyone("").reporter_of(None) is None
