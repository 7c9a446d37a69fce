"""`ServerConnection`: one running instance of an MCP server. It is started again whenever it ends."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import anyio.abc
import anyio.to_thread
from mcp import MCPError

from toolroll.formats.visible_text import one_line
from toolroll.gateway.accounts import ServerAccount
from toolroll.gateway.budget import Budget
from toolroll.gateway.client import Client, open_http, open_sse, open_stdio
from toolroll.gateway.logs import ServerLog
from toolroll.gateway.openapi.server import open_openapi
from toolroll.gateway.protocol import INTERNAL_ERROR, Json, OnProgress, is_closed, visible_error
from toolroll.gateway.questions import Questions
from toolroll.gateway.reasons import exit_reason, first_error, last_line, quoted, reason_of, status_reason
from toolroll.gateway.references import address_of, process_of
from toolroll.gateway.server_output import METER
from toolroll.gateway.server_spec import ServerSpec
from toolroll.gateway.sign_in_client import SignInNeeded, renewing_client
from toolroll.gateway.traffic import Flood, LimitedStream, Traffic
from toolroll.model.errors import InvalidInput, Overloaded, ToolrollError, Unavailable

_log = logging.getLogger("toolroll.gateway")

State = Literal["starting", "up", "down", "stopped"]
FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 60.0
_STEADY_S = 30.0  # a connection that held so long begins with short waits again
_PING_S = 60.0
_PING_TIMEOUT_S = 20.0
_MOST_WAITING = 2_000  # calls that wait for their turn at one server
_LONGEST_REASON = 500
_PROGRESS, _PROGRESS_PER_S = 50, 10  # progress messages of a call for the client
_LONGEST_PROGRESS = 1_000  # characters of one


class Asker(Protocol):
    """A client with a running call, which can answer the server's questions."""

    @property
    def client_key(self) -> str:
        """Names the client: the same for all its requests."""

    async def asked(self, method: str, params: Json) -> Json:
        """Asks the client. Raises MCPError if it cannot answer."""


@dataclass(slots=True)
class _RunningRequest:
    """A running request.

    Attributes:
        scope: ends the request when it is cancelled.
        questions: the number of the server's questions during the request.
    """

    scope: anyio.CancelScope
    asker: Asker | None
    questions: int = 0


class ServerDown(Unavailable):
    """An MCP server is unavailable, or became so during the call."""


class ServerConnection:
    """One instance of a server. `run` keeps it alive; `request` sends it requests from any task.

    Attributes:
        state: "up" while requests may be sent.
        reason: why it is not up; "" if it is.
        starts: the number of its starts.
        retry_at, next_try: the time of the next start, by the monotonic clock (0 for none) and in seconds
            since 1970.
        traffic: counts the messages of the present connection.
        needs_sign_in: whether it is down because nobody has signed in.
    """

    def __init__(
        self,
        spec: ServerSpec,
        folder: Path,
        log: ServerLog,
        on_up: Callable[[Client], Awaitable[None]],
        on_notification: Callable[[str, Json], Awaitable[None]],
        account: ServerAccount | None = None,
    ) -> None:
        """folder: of the configuration. log: gets the standard error of its process.

        on_up: called after each start, before any other request. account: has the tokens for
        a server that asks for a sign-in.
        """
        self.spec, self.reason = spec, "it is being started"
        self.state: State = "starting"
        self.starts, self.retry_at, self.next_try, self.traffic = 0, 0.0, 0.0, Traffic()
        self.client: Client | None = None
        self.needs_sign_in = self._is_refused = False
        self._exit_code: int | None = None  # of the process that ended last
        self._status = 0  # of the last request over HTTP that was refused
        self._came_up = False  # the present connection
        self._log, self._words = log, log.new()  # of the server, and of the present process
        self._account = account
        self._folder = folder
        self._on_up, self._on_notification = on_up, on_notification
        self._first_try, self._changed, self._retry = anyio.Event(), anyio.Event(), anyio.Event()
        self._slots = anyio.Semaphore(spec.max_in_flight)
        self._waiting = 0
        self._calls: dict[object, _RunningRequest] = {}
        self._questions = Questions(spec.name, spec.questions_per_call, spec.questions_per_minute)
        self._closed, self._conversation = anyio.Event(), anyio.CancelScope()

    async def run(self) -> None:
        """Keeps the server running until it is cancelled."""
        wait_s, told = FIRST_RETRY_S, ""
        try:
            while True:
                began, starts = time.monotonic(), self.starts
                try:
                    await self._serve()
                    reason = self._why_ended(None)
                except Exception as error:  # whatever a server does costs its own tools only
                    reason = self._why_ended(error)
                    if isinstance(error, SignInNeeded):
                        wait_s = LONGEST_RETRY_S
                    _log.debug("server %r failed", self.spec.name, exc_info=error)
                if self.starts > starts:
                    told = ""
                    if time.monotonic() - began > _STEADY_S:
                        wait_s = FIRST_RETRY_S
                self._down(f"{reason}{self._last_words()}", time.monotonic() + wait_s)
                self.next_try = time.time() + wait_s
                # At every retry a dead server would say the same.
                level = logging.DEBUG if self.reason == told else logging.WARNING
                told = self.reason
                _log.log(level, "server %r: %s; next try in %.1f s", self.spec.name, told, wait_s)
                with anyio.move_on_after(wait_s):
                    await self._retry.wait()
                self._retry = anyio.Event()
                wait_s = min(2 * wait_s, LONGEST_RETRY_S)
                self._set("starting", self.reason)
        finally:
            self._down("the gateway has stopped it", 0.0)
            self.state = "stopped"

    async def tried(self) -> None:
        """Waits until the first start has succeeded or failed."""
        await self._first_try.wait()

    def retry_now(self) -> None:
        """Ends the wait before the next start."""
        self._retry.set()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        asker: Asker | None = None,
        on_progress: OnProgress | None = None,
    ) -> Json:
        """Sends a request and waits for its result.

        asker: the client that calls. It gets the server's questions.

        Raises:
            InvalidInput: the parameters cannot be written as JSON.
            ServerDown: the server is unavailable.
            Overloaded: too many requests wait for it.
            TimeoutError: it did not answer in time.
            MCPError: it answered with an error.
        """
        _check_json(method, params)
        timeout_s = self.spec.timeout_s if timeout_s is None else timeout_s
        try:
            self._slots.acquire_nowait()  # waiting requests come first
        except anyio.WouldBlock:
            await self._wait_for_slot(timeout_s)
        try:
            return await self._request(method, params, timeout_s, asker, on_progress)
        finally:
            self._slots.release()

    async def _wait_for_slot(self, timeout_s: float) -> None:
        if self._waiting >= _MOST_WAITING:
            raise Overloaded(
                f"server {self.spec.name!r}: {self._waiting:,} calls wait for it", retry_after_s=1.0
            )
        self._waiting += 1
        try:
            with anyio.fail_after(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise Overloaded(
                f"server {self.spec.name!r}: is busy with {self.spec.max_in_flight} other calls",
                retry_after_s=1.0,
            ) from None
        finally:
            self._waiting -= 1

    async def _request(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout_s: float,
        asker: Asker | None,
        on_progress: OnProgress | None,
    ) -> Json:
        if self.state == "starting":  # it may come back while the caller waits
            with anyio.move_on_after(min(timeout_s, self.spec.start_timeout_s)):
                while self.state == "starting":
                    await self._changed.wait()
        client, key = self.client, object()
        if client is None:
            raise self.away()
        with anyio.CancelScope(deadline=anyio.current_time() + timeout_s) as scope:
            self._calls[key] = _RunningRequest(scope, asker)
            try:
                told = None if on_progress is None else _paced(on_progress)
                return _complete(method, await client.request(method, params, told))
            except MCPError as error:
                if is_closed(error) and self.client is client:
                    self._ended()  # nothing can be sent any more, though the server may still write
                if self.client is not client:
                    raise self.away() from None
                raise self._readable(error, self._calls[key]) from None
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                raise self.away() from None
            finally:
                del self._calls[key]
        if self.client is not client:
            raise self.away()
        raise TimeoutError(f"server {self.spec.name!r}: did not answer within {timeout_s:g} s")

    def _readable(self, error: MCPError, call: _RunningRequest) -> MCPError:
        """Returns the server's error for the client. Its questions are counted and labelled."""
        client = "" if call.asker is None else call.asker.client_key
        return visible_error(self._questions.in_error(error, client, call.questions))

    def away(self) -> ServerDown:
        """Returns the error for an unavailable server, with the reason and the time of the next try."""
        wait_s = max(0.0, self.retry_at - time.monotonic()) if self.retry_at else 1.0
        reason = self.reason or "the connection ended"
        return ServerDown(f"server {self.spec.name!r} is away: {reason}", retry_after_s=round(wait_s, 1))

    async def _serve(self) -> None:
        """Starts the server, and returns when the connection has ended.

        Raises:
            Flood: the server sent too much.
            SignInNeeded: its user must sign in.
        """
        self.traffic, self._closed, self._is_refused = Traffic(), anyio.Event(), False
        self._exit_code, self._status, self._came_up = None, 0, False
        try:
            with anyio.CancelScope() as self._conversation:
                await self._converse()
        except Exception:  # a transport whose server sent too much, or that is cancelled, fails in many ways
            self._check_ending()
            raise
        self._check_ending()

    def _check_ending(self) -> None:
        """Raises the reason of the end, if the transport's error does not contain it."""
        if self._is_refused:
            self.needs_sign_in = True
            raise SignInNeeded(
                f"its user has to sign in: call sign_in, or run `toolroll mcp sign-in {self.spec.name}`"
            ) from None
        if self.traffic.flood is not None:
            raise self.traffic.flood from None

    async def _converse(self) -> None:
        async with self._transport() as (source, target):
            limited = LimitedStream(source, self.traffic, self._ended)
            async with Client(
                (limited, target), self._on_question, self._on_notification, self.traffic.asked
            ) as client:
                with anyio.fail_after(self.spec.start_timeout_s):
                    await client.initialize()
                    self.client = client
                    await self._on_up(client)
                self.starts += 1
                self.needs_sign_in, self._came_up = False, True
                self._set("up", "")
                await self._watch(client)
                self._ended()

    def _ended(self) -> None:
        """Fails open calls with the real reason, before the MCP session fails them with a vague one."""
        self._closed.set()
        if self.state == "up":
            self._down(str(self.traffic.flood or "it closed the connection"), 0.0)

    async def _watch(self, client: Client) -> None:
        """Returns when the connection has ended, or when an idle server does not answer a ping."""
        while not self._closed.is_set():
            with anyio.move_on_after(_PING_S):
                await self._closed.wait()
                return
            if not self._calls:  # a busy server may have no time for it
                try:
                    with anyio.fail_after(_PING_TIMEOUT_S):
                        await client.request("ping", None)
                except MCPError as error:  # an error is an answer
                    if is_closed(error):
                        return

    def _set(self, state: State, reason: str) -> None:
        self.state, self.reason = state, one_line(reason, _LONGEST_REASON)
        if state != "starting":
            self._first_try.set()
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _down(self, reason: str, retry_at: float) -> None:
        self.client, self.retry_at = None, retry_at
        self._set("down", reason)
        for call in self._calls.values():
            call.scope.cancel()

    async def _on_question(self, method: str, params: Json) -> Json:
        """Passes a server's request on to the client whose call it serves.

        A server's question does not name its call. If several clients have running calls, the question is
        refused: no client may read about another's call.
        """
        asking = [call for call in self._calls.values() if call.asker is not None]
        clients = {call.asker.client_key for call in asking if call.asker is not None}
        if len(clients) != 1:
            raise MCPError(
                INTERNAL_ERROR, f"{method}: no call of a single client is running that could be asked"
            )
        call = asking[-1]
        assert call.asker is not None
        self._questions.check(method, params, call.asker.client_key, call.questions)
        call.questions += 1
        return await call.asker.asked(method, self._questions.signed(method, params))

    @asynccontextmanager
    async def _transport(self) -> Any:
        spec, environ = self.spec, os.environ
        METER.set(self.traffic)
        if spec.transport == "stdio":
            command, args, env, cwd = process_of(spec, environ, self._folder)
            self._words = self._log.new()
            async with (
                self._words.pipe() as errors,
                open_stdio(command, args, env, cwd, errors, self._on_exit) as streams,
            ):
                errors.close()  # the process has it now
                yield streams
            return
        url, headers, document = address_of(spec, environ, self._folder)
        if spec.transport == "openapi":
            async with open_openapi(url, document, self._folder, headers, self._log.tell) as streams:
                yield streams
            return
        opened = open_http if spec.transport == "http" else open_sse
        auth = None
        if self._account is not None:
            auth = await anyio.to_thread.run_sync(renewing_client, self._account, self._refused)
        has_secret = any(name.lower() == "authorization" for name in headers)
        may_sign_in = auth is None and not has_secret and self._account is not None

        def failed(status: int) -> None:
            self._status = status
            if status == 401 and may_sign_in:
                self._refused()

        async with opened(url, headers, auth, failed) as streams:
            yield streams

    def _refused(self) -> None:
        """Ends the conversation with a server that requires a sign-in."""
        self._is_refused = True
        self._conversation.cancel()

    def _on_exit(self, code: int) -> None:
        self._exit_code = code

    def _why_ended(self, error: Exception | None) -> str:
        """Says why the connection ended or failed."""
        if self._exit_code is not None and not isinstance(error, (ToolrollError, Flood)):
            return exit_reason(self._exit_code)
        if error is not None and isinstance(first_error(error), TimeoutError) and not self._came_up:
            return f"it did not answer within {self.spec.start_timeout_s:g} s of its start"
        if self._status and not self._came_up and not isinstance(error, ToolrollError):
            return status_reason(self._status)
        return "it closed the connection" if error is None else reason_of(error)

    def _last_words(self) -> str:
        """Quotes the last line of the server's standard error, if the server ended by itself."""
        if self.spec.transport != "stdio" or self.state == "up":
            return ""
        words = last_line(self._words.end)
        return f" (its last line: {quoted(words)})" if words else ""


def _complete(method: str, result: Json) -> Json:
    """Returns the result. Raises MCPError if it is a question to the client (protocol 2026-07-28)."""
    if result.get("resultType", "complete") != "complete":
        raise MCPError(
            INTERNAL_ERROR,
            f"{method}: the server answers with a question to the user, which this gateway does not pass on",
        )
    return result


def _paced(on_progress: OnProgress) -> OnProgress:
    """Drops progress notifications that come too fast to be read."""
    budget = Budget(_PROGRESS, _PROGRESS_PER_S)

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        if math.isfinite(progress) and (total is None or math.isfinite(total)) and budget.take():
            await on_progress(progress, total, message and one_line(message, _LONGEST_PROGRESS))

    return tell


def _check_json(method: str, params: Mapping[str, Any]) -> None:
    """Refuses parameters that would fail in the transport: that would end the connection for all clients."""
    try:
        json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{method}: a string holds a lone surrogate (\\u{ord(error.object[error.start]):04x}), "
            "must be Unicode text"
        ) from error
    except RecursionError as error:
        raise InvalidInput(f"{method}: its parameters are nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{method}: its parameters cannot be written as JSON: {error}") from error
