"""People sign in to the admin page: with a password, and at an identity provider. Over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("mcp")  # tests.integration.gateways
pytest.importorskip("authlib")
pytest.importorskip("joserfc")

import httpx2

from tests.integration.gateways import serving
from tests.integration.oidc_issuer import Issuer
from tests.ports import free_port
from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.model.tools import Tool
from toolroll.registry.access.accounts import Accounts
from toolroll.registry.editing.audit import Audit
from toolroll.registry.registry import Registry
from toolroll.server.application import create_application
from toolroll.server.setting_sources import read_settings
from toolroll.server.settings import ServerSettings

pytestmark = pytest.mark.slow

FROM_PAGE = {"X-Toolroll-Page": "1", "Sec-Fetch-Site": "same-origin"}
PASSWORD = "correct horse battery"
GRANTS = (
    {"group": "platform", "roles": ["read", "administer"], "any_org": True},
    {"group": "support", "roles": ["read"], "org": "acme"},
    {"group": "tenants", "roles": ["read"], "org_claim": "tenant"},
)
TOOLS = "/internal/tool-registry/tools"


@pytest.fixture
def registry(tmp_path):
    with Registry.open(f"sqlite:///{tmp_path}/tools.db", actor="ada") as registry:
        registry.create(Tool("send_mail", "Sends a mail"))
        yield registry


@asynccontextmanager
async def world(registry: Registry, **settings: Any) -> AsyncIterator[tuple[httpx2.AsyncClient, Issuer]]:
    """A browser at a service, and an identity provider that knows ann."""
    port = free_port()
    issuer = Issuer(f"http://127.0.0.1:{port}")
    issuer.claims = {"sub": "u1", "preferred_username": "ann", "groups": ["platform"]}
    given = {"oidc_issuer": issuer.url, "oidc_client_id": "toolroll", "oidc_grants": GRANTS, **settings}
    application = create_application(ServerSettings(catalog=registry.database.url, grace_s=5, **given))
    async with (
        serving(issuer.app(), port),
        serving(application, free_port()) as base,
        httpx2.AsyncClient(base_url=base, headers=FROM_PAGE, timeout=30) as browser,
    ):
        yield browser, issuer


async def sign_in(browser: httpx2.AsyncClient) -> str:
    """Follows the redirects to the provider and back. Where the page is shown then."""
    response = await browser.get("/admin/sign-in/provider")
    while response.status_code in (302, 303) and "/admin/" not in (response.headers["location"][:8]):
        response = await browser.get(response.headers["location"])
    return str(response.headers["location"])


def run(registry: Registry, steps: Any, **settings: Any) -> None:
    async def go() -> None:
        async with world(registry, **settings) as (browser, issuer):
            await steps(browser, issuer)

    asyncio.run(go())


async def who(browser: httpx2.AsyncClient) -> Any:
    response = await browser.get("/admin/session")
    return response.json() if response.status_code == 200 else response.status_code


def test_a_person_of_a_provider_has_what_the_first_grant_of_a_group_allows(registry):
    async def steps(browser, issuer):
        for claims, name, org, roles in (
            ({"groups": ["platform", "support"]}, "ann", None, ["administer", "read"]),
            ({"groups": ["support", "other"]}, "ann", "acme", ["read"]),
            ({"groups": "support"}, "ann", "acme", ["read"]),
            ({"groups": ["tenants"], "tenant": "globex"}, "ann", "globex", ["read"]),
            (
                {"groups": ["support"], "preferred_username": None, "email": "a@b.c"},
                "a@b.c",
                "acme",
                ["read"],
            ),
        ):
            issuer.claims = {"sub": "u1", "preferred_username": "ann", **claims}
            assert await sign_in(browser) == "/admin/"
            session = await who(browser)
            assert (session["name"], session["org"], session["roles"]) == (name, org, roles)
            assert (await browser.delete("/admin/session")).status_code == 204
            assert await who(browser) == 401

    run(registry, steps)


def test_the_audit_log_has_the_persons_name_and_subject(registry):
    async def steps(browser, issuer):
        await sign_in(browser)
        made = await browser.post(TOOLS, json={"name": "pay", "description": "Pays"})
        assert made.status_code == 201, made.text
        (change, *_) = Audit(registry.database).list(subject="pay")
        assert change.actor == f"ann (u1 at {issuer.url}) from 127.0.0.1"

    run(registry, steps)


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": ["strangers"]},
        {"groups": None},
        {"groups": {"platform": True}},
        {"groups": ["tenants"]},  # without the claim that has the organisation
        {"groups": ["tenants"], "tenant": ""},
        {"groups": ["tenants"], "tenant": ["acme"]},
        {"aud": "another service"},
        {"aud": ["another service"]},
        {"iss": "http://127.0.0.1:1"},
        {"nonce": "another sign-in's"},
        {"nonce": None},
        {"exp": 1_700_000_000},  # a constant: workers must name the test alike
        {"sub": None},
    ],
    ids=str,
)
def test_a_token_that_is_not_right_or_without_a_grant_signs_nobody_in(registry, claims):
    async def steps(browser, issuer):
        issuer.claims = {"sub": "u1", "groups": ["platform"], **claims}
        assert await sign_in(browser) == "/admin/?problem=denied"
        assert await who(browser) == 401

    run(registry, steps)


@pytest.mark.parametrize(
    "how",
    [
        "with the public key as a shared secret",
        "with another key",
        "with another body",
        "without a signature",
    ],
)
def test_a_forged_token_signs_nobody_in(registry, how):
    async def steps(browser, issuer):
        issuer.signs = lambda claims: issuer.forged("toolroll", how, **claims)
        assert await sign_in(browser) == "/admin/?problem=denied"
        assert await who(browser) == 401

    run(registry, steps)


def test_an_answer_counts_once_and_only_in_the_browser_that_asked(registry):
    async def steps(browser, issuer):
        to_provider = await browser.get("/admin/sign-in/provider")
        answer = (await browser.get(to_provider.headers["location"])).headers["location"]
        async with httpx2.AsyncClient(headers=FROM_PAGE) as other:
            assert (await other.get(answer)).headers["location"] == "/admin/?problem=denied"
        wrong_state = f"{answer.rpartition('state=')[0]}state=another"
        async with httpx2.AsyncClient(cookies=browser.cookies, headers=FROM_PAGE) as same:
            assert (await same.get(wrong_state)).headers["location"] == "/admin/?problem=denied"
        assert (await browser.get(answer)).headers["location"] == "/admin/"
        assert (await who(browser))["name"] == "ann"
        assert (await browser.get(answer)).headers["location"] == "/admin/?problem=denied"
        error = "/admin/sign-in/callback?error=access_denied&state=x"
        assert (await browser.get(error)).headers["location"] == "/admin/?problem=denied"

    run(registry, steps)


def test_a_session_at_a_provider_ends_with_its_grant(registry):
    settings = {"session_secret": "s" * 32, "oidc_issuer": "", "oidc_grants": ()}

    async def steps(browser, issuer):
        await sign_in(browser)
        cookies = dict(browser.cookies)
        async with world(registry, **settings) as (other, _):
            other.cookies.update(cookies)
            assert await who(other) == 401

    run(registry, steps, session_secret="s" * 32)


def test_a_provider_that_is_away_is_said_and_keys_still_work(registry):
    _, key = registry.keys.add("ops", roles=["read"], org=None)

    async def steps(browser, issuer):
        issuer.is_away = True
        assert await sign_in(browser) == "/admin/?problem=unavailable"
        assert (await browser.post("/admin/session", headers={"X-Service-Key": key})).status_code == 200
        issuer.is_away = False
        assert await sign_in(browser) == "/admin/"

    run(registry, steps)


def test_an_account_signs_in_by_its_password_until_it_changes(registry):
    accounts = Accounts(registry.database, "ada")

    async def steps(browser, issuer):
        page = await browser.get("/admin/sign-in")
        assert page.json() == {"accounts": True, "provider": "127.0.0.1"}
        answer = await browser.post("/admin/sign-in", json={"name": "bob", "password": PASSWORD})
        assert answer.status_code == 204
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
        session = await who(browser)
        assert (session["name"], session["org"], session["roles"]) == (
            "bob",
            "acme",
            ["read", "administer"][::-1],
        )
        made = await browser.post(TOOLS, json={"name": "pay", "description": "Pays"})
        assert made.status_code == 201
        (change, *_) = Audit(registry.database).list(subject="pay")
        assert (change.actor, change.org) == ("bob (account) from 127.0.0.1", "acme")
        assert (await browser.get(f"{TOOLS}?org=globex")).status_code == 403
        async with httpx2.AsyncClient(base_url=browser.base_url, cookies=browser.cookies) as without_header:
            assert await who(without_header) == 401

        accounts.set_password("bob", "another password")
        await asyncio.sleep(3.5)
        assert await who(browser) == 401
        answer = await browser.post("/admin/sign-in", json={"name": "bob", "password": PASSWORD})
        assert answer.status_code == 401

    accounts.add("bob", PASSWORD, roles=["read", "administer"], org="acme")
    run(registry, steps)


def test_a_page_of_another_site_signs_nobody_in(registry):
    Accounts(registry.database).add("bob", PASSWORD, roles=["read"])
    body = {"name": "bob", "password": PASSWORD}

    async def steps(browser, issuer):
        async with httpx2.AsyncClient(base_url=browser.base_url) as other:
            for headers in (
                {},
                {**FROM_PAGE, "Sec-Fetch-Site": "cross-site"},
                {"Sec-Fetch-Site": "same-origin"},
            ):
                answer = await other.post("/admin/sign-in", json=body, headers=headers)
                assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)

    run(registry, steps)


def test_an_attempt_beyond_the_rate_waits_and_one_that_would_wait_for_too_long_is_refused(registry):
    Accounts(registry.database).add("bob", PASSWORD, roles=["read"])

    async def steps(browser, issuer):
        statuses = []
        for number in range(5):
            body = {"name": f"eve{number}", "password": "wrong"}
            answer = await browser.post("/admin/sign-in", json=body)
            statuses.append(answer.status_code)
        assert statuses == [401, 401, 401, 429, 429]
        assert 1_000 <= int(answer.headers["retry-after"]) <= 1_200
        answer = await browser.post("/admin/sign-in", json={"name": "bob", "password": PASSWORD})
        assert answer.status_code == 429
        assert await sign_in(browser) == "/admin/?problem=busy"

    run(registry, steps, sign_in_rate="3/hour")


def test_behind_tls_the_cookies_are_for_https_alone_and_the_provider_sends_back_to_the_public_url(registry):
    async def steps(browser, issuer):
        answer = await browser.get("/admin/sign-in/provider")
        assert "Secure" in answer.headers["set-cookie"]
        sent = httpx2.URL(answer.headers["location"]).params["redirect_uri"]
        assert sent == "https://tools.example.com/admin/sign-in/callback"

    run(registry, steps, public_url="https://tools.example.com")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"oidc_client_id": ""}, "oidc_client_id is missing"),
        ({"oidc_grants": ()}, "oidc_grants is missing"),
        ({"authentication": "none"}, "nobody signs in"),
    ],
)
def test_a_provider_without_its_settings_is_an_error(registry, settings, said):
    async def steps(browser, issuer):
        pytest.fail("it started")

    with pytest.raises(InvalidInput, match=said):
        run(registry, steps, **settings)


@pytest.mark.parametrize(
    "grant",
    [
        '{roles = ["owner"]}',
        '{roles = []}',
        '{roles = ["sync"]}',
        '{roles = ["read"], org = "acme", any_org = true}',
        '{roles = ["read"], org_claim = "tenant", org = "acme"}',
        '{roles = ["read"], organisation = "acme"}',
    ],
)  # fmt: skip
def test_a_wrong_grant_is_an_error_with_its_place(tmp_path, grant):
    file = tmp_path / "server.toml"
    file.write_text(f'catalog = "sqlite:///t.db"\noidc_grants = [{grant}]\n')
    with pytest.raises(InvalidDefinition, match=r"oidc_grants\.0"):
        read_settings(file)


def test_workers_get_the_same_grants_from_their_environment(monkeypatch):
    settings = ServerSettings(catalog="sqlite:///t.db", oidc_grants=GRANTS, hosts=("a",))
    for name, value in settings.variables().items():
        monkeypatch.setenv(name, value)
    assert read_settings() == settings
