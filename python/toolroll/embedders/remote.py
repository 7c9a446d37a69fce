"""Embedders behind HTTP (extra `remote`): batches, checks, and the identity of the model behind a name.

Ollama, OpenAI's embeddings and the servers that speak the same protocol: vLLM, TEI, LiteLLM, …
"""

from __future__ import annotations

import logging
import math
import os
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from toolroll.embedders import fingerprint
from toolroll.embedders.checks import RequestRejected, clean
from toolroll.embedders.http_endpoint import Endpoint
from toolroll.model.embedder import Embedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput
from toolroll.runtime.threads import CallPool, Full, Overdue

logger = logging.getLogger(__name__)

BYTES_A_TEXT = 256 * 1024  # the limit for an answer; 8,192 numbers of 30 characters are less
RECHECK_S = 600.0  # between two comparisons of the server's model with the first one


class RemoteEmbedder(Embedder):
    """An embedder whose model is on a server and known by its name.

    The constructor embeds one fixed text, which gives width and identity (`fingerprint`). If the server does
    not answer but has answered before, the embedder uses the earlier identity, so that cached vectors remain
    usable, and compares the model once the server answers. It compares again every ten minutes: vectors of
    another model cannot be compared with the old ones, so from then on every call fails.

    A text is cut at `max_chars`, since servers reject longer texts or cut them at different places. A blank
    text is not sent: its row is zero. A zero vector from the server is an error. There are no retries and no
    outer deadline here: `GuardedEmbedder` has them.

    Attributes:
        identity: provider, model and revision, without the address: two servers may run one model.
    """

    _provider: ClassVar[str]
    _default_url: ClassVar[str]
    _path: ClassVar[str]  # the request's path, after the address

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        dim: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        batch: int = 64,
        max_chars: int = 6_000,
        timeout_s: float = 30.0,
        query_timeout_s: float = 2.0,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """Requests one vector from the server.

        base_url: None for the provider's own address. dim: asks for shorter vectors, if the model has them.
        query_prefix, document_prefix: prefixes from the model's card for questions and documents. folder:
        where models are remembered, by default beside the cached vectors.
        """
        for name, number in (("batch", batch), ("max_chars", max_chars), ("dim", 1 if dim is None else dim)):
            if number < 1:
                raise InvalidInput(f"{self._provider} embedder: {name} is {number}, must be at least 1")
        for name, seconds in (("timeout_s", timeout_s), ("query_timeout_s", query_timeout_s)):
            if not 0 < seconds < math.inf:
                raise InvalidInput(
                    f"{self._provider} embedder: {name} is {seconds}, must be above 0 and finite"
                )
        self.model = model
        base_url = self._default_url if base_url is None else base_url
        self._endpoint = Endpoint(base_url, self._path, self._key(api_key, base_url), self._name)
        self._requested_dim = dim
        self._query_prefix, self._document_prefix = query_prefix, document_prefix
        self._batch, self._max_chars = batch, max_chars
        self._timeout_s, self._query_timeout_s = timeout_s, query_timeout_s
        settings = {
            "provider": self._provider,
            "model": model,
            "dim": dim,
            "query_prefix": query_prefix,
            "document_prefix": document_prefix,
            "max_chars": max_chars,
        }
        self._width, self._recheck_at = dim, -math.inf
        revision, self._probe = self._identify(
            fingerprint.FingerprintStore(settings, self._endpoint.url, folder)
        )
        self._width = self.dim = len(self._probe)
        self.identity = f"{self._provider}:{model.replace('@', '-')}@{revision}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {self._endpoint.url!r})"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], unit rows, zero for a blank text; one request for each batch."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        sent_rows = [row for row, text in enumerate(texts) if text.strip()]
        for at in range(0, len(sent_rows), self._batch):
            rows = sent_rows[at : at + self._batch]
            sent = [self._document(texts[row]) for row in rows]
            vectors[rows] = self._ask(sent, self._timeout_s)
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim]; with different prefixes it differs from the row of `embed`."""
        if not text.strip():
            return np.zeros(self.dim, np.float32)
        row: npt.NDArray[np.float32] = self._ask([self._query(text)], self._query_timeout_s)[0]
        return row

    def _document(self, text: str) -> str:
        return self._document_prefix + clean(text)[: self._max_chars]

    def _query(self, text: str) -> str:
        return self._query_prefix + clean(text)[: self._max_chars]

    def _ask(self, texts: list[str], timeout_s: float) -> npt.NDArray[np.float32]:
        """Unit rows. When due, the fixed text is sent too and must have the same vector as before."""
        if time.monotonic() < self._recheck_at:
            return self._post(texts, timeout_s)
        rows = self._post([*texts, self._document(fingerprint.TEXT)], timeout_s)
        if not fingerprint.is_same(rows[-1], self._probe):
            raise RequestRejected(
                f"{self._name}: its server now has another model under this name; create the embedder and "
                "the catalog again"
            )
        self._recheck_at = time.monotonic() + RECHECK_S
        return rows[:-1]

    def _identify(self, known: fingerprint.FingerprintStore) -> tuple[str, npt.NDArray[np.float32]]:
        """Revision and answer of the model; those of the last known model if the server does not answer."""
        try:
            workers = CallPool(1, "toolroll-probe")  # a deadline for a server that sends its headers slowly
            text = [self._document(fingerprint.TEXT)]
            answer = workers.run(lambda: self._post(text, self._timeout_s)[0], self._timeout_s)
        except (EmbedderUnavailable, Overdue, Full) as error:
            latest = known.latest
            if latest is None or isinstance(error, RequestRejected):
                problem = error if isinstance(error, EmbedderUnavailable) else f"{self._name}: {error}"
                raise EmbedderUnavailable(
                    f'{problem}. {self._advice()} The embedder "static" needs no server'
                ) from error
            logger.warning("%s; continuing with the cached vectors", error)
            return latest
        self._recheck_at = time.monotonic() + RECHECK_S
        return known.revision_of(answer), answer

    def _post(self, texts: list[str], timeout_s: float) -> npt.NDArray[np.float32]:
        body = self._request(texts)
        if self._requested_dim is not None:
            body["dimensions"] = self._requested_dim
        answer = self._endpoint.post(body, timeout_s, BYTES_A_TEXT * (len(texts) + 1))
        try:
            rows = self._rows(answer, len(texts))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self._invalid_answer("answered with something other than embeddings") from error
        return self._units(rows, len(texts))

    def _units(self, rows: list[Any], count: int) -> npt.NDArray[np.float32]:
        """The rows scaled to unit length; raises EmbedderUnavailable if they are no vectors."""
        if len(rows) != count:
            raise self._invalid_answer(f"answered {len(rows)} vectors for {count} texts")
        try:
            numbers = np.array(rows)
        except ValueError as error:
            raise self._invalid_answer("answered vectors of different widths") from error
        if numbers.ndim != 2 or numbers.dtype.kind not in "fi":
            raise self._invalid_answer("answered with something other than vectors of numbers")
        if self._width not in (None, numbers.shape[1]):
            raise self._invalid_answer(f"answered vectors of width {numbers.shape[1]}, must be {self._width}")
        numbers = numbers.astype(np.float64)
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise self._invalid_answer("answered a vector that is zero or not finite")
        units: npt.NDArray[np.float32] = (numbers / lengths[:, None]).astype(np.float32)
        return units

    def _invalid_answer(self, what: str) -> EmbedderUnavailable:
        return EmbedderUnavailable(f"{self._name}: {self._endpoint.url} {what}")

    @property
    def _name(self) -> str:
        return f"embedder {self._provider}:{self.model}"

    def _key(self, api_key: str | None, base_url: str) -> str | None:
        """The key that is sent to this address."""
        return api_key

    @abstractmethod
    def _advice(self) -> str:
        """The next step for a user if nothing answers."""

    @abstractmethod
    def _request(self, texts: list[str]) -> dict[str, Any]:
        """The body that asks for these texts' vectors, without the width."""

    @abstractmethod
    def _rows(self, answer: Any, count: int) -> list[Any]:
        """The vectors in the order of the texts; KeyError, TypeError or ValueError if there are none."""


class OllamaEmbedder(RemoteEmbedder):
    """Embeds by Ollama's `POST /api/embed`. The first request loads the model.

    Ollama unloads a model after five minutes without use, and the next message waits until it is loaded
    again: longer than a turn has. `keep_alive` ("24h", or "-1m" for ever) asks it to keep the model.
    """

    _provider = "ollama"
    _default_url = "http://localhost:11434"
    _path = "/api/embed"

    def __init__(
        self, model: str, base_url: str | None = None, *, keep_alive: str | None = None, **options: Any
    ) -> None:
        """options: see `RemoteEmbedder`."""
        self._keep_alive = keep_alive
        super().__init__(model, base_url, **options)

    def _advice(self) -> str:
        return f"Is it running (`ollama serve`) and is the model there (`ollama pull {self.model}`)?"

    def _request(self, texts: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "truncate": True}
        if self._keep_alive is not None:
            body["keep_alive"] = self._keep_alive
        return body

    def _rows(self, answer: Any, count: int) -> list[Any]:
        return list(answer["embeddings"])


class OpenAICompatibleEmbedder(RemoteEmbedder):
    """Embeds by `POST /embeddings`.

    Without an `api_key` it sends `TOOLROLL_EMBEDDER_KEY` of the environment, and `OPENAI_API_KEY` only if
    `base_url` is OpenAI's own. "" sends none.
    """

    _provider = "openai"
    _default_url = "https://api.openai.com/v1"
    _path = "/embeddings"

    def _key(self, api_key: str | None, base_url: str) -> str | None:
        if api_key is not None:
            return api_key
        key = os.environ.get("TOOLROLL_EMBEDDER_KEY")
        if not key and urlsplit(base_url)[:2] == urlsplit(self._default_url)[:2]:
            key = os.environ.get("OPENAI_API_KEY")
        return key

    def _advice(self) -> str:
        return "Check base_url, model and key."

    def _request(self, texts: list[str]) -> dict[str, Any]:
        return {"model": self.model, "input": texts, "encoding_format": "float"}

    def _rows(self, answer: Any, count: int) -> list[Any]:
        """The vectors in the order of `index`, since some servers answer out of order."""
        found = answer["data"]
        if any("index" in one for one in found):
            found = sorted(found, key=lambda one: one["index"])
            if [one["index"] for one in found] != list(range(count)):
                raise ValueError("its index does not number the texts")
        return [one["embedding"] for one in found]
