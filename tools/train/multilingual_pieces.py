"""The texts and the pieces that the multilingual table is made from."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tools.train.capabilities import BANK

from toolroll import _core

DATA = Path(__file__).parents[2] / "python" / "toolroll" / "embedders" / "data"
UNSPACED = frozenset({"zh", "ja"})
LANGUAGES = ("zh", "es", "fr", "de", "pt", "ru", "ja", "ko", "ar", "hi", "it", "tr", "vi", "pl", "id")
_IN_BANK = {"id": "ind"}  # where "id" names the capability
_CONTROLS = frozenset({"<s>", "<pad>", "</s>", "<unk>", "<mask>"})
BEGINNING = "\N{LOWER ONE EIGHTH BLOCK}"


def read_texts(file: Path) -> Iterator[tuple[str, str, str]]:
    """Language, English original and translation of each line that `translations.py` wrote."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            language, _, english, text = line.rstrip("\n").split("\t")
            yield language, english, text


def bank_messages(folder: Path = BANK / "languages") -> Iterator[tuple[str, str, str]]:
    """The bank's messages that exist in all languages."""
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            for language in LANGUAGES:
                yield language, record["english"], record[_IN_BANK.get(language, language)]


def pieces_of_e5() -> tuple[list[str], npt.NDArray[np.float32]]:
    """The pieces of multilingual-e5's vocabulary (XLM-R's) as the cutter reads text, and their scores.

    Pieces with digits or punctuation are left out. Of pieces that become equal, the best score counts. Pieces of
    scripts without spaces between words lose the mark of a word's beginning.
    """
    from toolroll.embedders.multilingual import WEIGHTS, E5File

    model = E5File.of(WEIGHTS.read(WEIGHTS.installed()))
    best: dict[str, float] = {}
    for piece, score in zip(model.pieces, model.scores.tolist(), strict=True):
        folded = "" if piece in _CONTROLS else fold(piece)
        letters = folded.removeprefix(BEGINNING)
        if not letters or BEGINNING in letters or not all(map(is_letter, letters)):
            continue
        if any(map(is_unspaced, letters)):
            if not all(map(is_unspaced, letters)):
                continue
            folded = letters
        if score > best.get(folded, -np.inf):
            best[folded] = score
    return list(best), np.array(list(best.values()), np.float32)


def fold(text: str) -> str:
    """Compatibility composition and caseless, nearly as the cutter does it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())


def is_letter(character: str) -> bool:
    """A letter or its mark."""
    return character.isalpha() or unicodedata.category(character) in {"Mn", "Mc"}


def is_unspaced(character: str) -> bool:
    """Of Chinese, Japanese or Thai and its neighbours."""
    name = unicodedata.name(character, "")
    return name.startswith(
        (
            "CJK UNIFIED",
            "CJK COMPAT",
            "HIRAGANA",
            "KATAKANA",
            "THAI",
            "LAO",
            "KHMER",
            "MYANMAR",
            "BOPOMOFO",
            "IDEOGRAPHIC",
        )
    )


def cutter(pieces: Sequence[str], scores: npt.NDArray[np.float32]) -> Callable[[str], npt.NDArray[np.int32]]:
    """Text → places of its pieces."""
    return _core.Unigram(list(pieces), np.asarray(scores, np.float32)).encode


class EnglishSums:
    """Sums of the English table's rows, before they are brought to unit length."""

    def __init__(self) -> None:
        folder = DATA / "static_minilm"
        table, scale = np.load(folder / "table.npy"), np.load(folder / "scale.npy")
        self.rows = table * scale[:, None]
        self.size = len(self.rows)
        self.encode = _core.WordPiece((DATA / "vocab.txt").read_text("utf-8").splitlines()).encode

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], a row for each text."""
        sums = np.zeros((len(texts), self.rows.shape[1]), np.float32)
        for at, text in enumerate(texts):
            sums[at] = self.rows[self.encode(text, 400)].sum(0)
        return sums


class Reader:
    """Reads a text as the core does: words of other scripts and foreign words by one table, the rest by the other.

    Attributes:
        size: of the first table; pieces of the English table have numbers from there on.
    """

    def __init__(
        self, pieces: Sequence[str], scores: npt.NDArray[np.float32], gate: npt.NDArray[np.float32]
    ) -> None:
        self.size = len(pieces)
        self._cut, self._gate = cutter(pieces, scores), gate
        self._encode = EnglishSums().encode
        self._words: dict[str, tuple[int, ...]] = {}

    def __call__(self, text: str) -> list[int]:
        """The pieces of a text that is not English: those of the first table first."""
        others, found = self._split(text)
        return [*self._cut(others).tolist(), *found]

    def others(self, text: str) -> str:
        """The words that the first table reads."""
        return self._split(text)[0]

    def _split(self, text: str) -> tuple[str, list[int]]:
        others: list[str] = []
        found: list[int] = []
        for word in _WORDS.findall(text):
            known = self._words.get(word)
            if known is None:
                known = self._words[word] = self._english(word)
            if known:
                found.extend(known)
            else:
                others.append(word)
        return " ".join(others), found

    def _english(self, word: str) -> tuple[int, ...]:
        """The pieces of a word that the English table reads."""
        if not "a" <= unaccented(word)[:1].lower() <= "z":
            return ()
        ids = self._encode(word, 400)
        if self._gate[ids].sum() + accents(word) * self._gate[-2] > 0:
            return ()
        return tuple((ids + self.size).tolist())


# A word in Latin letters, or whatever is in other scripts; the cutter finds the words there.
_WORDS = re.compile(
    r"[a-zA-Z\u00c0-\u024f\u1e00-\u1eff][a-zA-Z\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]*"
    r"|[^\0-\u024f\u1e00-\u1eff\s]+"
)


def unaccented(text: str) -> str:
    """Latin letters without their accents."""
    parts = unicodedata.normalize("NFD", text)
    return (
        "".join(part for part in parts if not unicodedata.combining(part)).replace("đ", "d").replace("ł", "l")
    )


def accents(text: str) -> int:
    """Latin letters with an accent, as the core counts them."""
    return sum("\u00c0" <= letter <= "\u024f" or "\u1e00" <= letter <= "\u1eff" for letter in text)
