"""The gate before all routes: checks host, key and limits of each request, and finds its caller."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolroll.front.bodies import BodiesInFlight
from toolroll.server.admission import BUSY_RETRY_S, OrgAdmission, RequestLimits, Ticket
from toolroll.server.callers import Caller, Grant, address_of, caller_of_person
from toolroll.server.key_reader import KeyReader
from toolroll.server.large_requests import LargeRequests
from toolroll.server.metering import TimedSteps
from toolroll.server.page import is_open
from toolroll.server.page_sessions import AccountSubject, KeySubject, PageSessions, is_of_another_site
from toolroll.server.problems import problem

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY = "*"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_allowed(header: bytes, allowed: Collection[str]) -> bool:
    """Whether a Host header names one of these hosts, with any port; "*" allows any host.

    A browser lets any page send requests to 127.0.0.1 under the page's own host name (DNS rebinding). So a
    service without keys must check the name.
    """
    if ANY in allowed:
        return True
    name = header.decode("latin-1").lower()
    before, colon, port = name.rpartition(":")
    if colon and port.isdecimal():
        name = before
    return name in allowed


# Probes have no key, and call a pod by its address. The description is the same for everybody.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
_BEARER = "bearer "
_OPEN_BODY_BYTES = 16 * 1_024  # of a request that needs no key: a name and a password

Headers = Mapping[bytes, bytes]
Refusal = Callable[[Scope, int, str, str], Response]  # of a status, a title and a detail


def service_key_in(headers: Headers) -> str:
    """The text of the key in the headers of a request to the service; "" where there is none."""
    text = headers.get(b"x-service-key", b"").decode("latin-1")
    authorization = headers.get(b"authorization", b"").decode("latin-1")
    if not text and authorization[: len(_BEARER)].lower() == _BEARER:
        text = authorization[len(_BEARER) :].strip()
    return text


def problem_for(_: Scope, status: int, title: str, detail: str) -> Response:
    """Problem details, which the service answers."""
    return problem(status, title, detail)


def _leave_at_end(ticket: Ticket, send: Send) -> Send:
    """Wraps `send`: a request leaves before its client has the whole answer and may send the next."""

    async def send_leaving(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            ticket.leave()
        await send(message)

    return send_leaving


@dataclass(frozen=True, eq=False)
class Gate:
    """An ASGI middleware that admits requests and sets their `request.state.caller`.

    Attributes:
        keys: the registry's service keys; None admits everybody, for everything.
        limits: of each caller.
        hosts: names by which the service may be called.
        sessions: of people who signed in to the admin page.
        grants: the rights of people whom an identity provider knows.
        open_paths: paths that are not checked at all.
        is_open: whether a path needs no key, but the right host.
        key_of: reads the key in the headers of a request.
        key_place: names the header of the key in the answer to a caller without one.
        refusal: makes the answer to a refused request.
        admission: limits of each organisation; None sets no limit.
        large: the turns of requests with long bodies, which are in `request.state.large`.
    """

    application: ASGIApp
    keys: KeyReader | None
    limits: RequestLimits
    hosts: frozenset[str]
    bodies: BodiesInFlight
    sessions: PageSessions = field(default_factory=PageSessions)
    grants: tuple[Grant, ...] = ()
    open_paths: frozenset[str] = OPEN_PATHS
    is_open: Callable[[str], bool] = is_open
    key_of: Callable[[Headers], str] = service_key_in
    key_place: str = "Authorization: Bearer or X-Service-Key"
    refusal: Refusal = problem_for
    admission: OrgAdmission | None = None
    large: LargeRequests = field(default_factory=LargeRequests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or scope["path"] in self.open_paths:
            await self.application(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        if self.is_open(scope["path"]) and is_allowed(headers.get(b"host", b""), self.hosts):
            address = f"address {address_of(scope.get('client'))}"
            with self.bodies.limited(receive, address, _OPEN_BODY_BYTES) as counted:
                await self.application(scope, counted, send)
            return
        caller = await self._admit(scope, headers)
        if isinstance(caller, Response):
            await caller(scope, receive, send)
            return
        ticket, state = caller.ticket, scope["state"]
        state["large"] = self.large
        note = None if ticket is None else ticket.received
        try:
            with self.bodies.limited(receive, caller.credential, note=note) as counted:
                if ticket is None:
                    await self.application(scope, counted, send)
                else:
                    await TimedSteps(
                        self.application(scope, counted, _leave_at_end(ticket, send)), ticket.spend
                    )
        finally:
            self.limits.end(caller.credential)
            if ticket is not None:
                ticket.leave()

    async def _admit(self, scope: Scope, headers: Headers) -> Caller | Response:
        """Begins the request and returns its caller, or returns the answer that refuses it."""
        if not is_allowed(headers.get(b"host", b""), self.hosts):
            return self.refusal(
                scope, 421, "Misdirected request", "the service is not known by this host name"
            )
        caller = await self._caller(address_of(scope.get("client")), headers)
        if caller is None:
            detail = f"a valid service key is needed, as {self.key_place}"
            return self._refuse(scope, 401, "Not authenticated", detail, {"WWW-Authenticate": "Bearer"})
        if self.admission is not None:
            caller = replace(caller, ticket=self.admission.ticket())
        scope.setdefault("state", {})["caller"] = caller  # the log names the key of a refused request too
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self.bodies.longest:
            return self.refusal(
                scope, 413, "Too large", f"the body is longer than {self.bodies.longest:,} bytes"
            )
        wait_s = await self.limits.overdrawn_s(caller.credential)
        if wait_s is not None:
            detail, headers_of_wait = "the key has used up its requests", {"Retry-After": str(wait_s)}
            return self._refuse(scope, 429, "Too many requests", detail, headers_of_wait)
        if not self.limits.begin(caller.credential, caller.org is None):
            detail, headers_of_wait = (
                "too many requests with this key at a time",
                {"Retry-After": str(BUSY_RETRY_S)},
            )
            return self._refuse(scope, 503, "Busy", detail, headers_of_wait)
        return caller

    async def _caller(self, address: str, headers: Headers) -> Caller | None:
        """The caller with the key or the session in these headers; None if there is neither.

        Without keys, everybody on this machine may call, except a page of another site in a browser.
        """
        if self.keys is None:
            return None if is_of_another_site(headers) else Caller.anyone(address)
        text = self.key_of(headers)
        now = datetime.now(timezone.utc)
        if text:
            key = (await self.keys.ring()).find(text, now)
            return None if key is None else Caller.of_key(key, address)
        session = self.sessions.session(headers)
        if session is None or await self.keys.has_ended(session.session_id):
            return None
        subject = session.subject
        if isinstance(subject, KeySubject):
            key = (await self.keys.ring()).of_id(subject.key_id, now)
            return None if key is None else Caller.of_key(key, address)
        if isinstance(subject, AccountSubject):
            account = (await self.keys.accounts()).of_version(subject.name, subject.version)
            return None if account is None else Caller.of_account(account, address)
        return caller_of_person(subject, self.grants, address)

    def _refuse(
        self, scope: Scope, status: int, title: str, detail: str, headers: Mapping[str, str]
    ) -> Response:
        answer = self.refusal(scope, status, title, detail)
        answer.headers.update(headers)
        return answer
