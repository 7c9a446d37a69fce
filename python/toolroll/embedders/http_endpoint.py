"""Posts JSON to one HTTP address and reads JSON back; time and size of the answer are bounded."""

from __future__ import annotations

import json
import os
import time
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from toolroll.embedders.checks import RequestRejected
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

try:
    import urllib3
except ImportError as error:
    raise EmbedderUnavailable(f'remote embedder: {error}: pip install "toolroll[remote]"') from error

CONNECT_S = 5.0  # longest wait for a connection
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
TEXT_STATUSES = (400, 413, 422)  # the text is too long, or the server cannot read it
RETRY_STATUSES = (408, 409, 425, 429)  # and 5xx: the same request may succeed later
EXCERPT = 200  # characters of the server's own message in ours


class Endpoint:
    """Posts JSON to `base_url` + `path`. Safe to share between threads and to use after a fork.

    It follows no redirects, requests no compression, and uses `HTTPS_PROXY` and similar variables except for
    this machine. The key stands in the requests only, never in a message, log or repr.

    Attributes:
        url: where it posts.
    """

    def __init__(self, base_url: str, path: str, api_key: str | None, name: str) -> None:
        """name: the embedder's or model's name, for messages."""
        self.url = _checked(base_url) + path
        self._name, self._key = name, _checked_key(api_key)
        self._headers = {"Content-Type": "application/json", "User-Agent": "toolroll"}
        if self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"
        self._pid, self._pool = os.getpid(), _pool(self.url)

    def post(self, body: object, timeout_s: float, most_bytes: int) -> Any:
        """The answer's JSON.

        `timeout_s` bounds each wait for the network, and reading the whole answer. It does not bound a server
        that sends its headers slowly; `GuardedEmbedder` does.

        Raises:
            RequestRejected: the server rejected the request or redirected it.
            EmbedderUnavailable: the answer is not JSON of at most `most_bytes` with status 200.
        """
        if self._pid != os.getpid():  # sockets shared with the parent would mix up the answers
            self._pid, self._pool = os.getpid(), _pool(self.url)
        deadline = time.monotonic() + timeout_s
        try:
            response = self._pool.request(
                "POST",
                self.url,
                body=json.dumps(body).encode(),
                headers=self._headers,
                timeout=urllib3.Timeout(connect=min(CONNECT_S, timeout_s), read=timeout_s),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            try:
                content = self._read(response, deadline, most_bytes)
            except BaseException:
                response.close()
                raise
            response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise EmbedderUnavailable(f"{self._name}: no answer from {self.url}: {_reason(error)}") from None
        if response.status != 200:
            raise self._refusal(response, content)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise EmbedderUnavailable(
                f"{self._name}: {self.url} answered no JSON: {type(error).__name__}"
            ) from None

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float, most_bytes: int) -> bytes:
        content = bytearray()
        while part := response.read(65_536):
            content += part
            if len(content) > most_bytes:
                raise EmbedderUnavailable(
                    f"{self._name}: {self.url} answered with over {most_bytes} bytes, too many"
                )
            if time.monotonic() > deadline:
                raise EmbedderUnavailable(f"{self._name}: {self.url} did not finish its answer in time")
        return bytes(content)

    def _refusal(self, response: urllib3.BaseHTTPResponse, content: bytes) -> EmbedderUnavailable:
        status = response.status
        message = f"{self._name}: {self.url} answered {status}{self._server_message(content)}"
        if 300 <= status < 400:
            return RequestRejected(
                f"{message}: redirects are not followed, give the final address as base_url"
            )
        if status in RETRY_STATUSES or status >= 500:
            return EmbedderUnavailable(
                message, retry_after_s=_retry_after(response.headers.get("Retry-After"))
            )
        return RequestRejected(message, only_this_text=status in TEXT_STATUSES)

    def _server_message(self, content: bytes) -> str:
        """The server's own error message, if it is in the usual place, without our key."""
        try:
            answer = json.loads(content)
            said = answer["error"]
            said = said["message"] if isinstance(said, dict) else said
        except (ValueError, RecursionError, KeyError, TypeError):
            return ""
        if not isinstance(said, str):
            return ""
        if self._key:
            said = said.replace(self._key, "***")
        printable = "".join(c if c.isprintable() else " " for c in said)[:EXCERPT]
        return f" ({printable})"


def _pool(url: str) -> urllib3.PoolManager:
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    host = parts.hostname or ""
    if not proxy or host in LOCAL_HOSTS or proxy_bypass(host):
        return urllib3.PoolManager(maxsize=8)
    try:
        return urllib3.ProxyManager(proxy, maxsize=8)
    except (urllib3.exceptions.HTTPError, ValueError):
        raise InvalidInput(f"{parts.scheme.upper()}_PROXY: is no http:// or https:// address") from None


def _checked(base_url: str) -> str:
    """The address without a final slash. No message repeats a password in it."""
    try:
        parts = urlsplit(base_url)
        _ = parts.port  # raises for one that is no number
    except ValueError as error:
        raise InvalidInput(f"base_url: {error}") from None
    if parts.username or parts.password:
        raise InvalidInput("base_url: contains a user or a password; use api_key for a key")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(
            f"base_url: is {base_url!r:.200}, must be like http://localhost:11434, without ? or #"
        )
    return base_url.rstrip("/")


def _checked_key(key: str | None) -> str:
    key = (key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise InvalidInput("api_key: contains characters that an HTTP header cannot have")
    return key


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """The reason, without the library's own message, which repeats the address."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, urllib3.exceptions.NewConnectionError):  # refused, unreachable, unknown host
        return getattr(cause, "strerror", None) or type(cause or error).__name__
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return "timed out while connecting"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "timed out waiting for the answer"
    return type(cause or error).__name__


def _retry_after(value: str | None) -> float | None:
    """Seconds, from a number or a date; None for anything else."""
    if value is None:
        return None
    try:
        return max(0.0, float(urllib3.Retry().parse_retry_after(value)))
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return None
