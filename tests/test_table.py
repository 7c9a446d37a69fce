from __future__ import annotations

import inspect

import pytest

from tests.table import WrongRows, each_row


def test_every_row_runs_and_every_wrong_one_is_named() -> None:
    seen = []

    @each_row("n, word", [(1, "a"), (2, "b"), pytest.param(3, "c", id="third"), (4, "d")])
    def check(n: int, word: str) -> None:
        seen.append(word)
        if n == 2:
            pytest.fail("not this one")
        assert n != 3, "nor that one"

    with pytest.raises(WrongRows) as error:
        check()
    assert seen == ["a", "b", "c", "d"]
    first, second = error.value.rows
    assert first == "n=2, word='b': Failed: not this one"
    assert second.startswith("n=3, word='c': AssertionError: nor that one")
    assert error.value.__cause__ is not None  # pytest shows where the first one failed


def test_two_tables_are_multiplied_and_fixtures_remain() -> None:
    @each_row("n", [1, 2])
    @each_row(["m"], [10, 20])
    def check(found: list[int], n: int, m: int) -> None:
        found.append(n * m)
        assert n * m != 40

    assert list(inspect.signature(check).parameters) == ["found"]
    found: list[int] = []
    with pytest.raises(WrongRows, match="1 rows are wrong:\nn=2, m=20: AssertionError"):
        check(found=found)
    assert found == [10, 20, 20, 40]


def test_a_table_without_rows_or_with_another_parameter_is_refused() -> None:
    with pytest.raises(AssertionError, match="without a value"):
        each_row("n", [])
    with pytest.raises(AssertionError, match="without a value"):
        each_row("n, m", [(1,)])
    with pytest.raises(AssertionError, match="no parameter"):
        each_row("m", [1])(lambda n: None)
