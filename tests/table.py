"""A table of a test: its rows run as one case of pytest, which names every row that is wrong."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest


class WrongRows(AssertionError):
    """Rows of a table that are wrong, each with what is wrong."""

    def __init__(self, rows: Sequence[str]) -> None:
        super().__init__("\n".join((f"{len(rows)} rows are wrong:", *rows)))
        self.rows = rows


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Runs a test once for each row. Use it like `pytest.mark.parametrize`, where a row needs nothing of its own.

    A case of pytest takes some 5 ms and a row takes none, but all rows of a test share its fixtures. Two tables on
    one test are multiplied.

    Args:
        names: the parameters of the test that a row fills, in a list or separated by commas.
        rows: a value for each name; plain values where there is one name.
    """
    filled = tuple(names.replace(",", " ").split()) if isinstance(names, str) else tuple(names)
    read = [_values(row, len(filled)) for row in rows]
    assert read and all(len(values) == len(filled) for values in read), (
        f"{names}: rows without a value for each"
    )

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_rows(*arguments: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            wrong: list[str] = []
            first: BaseException | None = None
            for values in read:
                row = dict(zip(filled, values, strict=True))
                try:
                    test(*arguments, **fixtures, **row)
                except WrongRows as error:
                    wrong += [f"{_words(row)}, {each}" for each in error.rows]
                    first = first or error.__cause__
                except (Exception, pytest.fail.Exception) as error:
                    wrong.append(f"{_words(row)}: {type(error).__name__}: {error}")
                    first = first or error
            if wrong:
                raise WrongRows(wrong) from first

        signature = inspect.signature(test)
        assert set(filled) <= set(signature.parameters), f"{test.__name__} has no parameter {filled}"
        rest = [each for name, each in signature.parameters.items() if name not in filled]
        run_rows.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run_rows

    return decorate


_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 120


def _words(row: Mapping[str, Any]) -> str:
    try:
        return ", ".join(f"{name}={_shown.repr(value)}" for name, value in row.items())
    except ValueError:  # Python does not write integers of more than 4,300 digits
        return ", ".join(row)


def _values(row: Any, count: int) -> tuple[Any, ...]:
    if isinstance(row, type(pytest.param())):
        assert not row.marks, f"{row.values}: a row has no marks"
        return tuple(row.values)
    return (row,) if count == 1 else tuple(row)
