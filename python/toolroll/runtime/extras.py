"""Imports of packages that an extra brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from toolroll.model.errors import Unavailable


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Around imports: says which extra brings a package that is missing.

    Several extras bring the same packages, so whoever imports says which one its own work needs.

    Raises:
        Unavailable: a package is missing.
    """
    try:
        yield
    except ImportError as missing:
        raise Unavailable(
            f'{what}: {missing.name or "a package"} is missing ({missing}): pip install "toolroll[{extra}]"'
        ) from missing
