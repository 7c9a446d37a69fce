"""Sign-in of people to the admin page: with an account's password, or at an identity provider.

With a service key, `page.py` signs people in.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from toolroll.model.errors import Denied, Unavailable
from toolroll.runtime.threads import CallPool
from toolroll.server.admission import BUSY_RETRY_S
from toolroll.server.bodies import Body, SignInAnswer
from toolroll.server.callers import address_of
from toolroll.server.key_reader import KeyReader
from toolroll.server.page_sessions import AccountSubject, PageSessions, Subject, is_of_page
from toolroll.server.problems import ProblemRoute, problem

if TYPE_CHECKING:
    from toolroll.server.identity_provider import IdentityProvider


import asyncio
import ipaddress
import math
import time
from collections.abc import Callable

from limits import RateLimitItem

PATH = "/admin/sign-in"
PAGE = "/admin/"
HASHES_AT_A_TIME = 2  # each takes 64 MiB and a processor
WAITING_SIGN_INS = 20  # in browsers that an account knows, and as many in others; beyond, the answer is 503

_log = logging.getLogger(__name__)


class PasswordBody(Body):
    """A person's name and password."""

    name: str = Field(max_length=512, examples=["ann"])
    password: str = Field(max_length=4_096, examples=["correct horse battery staple"])


def sign_in_router(
    sessions: PageSessions,
    keys: KeyReader,
    attempts: SignInAttempts,
    public_url: str,
    provider: IdentityProvider | None,
) -> APIRouter:
    """The routes below `PATH`, which need no key.

    public_url: as in the settings.
    """
    router = APIRouter(tags=["page"], route_class=ProblemRoute)
    places = Counter[str]()  # where attempts wait, by who makes them
    pool = CallPool(HASHES_AT_A_TIME, "toolroll-passwords")

    @asynccontextmanager
    async def turn(turns: Mapping[str, float], who: str) -> AsyncIterator[None]:
        """Waits for the turns of an attempt, then runs the context. who: owns the waiting place.

        Raises:
            HTTPException: there are too many attempts.
        """
        if places[who] >= WAITING_SIGN_INS:
            retry = {"Retry-After": str(BUSY_RETRY_S)}
            raise HTTPException(503, "too many people sign in at a time", retry)
        places[who] += 1
        try:
            await attempts.take(turns)
            yield
        finally:
            places[who] -= 1

    def signed_in(request: Request, response: Response, subject: Subject, name: str) -> Response:
        sessions.begin(request, response, subject)
        _log.info("signed in", extra={"person": name, "address": address_of(request.scope.get("client"))})
        return response

    @router.get(PATH)
    async def how_to_sign_in() -> SignInAnswer:
        """Says how people can sign in, apart from a service key."""
        return SignInAnswer(
            accounts=len(await keys.accounts()) > 0, provider=provider.label if provider else ""
        )

    @router.post(PATH, status_code=204, response_class=Response)
    async def sign_in_with_password(request: Request, body: PasswordBody) -> Response:
        """Begins a session for a person with an account: the answer sets its cookie."""
        if not is_of_page(dict(request.scope["headers"])):
            return problem(403, "Denied", "only the admin page signs people in: X-Toolroll-Page is missing")
        browser = sessions.browser(dict(request.scope["headers"]))
        is_known = browser.knows(body.name)
        address = address_of(request.scope.get("client"))
        turns = attempts.account(body.name, address, browser.browser_id if is_known else "")
        async with turn(turns, "known" if is_known else "others"):
            book = await keys.accounts()
            account = await pool.arun(lambda: book.check(body.name, body.password))
        if account is None:
            _log.warning("sign-in refused", extra={"address": address})
            return problem(401, "Not authenticated", "there is no account with this name and password")
        subject = AccountSubject(account.name, book.version_of(account.name))
        response = Response(status_code=204)
        sessions.remember(request, response, browser, account.name, PATH)
        return signed_in(request, response, subject, account.name)

    if provider is None:
        return router

    @router.get(f"{PATH}/provider", status_code=302, response_class=Response)
    async def begin_at_provider(request: Request) -> Response:
        """Sends the browser to the identity provider."""
        base = public_url or str(request.base_url).rstrip("/")
        try:
            return await provider.begin(request, f"{base}{PATH}/callback", secure=sessions.is_secure(request))
        except Unavailable as error:
            return _back_to_page(error)

    @router.get(f"{PATH}/callback", status_code=303, response_class=Response)
    async def finish_at_provider(request: Request) -> Response:
        """Begins a session for a person who comes back from the identity provider."""
        try:
            async with turn(attempts.place(address_of(request.scope.get("client"))), "provider"):
                person = await provider.finish(request)
        except HTTPException:
            return RedirectResponse(f"{PAGE}?{urlencode({'problem': 'busy'})}", 303)
        except (Denied, Unavailable) as error:
            response: Response = _back_to_page(error)
        else:
            response = signed_in(request, RedirectResponse(PAGE, 303), person, person.name)
        provider.forget(response)
        return response

    return router


def _back_to_page(error: Denied | Unavailable) -> Response:
    """Redirects to the page, which tells the kind of the failure. Only the log has the reason."""
    _log.warning("sign-in refused: %s", error)
    kind = "denied" if isinstance(error, Denied) else "unavailable"
    return RedirectResponse(f"{PAGE}?{urlencode({'problem': kind})}", 303)


LONGEST_DELAY_S = 10.0
PLACES = 5


class SignInAttempts:
    """The turns of attempts to sign in, by address and by account. Each worker has its own.

    Beyond a rate, an attempt waits for its turn: wrong passwords of a stranger keep nobody out who has the
    right one. An attempt that would wait for longer than `LONGEST_DELAY_S` is refused. An account takes
    `PLACES` times the rate of an address, so one address cannot use up its turns. A browser in which the
    account signed in before has turns of its own.

    The turns follow the generic cell rate algorithm: one number for each address and account.
    Source: ITU-T I.371, 2004, annex A.
    """

    def __init__(self, rate: RateLimitItem, clock: Callable[[], float] = time.monotonic) -> None:
        """rate: of an address, and of a browser that an account knows."""
        self._period_s, self._interval_s = rate.get_expiry(), rate.get_expiry() / rate.amount
        self._clock = clock
        self._used: dict[str, float] = {}  # turn → the time at which all of it is free again

    def wait_s(self, intervals: Mapping[str, float]) -> float:
        """The seconds that an attempt waits for its turns. One that would wait too long takes no turn.

        intervals: turn → the seconds between two of them, as `place` and `account` return them. As many as
            fit in the time of the rate come at once.
        """
        now = self._clock()
        waits_s = (self._used.get(turn, now) - now - self._period_s + s for turn, s in intervals.items())
        wait_s = max(0.0, *waits_s)
        if wait_s <= LONGEST_DELAY_S:
            self._used = {turn: at for turn, at in self._used.items() if at > now}
            for turn, interval_s in intervals.items():
                self._used[turn] = max(now, self._used.get(turn, now)) + interval_s
        return wait_s

    async def take(self, intervals: Mapping[str, float]) -> None:
        """Waits for the turns of an attempt.

        Raises:
            HTTPException: 429, it would have to wait for too long.
        """
        wait_s = self.wait_s(intervals)
        if wait_s > LONGEST_DELAY_S:
            retry = {"Retry-After": str(math.ceil(wait_s - LONGEST_DELAY_S))}
            raise HTTPException(429, "too many attempts to sign in", retry)
        await asyncio.sleep(wait_s)

    def key(self, key_id: str) -> dict[str, float]:
        """The turns of a service key. Its sign-ins need no password, but each may write a line to the log."""
        return {f"key {key_id}": self._interval_s}

    def place(self, address: str) -> dict[str, float]:
        """The turns of an address; for IPv6, of its /64 network, which belongs to one customer."""
        return {f"address {_network(address)}": self._interval_s}

    def account(self, name: str, address: str, browser: str) -> dict[str, float]:
        """The turns of an attempt at an account.

        browser: the id of a browser in which the account signed in before; "" for others.
        """
        if browser:
            return {f"browser {browser} {name}": self._interval_s}
        return {**self.place(address), f"account {name}": self._interval_s / PLACES}


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address
