"""OpenAI's embeddings and the servers that speak the same: vLLM, TEI, LiteLLM, … (extra `remote`)."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from toolroll.embedders.http_endpoint import Endpoint
from toolroll.embedders.remote import RemoteEmbedder

OPENAI = "https://api.openai.com/v1"


class OpenAICompatibleEmbedder(RemoteEmbedder):
    """Embeds by `POST /embeddings`."""

    _provider = "openai"
    _advice = 'Check base_url, model and key. The embedder "static" needs no server'

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI,
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
        """Asks the server for one vector.

        api_key: None takes `TOOLROLL_EMBEDDER_KEY` of the environment, and `OPENAI_API_KEY` if `base_url` is
        OpenAI's own: it is sent to nobody else. "" sends none. dim: asks for shorter vectors (`dimensions`),
        where the model has them. query_prefix, document_prefix: what the model's card says belongs before a
        question and before what is searched. folder: where models are remembered, by default beside the
        cached vectors.
        """
        if api_key is None:
            api_key = os.environ.get("TOOLROLL_EMBEDDER_KEY")
            if not api_key and urlsplit(base_url)[:2] == urlsplit(OPENAI)[:2]:
                api_key = os.environ.get("OPENAI_API_KEY")
        endpoint = Endpoint(base_url, "/embeddings", api_key, f"embedder openai:{model}")
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
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._asked_dim is not None:
            body["dimensions"] = self._asked_dim
        return body

    def _rows(self, answer: Any, count: int) -> list[Any]:
        """In the order of `index`: the answers of some servers come as they are ready."""
        found = answer["data"]
        if any("index" in one for one in found):
            found = sorted(found, key=lambda one: one["index"])
            if [one["index"] for one in found] != list(range(count)):
                raise ValueError("its index does not count the texts")
        return [one["embedding"] for one in found]
