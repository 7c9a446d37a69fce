"""Receipts: what was signed reads back; nothing else does."""

from __future__ import annotations

import base64
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.model.errors import Denied, InvalidInput
from toolroll.model.identity import ToolKey
from toolroll.registry.events.receipts import LIFETIME_S, LONGEST, Signer, is_receipt

NOW = 1_700_000_000.25
OLD, NEW = bytes(range(32)), bytes(range(32, 64))
SIGNER = Signer({"k1": NEW}, "k1")


def exposure(**fields: object) -> Exposure:
    shown = (
        ShownTool("send_email", ToolKey(2**64 - 1, 1, 0), 0.123456),
        ShownTool("get_forecast", ToolKey(7, 8, 9), 0.0),
    )
    one = Exposure("0123456789abcdef01234567", "acme", NOW, "ann", "crm", "team", "read", shown)
    return replace(one, **fields)  # type: ignore[arg-type]


def as_seen(one: Exposure) -> tuple[object, ...]:
    return one.event_id, one.org, one.at, one.reporter, one.page, one.tier, one.category, one.shown


words = st.text(max_size=30)


@given(words, words, words, words, st.lists(words, max_size=9))
def test_what_was_signed_reads_back(org: str, reporter: str, page: str, tier: str, names: list[str]) -> None:
    shown = tuple(ShownTool(name, ToolKey(at, 2**63 + at, 0), at / 16) for at, name in enumerate(names))
    one = exposure(org=org, reporter=reporter, page=page, tier=tier, shown=shown)
    receipt = SIGNER.sign(one)
    assert is_receipt(receipt) and not is_receipt(one.event_id)
    assert as_seen(SIGNER.read(receipt, NOW + 60, org)) == as_seen(one)


def test_it_fits_into_a_url() -> None:
    receipt = SIGNER.sign(exposure())
    assert receipt.isascii() and set(receipt) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
    )


def test_no_change_of_any_letter_verifies() -> None:
    receipt = SIGNER.sign(exposure())
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
    tried = 0
    for at, letter in enumerate(receipt):
        for other in {letters[(letters.index(letter) + step) % len(letters)] for step in (1, 2, 7, 31, 64)}:
            if other == letter:
                continue
            with pytest.raises((Denied, InvalidInput)):
                SIGNER.read(receipt[:at] + other + receipt[at + 1 :], NOW)
            tried += 1
    assert tried > 1_000


def test_no_change_of_any_bit_of_what_is_signed_verifies() -> None:
    head, text = SIGNER.sign(exposure()).rsplit(".", 1)
    signed = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    for at in range(len(signed)):
        for bit in range(8):
            signed[at] ^= 1 << bit
            forged = base64.urlsafe_b64encode(bytes(signed)).rstrip(b"=").decode()
            with pytest.raises(Denied, match="not signed here"):
                SIGNER.read(f"{head}.{forged}", NOW)
            signed[at] ^= 1 << bit


@given(st.text(max_size=200))
def test_what_is_no_receipt_is_refused(text: str) -> None:
    with pytest.raises((Denied, InvalidInput)):
        SIGNER.read(text, NOW)


@each_row(
    "what",
    [None, 7, b"1.k1.abc", "", "1.k1", "1.k1.", "1.k1.*", "1.k1.ü", "1.k1." + "A" * LONGEST, "2.k1.AAAA"],
)
def test_what_is_of_another_form_is_refused(what: object) -> None:
    with pytest.raises((Denied, InvalidInput)):
        SIGNER.read(what, NOW)  # type: ignore[arg-type]


def test_noise_never_verifies() -> None:
    draws = random.Random(5)
    for _ in range(20_000):
        noise = base64.urlsafe_b64encode(draws.randbytes(draws.randrange(200))).rstrip(b"=").decode()
        with pytest.raises((Denied, InvalidInput)):
            SIGNER.read(f"1.k1.{noise}", NOW)


def test_a_receipt_has_its_time() -> None:
    receipt = SIGNER.sign(exposure())
    SIGNER.read(receipt, NOW + LIFETIME_S)
    for now in (NOW + LIFETIME_S + 1, NOW - 3_600):
        with pytest.raises(Denied, match="its time is over"):
            SIGNER.read(receipt, now)


def test_a_receipt_is_its_organisations() -> None:
    receipt = SIGNER.sign(exposure())
    assert SIGNER.read(receipt, NOW).org == "acme"
    with pytest.raises(Denied, match="another organisation"):
        SIGNER.read(receipt, NOW, "umbrella")


def test_a_key_that_was_replaced_is_good_until_it_is_forgotten() -> None:
    before = Signer({"k0": OLD}, "k0").sign(exposure())
    after = Signer({"k0": OLD, "k1": NEW}, "k1")
    assert as_seen(after.read(before, NOW)) == as_seen(exposure())
    assert after.sign(exposure()).startswith("1.k1.")
    with pytest.raises(Denied, match="not signed here"):
        SIGNER.read(before, NOW)


def test_a_key_cannot_be_passed_off_as_another() -> None:
    receipt = Signer({"k0": OLD}, "k0").sign(exposure())
    with pytest.raises(Denied):
        Signer({"k0": OLD, "k1": NEW}, "k1").read(receipt.replace(".k0.", ".k1.", 1), NOW)


@pytest.mark.parametrize(
    ("secrets", "current", "said"),
    [
        ({"k": b"short"}, "k", "at least 32 bytes"),
        ({"k": OLD}, "j", "no such key"),
        ({"a.b": OLD}, "a.b", "letters and digits"),
    ],
)
def test_keys_are_checked(secrets: dict[str, bytes], current: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Signer(secrets, current)
