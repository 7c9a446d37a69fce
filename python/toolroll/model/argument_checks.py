"""Checks of arguments that public functions share: text, lists of values, callables, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from toolroll.model.errors import InvalidInput, quoted

T = TypeVar("T")

LONE_SURROGATE = "holds a lone surrogate, which is half of a character; must be valid Unicode"
REGISTRY_URLS = "must be sqlite:///FILE, sqlite:////ABSOLUTE/FILE or postgresql://USER@HOST/DATABASE"

_REGISTRY_URL = re.compile(r"(sqlite:///|postgres(ql)?://).", re.DOTALL)


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8: it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def items_of(value: Iterable[T], what: str, kind: type[T] | tuple[type[T], ...] = ()) -> tuple[T, ...]:
    """The items of a list that a caller passes.

    what: names the argument. kind: the type of each item; () for any.

    Raises InvalidInput if it is no list of such items.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidInput(f"{what}: is {quoted(value)}, must be a list{_of(kind)}")
    items = tuple(value)
    for item in items:
        if kind != () and not isinstance(item, kind):
            raise InvalidInput(f"{what}: holds {quoted(item)}, must hold {_named(kind)}")
    return items


def check_callable(value: object, what: str, called_with: str, *, optional: bool = True) -> None:
    """Checks a caller's function.

    called_with: its arguments, in words. optional: whether None is allowed.

    Raises InvalidInput if it is not callable.
    """
    if not (callable(value) or (optional and value is None)):
        none = ", or None" if optional else ""
        raise InvalidInput(f"{what}: is {quoted(value)}, must be a function of {called_with}{none}")


def check_flag(value: object, what: str) -> None:
    """Checks a flag: the texts "no" and "false" would count as true.

    Raises InvalidInput if it is not True or False.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"{what}: is {quoted(value)}, must be True or False")


def check_number(value: object, what: str, least: int, most: int) -> None:
    """Checks a whole number. Raises InvalidInput if it is no whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{what}: is {quoted(value)}, must be a whole number from {least} to {most}")


def check_hnsw(value: object) -> None:
    """Checks the argument `hnsw`.

    Raises InvalidInput if it is not True, False or "auto".
    """
    if not isinstance(value, bool) and value != "auto":
        raise InvalidInput(f"hnsw: is {quoted(value)}, must be True, False or 'auto'")


def check_registry_url(url: object) -> None:
    """Checks the form of a registry's URL, without the packages that a registry needs.

    Raises:
        InvalidInput: it is no URL of a registry. The message does not quote it: it may hold a password.
    """
    if not isinstance(url, str):
        raise InvalidInput(f"registry URL: is {type(url).__name__}, {REGISTRY_URLS}")
    if _REGISTRY_URL.match(url) is None:
        raise InvalidInput(f"registry URL: begins with {url.partition(':')[0]!r:.40}, {REGISTRY_URLS}")


def _of(kind: type[object] | tuple[type[object], ...]) -> str:
    return f" of {_named(kind)}" if kind != () else ""


def _named(kind: type[object] | tuple[type[object], ...]) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join("str" if one is str else f"toolroll.{one.__name__}" for one in kinds)
