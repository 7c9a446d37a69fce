"""Admission of organisations: what one has in flight, or has used, takes nothing from the others."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from toolroll.errors import InvalidInput
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


async def beats(admission: OrgAdmission, busy_s: float, calls: dict[str, int]) -> None:
    """Requests of organisations, on an event loop that is busy for so long between two of them."""
    admission.ticket()
    for _ in range(30):
        for org, count in calls.items():
            for _ in range(count):
                try:
                    admission.count(org)
                except OrgRefused:
                    return
        time.sleep(busy_s)
        await asyncio.sleep(0)
    raise AssertionError("nobody was refused")


def refused_by_share(busy_s: float, calls: dict[str, int]) -> set[str]:
    """The organisations that are refused after such requests."""
    admission = OrgAdmission("1000000/second", 1_000)

    async def run() -> set[str]:
        admission.ticket()
        for _ in range(30):
            for org, count in calls.items():
                for _ in range(count):
                    if not refuses(admission, org):
                        admission.count(org)
            time.sleep(busy_s)
            await asyncio.sleep(0.001)
        return {org for org in calls if refuses(admission, org)}

    return asyncio.run(run())


def refuses(admission: OrgAdmission, org: str) -> bool:
    return admission._lag_s > module._WAITING_S and admission._used.get(org, 0.0) > admission._level


def test_while_requests_wait_only_the_one_that_had_the_most_is_refused():
    assert refused_by_share(0.05, {"noisy": 100, "quiet": 2, "other": 1}) == {"noisy"}


def test_where_nothing_waits_or_one_is_alone_nobody_is_refused_for_its_share():
    assert refused_by_share(0.0, {"noisy": 100, "quiet": 2}) == set()
    assert refused_by_share(0.05, {"alone": 100}) == set()


@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=20))
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
            admission.count(f"org-{at}")
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
