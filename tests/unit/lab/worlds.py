"""Small labelled folders to judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOOLS: tuple[dict[str, Any], ...] = (
    {"name": "forecast", "description": "Weather forecast: rain, wind, temperature", "server": "weather"},
    {
        "name": "send_mail",
        "description": "Send an e-mail message",
        "server": "mail",
        "examples": ["write to Bob"],
    },
    {"name": "read_mail", "description": "Read the inbox of e-mail messages", "server": "mail"},
    {"name": "play_song", "description": "Play a song or an album", "server": "music"},
)


def query(id: str, text: str, gold: list[str], split: str = "test", **context: Any) -> dict[str, Any]:
    return {"id": id, "text": text, "gold": gold, "split": split, "context": context}


QUERIES = (
    query("a", "will it rain tomorrow", ["forecast"], kind="one"),
    query("b", "send an e-mail message to Ann", ["send_mail"], kind="one"),
    query("c", "read the inbox, then send a message", ["read_mail", "send_mail"], kind="two"),
    query("d", "what is love", [], kind="none"),
    query("t1", "do I need an umbrella", ["forecast"], "train"),
    query("t2", "read my post and answer it", ["read_mail", "send_mail"], "train"),
    query("t3", "put on some jazz", ["play_song"], "train"),
    query("t4", "how are you", [], "train"),
)


def write(folder: Path, tools: Any = TOOLS, queries: Any = QUERIES) -> Path:
    """A dataset folder of these lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in (("tools.jsonl", tools), ("queries.jsonl", queries)):
        lines = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values
        )
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder
