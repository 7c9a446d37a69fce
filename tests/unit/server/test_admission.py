"""Limits of requests: one organisation takes nothing from the others, and a wrong rate is named."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from tests.table import each_row
from toolroll.model.errors import InvalidInput
from toolroll.server.admission import (
    LoopLag,
    OrgAdmission,
    OrgRateExceeded,
    OrgRefused,
    RequestLimits,
    read_rate,
    share_level,
)


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


def test_the_rate_of_one_organisation_is_not_that_of_another():
    now = [1_000.25]
    admission = OrgAdmission("3/second", 64, clock=lambda: now[0])
    for _ in range(3):
        admission.count("noisy")
    with pytest.raises(OrgRateExceeded, match="noisy") as refused:
        admission.count("noisy")
    assert refused.value.limit == "rate" and refused.value.retry_after_s == 0.75
    admission.count("quiet")
    now[0] += 1
    admission.count("noisy")


BUSY, IDLE = 0.05, 0.0  # lag of the event loop, in seconds


def refused_by_share(lag_s: float, costs: dict[str, float], in_flight: int = 1, at_once: int = 1) -> set[str]:
    """The organisations that are refused after 30 requests with these costs in the last second.

    in_flight: requests of each organisation that are being answered when others come. at_once: how many come.
    """
    now = [100.0]
    admission = OrgAdmission("1000000/second", 1_000, lag=lambda: lag_s, clock=lambda: now[0])

    async def run() -> set[str]:
        for _ in range(30):
            for org, cost in costs.items():
                ticket = admission.ticket()
                ticket.enter(org)
                ticket.spend(cost / 2)
                ticket.leave()  # the answer is sent within a step, which ends later
                ticket.spend(cost / 2)
            now[0] += 1 / 30
            await asyncio.sleep(0)
        refused = set()
        for org in costs:
            await asyncio.sleep(0)
            for _ in range(in_flight):
                admission.begin(org)
            try:
                for _ in range(at_once):
                    admission.ticket().enter(org)
            except OrgRefused as error:
                assert error.limit == "share"
                refused.add(org)
        return refused

    return asyncio.run(run())


def test_while_requests_wait_only_the_one_that_cost_the_most_is_refused():
    costs = {"noisy": 0.05, "quiet": 0.001, "other": 0.0005}
    assert refused_by_share(BUSY, costs) == {"noisy"}
    assert refused_by_share(BUSY, costs, in_flight=0, at_once=2) == {"noisy"}


def test_where_nothing_waits_or_one_is_alone_nobody_is_refused_for_its_share():
    assert refused_by_share(IDLE, {"noisy": 0.05, "quiet": 0.001}) == set()
    assert refused_by_share(BUSY, {"alone": 0.05}) == set()


def test_an_organisation_that_sends_one_request_at_a_time_is_never_refused():
    assert refused_by_share(BUSY, {"noisy": 0.05, "quiet": 0.001}, in_flight=0) == set()


def test_nobody_is_refused_where_requests_wait_although_the_service_does_little():
    assert refused_by_share(BUSY, {"noisy": 0.002, "quiet": 0.0001}) == set()


def test_a_request_that_a_thread_admits_does_not_count_beside_the_next_one():
    now = [100.0]
    admission = OrgAdmission("1000000/second", 1_000, lag=lambda: BUSY, clock=lambda: now[0])

    async def run() -> None:
        admission.spend("noisy", 10.0)
        admission.spend("quiet", 0.1)
        now[0] += 0.2
        ticket = admission.ticket()
        await asyncio.sleep(0)  # the round of the event loop ends while the thread works
        ticket.enter("noisy")
        ticket.leave()
        admission.ticket().enter("noisy")

    asyncio.run(run())


def test_a_step_that_holds_the_event_loop_up_counts_as_lag():
    async def run() -> tuple[float, float]:
        lag = LoopLag()
        before = lag()
        time.sleep(0.05)
        await asyncio.sleep(0.02)
        return before, lag()

    before, after = asyncio.run(run())
    assert before == 0 and after > 0


@given(st.lists(st.floats(0.3, 1e4), min_size=2, max_size=20))
def test_above_the_level_is_the_one_that_used_the_most_and_never_everybody(used):
    level = share_level(used)
    assert min(used) <= level * (1 + 1e-9)
    cut = sum(min(one, level) for one in used)
    assert cut >= sum(used) / 2 * (1 - 1e-9)
    if max(used) > 2 * sum(used) / len(used):
        assert max(used) > level


def test_an_organisation_that_no_longer_asks_takes_no_memory():
    now = [100.0]
    admission = OrgAdmission("1000000/second", 64, lag=lambda: IDLE, clock=lambda: now[0])

    async def run() -> None:
        for at in range(2_000):
            admission.spend(f"org-{at}", 0.01)
        now[0] += 60
        admission.ticket()

    asyncio.run(run())
    assert not admission._used


def test_a_request_takes_one_slot_of_each_organisation_and_gives_it_back():
    admission = OrgAdmission("1000/second", 64)

    async def run() -> None:
        ticket = admission.ticket()
        for org in ("acme", "acme", "globex", ""):
            ticket.enter(org)
        assert admission._in_flight == {"acme": 1, "globex": 1}
        ticket.leave()
        assert not admission._in_flight

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "amount", "window_s"),
    [("500/second", 500, 1), ("10 per 2 minutes", 10, 120), (" 3/hour ", 3, 3600)],
)
def test_a_rate_is_read(text: str, amount: int, window_s: int) -> None:
    rate = read_rate(text)
    assert (rate.amount, rate.get_expiry()) == (amount, window_s)


@each_row(
    ("text", "wanted"),
    [
        ("often", "must be such as 500/second"),
        ("", "must be such as 500/second"),
        ("10/second;2/minute", "must be one rate"),
        ("1/second, 2/second", "must be one rate"),
        ("0/second", "must be > 0"),
    ],
)
def test_a_wrong_rate_is_refused_with_its_setting(text: str, wanted: str) -> None:
    with pytest.raises(InvalidInput, match=f"^sign_in_rate is '{text}', {wanted}"):
        read_rate(text, "sign_in_rate")
    with pytest.raises(InvalidInput, match=f"^org_rate is .*{wanted}"):
        OrgAdmission(text, 64)
    with pytest.raises(InvalidInput, match=f"^key_rate is .*{wanted}"):
        RequestLimits(text, 8)
