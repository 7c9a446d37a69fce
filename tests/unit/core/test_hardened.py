"""What the loader and the compiler do for `_core` beyond our own checks, read from the file that is imported."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolroll import _core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads an ELF file")

LOAD_DYNAMIC, STACK, READ_ONLY_AFTER_START = 2, 0x6474E551, 0x6474E552
EXECUTABLE = 1
FLAGS, FLAGS_1 = 30, 0x6FFFFFFB
NOW, NOW_1 = 8, 1


def elf() -> bytes:
    assert _core.__file__ is not None
    content = Path(_core.__file__).read_bytes()
    assert content[:6] == b"\x7fELF\x02\x01", "64 bits, little-endian"
    return content


def segments() -> Iterator[tuple[int, int, bytes]]:
    """Kind, flags and content of each segment."""
    content = elf()
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for at in range(table, table + size * count, size):
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at)
        yield kind, flags, content[offset : offset + length]


def test_addresses_of_functions_are_read_only_once_the_module_is_loaded():
    (dynamic,) = [content for kind, _, content in segments() if kind == LOAD_DYNAMIC]
    entries = dict(struct.iter_unpack("<qQ", dynamic))
    assert entries.get(FLAGS, 0) & NOW or entries.get(FLAGS_1, 0) & NOW_1
    assert READ_ONLY_AFTER_START in {kind for kind, _, _ in segments()}


def test_the_stack_is_not_executable():
    assert [flags & EXECUTABLE for kind, flags, _ in segments() if kind == STACK] == [0]


def test_functions_with_arrays_on_the_stack_have_canaries():
    assert b"\0__stack_chk_fail\0" in elf()
