"""The admin page: its files and its session routes. The page uses the same routes as any client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from toolroll import __version__
from toolroll.selection.profiles import profile_names
from toolroll.server.callers import caller_of
from toolroll.server.key_reader import KeyReader
from toolroll.server.page_sessions import KeySubject, PageSessions
from toolroll.server.problems import ProblemRoute
from toolroll.server.sign_in import SignInAttempts

PATH = "/admin"
SESSION_PATH = f"{PATH}/session"
FOLDER = Path(__file__).with_name("static")
NOT_BUILT = """\
The admin page is not built. In a checkout, with Node.js 20 or later:

    cd web && npm ci && npm run build

and start the service again. Wheels of a release have the page.
"""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FOR_EVER = "public, max-age=31536000, immutable"  # the names of these files change with their content


def add_page(
    application: FastAPI,
    sessions: PageSessions,
    profile: str,
    keys: KeyReader | None,
    attempts: SignInAttempts,
    folder: Path = FOLDER,
) -> None:
    """Adds the page and its sessions to the service, behind its gate.

    keys: None if callers need no key. attempts: the turns of sign-ins. folder: the built files.
    """
    application.include_router(_session_router(sessions, profile, keys, attempts))
    if (folder / "index.html").is_file():
        application.mount(PATH, GZipMiddleware(_PageFiles(directory=folder, html=True)))
        return

    @application.get(PATH, include_in_schema=False)
    @application.get(f"{PATH}/", include_in_schema=False)
    async def say_how_to_build() -> Response:
        return PlainTextResponse(NOT_BUILT, 404)


def is_open(path: str) -> bool:
    """Whether the path is a file of the page. Those hold nothing of the registry."""
    return path == PATH or (path.startswith(f"{PATH}/") and path != SESSION_PATH)


def _session_router(
    sessions: PageSessions, profile: str, keys: KeyReader | None, attempts: SignInAttempts
) -> APIRouter:
    router = APIRouter(tags=["page"], route_class=ProblemRoute)

    def who(request: Request) -> dict[str, Any]:
        caller = caller_of(request)
        return {
            "name": caller.name,
            "key_id": caller.key_id,
            "org": caller.org,
            "roles": sorted(caller.roles),
            "has_keys": keys is not None,
            "profile": profile,
            "profiles": sorted(profile_names()),
            "version": __version__,
        }

    @router.get(SESSION_PATH)
    async def read_session(request: Request) -> dict[str, Any]:
        """Says who is signed in. `org` is null for a caller of any organisation."""
        return who(request)

    @router.post(SESSION_PATH)
    async def sign_in(request: Request, response: Response) -> dict[str, Any]:
        """Begins a session for the key in the headers: the answer sets its cookie."""
        if key_id := caller_of(request).key_id:
            await attempts.take(attempts.key(key_id))
            sessions.begin(request, response, KeySubject(key_id))
        return who(request)

    @router.delete(SESSION_PATH, status_code=204, response_class=Response)
    async def sign_out(request: Request) -> Response:
        """Ends the session, wherever its cookie is: in other workers and replicas within 3 seconds."""
        session = sessions.session(dict(request.scope["headers"]))
        if session is not None and keys is not None:
            await keys.end(session.session_id, caller_of(request).actor)
        response = Response(status_code=204)
        sessions.end(response)
        return response

    return router


class _PageFiles(StaticFiles):
    """The files of the page. Browsers load nothing else into it, and show it in no frame."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        is_named_by_content = path.startswith("assets")
        response.headers.update(
            {**_HEADERS, "Cache-Control": _FOR_EVER if is_named_by_content else "no-cache"}
        )
        return response
