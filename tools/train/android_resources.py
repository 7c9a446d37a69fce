"""Reads the strings of an Android package: its table of resources, in a binary format.

Source: Android's `ResourceTypes.h`, whose names the comments use.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections import defaultdict

_STRING_POOL, _PACKAGE, _TYPE = 0x0001, 0x0200, 0x0201
_IS_UTF8 = 0x100
_STRING = 3  # Res_value::TYPE_STRING
_IS_COMPLEX = 1
_NO_ENTRY = 0xFFFFFFFF


def strings(package: bytes) -> dict[str, dict[str, str]]:
    """Language, "en" for the default one, → key of the resource → text."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        table = archive.read("resources.arsc")
    texts: defaultdict[str, dict[str, str]] = defaultdict(dict)
    _, head, _, _ = struct.unpack_from("<HHII", table)
    pool: list[str] = []
    at = head
    while at < len(table):
        kind, inner, size = struct.unpack_from("<HHI", table, at)
        if kind == _STRING_POOL:
            pool = _pool(table, at)
        elif kind == _PACKAGE:
            within = at + inner
            while within < at + size:
                kind, inner_head, inner_size = struct.unpack_from("<HHI", table, within)
                if kind == _TYPE:
                    language = _language(table, within)
                    for key, value in _entries(table, within, inner_head):
                        texts[language].setdefault(key, pool[value])
                within += inner_size
        at += size
    return texts


def _language(table: bytes, at: int) -> str:
    """Of ResTable_config, which follows the counts of ResTable_type."""
    language, region = struct.unpack_from("<2s2s", table, at + 20 + 8)
    if not language[0]:
        return "en"
    code = language.decode("ascii", "replace")
    return f"{code}-{region.decode('ascii', 'replace')}" if region[0] else code


def _entries(table: bytes, at: int, head: int) -> list[tuple[str, int]]:
    """Key and number of the string of each simple entry of a ResTable_type."""
    kind, _, _, count, begin = struct.unpack_from("<BBHII", table, at + 8)
    offsets = struct.unpack_from(f"<{count}I", table, at + head)
    found = []
    for number, offset in enumerate(offsets):
        if offset == _NO_ENTRY:
            continue
        place = at + begin + offset
        size, flags = struct.unpack_from("<HH", table, place)
        if flags & _IS_COMPLEX:
            continue
        _, _, data_type, value = struct.unpack_from("<HBBI", table, place + size)
        if data_type == _STRING:
            found.append((f"{kind}/{number}", value))
    return found


def _pool(table: bytes, at: int) -> list[str]:
    """ResStringPool."""
    count, _, flags, begin, _ = struct.unpack_from("<IIIII", table, at + 8)
    offsets = struct.unpack_from(f"<{count}I", table, at + 28)
    return [_text(table, at + begin + offset, bool(flags & _IS_UTF8)) for offset in offsets]


def _text(table: bytes, at: int, is_utf8: bool) -> str:
    if not is_utf8:
        (size,) = struct.unpack_from("<H", table, at)
        at += 2
        if size & 0x8000:
            size = (size & 0x7FFF) << 16 | struct.unpack_from("<H", table, at)[0]
            at += 2
        return table[at : at + 2 * size].decode("utf-16-le", "replace")
    at += 2 if table[at] & 0x80 else 1  # its length in UTF-16
    size = table[at]
    at += 1
    if size & 0x80:
        size = (size & 0x7F) << 8 | table[at]
        at += 1
    return table[at : at + size].decode("utf-8", "replace")
