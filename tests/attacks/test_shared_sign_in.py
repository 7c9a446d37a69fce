"""A user of a shared gateway sends the own sign-in link to a colleague, to use the colleague's account.

Before, the link was the provider's address and nothing was asked of the browser that came back: whoever opened
it and agreed gave the sender their token (1 of 1 victims).
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("mcp")
pytest.importorskip("joserfc")

import anyio
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.attacks import bounded
from tests.integration.gateways import (
    gateway_over,
    http_client,
    http_server,
    run,
    serving,
    write_configuration,
)
from tests.integration.oauth_mcp_server import Authorization, browser, followed, protected_app
from tests.integration.oidc_issuer import Issuer
from tests.ports import free_port
from toolroll.gateway import sign_in_pages
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.identity import identified_caller
from toolroll.gateway.serving import identity_of, open_gateway

pytestmark = pytest.mark.slow

KEY = "k" * 32
MALLORY = '</strong><script>alert(1)</script>\u202emallory"'
DONE = "You are signed in. You can close this page."


@asynccontextmanager
async def shared_gateway(folder):
    """A gateway whose users sign in by tokens, and a server that wants each user's own sign-in."""
    at_issuer, at_server, at_gateway = free_port(), free_port(), free_port()
    issuer, authorization = Issuer(f"http://127.0.0.1:{at_issuer}"), Authorization()
    identity = {
        "url": f"http://127.0.0.1:{at_gateway}",
        "issuer": issuer.url,
        "audience": "gateway",
        "claims": {"org": "org"},
    }
    server = f"http://127.0.0.1:{at_server}"
    path = write_configuration(
        folder,
        {"mail": {"type": "http", "url": f"{server}/mcp"}},
        mode="all",
        tokens_key=KEY,
        identity=identity,
        servers={"mail": {"sign_in": "user"}},
    )
    configuration = read_configuration(path, {})
    async with (
        serving(issuer.app(), at_issuer),
        serving(protected_app(authorization, server), at_server),
        open_gateway(configuration, folder / "state", caller_of=identified_caller("test")) as (gateway, own),
        http_server(own, identity_of(configuration), gateway, at_gateway) as url,
    ):
        await gateway.known(30)
        authorization.issuer = issuer
        yield authorization, lambda user: http_client(url, issuer.token("gateway", sub=user, org="acme"))


async def link(client):
    told, is_error = await client.call("sign_in", {"server": "mail"})
    assert not is_error, told
    return re.search(r"http://\S+", told)[0]


async def provider_of(mallorys, page):
    """The provider's address, which mallory gets by agreeing in the own browser."""
    shown = await mallorys.get(page)
    proof = re.search('name="page" value="([0-9a-f]+)"', shown.text)[1]
    agreed = await mallorys.post(page, data={"page": proof}, follow_redirects=False)
    return agreed.headers["location"]


async def has_access(client):
    _, is_error = await client.call("mail_whoami")
    return not is_error


def test_neither_the_link_nor_the_providers_address_gives_the_senders_calls_anothers_token(tmp_path):
    async def go():
        async with (
            shared_gateway(tmp_path) as (authorization, client_of),
            client_of(MALLORY) as mallory,
            browser() as mallorys,
            browser() as victims,
        ):
            authorization.user = "victim"
            page = await link(mallory)

            # The page says whose access it is, and shows mallory's name as what it is.
            shown = await victims.get(page)
            assert "acme" in shown.text and "mallory" in shown.text
            assert "<script" not in shown.text and "\u202e" not in shown.text
            headers = shown.headers
            assert (
                headers["cache-control"] == "no-store"
                and "frame-ancestors 'none'" in headers["content-security-policy"]
            )
            assert "default-src 'none'" in headers["content-security-policy"]
            cookie = headers["set-cookie"].lower()
            assert "httponly" in cookie and "samesite=lax" in cookie and "path=/" in cookie

            # Another site presses the button: without the cookie, without the page's proof, with mallory's.
            proof = re.search('value="([0-9a-f]+)"', (await mallorys.get(page)).text)[1]
            for given in ({}, {"page": ""}, {"page": proof}, {"page": "é" * 64}, {"page": "x" * 1_000_000}):
                assert (await victims.post(page, data=given)).status_code == 403
            async with browser() as other:
                assert (await other.post(page, data={"page": proof})).status_code == 403

            # Mallory agrees, and the victim only meets the provider.
            provider = await provider_of(mallorys, page)
            back = await followed(victims, provider)
            assert back.status_code == 403 and "Nobody is signed in" in back.text
            assert not await has_access(mallory)

            # The link was used.
            for person in (victims, mallorys):
                assert (await followed(person, page)).status_code == 410
            # A stale state or cookie is none.
            base = page.partition("/oauth")[0]
            for state in ("", "x", "é", provider.partition("state=")[2].partition("&")[0]):
                answer = await victims.get(f"{base}/oauth/callback", params={"state": state, "code": "c"})
                assert answer.status_code in (400, 403)
            assert not await has_access(mallory) and not authorization.access

            # A new link is another one, and ends the used one; each user signs in for themselves.
            second = await link(mallory)
            assert second != page
            assert (await followed(mallorys, provider)).status_code == 400
            async with client_of("victim") as victim:
                assert (await followed(victims, await link(victim))).text == DONE
                with anyio.fail_after(20):
                    while not await has_access(victim):
                        await anyio.sleep(0.1)
                assert await victim.call("mail_whoami") == ("victim", False)
            assert not await has_access(mallory)

    run(go)


def test_a_victim_who_agrees_gives_nothing_where_the_servers_issuer_is_the_gateways(tmp_path):
    """The page says whose access it is, and the victim agrees all the same: the token names another user."""

    async def go():
        async with (
            shared_gateway(tmp_path) as (authorization, client_of),
            client_of("mallory") as mallory,
            browser() as victims,
        ):
            authorization.user = "victim"
            authorization.signs = lambda user: authorization.issuer.token("mail", sub=user)
            told = (await followed(victims, await link(mallory))).text
            assert "another user has signed in" in told
            assert not await has_access(mallory)
            authorization.user = "mallory"
            assert (await followed(victims, await link(mallory))).text == DONE
            with anyio.fail_after(20):
                while not await has_access(mallory):
                    await anyio.sleep(0.1)

    run(go)


def test_a_link_is_worth_nothing_when_its_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(sign_in_pages, "LONGEST_S", 1.0)

    async def go():
        async with (
            shared_gateway(tmp_path) as (authorization, client_of),
            client_of("mallory") as mallory,
            browser() as victims,
        ):
            page = await link(mallory)
            await anyio.sleep(1.5)
            assert (await followed(victims, page)).status_code == 410
            assert not authorization.codes

    run(go)


def test_a_server_cannot_make_the_gateway_fetch_other_addresses_by_its_sign_in(tmp_path):
    """Before: one GET of any address for each `sign_in`, and a POST of any address as the registration."""
    fetched: list[str] = []
    at_server, at_neighbour = free_port(), free_port()
    own, neighbour = f"http://127.0.0.1:{at_server}", f"http://127.0.0.1:{at_neighbour}"

    async def secret(request):
        fetched.append(f"{request.method} {request.url}")
        return JSONResponse({"resource": f"{own}/mcp", "authorization_servers": [neighbour]})

    said: dict[str, object] = {}

    async def mcp(request):
        header = f'Bearer resource_metadata="{said["header"]}"'
        return JSONResponse({}, 401, {"WWW-Authenticate": header})

    async def metadata(request):
        return JSONResponse(said["metadata"], 200 if said["metadata"] else 404)

    async def authorization(request):
        return JSONResponse(
            {
                "issuer": own,
                "authorization_endpoint": f"{own}/authorize",
                "token_endpoint": f"{neighbour}/token",
                "registration_endpoint": said.get("registration", f"{neighbour}/register"),
                "response_types_supported": ["code"],
            }
        )

    hostile = Starlette(
        routes=[
            Route("/mcp", mcp, methods=["POST", "GET"]),
            Route("/.well-known/oauth-protected-resource{rest:path}", metadata),
            Route("/.well-known/oauth-authorization-server", authorization),
            Route("/moved", lambda request: JSONResponse({}, 307, {"location": f"{neighbour}/latest"})),
        ]
    )
    canary = Starlette(routes=[Route("/{path:path}", secret, methods=["GET", "POST"])])
    sound = {"resource": f"{own}/mcp", "authorization_servers": [own]}
    attacks = [
        {"header": f"{neighbour}/latest/meta-data", "metadata": None},
        {"header": f"http://localhost:{at_neighbour}/latest", "metadata": None},
        {"header": f"{own}/moved", "metadata": None},
        {"header": "", "metadata": {**sound, "authorization_servers": [neighbour]}},
        {
            "header": "",
            "metadata": {**sound, "authorization_servers": [f"http://[::ffff:127.0.0.1]:{at_neighbour}"]},
        },
        {"header": "", "metadata": sound},
        {"header": "file:///etc/passwd", "metadata": None},
        {"header": f"http://127.0.0.1:{at_server}@127.0.0.1:{at_neighbour}/", "metadata": None},
        {
            "header": f"https://localhost:{at_neighbour}/",
            "metadata": {**sound, "authorization_servers": [f"https://localhost:{at_neighbour}"]},
        },
    ]

    async def go():
        async with serving(hostile, at_server), serving(canary, at_neighbour):
            for number, attack in enumerate(attacks[: bounded(6, len(attacks))]):
                said.update(attack)
                folder = tmp_path / str(number)
                folder.mkdir()
                servers = {"mail": {"type": "http", "url": f"{own}/mcp"}}
                async with gateway_over(folder, servers, mode="all", tokens_key=KEY) as (_, client):
                    told, is_error = await client.call("sign_in", {"server": "mail"})
                    assert is_error, told
                assert not fetched, attack

    run(go)
