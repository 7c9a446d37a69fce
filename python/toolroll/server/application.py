"""The ASGI application of the service."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from toolroll import __version__
from toolroll.embedders import named
from toolroll.front.bodies import BodiesInFlight
from toolroll.model.errors import InvalidInput
from toolroll.registry.access.accounts import Accounts, EndedSessions
from toolroll.server.admission import OrgAdmission, RequestLimits, read_rate
from toolroll.server.conversations import session_router
from toolroll.server.description import describe, operation_id
from toolroll.server.direct_select import DirectSelect
from toolroll.server.gate import LOOPBACK, Gate
from toolroll.server.http_metrics import HttpMetrics, RequestMeter, org_refusals_in
from toolroll.server.key_reader import KeyReader
from toolroll.server.metrics import health_router, metrics_router
from toolroll.server.outcomes import outcome_router
from toolroll.server.page import add_page
from toolroll.server.page_sessions import LIFETIME_S, PageSessions
from toolroll.server.problems import problem_of_bug, problem_of_http
from toolroll.server.resources import close, open_registry, running, worker_metrics, worker_traces
from toolroll.server.selections import selection_router
from toolroll.server.settings import ServerSettings
from toolroll.server.sign_in import PATH as SIGN_IN_PATH
from toolroll.server.sign_in import SignInAttempts, sign_in_router
from toolroll.server.tool_registry.router import PREFIX, registry_router

if TYPE_CHECKING:
    from toolroll.server.identity_provider import IdentityProvider


from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def create_application(settings: ServerSettings) -> FastAPI:
    """Creates the service over the registry that the settings name. Its shutdown closes the registry.

    The application's `state` has the `roll` and the `registry`.

    Raises:
        NotFound, StoreUnavailable, InvalidInput: as `Toolroll.open`.
    """
    secret = settings.session_secret or secrets.token_urlsafe(32)
    provider = identity_provider(settings, secret)
    embedder = named.embedder(settings.embedder)
    traces = worker_traces(settings)
    roll, registry = open_registry(settings, embedder)
    try:
        accounts = Accounts(registry.database)
        ended = EndedSessions(registry.database, timedelta(seconds=LIFETIME_S))
        keys = None
        if settings.authentication == "keys":
            keys = KeyReader(registry.keys, accounts=accounts, sessions=ended)
    except BaseException:
        close(roll, registry)
        raise
    metrics = worker_metrics(settings, roll)
    sessions = PageSessions(secret, settings.public_url)
    attempts = SignInAttempts(read_rate(settings.sign_in_rate, "sign_in_rate"))
    application = FastAPI(
        title="toolroll",
        version=__version__,
        lifespan=lambda _: running(settings, metrics, traces, roll, registry),
        openapi_url=None,  # `describe` has a route of its own
        docs_url=None,  # its page loads scripts from other hosts
        redoc_url=None,
        generate_unique_id_function=operation_id,
    )
    describe(application)
    application.state.roll, application.state.registry = roll, registry
    application.add_exception_handler(HTTPException, problem_of_http)
    application.add_exception_handler(Exception, problem_of_bug)
    application.add_middleware(DirectSelect, roll=roll)
    application.add_middleware(
        Gate,
        keys=keys,
        limits=RequestLimits(settings.key_rate, settings.key_concurrency, settings.concurrency),
        admission=OrgAdmission(settings.org_rate, settings.concurrency, org_refusals_in(metrics.registry)),
        hosts=frozenset(name.lower() for name in settings.hosts or LOOPBACK),
        bodies=BodiesInFlight(settings.front.body_bytes, settings.front.in_flight_bytes),
        sessions=sessions,
        grants=settings.oidc_grants,
    )
    application.add_middleware(NoStore)
    application.add_middleware(
        RequestMeter, metrics=HttpMetrics.in_registry(metrics.registry), is_logged=settings.log_requests
    )
    if traces is not None:
        application.add_middleware(traces.middleware)
    application.include_router(health_router(roll, keys, registry.read_replica))
    application.include_router(metrics_router(metrics))
    for router in (selection_router, outcome_router, session_router):
        application.include_router(router(roll))
    application.include_router(registry_router(registry, roll, embedder), prefix=PREFIX)
    if keys is not None:
        application.include_router(sign_in_router(sessions, keys, attempts, settings.public_url, provider))
    add_page(application, sessions, settings.profile, keys, attempts)
    return application


def identity_provider(settings: ServerSettings, secret: str) -> IdentityProvider | None:
    """The identity provider of the settings; None if they name none.

    Raises:
        InvalidInput: a setting that belongs to it is missing, or a package.
    """
    if not settings.oidc_issuer:
        return None
    if settings.authentication == "none":
        raise InvalidInput("oidc_issuer: with authentication = none, nobody signs in")
    if not settings.oidc_client_id or not settings.oidc_grants:
        missing = "oidc_grants" if settings.oidc_client_id else "oidc_client_id"
        raise InvalidInput(f"{missing} is missing: oidc_issuer needs it")
    try:
        from toolroll.server.identity_provider import IdentityProvider
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "toolroll":
            raise
        raise InvalidInput(f"oidc_issuer needs {error.name}: pip install 'toolroll[oidc]'") from error
    return IdentityProvider(settings, secret, SIGN_IN_PATH)


_NAME, _HEADER = b"cache-control", (b"cache-control", b"no-store")


@dataclass(frozen=True, eq=False)
class NoStore:
    """An ASGI middleware that adds `Cache-Control: no-store` to answers without that header."""

    application: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                if all(name.lower() != _NAME for name, _ in headers):
                    message = {**message, "headers": [*headers, _HEADER]}
            await send(message)

        await self.application(scope, receive, send_with_header)
