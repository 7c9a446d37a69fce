"""Two ways to sign in: the tool `sign_in`, and a command on this machine.

On this machine, the browser returns to a port of the loopback interface.
"""

from __future__ import annotations

import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from socket import socket as Socket
from urllib.parse import urlsplit

import anyio
import anyio.abc
import uvicorn
from starlette.applications import Starlette

from toolroll.gateway.accounts import ServerAccount
from toolroll.gateway.caller import Caller
from toolroll.gateway.protocol import Json, text_result
from toolroll.gateway.sign_in_client import SignInFailed
from toolroll.gateway.sign_in_pages import CALLBACK, SignIn, SignIns, link_of
from toolroll.gateway.tool_names import SIGN_IN
from toolroll.gateway.upstream import Upstream
from toolroll.model.context import Context
from toolroll.model.tools import Tool


class _SignInServer(uvicorn.Server):
    """A second server in the process. It leaves signals to the first one.

    When the server with the signals ends, sse-starlette ends all streams of events in the process.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


@asynccontextmanager
async def loopback_callback(sign_ins: SignIns, port: int = 0) -> AsyncIterator[str]:
    """Serves the browser's pages on this machine, and yields the address to which it returns.

    port: the first to try; 0 for any.
    """
    app = Starlette(routes=sign_ins.routes())
    settings = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        log_level="error",
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    server = _SignInServer(settings)
    try:
        socket = settings.bind_socket()
    except (OSError, SystemExit):  # somebody has the port
        settings.port = 0
        socket = settings.bind_socket()
    with socket:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve, server, socket)
            try:
                yield f"http://127.0.0.1:{socket.getsockname()[1]}{CALLBACK}"
            finally:
                server.should_exit = True


async def _serve(server: uvicorn.Server, socket: Socket) -> None:
    """Serves until `should_exit`. A cancelled server would leave its closed socket in the event loop."""
    with anyio.CancelScope(shield=True):
        await server.serve([socket])


def port_of(account: ServerAccount) -> int:
    """Returns the port in the account's registration; 0 if it has none."""
    registered = ((account.record().get("client") or {}).get("redirect_uris") or [""])[0]
    return urlsplit(str(registered)).port or 0


async def sign_in(account: ServerAccount, show: Callable[[str], object] = webbrowser.open) -> None:
    """Signs in a user at this machine. show: gets the link.

    Raises:
        SignInFailed: the user is not signed in.
    """
    sign_ins = SignIns()
    async with loopback_callback(sign_ins, port_of(account)) as address:
        attempt, _ = sign_ins.begin(account, address, {"User": "everybody who uses this gateway"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attempt.run)
            with suppress(SignInFailed):
                await attempt.begun()
                show(link_of(attempt))
            problem = await attempt.ended()
        await anyio.sleep(0.2)  # the browser gets its page
    if problem:
        raise SignInFailed(f"server {account.server!r}: {problem}")


def sign_in_definition(servers: Sequence[str]) -> Tool:
    """Returns the definition of the tool `sign_in` for these servers."""
    return Tool(
        SIGN_IN,
        f"Gives a link with which the user signs in at a server ({', '.join(servers)}), to use its tools.",
        {
            "type": "object",
            "properties": {"server": {"type": "string", "enum": list(servers)}},
            "required": ["server"],
            "additionalProperties": False,
        },
        annotations={"destructiveHint": False, "openWorldHint": True},
    )


class SignInTool:
    """The tool `sign_in`: it gives a user links to servers that demand a sign-in.

    Attributes:
        callback: the address to which browsers come back; "" if each attempt opens a port of this machine.
        sign_ins: the attempts that run.
    """

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        user_of: Callable[[Context], str],
        is_local: bool,
        tasks: Callable[[], anyio.abc.TaskGroup],
    ) -> None:
        """user_of: returns the user whose connection serves a context. tasks: runs attempts.

        is_local: whether callers are users of this machine. Other callers may sign in for themselves alone.
        """
        self.callback, self.sign_ins = "", SignIns()
        self._upstreams, self._user_of, self._is_local, self._tasks = upstreams, user_of, is_local, tasks

    def servers(self, caller: Caller) -> list[str]:
        """Returns the servers at which this caller can and must sign in."""
        user = self._user_of(caller.context)
        return [
            name
            for name, upstream in self._upstreams.items()
            if (self._is_local or upstream.spec.sign_in == "user") and upstream.needs_sign_in(user)
        ]

    async def call(self, caller: Caller, arguments: Json) -> Json:
        """Answers a call of the tool."""
        server = arguments.get("server")
        if server not in self.servers(caller):
            return text_result(
                f"{SIGN_IN}: no sign-in at {server!r:.80} is needed or possible", is_error=True
            )
        upstream, user = self._upstreams[server], self._user_of(caller.context)
        account = upstream.account(user)
        assert account is not None
        try:
            attempt = await self._begun(upstream, user, account, caller)
            await attempt.begun()
        except SignInFailed as error:
            return text_result(f"{SIGN_IN}: {error}", is_error=True)
        return text_result(
            f"To use {server}, the user has to sign in. Show this link, and wait until the user says that it "
            f"is done. It is for this user alone and can be used once, within ten minutes.\n\n"
            f"{link_of(attempt)}"
        )

    async def _begun(self, upstream: Upstream, user: str, account: ServerAccount, caller: Caller) -> SignIn:
        asker = _asker(caller, account)
        if self.callback:
            attempt, is_new = self.sign_ins.begin(account, self.callback, asker, _subject(caller, account))
            if is_new:
                self._tasks().start_soon(self._run, upstream, user, attempt)
            return attempt
        running = self.sign_ins.running(account)
        if running is None:
            running = await self._tasks().start(self._run_here, upstream, user, account, asker)
        return running

    async def _run(self, upstream: Upstream, user: str, attempt: SignIn) -> None:
        await attempt.run()
        if not attempt.problem:
            await upstream.connection_of(user)
            upstream.signed_in(user)

    async def _run_here(
        self,
        upstream: Upstream,
        user: str,
        account: ServerAccount,
        asker: Mapping[str, str],
        task_status: anyio.abc.TaskStatus[SignIn] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async with loopback_callback(self.sign_ins, port_of(account)) as address:
            attempt, _ = self.sign_ins.begin(account, address, asker)
            task_status.started(attempt)
            await self._run(upstream, user, attempt)
            await anyio.sleep(0.5)  # the browser gets its page


def _subject(caller: Caller, account: ServerAccount) -> tuple[str, str] | None:
    """Returns issuer and subject of the caller's token; None for a shared sign-in or a caller with a key."""
    token = caller.incoming.token
    issuer = (getattr(token, "claims", None) or {}).get("iss")
    return (issuer, token.subject) if issuer and account.user else None


def _asker(caller: Caller, account: ServerAccount) -> dict[str, str]:
    """Describes the user who gets the access, for the person who opens the link."""
    if not account.user:
        who = {"User": "everybody who uses this gateway"}
    else:
        who = {"Organisation": caller.context.org, "User": caller.context.user}
    who["Program, as it calls itself"] = caller.incoming.client
    return {label: name for label, name in who.items() if name}
