"""Models that Ollama runs, here or on another machine (extra `remote`)."""

from __future__ import annotations

from typing import Any

from toolroll.embedders.remote import RemoteEmbedder


class OllamaEmbedder(RemoteEmbedder):
    """Embeds by `POST /api/embed`. The first request loads the model.

    Ollama unloads a model that nobody used for five minutes, and the next message waits until it is loaded
    again: longer than a turn has. `keep_alive` ("24h", or "-1m" for ever) asks it to keep the model.
    """

    _provider = "ollama"
    _default_url = "http://localhost:11434"
    _path = "/api/embed"

    def __init__(
        self, model: str, base_url: str | None = None, *, keep_alive: str | None = None, **options: Any
    ) -> None:
        """options: those of `RemoteEmbedder`."""
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
