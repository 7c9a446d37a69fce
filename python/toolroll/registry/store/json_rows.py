"""JSON columns as rows, in both databases."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def items(dialect: str, column: sa.ColumnElement[Any], name: str = "item") -> Any:
    """A JSON list of texts as rows with a column `value`, joined to the row with the list."""
    function = sa.func.json_array_elements_text if dialect == "postgresql" else sa.func.json_each
    return function(column).table_valued(sa.column("value", sa.Text), name=name, joins_implicitly=True)


def pairs(dialect: str, column: sa.ColumnElement[Any], name: str = "pair") -> Any:
    """A JSON object as rows with text columns `key` and `value`, joined to the row with the object."""
    function = sa.func.json_each_text if dialect == "postgresql" else sa.func.json_each
    return function(column).table_valued(
        sa.column("key", sa.Text), sa.column("value", sa.Text), name=name, joins_implicitly=True
    )
