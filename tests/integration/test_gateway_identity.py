"""Callers of a gateway over HTTP: tokens of an issuer, service keys, and who may do what."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

pytest.importorskip("mcp")
pytest.importorskip("joserfc")


from tests.integration.gateways import (
    http_client,
    http_server,
    run,
    scripted,
    serving,
    tool,
    write_configuration,
)
from tests.integration.oidc_issuer import Issuer
from tests.ports import free_port
from toolroll import Registry, Rule
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.identity import identified_caller
from toolroll.gateway.protocol import httpx_client
from toolroll.gateway.serving import identity_of, open_gateway
from toolroll.model.errors import InvalidDefinition, InvalidInput, StoreUnavailable

pytestmark = pytest.mark.slow

URL = "https://tools.example.org"
AUDIENCE = f"{URL}/mcp"
KEY = "k" * 32
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class World:
    """A gateway behind an issuer."""

    def __init__(self, gateway, issuer, url):
        self.gateway, self.issuer, self.url = gateway, issuer, url

    def token(self, **claims):
        return self.issuer.token(AUDIENCE, **{"org": "acme", **claims})

    def client(self, token):
        return http_client(self.url, token)

    async def post(self, token, body=PING, **headers):
        headers |= {"Accept": "application/json, text/event-stream"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with httpx_client(headers=headers) as client:
            return await client.post(self.url, json=body)


@asynccontextmanager
async def world(folder, tools=(), **identity):
    port = free_port()
    issuer = Issuer(f"http://127.0.0.1:{port}")
    claims = {"org": "org", "roles": "realm_access.roles", "tier": "plan"}
    options = {"url": URL, "issuer": issuer.url, "claims": claims, **identity}
    servers = {"a": scripted(tools=[tool("pid"), tool("send"), *tools])}
    path = write_configuration(folder, servers, mode="all", identity=options)
    configuration = read_configuration(path, {})
    async with (
        serving(issuer.app(), port),
        open_gateway(configuration, folder / "state", caller_of=identified_caller("test")) as (
            gateway,
            server,
        ),
        http_server(server, identity_of(configuration, gateway)) as url,
    ):
        await gateway.known(30)
        yield World(gateway, issuer, url)


def test_a_tokens_claims_decide_what_its_bearer_may_have(tmp_path):
    async def go():
        async with world(tmp_path) as w:
            with Registry.open(f"sqlite:///{tmp_path / 'state' / 'registry.db'}", actor="ann") as registry:
                rule = Rule("no-guests", "deny", "role", {"role": "guest"}, tool="a_send")
                registry.rules.add(rule)
            await w.gateway.catalog.refresh()
            async with w.client(w.token(realm_access={"roles": ["staff"]})) as staff:
                assert await staff.names() == ["a_pid", "a_send", "read_result"]
                assert not (await staff.call("a_send"))[1]
            async with w.client(w.token(realm_access={"roles": ["guest"]})) as guest:
                assert await guest.names() == ["a_pid", "read_result"]
                assert (await guest.call("a_send"))[1]
        calls = [json.loads(line) for line in (tmp_path / "state" / "calls.jsonl").read_text().splitlines()]
        assert [(call["org"], call["user"]) for call in calls] == [("acme", "ann")]

    run(go)


def test_a_token_that_is_not_the_issuers_for_this_gateway_is_refused_with_the_way_to_a_better_one(tmp_path):
    refused = {
        "another audience": {"aud": "https://other.example.org/mcp"},
        "another issuer": {"iss": "https://evil.example.org"},
        "expired": {"exp": int(time.time()) - 120},
        "without an end": {"exp": None},
        "not yet valid": {"nbf": int(time.time()) + 120},
        "without its organisation": {"org": None},
        "with an organisation that is no text": {"org": ["acme"]},
        "with roles that are no texts": {"realm_access": {"roles": [1]}},
        "without a subject": {"sub": None},
    }
    forgeries = (
        "with the public key as a shared secret",
        "with another key",
        "with another body",
        "without a signature",
    )

    async def go():
        async with world(tmp_path) as w:
            tokens = {why: w.token(**{"roles": [], **claims}) for why, claims in refused.items()}
            tokens |= {how: w.issuer.forged(AUDIENCE, how) for how in forgeries}
            tokens |= {"nothing": "", "rubbish": "rubbish", "long": "a.b." + "c" * 20_000}
            for why, token in tokens.items():
                response = await w.post(token)
                assert response.status_code == 401, why
                told = response.headers["www-authenticate"]
                assert f'resource_metadata="{URL}/.well-known/oauth-protected-resource/mcp"' in told
            assert (await w.post(w.token())).status_code != 401
            async with httpx_client() as client:
                metadata = await client.get(f"{w.url[:-4]}/.well-known/oauth-protected-resource/mcp")
            assert metadata.json()["resource"] == AUDIENCE
            assert metadata.json()["authorization_servers"] == [f"{w.issuer.url}/"]

    run(go)


def test_a_token_without_a_scope_that_is_asked_for_is_forbidden(tmp_path):
    async def go():
        async with world(tmp_path, scopes=["tools"]) as w:
            assert (await w.post(w.token(scope="mail"))).status_code == 403
            async with w.client(w.token(scope="mail tools")) as client:
                assert not (await client.call("a_send"))[1]

    run(go)


def test_a_service_key_is_a_caller_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CI_KEY", KEY)

    async def go():
        keys = {"ci": {"key": "${env:CI_KEY}", "org": "acme", "roles": ["robot"]}}
        async with world(tmp_path, keys=keys) as w:
            async with w.client(KEY) as client:
                assert not (await client.call("a_send"))[1]
            assert (await w.post(KEY[:-1] + "x")).status_code == 401
        (call,) = map(json.loads, (tmp_path / "state" / "calls.jsonl").read_text().splitlines())
        assert (call["org"], call["user"]) == ("acme", "ci")

    run(go)


def test_a_key_needs_no_scope_of_the_issuers_tokens(tmp_path):
    async def go():
        async with world(tmp_path, keys={"ci": {"key": KEY}}, scopes=["tools"]) as w:
            assert (await w.post(KEY)).status_code != 403
            async with w.client(KEY) as client:
                assert not (await client.call("a_send"))[1]

    run(go)


def test_a_service_key_of_the_registry_is_a_caller_with_mapped_roles_until_it_is_revoked(tmp_path):
    async def go():
        mapped = {"roles": {"report": ["robot"], "administer": ["staff"]}, "tier": "pro"}
        async with world(tmp_path, registry_keys=mapped) as w:
            with Registry.open(f"sqlite:///{tmp_path / 'state' / 'registry.db'}", actor="ann") as registry:
                registry.rules.add(Rule("no-robots", "deny", "role", {"role": "robot"}, tool="a_send"))
                robot, robots = registry.keys.add("nightly", roles=["select", "report"], org="acme")
                _, staff = registry.keys.add("nightly", roles=["select", "administer"], org="globex")
                _, reporter = registry.keys.add("reporter", roles=["report"], org="acme")
                _, ended = registry.keys.add("ended", roles=["select"], lifetime=timedelta(0))
                await w.gateway.catalog.refresh()
                async with w.client(robots) as client, w.client(staff) as other:
                    assert await client.names() == ["a_pid", "read_result"]
                    assert (await client.call("a_send"))[1]
                    assert await other.names() == ["a_pid", "a_send", "read_result"]
                    assert (await client.call("a_pid"))[0] != (await other.call("a_pid"))[0]
                    await client.call("a_pid")
                    opened = await w.post(robots, INITIALIZE)
                    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
                    assert (await w.post(robots, PING, **session)).status_code == 200
                    assert (await w.post(staff, PING, **session)).status_code == 404
                    registry.keys.revoke(robot.key_id)
                    assert (await w.post(robots, PING, **session)).status_code == 401
                    assert not (await other.call("a_send"))[1]
                    refused = await w.post(reporter)
                    assert refused.status_code == 403 and "lacks the role 'select'" in refused.text
                    for wrong in (ended, staff[:-1] + "-", "trk_", "trk__x", f"trk_{'0' * 99}_x", "trk_%_x"):
                        assert (await w.post(wrong)).status_code == 401
                assert (await w.post(w.token(sub="key:nightly"), INITIALIZE)).status_code == 401
        calls = [json.loads(line) for line in (tmp_path / "state" / "calls.jsonl").read_text().splitlines()]
        assert {(call["org"], call["user"]) for call in calls} == {
            ("acme", "key:nightly"),
            ("globex", "key:nightly"),
        }

    run(go)


def test_a_key_of_any_organisation_acts_for_the_configured_one(tmp_path):
    async def go():
        async with world(tmp_path, registry_keys={}) as w:
            with Registry.open(f"sqlite:///{tmp_path / 'state' / 'registry.db'}", actor="ann") as registry:
                _, key = registry.keys.add("backend", roles=["select"], org=None)
            async with w.client(key) as client:
                await client.call("a_send")
        (call,) = map(json.loads, (tmp_path / "state" / "calls.jsonl").read_text().splitlines())
        assert (call.get("org"), call["user"]) == (None, "key:backend")

    run(go)


def test_service_keys_of_the_registry_are_refused_unless_the_configuration_accepts_them(tmp_path):
    async def go():
        async with world(tmp_path) as w:
            with Registry.open(f"sqlite:///{tmp_path / 'state' / 'registry.db'}", actor="ann") as registry:
                _, key = registry.keys.add("backend", roles=["select"])
            assert (await w.post(key)).status_code == 401

    run(go)


def test_while_the_registry_is_away_its_keys_let_nobody_in_and_send_nobody_away(tmp_path, monkeypatch):
    async def go():
        async with world(tmp_path, registry_keys={}) as w:
            keys = w.gateway.catalog.registry.keys
            _, key = keys.add("backend", roles=["select"])

            def away(*_):
                raise StoreUnavailable("the database does not answer")

            with monkeypatch.context() as patched:
                patched.setattr(type(keys), "find", away)
                answer = await w.post(key)
            assert answer.status_code == 503 and "Retry-After" in answer.headers
            assert (await w.post(key, INITIALIZE)).status_code == 200

    run(go)


def test_plain_requests_need_a_token_too(tmp_path):
    async def go():
        async with world(tmp_path) as w:
            url = f"{w.url.removesuffix('/mcp')}/tools/list"
            async with httpx_client() as client:
                assert (await client.get(url)).status_code == 401
                listed = await client.get(url, headers={"Authorization": f"Bearer {w.token()}"})
            assert [each["name"] for each in listed.json()["tools"]] == ["a_pid", "a_send", "read_result"]

    run(go)


def test_a_session_serves_only_the_caller_who_opened_it(tmp_path):
    async def go():
        async with world(tmp_path) as w:
            opened = await w.post(w.token(), INITIALIZE)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            assert (await w.post(w.token(), PING, **session)).status_code == 200
            assert (await w.post(w.token(sub="bob"), PING, **session)).status_code == 404
            assert (await w.post("", PING, **session)).status_code == 401

    run(go)


def test_users_of_the_same_name_in_two_organisations_share_no_process(tmp_path):
    async def go():
        async with world(tmp_path) as w:
            pids = []
            for org in ("acme", "globex", "acme"):
                async with w.client(w.token(org=org)) as client:
                    pids.append((await client.call("a_pid"))[0])
            assert pids[0] == pids[2] != pids[1]

    run(go)


def test_while_the_issuer_is_away_nobody_is_let_in_and_nobody_is_sent_away(tmp_path):
    async def go():
        async with world(tmp_path) as w:
            w.issuer.is_away = True
            response = await w.post(w.token())
            assert response.status_code == 503 and response.headers["retry-after"] == "5"
            w.issuer.is_away = False
            async with w.client(w.token()) as client:
                assert not (await client.call("a_send"))[1]

    run(go)


def test_a_gateway_with_callers_who_sign_in_answers_to_its_public_name_alone(tmp_path):
    async def go():
        async with world(tmp_path) as w:
            for host, status in (("tools.example.org", 200), ("evil.example.org", 421)):
                assert (await w.post(w.token(), INITIALIZE, Host=host)).status_code == status

    run(go)


@pytest.mark.parametrize(
    ("identity", "problem"),
    [
        ({"url": "http://tools.example.org", "issuer": "https://x.example.org"}, "must begin with https://"),
        ({"url": URL, "issuer": "http://x.example.org"}, "must begin with https://"),
        ({"url": URL}, "needs an issuer, keys or registry_keys"),
        ({"url": URL, "isuer": "https://x.example.org"}, "isuer: is no known key"),
    ],
)
def test_an_identity_that_protects_nobody_is_an_error_of_the_configuration(tmp_path, identity, problem):
    path = write_configuration(tmp_path, {"a": scripted()}, identity=identity)
    with pytest.raises(InvalidDefinition, match=problem):
        read_configuration(path, {})


def test_a_service_key_that_can_be_guessed_is_refused(tmp_path):
    keys = {"ci": {"key": "secret"}}
    path = write_configuration(tmp_path, {"a": scripted()}, identity={"url": URL, "keys": keys})
    with pytest.raises(InvalidInput, match="has 6 characters, must have 32"):
        identity_of(read_configuration(path, {}))
