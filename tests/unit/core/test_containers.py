"""`copy_containers` beside `copy.deepcopy`, and `values_by_identity` beside a list of lookups."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll._core import copy_containers, values_by_identity

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text() | st.integers(), below),
)


def containers(value: Any) -> list[int]:
    """The identity of each dict and list in a value."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [] if below is None else [id(value), *(each for part in below for each in containers(part))]


@given(VALUES)
def test_a_copy_is_equal_and_shares_no_dict_or_list(value):
    copy = copy_containers(value)
    assert copy == deepcopy(value) and repr(copy) == repr(value)
    assert not {*containers(copy)} & {*containers(value)}


@given(VALUES)
def test_what_lies_in_two_places_becomes_two(value):
    copy = copy_containers({"one": [value], "two": [value], "three": {"four": value}})
    assert len({*containers(copy)}) == len(containers(copy))


def test_other_objects_are_shared():
    class Own(dict):
        """A class of the caller's own."""

    parts = [object(), (["in a tuple"],), Own(a=[1]), {"a set"}]
    copy = copy_containers([*parts])
    assert all(one is other for one, other in zip(copy, parts, strict=True))
    assert copy_containers(parts[0]) is parts[0]


@pytest.mark.parametrize("make", [list, dict])
def test_what_lies_within_itself_is_an_error(make):
    endless: Any = make()
    (endless.append if make is list else lambda value: endless.update(a=value))(endless)
    with pytest.raises(RecursionError):
        copy_containers(endless)
    endless.clear()


@given(st.lists(st.booleans(), max_size=20))
def test_values_by_identity_are_those_of_plain_lookups(is_known):
    keys = tuple(object() for _ in is_known)
    known = {id(key): [at] for at, (key, is_there) in enumerate(zip(keys, is_known, strict=True)) if is_there}
    expected = [known[id(key)] for key in keys] if all(is_known) else None
    found = values_by_identity(known, keys)
    assert found == expected
    assert found is None or all(one is other for one, other in zip(found, expected, strict=True))
