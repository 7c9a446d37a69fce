"""Sign-in of a user who sits at this machine: the browser comes back to a port of the loopback interface."""

from __future__ import annotations

import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from socket import socket as Socket
from urllib.parse import urlsplit

import anyio
import uvicorn
from starlette.applications import Starlette

from toolroll.gateway.sign_in import Account
from toolroll.gateway.sign_in_client import SignInFailed
from toolroll.gateway.sign_in_pages import CALLBACK, SignIns, link_of


class _Server(uvicorn.Server):
    """A server beside another one in the process, which alone gets signals.

    sse-starlette takes the end of the server that has the signals for the end of the process, and would end
    all streams of events with this one.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


@asynccontextmanager
async def loopback_callback(sign_ins: SignIns, port: int = 0) -> AsyncIterator[str]:
    """Serves the browser's pages on this machine, and gives the address of its way back.

    port: that is tried first; 0 for any.
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
    server = _Server(settings)
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


def port_of(account: Account) -> int:
    """The port of the address that the account's registration is for; 0 for none."""
    registered = ((account.record().get("client") or {}).get("redirect_uris") or [""])[0]
    return urlsplit(str(registered)).port or 0


async def sign_in(account: Account, show: Callable[[str], object] = webbrowser.open) -> None:
    """Signs a user in who sits at this machine. show: gets the link.

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
