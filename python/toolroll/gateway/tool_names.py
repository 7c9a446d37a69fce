"""The listed names of tools of many servers: `{server}_{tool}`, unique, at most 64 characters.

A name depends only on the tool, its server and the names of the configured servers. It does not depend on the
order in which servers answer, so a tool never takes a name that a model knows for another tool.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolroll.formats.meta_tools import META_TOOLS
from toolroll.formats.visible_text import one_line
from toolroll.gateway.server_spec import prefix_of
from toolroll.registry.editing.flags import skeletons

LONGEST = 64
READ_RESULT = "read_result"
SIGN_IN = "sign_in"
_RESERVED = frozenset((*[tool.name for tool in META_TOOLS], READ_RESULT, SIGN_IN))
_LONGEST_TITLE = 200  # characters
_DIGITS = 8  # of the hash in a name that could not stay as it is
_TAG = re.compile(r"\s*[\[［【〔⟦]([^\[\]］】〕⟧]{1,80})[\]］】〕⟧]")  # a text that begins like a tag


class ToolNames:
    """Gives tools their names."""

    def __init__(self, servers: Iterable[str], separator: str = "_") -> None:
        """servers: the names of all configured servers."""
        self._prefixes = {name: f"{prefix_of(name)}{separator}" for name in servers}
        self._skeletons = {skeleton: name for name in self._prefixes for skeleton in skeletons(name)}

    def of_server(self, server: str, tools: Iterable[str]) -> Mapping[str, str]:
        """Listed name → the server's own name, for each of its tools."""
        named: dict[str, str] = {}
        for tool in sorted(set(tools), key=lambda tool: (self._plain(server, tool) != tool, tool)):
            listed = self._plain(server, tool)
            full = f"{self._prefixes[server]}{listed}"
            if full in named or len(full) > LONGEST or full in _RESERVED or self._is_ambiguous(server, full):
                full = self._hashed(server, tool, full)
            named[full] = tool
        return named

    def is_renamed(self, server: str, listed: str, tool: str) -> bool:
        """Whether the listed name is not just the server's and the tool's name, joined by the separator."""
        return listed != f"{self._prefixes[server]}{tool}"

    def own_texts(self, server: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """Returns an item of a server for clients. A title becomes one line of at most 200 characters.

        If title or description begins with another server's tag, the tag is put in parentheses.
        """
        own = dict(item)
        if isinstance(text := own.get("description"), str):
            own["description"] = self._without_tag(server, text)
        if isinstance(text := own.get("title"), str):
            own["title"] = self._without_tag(server, one_line(text, _LONGEST_TITLE))
        annotations = own.get("annotations")
        if isinstance(annotations, dict) and isinstance(text := annotations.get("title"), str):
            own["annotations"] = {
                **annotations,
                "title": self._without_tag(server, one_line(text, _LONGEST_TITLE)),
            }
        return own

    def _without_tag(self, server: str, text: str) -> str:
        tag = _TAG.match(text)
        if tag is None:
            return text
        named = {self._skeletons.get(skeleton, server) for skeleton in skeletons(tag[1])}
        return text if named == {server} else f"({tag[1]}){text[tag.end() :]}"

    def _plain(self, server: str, tool: str) -> str:
        return re.sub(r"[^A-Za-z0-9_-]", "_", tool)

    def _is_ambiguous(self, server: str, full: str) -> bool:
        """Whether the name could also belong to a server with a longer prefix."""
        own = self._prefixes[server]
        return any(len(other) > len(own) and full.startswith(other) for other in self._prefixes.values())

    def server_of(self, name: str) -> str | None:
        """Returns the server with the longest prefix of this name, if there is one."""
        fitting = [server for server, prefix in self._prefixes.items() if name.startswith(prefix)]
        return max(fitting, key=lambda server: len(self._prefixes[server]), default=None)

    def _hashed(self, server: str, tool: str, full: str) -> str:
        digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        return f"{full[: LONGEST - _DIGITS - 1]}_{digest}"
