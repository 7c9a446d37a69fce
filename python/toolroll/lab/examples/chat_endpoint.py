"""Asks a model behind OpenAI's interface for chat completions (extra `remote`)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from toolroll.model.errors import EmbedderUnavailable, InvalidInput, Unavailable
from toolroll.runtime.threads import CallPool, Full, Overdue

try:
    import urllib3  # noqa: F401  the endpoint below needs it, and would name embedders in its error
    from tenacity import (
        AsyncRetrying,
        RetryCallState,
        retry_if_exception,
        stop_after_attempt,
        wait_random_exponential,
    )
except ImportError as error:
    raise Unavailable(f'examples: {error}: pip install "toolroll[remote]"') from error

from toolroll.embedders.checks import RequestRejected
from toolroll.embedders.http_endpoint import Endpoint

KEY, OPENAI_KEY = "TOOLROLL_LLM_KEY", "OPENAI_API_KEY"  # variables of the environment
OPENAI = "https://api.openai.com/v1"

ATTEMPTS = 5  # of one request
BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0  # longest wait before the first retry; it doubles, with full jitter
LONGEST_WAIT_S = 300.0  # a server that asks for a longer wait is given up
MOST_BYTES = 4_000_000  # of an answer

_GRACE_S = 1.0  # beyond the endpoint's own time limit, for a server that sends its headers slowly
_TEMPERATURE = 0.8


class ChatUnavailable(Unavailable):
    """The model did not answer. is_final: no request will succeed, for example with a wrong key."""

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        is_retryable: bool = True,
        is_final: bool = False,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.is_retryable = is_retryable
        self.is_final = is_final


class ChatEndpoint:
    """A model on a server.

    Requests are retried with exponential backoff, or after the delay that the server states. If the server
    rejects a request as invalid, this and all later requests are sent without the optional parameters.
    """

    def __init__(self, base_url: str, model: str, *, timeout_s: float, concurrency: int, seed: int) -> None:
        """base_url: such as http://localhost:11434/v1.

        The key is in the environment: `TOOLROLL_LLM_KEY`, or `OPENAI_API_KEY` for OpenAI's own address.
        timeout_s: of each attempt. concurrency: most requests at the same time.

        Raises:
            InvalidInput: the address, the model or the key cannot be right.
        """
        if not model.strip():
            raise InvalidInput("model: is empty, must be a name that the server knows")
        if not 0 < timeout_s < math.inf:
            raise InvalidInput(f"timeout_s: is {timeout_s}, must be above 0 and finite")
        self._name = f"model {model}"
        self._endpoint = Endpoint(base_url, "/chat/completions", _key_for(base_url), self._name)
        self.url = self._endpoint.url
        self._calls = CallPool(concurrency, "toolroll-chat")
        self._model, self._timeout_s = model, timeout_s
        self._options: dict[str, Any] = {
            "seed": seed,
            "temperature": _TEMPERATURE,
            "response_format": {"type": "json_object"},
        }

    async def complete(self, messages: Sequence[Mapping[str, str]], most_tokens: int) -> str:
        """The text of the model's answer; "" if the answer has no text.

        Raises:
            ChatUnavailable: the server does not answer, or rejects the request.
        """
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=_wait,
            retry=retry_if_exception(_is_retryable),
            reraise=True,
        )
        return _text(await retrying(self._ask, messages, most_tokens))

    async def _ask(self, messages: Sequence[Mapping[str, str]], most_tokens: int) -> Any:
        options = self._options
        required = {"model": self._model, "messages": messages}
        limit = {"max_tokens": most_tokens} if options else {}
        try:
            return await self._post({**required, **options, **limit})
        except RequestRejected as error:
            if not error.only_this_text or not options:
                raise ChatUnavailable(
                    str(error), is_retryable=False, is_final=not error.only_this_text
                ) from None
        try:
            answer = await self._post(required)
        except RequestRejected as error:
            raise ChatUnavailable(str(error), is_retryable=False) from None
        self._options = {}
        return answer

    async def _post(self, body: Mapping[str, Any]) -> Any:
        timeout_s = self._timeout_s
        try:
            return await self._calls.arun(
                lambda: self._endpoint.post(body, timeout_s, MOST_BYTES), timeout_s + _GRACE_S
            )
        except RequestRejected:
            raise
        except EmbedderUnavailable as error:  # the endpoint is the embedders' own
            raise ChatUnavailable(str(error), retry_after_s=error.retry_after_s) from None
        except (Overdue, Full) as error:
            raise ChatUnavailable(f"{self._name}: {self._endpoint.url}: {error}") from None


def _key_for(base_url: str) -> str | None:
    key = os.environ.get(KEY)
    if not key and urlsplit(base_url)[:2] == urlsplit(OPENAI)[:2]:
        key = os.environ.get(OPENAI_KEY)
    return key


def _text(answer: Any) -> str:
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return ""
    return content if isinstance(content, str) else ""


def _is_retryable(error: BaseException) -> bool:
    return (
        isinstance(error, ChatUnavailable)
        and error.is_retryable
        and (error.retry_after_s or 0.0) <= LONGEST_WAIT_S
    )


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after_s if isinstance(error, ChatUnavailable) else None
    backoff = wait_random_exponential(multiplier=BACKOFF_S, max=LONGEST_BACKOFF_S)
    return max(backoff(state), asked or 0.0)
