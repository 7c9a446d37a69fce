"""Servers behind a gateway that want their users to sign in by OAuth."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

pytest.importorskip("mcp")
pytest.importorskip("joserfc")

import anyio

from tests.integration.gateways import (
    client_of,
    http_client,
    http_server,
    run,
    serving,
    write_configuration,
)
from tests.integration.oauth_mcp_server import Authorization, browse, protected_app
from tests.integration.oidc_issuer import Issuer
from tests.ports import free_port
from toolroll.gateway.accounts import ServerAccounts
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.identity import identified_caller
from toolroll.gateway.protocol import httpx_client
from toolroll.gateway.serving import identity_of, open_gateway
from toolroll.gateway.sign_in_client import SignInFailed
from toolroll.gateway.sign_in_tool import sign_in
from toolroll.gateway.status import diagnose

pytestmark = pytest.mark.slow

KEY = "k" * 32


@asynccontextmanager
async def protected(folder, **options):
    """A server that wants a sign-in, and a configuration that has it as `r`."""
    port, authorization = free_port(), Authorization()
    url = f"http://127.0.0.1:{port}"
    servers = {"r": {"type": "http", "url": f"{url}/mcp"}}
    path = write_configuration(folder, servers, mode="all", tokens_key=KEY, **options)
    async with serving(protected_app(authorization, url), port):
        yield authorization, read_configuration(path, {})


@asynccontextmanager
async def opened(configuration, folder):
    async with (
        open_gateway(configuration, folder / "state") as (gateway, server),
        client_of(server) as client,
    ):
        await gateway.known(30)
        yield gateway, client


async def link(client):
    told, is_error = await client.call("sign_in", {"server": "r"})
    assert not is_error, told
    return re.search(r"http://\S+", told)[0]


async def listed(client, name):
    with anyio.fail_after(20):
        while name not in await client.names():
            await anyio.sleep(0.1)


def test_a_user_signs_in_where_a_list_would_be_empty_and_stays_signed_in(tmp_path):
    async def go():
        async with protected(tmp_path) as (authorization, configuration):
            async with opened(configuration, tmp_path) as (gateway, client):
                assert await client.names() == ["read_result", "sign_in"]
                assert "sign-in r" in gateway.upstreams["r"].main.reason
                told, _ = await client.call("search_tools", {"queries": ["who am I"]})
                assert "wait for their user's sign-in, see sign_in: r" in told
                assert await browse(await link(client)) == "You are signed in. You can close this page."
                await listed(client, "r_whoami")
                assert await client.call("r_whoami") == ("ann", False)
                assert "sign_in" not in await client.names()
            async with opened(configuration, tmp_path) as (_, client):
                assert await client.call("r_whoami") == ("ann", False)
            (diagnosis,) = await diagnose(configuration, tmp_path / "state")
            assert diagnosis.ok and diagnosis.tools == 1
            files = b"".join(path.read_bytes() for path in (tmp_path / "state" / "tokens").iterdir())
            secrets = (*authorization.access, *authorization.refresh)
            assert secrets and not any(secret.encode() in files for secret in secrets)
            assert len(authorization.clients) == 1

    run(go)


def test_another_process_renews_a_token_that_has_expired(tmp_path):
    async def go():
        async with protected(tmp_path) as (authorization, configuration):
            authorization.lifetime_s = 2
            await signed_in(configuration, tmp_path)
            await anyio.sleep(3)
            authorization.lifetime_s = 3_600
            async with opened(configuration, tmp_path) as (_, client):
                await listed(client, "r_whoami")
                assert await client.call("r_whoami") == ("ann", False)
            assert authorization.renewals == 1

    run(go)


def test_a_sign_in_that_was_revoked_is_asked_for_again(tmp_path):
    async def go():
        async with protected(tmp_path) as (authorization, configuration):
            await signed_in(configuration, tmp_path)
            authorization.access.clear()
            authorization.refresh.clear()
            async with opened(configuration, tmp_path) as (_, client):
                await listed(client, "sign_in")
                authorization.user = "bob"
                await browse(await link(client))
                await listed(client, "r_whoami")
                assert await client.call("r_whoami") == ("bob", False)

    run(go)


def test_a_user_who_refuses_is_not_signed_in(tmp_path):
    async def go():
        async with protected(tmp_path) as (authorization, configuration):
            authorization.user = ""
            with pytest.raises(SignInFailed, match="access_denied"):
                await signed_in(configuration, tmp_path)
            async with opened(configuration, tmp_path) as (_, client):
                assert "access_denied" in await browse(await link(client))
                assert "sign_in" in await client.names()

    run(go)


def test_tokens_are_worth_nothing_under_another_key(tmp_path):
    async def go():
        async with protected(tmp_path) as (_, configuration):
            await signed_in(configuration, tmp_path)
            options = configuration.options.model_copy(update={"tokens_key": "x" * 32})
            other = replace(configuration, options=options)
            async with opened(other, tmp_path) as (_, client):
                assert await client.names() == ["read_result", "sign_in"]

    run(go)


def test_each_user_signs_in_for_themselves_and_nobody_for_another(tmp_path):
    port = free_port()
    issuer = Issuer(f"http://127.0.0.1:{port}")
    own = free_port()
    identity = {"url": f"http://127.0.0.1:{own}", "issuer": issuer.url, "audience": "gateway"}

    options = {"identity": identity, "servers": {"r": {"sign_in": "user"}}}
    tokens = {user: issuer.token("gateway", sub=user) for user in ("ann", "bob", "eve")}

    @asynccontextmanager
    async def gateway(configuration):
        async with (
            open_gateway(configuration, tmp_path / "state", caller_of=identified_caller("test")) as (
                gateway,
                server,
            ),
            http_server(server, identity_of(configuration), gateway, own) as url,
        ):
            await gateway.known(30)
            yield url

    async def go():
        async with (
            serving(issuer.app(), port),
            protected(tmp_path, **options) as (authorization, configuration),
        ):
            async with gateway(configuration) as url:
                for user in ("ann", "bob"):
                    async with http_client(url, tokens[user]) as client:
                        authorization.user = user
                        assert "sign_in" in await client.names()
                        assert (await browse(await link(client))).startswith("You are signed in")
                        await listed(client, "r_whoami")
            async with gateway(configuration) as url:  # another process
                for user in ("bob", "ann"):
                    async with http_client(url, tokens[user]) as client:
                        await listed(client, "r_whoami")
                        assert await client.call("r_whoami") == (user, False)
                        assert "sign_in" not in await client.names()
                async with http_client(url, tokens["eve"]) as client:
                    assert "sign_in" in await client.names()
                    told, is_error = await client.call("r_whoami")
                    assert is_error and "sign in" in told
                async with httpx_client() as client:
                    answer = await client.get(f"http://127.0.0.1:{own}/oauth/callback?state=x&code=y")
                    assert answer.status_code == 400

    run(go)


def test_callers_who_are_known_cannot_sign_in_for_everybody(tmp_path):
    port = free_port()
    issuer = Issuer(f"http://127.0.0.1:{port}")
    identity = {"url": "https://tools.example.org", "issuer": issuer.url, "audience": "gateway"}

    async def go():
        async with (
            serving(issuer.app(), port),
            protected(tmp_path, identity=identity) as (_, configuration),
            open_gateway(configuration, tmp_path / "state", caller_of=identified_caller("test")) as (
                gateway,
                server,
            ),
            http_server(server, identity_of(configuration)) as url,
            http_client(url, issuer.token("gateway")) as client,
        ):
            await gateway.known(30)
            assert await client.names() == ["read_result"]
            assert (await client.call("sign_in", {"server": "r"}))[1]

    run(go)


async def signed_in(configuration, folder):
    """Signs in as the command does."""
    account = ServerAccounts.of_configuration(configuration, folder / "state").of(
        configuration.servers["r"], ""
    )
    problems = []
    async with anyio.create_task_group() as tasks:
        try:
            await sign_in(account, lambda url: tasks.start_soon(browse, url))
        except SignInFailed as error:
            problems.append(error)
    for problem in problems:
        raise problem
