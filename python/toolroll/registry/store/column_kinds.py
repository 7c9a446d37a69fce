"""Whether the values of a row are of the kinds of their columns, as conditions in SQL.

SQLite stores a value of any kind in any column and adds up whatever it finds: a sum takes text for 0, and one
text that is no JSON fails a whole query. PostgreSQL checks kinds, but not the shape of JSON.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from toolroll.learning.outcomes import LONGEST_MS
from toolroll.registry.store.tables import (
    DurationMap,
    Instant,
    NameList,
    NameMap,
    ObjectJson,
    Share,
    Vector,
)

UTF8 = "toolroll_is_utf8"  # a function that `engines` adds to SQLite, which takes any bytes for text
_LARGEST = "1e300"  # infinity and NaN are no numbers that JSON has
_SHAPES = (DurationMap, NameList, NameMap, ObjectJson)


def is_utf8(data: bytes | None) -> bool:
    """Whether these bytes are UTF-8."""
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


@cache
def are_readable(
    columns: tuple[sa.Column[Any], ...], dialect: str, checks_text: bool = True
) -> sa.ColumnElement[bool]:
    """True of rows whose values in all these columns can be read and added up; else false.

    checks_text: whether SQLite's texts must be UTF-8, which takes longer than all the rest.
    """
    if dialect == "sqlite":
        tests = [_of_its_kind(column) for column in columns]
        texts = [_name(column) for column in columns if _kind(column) == "text"]
        if texts and checks_text:
            joined = " || ' ' || ".join(f"ifnull({name}, '')" for name in texts)
            tests.append(f"{UTF8}(CAST({joined} AS BLOB))")
    else:
        shaped = [column for column in columns if isinstance(column.type, _SHAPES)]
        tests = [_or_null(column, _shape(column, dialect)) for column in shaped]
        numbers = [column for column in columns if isinstance(column.type, sa.Float)]
        tests += [_or_null(column, _is_in_range(column)) for column in numbers]
    return sa.literal_column(f"({' AND '.join(tests) or 'true'})", sa.Boolean)


@cache
def are_of_their_kind(columns: tuple[sa.Column[Any], ...]) -> sa.ColumnElement[bool]:
    """`has_its_kind` of all these columns."""
    return sa.and_(*map(has_its_kind, columns))


def has_its_kind(column: sa.Column[Any]) -> sa.ColumnElement[bool]:
    """Whether SQLite's value in a column is of the column's kind. The bytes of a text may be no UTF-8."""
    return sa.literal_column(f"({_of_its_kind(column)})", sa.Boolean)


def _of_its_kind(column: sa.Column[Any]) -> str:
    kind, name, type_ = _kind(column), _name(column), column.type
    tests = [f"typeof({name}) = '{kind}'"]
    if isinstance(type_, sa.Boolean):
        tests.append(f"{name} IN (0, 1)")
    elif isinstance(type_, sa.Float):
        tests.append(_is_in_range(column))
    elif isinstance(type_, Instant):
        # SQLite takes February 31 for March 3; some versions show that only where there is something to add.
        tests.append(f"datetime({name}, '+0 days') IS substr({name}, 1, 19) AND length({name}) IN (19, 26)")
        tests.append(f"{name} > '0001' AND substr({name}, 12, 2) < '24'")
    elif isinstance(type_, sa.Date):
        tests.append(f"date({name}, '+0 days') IS {name} AND {name} > '0001'")
    elif isinstance(type_, sa.JSON):
        tests.append(_shape(column, "sqlite"))
    return _or_null(column, " AND ".join(tests))


def _or_null(column: sa.Column[Any], test: str) -> str:
    return f"({_name(column)} IS NULL OR ({test}))" if column.nullable else f"({test})"


def _kind(column: sa.Column[Any]) -> str:
    """SQLite's name of the kind of a column's values."""
    type_ = column.type
    if isinstance(type_, (sa.Integer, sa.Boolean)):
        return "integer"
    if isinstance(type_, (sa.Float, sa.Numeric)):
        return "real"
    return "blob" if isinstance(type_, (sa.LargeBinary, Vector)) else "text"


def _is_in_range(column: sa.Column[Any]) -> str:
    name = _name(column)
    if isinstance(column.type, Share):
        return f"{name} > 0 AND {name} <= 1"
    return f"{name} BETWEEN -{_LARGEST} AND {_LARGEST}"


def _shape(column: sa.Column[Any], dialect: str) -> str:
    """Whether JSON has the shape of its column. CASE keeps functions off JSON of another shape."""
    name, shape = _name(column), "array" if isinstance(column.type, NameList) else "object"
    if not isinstance(column.type, _SHAPES):
        return f"json_valid({name})"
    if dialect == "sqlite":
        invalid, kind = f"NOT json_valid({name})", f"json_type({name})"
        wrong = "part.type <> 'text'"
        if isinstance(column.type, DurationMap):
            wrong = f"part.type NOT IN ('integer', 'real') OR NOT part.value BETWEEN 0 AND {LONGEST_MS}"
        parts = f"json_each({name}) AS part WHERE {wrong}"
    else:
        each = "json_array_elements" if shape == "array" else "json_each"
        invalid, kind = "false", f"json_typeof({name})"
        wrong = "json_typeof(part.value) <> 'string'"
        if isinstance(column.type, DurationMap):
            is_right = f"(part.value #>> '{{}}')::numeric BETWEEN 0 AND {LONGEST_MS}"
            wrong = f"CASE json_typeof(part.value) WHEN 'number' THEN NOT {is_right} ELSE true END"
        parts = f"{each}({name}) AS part WHERE {wrong}"
    inside = "true" if isinstance(column.type, ObjectJson) else f"NOT EXISTS (SELECT 1 FROM {parts})"
    return f"CASE WHEN {invalid} THEN false WHEN {kind} <> '{shape}' THEN false ELSE {inside} END"


def _name(column: sa.Column[Any]) -> str:
    return f'{column.table.name}."{column.name}"'
