"""Rates in settings: what is refused, and in which words."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from tests.table import each_row
from toolroll.model.errors import InvalidInput
from toolroll.server.admission import OrgAdmission
from toolroll.server.request_limits import RequestLimits, read_rate


@pytest.mark.parametrize(
    ("text", "amount", "window_s"),
    [("500/second", 500, 1), ("10 per 2 minutes", 10, 120), (" 3/hour ", 3, 3600)],
)
def test_a_rate_is_read(text: str, amount: int, window_s: int) -> None:
    rate = read_rate(text)
    assert (rate.amount, rate.get_expiry()) == (amount, window_s)


@each_row(
    ("text", "wanted"),
    [
        ("often", "must be such as 500/second"),
        ("", "must be such as 500/second"),
        ("10/second;2/minute", "must be one rate"),
        ("1/second, 2/second", "must be one rate"),
        ("0/second", "must be > 0"),
    ],
)
def test_a_wrong_rate_is_refused_with_its_setting(text: str, wanted: str) -> None:
    with pytest.raises(InvalidInput, match=f"^sign_in_rate is '{text}', {wanted}"):
        read_rate(text, "sign_in_rate")
    with pytest.raises(InvalidInput, match=f"^org_rate is .*{wanted}"):
        OrgAdmission(text, 64)
    with pytest.raises(InvalidInput, match=f"^key_rate is .*{wanted}"):
        RequestLimits(text, 8)
