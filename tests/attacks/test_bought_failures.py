"""Bought failures: reports that are to take a good tool from everybody's lists.

A good tool stays first in nine of ten lists after twenty failures from one gateway, from one key or from three
users. A tool that really broke is gone after eight failures of named users.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import asynccontextmanager

import pytest

from tests.attacks import bounded
from tests.integration.conftest import (  # noqa: F401  # fixtures
    database_url,
    new_database_url,
    postgresql,
    postgresql_template,
    sqlite_template,
)
from tests.unit.learning.test_poisoning import MESSAGES, SETTINGS, everyday
from toolroll import Context, Registry, Tool, Toolroll
from toolroll.adapters import ToolSelector
from toolroll.adapters.provider_requests import RequestHeaders, RequestSelector, form_of
from toolroll.learning.reporters import UnnamedCaller

GOOD, QUERY = "memory_remember", "store a fact"
BOUGHT = bounded(20, 60)
LISTS = 40


def tool_texts() -> dict[str, str]:
    texts = {
        "memory_remember": "Store a fact about the user for later",
        "memory_recall": "Recall a stored fact about the user",
        "memory_forget": "Forget a stored fact",
        "files_read": "Read a file from the disk",
        "files_write": "Write text to a file on the disk",
        "mail_send": "Send an e-mail to somebody",
    }
    return texts | {f"wall_{number}": f"Paint wall number {number}" for number in range(bounded(20, 200))}


def share_first(roll: Toolroll) -> float:
    """In how many lists, each of another conversation, the good tool is the first."""
    lists = [
        roll.session(f"list {number}", Context(user="somebody", tier="")).search(QUERY)
        for number in range(LISTS)
    ]
    return sum(bool(found) and found[0].name == GOOD for found in lists) / LISTS


def is_hidden(roll: Toolroll) -> bool:
    """Whether the good tool is in fewer than half of the lists."""
    lists = [roll.session(f"{number}", Context(user="x")).search(QUERY, k=5) for number in range(LISTS)]
    return sum(GOOD in [tool.name for tool in found] for found in lists) < LISTS / 2


def calls(roll: Toolroll, user: str, works: bool, **more: object) -> None:
    """Somebody searches, calls the good tool, and reports what came of it."""
    picked = roll.select(QUERY, Context(user=user), k=5)
    if GOOD in picked:
        roll.record(picked, {GOOD: works}, **more)  # type: ignore[arg-type]


def failures_until_hidden(roll: Toolroll, name: str, users: int) -> int:
    """How many failures of these users, in turn, hide the good tool; 9 for more than eight."""
    failures = 0
    while not is_hidden(roll) and failures < 9:
        calls(roll, f"{name}-{failures % users}", False)
        failures += 1
    return failures


@pytest.fixture
def roll() -> Iterator[Toolroll]:
    with Toolroll.from_tools([Tool(name, text) for name, text in tool_texts().items()]) as roll:
        times = iter(range(1_800_000_000, 1_900_000_000, 20))
        roll._home.engine._clock = lambda: float(next(times))  # type: ignore[attr-defined]
        yield roll


# In process.


@pytest.mark.parametrize("successes", [0, 1, 3, 5, 10, 40])
def test_three_users_take_no_good_tool_from_others(roll, successes):
    """Before: gone from 83 % of lists after one failure of each of three users, if it had worked 40 times."""
    for number in range(successes):
        calls(roll, f"honest-{number % 10}", True)
    for number in range(3 * BOUGHT):
        calls(roll, f"liar-{number % 3}", False)
    assert share_first(roll) >= 0.9


def test_one_who_is_not_named_takes_no_good_tool_from_others(roll):
    """Before: callers without a name were the application itself, and seven failures were enough."""
    for _ in range(5):
        calls(roll, "", True, reporter=UnnamedCaller("desk"))
    for number in range(BOUGHT):
        calls(roll, f"name-{number}", False, reporter=UnnamedCaller("desk"))
    assert share_first(roll) >= 0.9


@pytest.mark.parametrize("users", [4, 5, 8])
@pytest.mark.parametrize("successes", [0, 3, 8, 20, 40])
def test_a_tool_that_broke_is_gone_after_eight_failures_of_named_users(roll, users, successes):
    for number in range(successes):
        calls(roll, f"user-{number % users}", True)
    assert failures_until_hidden(roll, "user", users) <= 8


def test_eight_honest_users_are_heard_beside_three_liars_who_praise(roll):
    for number in range(20):
        calls(roll, f"honest-{number % 10}", True)
    for number in range(9):
        calls(roll, f"liar-{number % 3}", True)
    assert failures_until_hidden(roll, "honest", 8) <= 8


def test_one_at_a_desk_finds_out_within_hours_and_a_probe_brings_the_tool_back(roll):
    """Each hour of an unnamed caller is evidence of its own: a person alone has a broken tool out of the way."""
    clock = [1_800_000_000.0]
    roll._home.engine._clock = lambda: clock[0]
    for _ in range(10):
        clock[0] += 3_600
        calls(roll, "", True, reporter=UnnamedCaller("desk"))
    hours = 0
    while not is_hidden(roll):
        for _ in range(3):
            clock[0] += 20
            calls(roll, "", False, reporter=UnnamedCaller("desk"))
        clock[0] += 3_600
        hours += 1
        assert hours <= 8
    assert hours >= 4
    for _ in range(100):
        clock[0] += 20
        calls(roll, "", True, reporter=UnnamedCaller("desk"))
    assert not is_hidden(roll)


@pytest.mark.slow
def test_thirty_liars_lift_a_useless_tool_into_few_first_fives():
    """They praise it for every message: from 0.8 to 3.3 % of first fives, as before."""
    messages = [one["message"] for one in MESSAGES]
    roll = Toolroll.demo()
    times = iter(range(1_800_000_000, 1_900_000_000, 20))
    roll._home.engine._clock = lambda: float(next(times))
    roll._home.engine._draw = lambda: 7
    base = {tool.name for tool in roll.catalog.tools if tool.toolkit == "base"}

    def share(useless: str) -> float:
        fives = [roll.select(one, Context(settings=SETTINGS), k=5).names for one in messages]
        return sum(useless in [name for name in five if name not in base][:5] for five in fives) / len(fives)

    everyday(roll, 1)
    useless = next(tool.name for tool in roll.catalog.tools if tool.toolkit == "dns_blocking")
    before = share(useless)
    for liar in range(30):
        for message in messages[liar % 3 :: bounded(3, 1)]:
            picked = roll.select(message, Context(user=f"liar-{liar}", settings=SETTINGS), k=7)
            is_shown = useless in picked
            roll.record(picked, [useless] if is_shown else (), wanted=() if is_shown else [useless])
    assert share(useless) <= before + 0.03


def test_an_agent_without_a_user_takes_no_good_tool_from_others(roll):
    """A malicious result has the model call it with what fails. Before: hidden after seven failures."""
    selector = ToolSelector(roll, k=5)
    tools = [
        {"type": "function", "function": {"name": name, "description": text}}
        for name, text in tool_texts().items()
    ]
    for number in range(BOUGHT):
        conversation = f"c-{number}" if number % 2 else None
        messages = [{"role": "user", "content": f"{QUERY} {number}"}]
        turn = selector.turn(tools, messages, conversation=conversation)
        with pytest.raises(OSError), turn.call(GOOD):
            raise OSError("not found")
    assert roll.counters().outcomes["failed"] == BOUGHT
    assert share_first(roll) >= 0.9


def test_users_that_a_key_of_the_drop_in_invents_take_no_good_tool_from_others(roll):
    """Each request has the failed result of a call, as another user. Before: hidden after seven."""
    selector, form = RequestSelector(roll, k=5), form_of("POST", "/v1/chat/completions")
    assert form is not None
    tools = [
        {"type": "function", "function": {"name": name, "description": text}}
        for name, text in tool_texts().items()
    ]
    for number in range(BOUGHT):
        asked = [{"role": "user", "content": f"{QUERY} {number}"}]
        call = {"id": "c1", "type": "function", "function": {"name": GOOD, "arguments": "{}"}}
        failed = {"role": "tool", "tool_call_id": "c1", "content": "Error: it cannot be done"}
        answered = [*asked, {"role": "assistant", "content": None, "tool_calls": [call]}, failed]
        for messages in (asked, answered):
            body = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
            context = Context(user=f"invented-{number}")
            selector.select(body, form, RequestHeaders(), context, reporter=UnnamedCaller("key 1a2b"))
    assert roll.counters().outcomes["failed"] == BOUGHT
    assert share_first(roll) >= 0.9


# Over the gateway.


def gateway_folder_servers():
    from tests.integration.gateways import scripted, tool

    servers: dict[str, list[object]] = {}
    for name, text in tool_texts().items():
        server, _, own = name.partition("_")
        servers.setdefault(server, []).append(tool(own, text))
    return {name: scripted(tools=tools, fails_with=[7, "gone"]) for name, tools in servers.items()}


@asynccontextmanager
async def searching(folder):
    from tests.integration.gateways import gateway_over

    async with gateway_over(folder, gateway_folder_servers(), mode="search") as (gateway, client):
        yield gateway.catalog.roll, client


async def recorded(roll: Toolroll, client: object) -> dict[str, int]:
    """The outcomes that were reported, once all are: a search waits for those of its conversation."""
    await client.call("search_tools", {"queries": ["paint"]})  # type: ignore[attr-defined]
    assert roll.flush(20)
    return dict(roll.counters().outcomes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "outcome", "successes"),
    [({"text": 7}, "called", 0), ({"text": "gone"}, "failed", 2)],
    ids=["wrong arguments", "right arguments"],
)
def test_failing_calls_over_a_gateway_take_no_good_tool_from_others(tmp_path, arguments, outcome, successes):
    """A malicious result has the model call it. Before: rank 5 after six calls, and not found after seven."""
    from tests.integration.gateways import run

    async def go() -> None:
        async with searching(tmp_path) as (roll, client):
            for number in range(successes + BOUGHT):
                told, _ = await client.call("search_tools", {"queries": [QUERY]})
                assert f"## {GOOD}\n" in told
                fails = number >= successes
                _, is_error = await client.call(GOOD, arguments if fails else {"text": "fine"})
                assert is_error == fails
            assert (await recorded(roll, client)).get(outcome) == BOUGHT
            assert share_first(roll) >= 0.9

    run(go)


@pytest.mark.slow
def test_a_failing_call_that_no_search_found_teaches_nothing(tmp_path):
    """Before: the next search for a fact listed `files_read`, whose refused call had followed the first one."""
    from tests.integration.gateways import run

    search = {"queries": [QUERY], "limit": 2}

    async def go() -> None:
        async with searching(tmp_path) as (roll, client):
            before, _ = await client.call("search_tools", search)
            for arguments in ({"text": "gone"}, {"text": 7}, {"text": "gone"}):
                assert (await client.call("files_read", arguments))[1]
            assert await recorded(roll, client) == {}
            assert (await client.call("search_tools", search))[0] == before
            assert not (await client.call("files_write", {"text": "x"}))[1]  # one that works is wanted
            assert await recorded(roll, client) == {"wanted_succeeded": 1}

    run(go)


@pytest.mark.slow
def test_named_users_of_a_gateway_have_a_broken_tool_gone_after_eight_failures(tmp_path):
    pytest.importorskip("joserfc")
    from tests.integration.gateways import (
        http_client,
        http_server,
        run,
        write_configuration,
    )
    from toolroll.gateway.configuration import read_configuration
    from toolroll.gateway.identity import identified_caller
    from toolroll.gateway.serving import identity_of, open_gateway

    keys = {f"user-{number}": {"key": f"{number}" * 32} for number in range(8)}
    identity = {"url": "https://tools.example.org", "keys": keys}
    path = write_configuration(tmp_path, gateway_folder_servers(), mode="search", identity=identity)
    configuration = read_configuration(path, {})

    async def fails(url: str, key: str) -> None:
        async with http_client(url, key) as client:
            await client.call("search_tools", {"queries": [QUERY]})
            assert (await client.call(GOOD, {"text": "gone"}))[1]
            await client.call("search_tools", {"queries": ["paint"]})  # waits for the outcome

    async def go() -> None:
        opened = open_gateway(configuration, tmp_path / "state", caller_of=identified_caller("test"))
        async with (
            opened as (gateway, server),
            http_server(server, identity_of(configuration, gateway)) as url,
        ):
            await gateway.known(30)
            roll = gateway.catalog.roll
            for number, one in enumerate(keys.values(), 1):
                await fails(url, one["key"])
                assert roll.flush(20)
                assert number > 3 or share_first(roll) >= 0.9
            assert is_hidden(roll)

    run(go)


# Over REST.


@pytest.mark.slow
def test_reporters_that_a_key_invents_take_no_good_tool_from_others(database_url):  # noqa: F811
    """As reporters, as users of selections and as those of conversations.

    Before: after 14 invented reporters the tool was in 5 % of the whole organisation's lists.
    """
    from tests.integration.served import served

    with Registry.open(database_url, actor="ada") as registry:
        for name, text in tool_texts().items():
            registry.create(Tool(name, text))
        key = registry.keys.add("backend", roles=["select", "report"], org="")[1]
        with served(registry, database_url) as service:
            roll: Toolroll = service.application.state.roll
            for number in range(BOUGHT + 1):
                name = f"invented-{number}"
                context = {"user": name} if number % 3 else {}
                where = f"/sessions/{name}" if number % 3 == 2 else ""
                asked = {"message": QUERY, "k": 5, "context": context}
                _, _, picked = service("POST", f"{where}/select", asked, key=key)
                assert GOOD in picked["names"]
                said = {"called": {GOOD: False}}
                if where:
                    status, _, _ = service("POST", f"{where}/used", {**said, "context": context}, key=key)
                else:
                    said |= {"selection": picked["event_id"]} | ({} if context else {"reporter": name})
                    status, _, _ = service("POST", "/outcomes", said, key=key)
                assert status == 200
            assert roll.flush(20)
            assert share_first(roll) >= 0.9


@pytest.mark.slow
def test_users_whom_a_key_vouches_for_have_a_broken_tool_gone_after_eight_failures(
    new_database_url,  # noqa: F811
):
    from tests.integration.served import served

    database_url = new_database_url("sqlite")  # noqa: F811
    with Registry.open(database_url, actor="ada") as registry:
        for name, text in tool_texts().items():
            registry.create(Tool(name, text))
        key = registry.keys.add("backend", roles=["select", "report", "vouch"], org="")[1]
        with served(registry, database_url) as service:
            roll: Toolroll = service.application.state.roll
            for number in range(8):
                asked = {"message": QUERY, "k": 5, "context": {"user": f"user-{number}"}}
                _, _, picked = service("POST", "/select", asked, key=key)
                said = {"selection": picked["event_id"], "called": {GOOD: False}}
                if GOOD in picked["names"]:
                    service("POST", "/outcomes", said, key=key)
            assert roll.flush(20)
            assert is_hidden(roll)
