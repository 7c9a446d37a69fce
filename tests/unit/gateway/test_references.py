from __future__ import annotations

from pathlib import Path

import pytest

from tests.table import each_row
from toolroll.gateway.references import input_reference, resolved
from toolroll.model.errors import InvalidInput

HERE = Path("/here")


@each_row(
    ("text", "value"),
    [
        ("plain $5 {x}", "plain $5 {x}"),
        ("a ${env:A}${A} b", "a 11 b"),
        ("${EMPTY:-other} ${NONE:-} ${A:-x}", "other  1"),
        ("${workspaceFolder}/data", "/here/data"),
        ("${workspaceFolderBasename}", "here"),
        ("${userHome}", str(Path.home())),
    ],
)
def test_references_are_replaced_by_their_values(text, value):
    assert resolved(text, {"A": "1", "EMPTY": ""}, HERE) == value


@each_row(
    ("text", "problem"),
    [
        ("${env:NONE}", "NONE is not set"),
        ("${input:key}", "keyring set SERVICE USER"),
        ("${what is this}", "is no known reference"),
        ("${keyring:only}", "must be"),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_told(text, problem):
    with pytest.raises(InvalidInput, match=problem):
        resolved(text, {}, HERE)


def test_a_secret_comes_from_the_keyring(monkeypatch):
    keyring = pytest.importorskip("keyring")
    secrets = {("mail", "ann"): "s3cret"}
    monkeypatch.setattr(keyring, "get_password", lambda service, user: secrets.get((service, user)))
    assert resolved("Bearer ${keyring:mail/ann}", {}, HERE) == "Bearer s3cret"
    with pytest.raises(InvalidInput, match="`keyring set mail bob`"):
        resolved("${keyring:mail/bob}", {}, HERE)


def test_an_input_of_vs_code_is_found():
    assert input_reference("a ${env:A} ${input:token}") == "token"
    assert input_reference("${env:A}") == ""
