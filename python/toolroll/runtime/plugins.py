"""Objects that other installed packages offer under a name, by entry points."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolroll.model.errors import InvalidInput, quoted


def plugin(group: str, name: str) -> Any:
    """The object that an installed package offers under this name, imported now; None if no package does.

    Source: https://packaging.python.org/en/latest/specifications/entry-points/.

    Raises:
        InvalidInput: two packages offer the name, or the import fails; the message names the packages.
    """
    found = [point for point in _points(group) if point.name == name]
    if not found:
        return None
    packages = sorted({_package(point) for point in found})
    if len(packages) > 1:
        raise InvalidInput(
            f"{group} {quoted(name)}: offered by {' and '.join(packages)}; uninstall one of them"
        )
    try:
        return found[0].load()
    except Exception as error:  # the other package's import may raise anything
        raise InvalidInput(
            f"{group} {quoted(name)}: {found[0].value} of package {packages[0]} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error


def plugin_names(group: str) -> list[str]:
    """The names that installed packages offer in this group, sorted."""
    return sorted({point.name for point in _points(group)})


def known_names(group: str, built_in: Iterable[str]) -> list[str]:
    """The built-in names, then those that installed packages add. A built-in name hides theirs."""
    own = list(built_in)
    return own + [name for name in plugin_names(group) if name not in own]


def offered_by(group: str, name: str) -> str:
    """The package that offers this name, for an error message."""
    return next((_package(point) for point in _points(group) if point.name == name), "an unknown package")


def _points(group: str) -> Any:
    from importlib.metadata import entry_points  # reads every installed package: only for a name not built in

    return entry_points(group=group)


def _package(point: Any) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
