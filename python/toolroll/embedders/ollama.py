"""Models that Ollama runs, here or on another machine (extra `remote`)."""

from __future__ import annotations

import os
from typing import Any

from toolroll.embedders.http_endpoint import Endpoint
from toolroll.embedders.remote import RemoteEmbedder


class OllamaEmbedder(RemoteEmbedder):
    """Embeds by `POST /api/embed`.

    Ollama drops a model that nobody used for five minutes, and the next message waits until it is loaded
    again: longer than a turn has. `keep_alive` ("24h", or "-1m" for ever) asks it to keep the model.
    """

    _provider = "ollama"

    def __init__(
        self,
        model: str,
        base_url: str = "http://localhost:11434",
        *,
        api_key: str | None = None,
        keep_alive: str | None = None,
        dim: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        batch: int = 64,
        max_chars: int = 6_000,
        timeout_s: float = 30.0,
        query_timeout_s: float = 2.0,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """Asks the server for one vector; the first time, that loads the model.

        api_key: for a server behind a proxy that wants one. dim: asks for shorter vectors, where the model
        has them. query_prefix, document_prefix: what the model's card says belongs before a question and
        before what is searched. folder: where models are remembered, by default beside the cached vectors.
        """
        self._keep_alive = keep_alive
        self._advice = (
            f"Is it running (`ollama serve`) and is the model there (`ollama pull {model}`)? "
            'The embedder "static" needs no server'
        )
        endpoint = Endpoint(base_url, "/api/embed", api_key, f"embedder ollama:{model}")
        super().__init__(
            model,
            endpoint,
            dim=dim,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            batch=batch,
            max_chars=max_chars,
            timeout_s=timeout_s,
            query_timeout_s=query_timeout_s,
            folder=folder,
        )

    def _request(self, texts: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "truncate": True}
        if self._asked_dim is not None:
            body["dimensions"] = self._asked_dim
        if self._keep_alive is not None:
            body["keep_alive"] = self._keep_alive
        return body

    def _rows(self, answer: Any, count: int) -> list[Any]:
        return list(answer["embeddings"])
