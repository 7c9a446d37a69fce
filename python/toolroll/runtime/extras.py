"""Imports of packages that an extra brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from toolroll.model.errors import Unavailable


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Names the extra that brings a package, if an import in the `with` block lacks it.

    Several extras bring the same packages, so each importer names the extra for its own work.

    Raises Unavailable if a package is missing.
    """
    try:
        yield
    except ImportError as missing:
        raise Unavailable(
            f'{what}: {missing.name or "a package"} is missing ({missing}): pip install "toolroll[{extra}]"'
        ) from missing
