"""Other words for the verb in a tool's name.

Forty tools of a generated catalog share one noun, and the verb decides between them: list, read, create,
replace, delete. Users say "get rid of", "which are there" or "change". Only verbs of this kind are known:
words for "get", "set" or "send" lose more on hand-written tools than they gain.
"""

from __future__ import annotations

from collections.abc import Mapping

_MEANINGS: Mapping[str, str] = {
    "create": "create make add new set up",
    "insert": "insert add create",
    "put": "put set upload write",
    "list": "list show all every which what exist",
    "read": "read get show details",
    "describe": "describe show list what",
    "update": "update change modify set",
    "patch": "patch change update modify",
    "modify": "modify change update",
    "replace": "replace change overwrite update",
    "delete": "delete remove get rid of",
    "remove": "remove delete take away",
    "terminate": "terminate delete stop remove",
    "destroy": "destroy delete remove",
}
_VERBS = frozenset(_MEANINGS)


def verb_text(name: str) -> str:
    """The first known verb of a name in words, with other words for it; "" without one."""
    words = name.casefold().split()
    if _VERBS.isdisjoint(words):  # half of all names
        return ""
    return next(_MEANINGS[word] for word in words if word in _MEANINGS)
