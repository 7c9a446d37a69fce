"""Writes python/toolroll/registry/editing/unicode_tables.json: properties that Python's unicodedata does not have.

    pip install regex confusable-homoglyphs
    python tools/make_name_tables.py > python/toolroll/registry/editing/unicode_tables.json

Scripts and Default_Ignorable_Code_Point come from `regex`, confusables from the data of
`confusable-homoglyphs`. The library itself is not a dependency: it knows pairs, not skeletons, and reading its
936 kB of JSON takes 50 ms, of which names need a fraction.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections import defaultdict
from importlib import resources

import regex

LAST = 0x10FFFF
CODE_POINTS = [c for c in range(LAST + 1) if not 0xD800 <= c < 0xE000]

# Scripts in which names are written today, UAX #31 table 5, and the two whose letters look most like ours.
# A letter of any other script is "Other": mixed with Latin it is as strange, and nobody needs its name.
SCRIPTS = (  # noqa: SIM905
    "Latin Greek Cyrillic Armenian Hebrew Arabic Thaana Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu "
    "Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Khmer Hiragana Katakana Bopomofo "
    "Han Cherokee Lisu"
).split()


def ranges(points: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for c in points:
        if found and found[-1][1] == c - 1:
            found[-1] = (found[-1][0], c)
        else:
            found.append((c, c))
    return found


def ignorable() -> list[tuple[int, int]]:
    """Default_Ignorable_Code_Point, and what shows as little: blank Braille, the marks of annotations."""
    is_ignorable = regex.compile(r"\p{Default_Ignorable_Code_Point}").match
    return ranges([c for c in CODE_POINTS if is_ignorable(chr(c)) or c == 0x2800 or 0xFFF9 <= c <= 0xFFFB])


def scripts() -> list[tuple[int, int, str]]:
    """Runs of letters of one script: what is no letter in between may belong to either side."""
    tests = {name: regex.compile(rf"\p{{Script={name}}}").match for name in SCRIPTS}
    letter = regex.compile(r"\p{L}").match
    shared = regex.compile(r"[\p{Script=Common}\p{Script=Inherited}]").match
    runs: list[tuple[int, int, str]] = []
    for c in CODE_POINTS:
        text = chr(c)
        if not letter(text):
            continue
        name = next((name for name, test in tests.items() if test(text)), "Other")
        if shared(text):
            name = ""
        if runs and runs[-1][2] == name:
            runs[-1] = (runs[-1][0], c, name)
        else:
            runs.append((c, c, name))
    return runs


def classes() -> dict[str, str]:
    """Prototype to all single characters that look like it, as UTS #39 has them.

    The library lists pairs in both directions, so a class is what hangs together.
    """
    data = json.loads(
        resources.files("confusable_homoglyphs").joinpath("confusables.json").read_text("utf-8")
    )
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        while parent.setdefault(text, text) != text:
            text = parent[text]
        return text

    for source, targets in data.items():
        for target in targets:
            one, other = source.replace("\u200e", ""), target["c"].replace("\u200e", "")
            if one and other:
                parent[root(one)] = root(other)
    members = defaultdict(list)
    for text in parent:
        members[root(text)].append(text)
    prototypes: dict[str, str] = {}
    for group in members.values():
        # "rn" stands for m, as in UTS #39; then what is ASCII, then the lowest.
        prototype = min(
            group, key=lambda text: (len(text) == 1, not text.isascii(), text.isupper(), len(text), text)
        )
        prototypes |= {text: bare(prototype) for text in group if len(text) == 1 and text != prototype}
    table = defaultdict(list)
    for text, prototype in sorted(prototypes.items()):
        while (mapped := "".join(prototypes.get(c, c) for c in prototype)) != prototype:
            prototype = mapped  # what was left without its mark may itself look like another
        if matters(text, prototype):
            table[prototype].append(text)
    return {prototype: "".join(likes) for prototype, likes in sorted(table.items())}


def bare(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not "\u0300" <= c <= "\u036f")


def matters(text: str, prototype: str) -> bool:
    """NFKD leaves it alone, and it is a letter, a digit, or looks like one."""
    if unicodedata.normalize("NFKD", text) != text or not prototype or text == prototype:
        return False
    return text.isalnum() or (prototype.isascii() and prototype.isalnum())


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def main() -> None:
    """Prints one JSON object: `ignorable` and `scripts` as ranges, `confusable` as prototype to characters."""
    rows = ",\n".join(
        f"  {json.dumps(prototype)}: {json.dumps(likes)}" for prototype, likes in classes().items()
    )
    print(f'{{\n "ignorable": {compact(ignorable())},\n "scripts": {compact(scripts())},')
    print(f' "confusable": {{\n{rows}\n }}\n}}')
    print(f"regex {regex.__version__}, unicodedata {unicodedata.unidata_version}", file=sys.stderr)


if __name__ == "__main__":
    main()
