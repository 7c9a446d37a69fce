"""Who asks: a context, or a function that makes one."""

from __future__ import annotations

import pytest

from tests.table import each_row
from toolroll import Context, InvalidInput
from toolroll.adapters.arguments import checked_context, context_reader

ANN = Context(user="ann")


def test_a_context_a_function_of_one_and_none_are_read():
    assert context_reader(ANN, "the run")("anything") is ANN
    assert context_reader(None, "the run")("anything") is None
    assert context_reader(lambda run: Context(user=run), "the run")("ann") == ANN
    assert checked_context(ANN) is ANN and checked_context(None) is None


def test_a_function_that_forgets_to_return_a_context_selects_for_nobody():
    with pytest.raises(
        InvalidInput, match="context: its function returned None, must return toolroll.Context"
    ):
        context_reader(lambda run: None, "the run")("ann")


@each_row("wrong", [{}, {"user": "ann"}, "ann", 0, False, [ANN]])
def test_what_is_no_context_is_refused_where_it_is_given_and_where_a_function_returns_it(wrong):
    with pytest.raises(InvalidInput, match="who: is .*, must be toolroll.Context, a function of the run, or"):
        context_reader(wrong, "the run", argument="who")
    with pytest.raises(InvalidInput, match="who: its function returned .*, must return toolroll.Context"):
        context_reader(lambda run: wrong, "the run", argument="who")("ann")
    with pytest.raises(InvalidInput, match="who: is .*, must be toolroll.Context or None"):
        checked_context(wrong, "who")
