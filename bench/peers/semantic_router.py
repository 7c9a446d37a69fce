"""semantic-router (MIT) in the set-up of LiteLLM's MCP tool filter: what gateways ship today.

One route for each tool with its description as the only utterance, and every query names all tools in
``route_filter``. ``route_filter=False`` shows the same search without that list. The encoder is ours.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any


def build(
    tools: list[dict[str, Any]], embed: Any, threshold: float = 0.0, route_filter: bool = True
) -> Callable[[str, int], list[str]]:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # importing litellm would try the network
    from semantic_router import Route
    from semantic_router.encoders import DenseEncoder
    from semantic_router.routers import SemanticRouter

    logging.getLogger("semantic_router").setLevel(logging.ERROR)

    class Ours(DenseEncoder):  # type: ignore[misc]
        name: str = "ours"
        type: str = "ours"
        score_threshold: float | None = threshold

        def __call__(self, texts: Any) -> list[list[float]]:
            rows: list[list[float]] = embed(list(texts)).tolist()
            return rows

        async def acall(self, texts: Any) -> list[list[float]]:
            return self(texts)

    names = [tool["name"] for tool in tools]
    routes = [
        Route(
            name=tool["name"],
            description=tool["description"],
            utterances=[tool["description"]],
            score_threshold=threshold,
        )
        for tool in tools
    ]
    router = SemanticRouter(encoder=Ours(), routes=routes, auto_sync="local", top_k=50)

    def select(message: str, k: int) -> list[str]:
        chosen = router(text=message, limit=k, route_filter=names if route_filter else None)
        several = chosen if isinstance(chosen, list) else [chosen]
        return [choice.name for choice in several if choice.name][:k]

    return select
