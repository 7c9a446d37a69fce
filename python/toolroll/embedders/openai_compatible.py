"""OpenAI's embeddings and the servers that speak the same: vLLM, TEI, LiteLLM, … (extra `remote`)."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from toolroll.embedders.remote import RemoteEmbedder


class OpenAICompatibleEmbedder(RemoteEmbedder):
    """Embeds by `POST /embeddings`.

    Without an `api_key` it sends `TOOLROLL_EMBEDDER_KEY` of the environment, and `OPENAI_API_KEY` if
    `base_url` is OpenAI's own: that key is sent to nobody else. "" sends none.
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
        """In the order of `index`, since some servers answer out of order."""
        found = answer["data"]
        if any("index" in one for one in found):
            found = sorted(found, key=lambda one: one["index"])
            if [one["index"] for one in found] != list(range(count)):
                raise ValueError("its index does not number the texts")
        return [one["embedding"] for one in found]
