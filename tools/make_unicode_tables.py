"""Writes cpp/src/unicode_tables.inc from Python's unicodedata.

The tables are generated once from one fixed Unicode version and committed, so that folding does not
change with the interpreter: `python3.13 tools/make_unicode_tables.py > cpp/src/unicode_tables.inc`.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence

UNICODE = "15.1.0"
LAST = 0x10FFFF
HANGUL = range(0xAC00, 0xD7A4)
SURROGATES = range(0xD800, 0xE000)

# Properties, as in unicode.hpp.
WORD, IS_HANGUL, UNSPACED, SPACE, PUNCTUATION, CONTROL, MARK, EXTENDS, FOLDS = (1 << i for i in range(9))

# unicodedata knows no scripts: the blocks of those that write without spaces between words.
UNSPACED_RANGES = [
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0x1780, 0x17FF),  # Thai, Lao, Myanmar, Khmer
    (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF),
    (0x3041, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F), (0x1AFF0, 0x1B16F),  # kana
    (0x3105, 0x312F), (0x31A0, 0x31BF),  # Bopomofo
]  # fmt: skip
HANGUL_RANGES = [
    (0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97C), (0xAC00, 0xD7A3), (0xD7B0, 0xD7FB), (0xFFA0, 0xFFDC),
]  # fmt: skip
FULL_WIDTH = [(0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A)]
SPACES = {
    *range(0x09, 0x0E),
    0x20,
    0x85,
    0xA0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
}


def within(c: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= c <= last for first, last in ranges)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def narrow(text: str) -> str:
    """With ordinary forms of full-width Latin letters and digits."""
    return "".join(chr(ord(ch) - 0xFEE0) if within(ord(ch), FULL_WIDTH) else ch for ch in text)


def folded(c: int) -> str:
    return unicodedata.normalize("NFC", narrow(nfd(chr(c))).casefold())


def compositions() -> dict[tuple[int, int], int]:
    """Primary composites but Hangul: what NFC makes of a pair."""
    pairs = {}
    for c in range(LAST + 1):
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) == 2 and "<" not in parts[0] and unicodedata.normalize("NFC", chr(c)) == chr(c):
            pairs[int(parts[0], 16), int(parts[1], 16)] = c
    return pairs


def properties(c: int, seconds: set[int]) -> int:
    ch = chr(c)
    category = unicodedata.category(ch)
    # Variation selectors and enclosing marks dress symbols: no letter's part, they must not glue words.
    dresses = 0xFE00 <= c <= 0xFE0F or 0xE0100 <= c <= 0xE01EF or category == "Me"
    word = (category[0] in "LNM" or category == "Pc") and not dresses
    flags = WORD * word
    flags |= IS_HANGUL * (word and within(c, HANGUL_RANGES))
    flags |= UNSPACED * (word and within(c, UNSPACED_RANGES))
    flags |= SPACE * (c in SPACES)
    flags |= PUNCTUATION * (category[0] == "P" or (0x21 <= c <= 0x7E and not ch.isalnum()))
    flags |= CONTROL * (category[0] == "C" and c not in (0x09, 0x0A, 0x0D))
    flags |= MARK * (category == "Mn")
    if c in SURROGATES:
        return flags
    first = {ord(nfd(ch)[0]), ord(nfd(folded(c))[0])}
    flags |= EXTENDS * any(unicodedata.combining(chr(f)) != 0 or f in seconds for f in first)
    flags |= FOLDS * (folded(c) != ch)
    return flags


def emit(kind: str, name: str, numbers: Sequence[int]) -> None:
    print(f"\nconst {kind} {name}[{len(numbers)}] = {{")
    line = ""
    for number in numbers:
        item = f"{number},"
        if len(line) + len(item) > 100:
            print(line)
            line = ""
        line += item
    print(line + "};")


def emit_trie(name: str, values: Sequence[int]) -> None:
    """A two-stage table; the page size is the one that takes the least space."""

    def split(shift: int) -> tuple[list[int], list[int]]:
        pages: dict[tuple[int, ...], int] = {}
        size = 1 << shift
        index = [pages.setdefault(tuple(values[i : i + size]), len(pages)) for i in range(0, LAST + 1, size)]
        return index, [value for page in pages for value in page]

    def width(numbers: Sequence[int]) -> int:
        return 1 if max(numbers) < 256 else 2

    def cost(shift: int) -> int:
        return sum(len(part) * width(part) for part in split(shift))

    shift = min(range(5, 9), key=cost)
    index, cells = split(shift)
    if name == "Property":  # its lookup is inline in unicode.hpp, without a test of the bound
        print(f"\nstatic_assert(kPropertyShift == {shift});")
    else:
        while len(index) > 1 and index[-1] == index[-2]:  # beyond the last entry its page repeats
            index.pop()
        print(f"\nconst unsigned k{name}Shift = {shift};")
    for part, numbers in (("Page", index), ("Cell", cells)):
        emit(f"std::uint{8 * width(numbers)}_t", f"k{name}{part}", numbers)


def emit_mapping(name: str, mapping: dict[int, bytes | list[int]], kind: str) -> None:
    """A trie of numbers: 0 is no entry, i is pool[start[i - 1] : start[i]]. Equal values share theirs."""
    numbers: dict[tuple[int, ...], int] = {}
    values = [0] * (LAST + 1)
    for c, value in mapping.items():
        values[c] = numbers.setdefault(tuple(value), len(numbers) + 1)
    emit_trie(name, values)
    starts, pool = [0], list[int]()
    for sequence in numbers:
        pool += sequence
        starts.append(len(pool))
    if len(pool) > len(numbers):  # else each is one long
        emit("std::uint16_t", f"k{name}Start", starts)
    emit(kind, f"k{name}Pool", pool)


def main() -> None:
    if unicodedata.unidata_version != UNICODE:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}, the tables are of {UNICODE}")
    pairs = compositions()
    seconds = {second for _, second in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    print(f"// Unicode {UNICODE}. Written by tools/make_unicode_tables.py: do not edit.")
    print("// clang-format off")

    records: dict[tuple[int, int], int] = {}
    cells = [
        records.setdefault((properties(c, seconds), unicodedata.combining(chr(c))), len(records))
        for c in range(LAST + 1)
    ]
    emit_trie("Property", cells)
    emit("std::uint32_t", "kPropertyRecord", [flags | rank << 16 for flags, rank in records])

    characters = [c for c in range(LAST + 1) if c not in SURROGATES]
    emit_mapping("Fold", {c: folded(c).encode() for c in characters if folded(c) != chr(c)}, "std::uint8_t")
    emit_mapping(
        "Decomposition",
        {c: [ord(d) for d in nfd(chr(c))] for c in characters if c not in HANGUL and nfd(chr(c)) != chr(c)},
        "char32_t",
    )
    emit_mapping(
        "Lower", {c: [ord(chr(c).lower()[0])] for c in characters if chr(c).lower() != chr(c)}, "char32_t"
    )
    ordered = sorted(pairs.items())
    emit("std::uint64_t", "kComposeKey", [first << 32 | second for (first, second), _ in ordered])
    emit("char32_t", "kComposed", [composed for _, composed in ordered])


if __name__ == "__main__":
    main()
