"""Admission of organisations: what one has in flight, or has used, takes nothing from the others."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from toolroll.model.errors import InvalidInput
from toolroll.server import admission as module
from toolroll.server.admission import OrgAdmission, OrgRateExceeded, OrgRefused


def held(admission: OrgAdmission, org: str, wanted: int = 1_000) -> int:
    """How many slots an organisation gets when it asks for many."""
    for count in range(wanted):
        try:
            admission.begin(org)
        except OrgRefused as error:
            assert error.limit == "slots" and error.retry_after_s
            return count
    return wanted


def test_one_organisation_alone_gets_half_of_the_slots_and_the_others_find_the_rest():
    admission = OrgAdmission("1000/second", 64)
    assert [held(admission, org) for org in ("noisy", "a", "b", "c")] == [32, 16, 8, 4]


def test_a_freed_slot_is_there_for_everybody():
    admission = OrgAdmission("1000/second", 4)
    assert held(admission, "noisy") == 2
    admission.end("noisy")
    assert held(admission, "noisy") == 1
    admission.end("noisy")
    admission.end("noisy")
    assert held(admission, "quiet") == 2


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=80), st.integers(8, 40))
def test_a_newcomer_always_finds_a_slot_and_no_slot_is_given_twice(steps, slots):
    admission, in_flight = OrgAdmission("1000000/second", slots), dict.fromkeys("abcdef", 0)
    for org, begins in steps:
        if begins:
            free = slots - sum(in_flight.values())
            try:
                admission.begin(org)
            except OrgRefused:
                assert in_flight[org] >= free
            else:
                assert in_flight[org] < free
                in_flight[org] += 1
        elif in_flight[org]:
            admission.end(org)
            in_flight[org] -= 1
        assert sum(in_flight.values()) < slots


def test_the_rate_of_one_organisation_is_not_that_of_another(monkeypatch):
    now = [1_000.25]
    monkeypatch.setattr(time, "time", lambda: now[0])
    admission = OrgAdmission("3/second", 64)
    for _ in range(3):
        admission.count("noisy")
    with pytest.raises(OrgRateExceeded, match="noisy") as refused:
        admission.count("noisy")
    assert refused.value.limit == "rate" and refused.value.retry_after_s == 0.75
    admission.count("quiet")
    now[0] += 1
    admission.count("noisy")


def test_a_rate_that_cannot_be_read_is_named():
    with pytest.raises(InvalidInput, match="org_rate"):
        OrgAdmission("often", 64)


def refused_by_share(
    busy_s: float, costs: dict[str, float], in_flight: int = 1, in_round: int = 1
) -> set[str]:
    """The organisations that are refused after requests with these costs.

    The event loop is held up for so long between two of them. in_flight: requests of each organisation that
    are being answered when others come. in_round: how many come at once.
    """
    admission = OrgAdmission("1000000/second", 1_000)

    async def run() -> set[str]:
        for _ in range(30):
            for org, cost in costs.items():
                ticket = admission.ticket()
                ticket.enter(org)
                ticket.spend(cost / 2)
                ticket.leave()  # the answer is sent within a step, which ends later
                ticket.spend(cost / 2)
            time.sleep(busy_s)
            await asyncio.sleep(0.001)
        refused = set()
        for org in costs:
            await asyncio.sleep(0)
            for _ in range(in_flight):
                admission.begin(org)
            try:
                for _ in range(in_round):
                    admission.ticket().enter(org)
            except OrgRefused as error:
                assert error.limit == "share"
                refused.add(org)
        return refused

    return asyncio.run(run())


def test_while_requests_wait_only_the_one_that_cost_the_most_is_refused():
    costs = {"noisy": 0.05, "quiet": 0.001, "other": 0.0005}
    assert refused_by_share(0.05, costs) == {"noisy"}
    assert refused_by_share(0.05, costs, in_flight=0, in_round=2) == {"noisy"}


def test_where_nothing_waits_or_one_is_alone_nobody_is_refused_for_its_share():
    assert refused_by_share(0.0, {"noisy": 0.05, "quiet": 0.001}) == set()
    assert refused_by_share(0.05, {"alone": 0.05}) == set()


def test_an_organisation_that_sends_one_request_at_a_time_is_never_refused():
    assert refused_by_share(0.05, {"noisy": 0.05, "quiet": 0.001}, in_flight=0) == set()


def test_nobody_is_refused_where_requests_wait_although_the_service_does_little():
    assert refused_by_share(0.05, {"noisy": 0.002, "quiet": 0.0001}) == set()


@given(st.lists(st.floats(0.3, 1e4), min_size=2, max_size=20))
def test_above_the_level_is_the_one_that_used_the_most_and_never_everybody(used):
    level = module._level(sorted(used))
    assert min(used) <= level * (1 + 1e-9)
    cut = sum(min(one, level) for one in used)
    assert cut >= sum(used) / 2 * (1 - 1e-9)
    if max(used) > 2 * sum(used) / len(used):
        assert max(used) > level


def test_an_organisation_that_no_longer_asks_takes_no_memory():
    admission = OrgAdmission("1000000/second", 64)

    async def run() -> None:
        admission.ticket()
        for at in range(2_000):
            admission.spend(f"org-{at}", 0.01)
        admission._used = dict.fromkeys(admission._used, module._USED_NOTHING * 1.01)
        await asyncio.sleep(0.3)

    asyncio.run(run())
    assert not admission._used


def test_a_request_takes_one_slot_of_each_organisation_and_gives_it_back():
    admission = OrgAdmission("1000/second", 64)

    async def run() -> None:
        ticket = admission.ticket()
        for org in ("acme", "acme", "globex", ""):
            ticket.enter(org)
        assert admission._total == 2
        ticket.leave()
        assert admission._total == 0 and not admission._in_flight

    asyncio.run(run())
