"""Translates frequent words by the multilingual encoder, for the multilingual table.

    python -m tools.train.word_translations --texts translations.tsv --out words.npz
    python -m tools.train.word_translations --texts translations.tsv --pieces --out pieces.npz

Menus and messages of software have few everyday words. So the most frequent words of the texts and of the
bank's messages are embedded by multilingual-e5-small (MIT, extra `multilingual`), each alone; with `--pieces`
those words that the encoder's own vocabulary has whole, which are the most frequent ones of the web, as far as
the texts have them too. A word's translation is the mean of its nearest English words, weighted
by how near they are; a word that is near to none has no translation. Each language's mean is subtracted first,
because e5 puts all words of one language together, and words that are near everything count for less (CSLS).

Takes a minute or two of one core. The same packages give the same file.

Source: Lample et al., "Word translation without parallel data", ICLR 2018, for CSLS.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads them

import argparse
import time
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tools.train.capabilities import read_bank
from tools.train.multilingual_pieces import (
    BEGINNING,
    UNSPACED,
    EnglishSums,
    bank_messages,
    cutter,
    pieces_of_e5,
    read_texts,
)

Floats = npt.NDArray[np.float32]

MOST = {"zh": 4000, "ja": 4000, "ko": 4000, "ru": 4000, "de": 3000, "es": 3000}  # words
OTHERS = 2000
ENGLISH = 9000
OF_BANK = 20  # times that a word of the bank counts
MOST_WHOLE = {"zh": 5000, "ja": 4000, "ko": 4500, "ru": 5000, "de": 3500, "es": 3500}  # with --pieces
LEAST_LETTERS = {"zh": 2, "ja": 2, "ko": 2, "ru": 3, "de": 4, "es": 4}
NEAREST = 6
SHARPNESS = 0.05
LEAST_COSINE = 0.5


def words_of(text: str) -> list[str]:
    """Lower-case words without digits."""
    cleaned = "".join(
        letter if letter.isalpha() or unicodedata.category(letter).startswith("M") else " " for letter in text
    )
    return [word for word in cleaned.lower().split() if len(word) > 1]


def counted(texts: Path) -> dict[str, Counter[str]]:
    """Language → words and how often the texts and the bank have them; "en" too."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    pieces, scores = pieces_of_e5()
    cut = cutter(pieces, scores)
    for weight, rows in ((1, read_texts(texts)), (OF_BANK, bank_messages())):
        for language, english, text in rows:
            if language in UNSPACED:
                found = [pieces[at] for at in cut(text) if len(pieces[at]) > 1 and not pieces[at].isascii()]
            else:
                found = words_of(text)
            for word in set(found):
                counts[language][word.removeprefix("▁")] += weight
            for word in set(words_of(english)):
                counts["en"][word] += weight
    for capability in read_bank():
        for text in (*capability.messages, *capability.descriptions):
            counts["en"].update(dict.fromkeys(set(words_of(text)), OF_BANK))
    return counts


def frequent(counts: dict[str, Counter[str]]) -> dict[str, list[str]]:
    """Language → words, the most frequent first; "en" too."""
    return {
        language: [word for word, _ in sorted(some.items(), key=lambda item: (-item[1], item[0]))][
            : ENGLISH if language == "en" else MOST.get(language, OTHERS)
        ]
        for language, some in sorted(counts.items())
    }


def whole(counts: dict[str, Counter[str]]) -> dict[str, list[str]]:
    """Language → words that are pieces of the encoder and not frequent, the most probable first; and "en"."""
    often = frequent(counts)
    pieces, scores = pieces_of_e5()
    found = {"en": often["en"]}
    for language, most in MOST_WHOLE.items():
        known, others = counts[language], set(often[language])
        chosen = []
        for at in np.argsort(-scores, kind="stable"):
            word = pieces[at].removeprefix(BEGINNING)
            is_whole = language in UNSPACED or pieces[at].startswith(BEGINNING)
            if not is_whole or len(word) < LEAST_LETTERS[language] or word in others:
                continue
            if known[word] > 2 * counts["en"][word]:
                chosen.append(word)
        found[language] = chosen[:most]
    return found


def unit(rows: Floats) -> Floats:
    """Each row at length 1."""
    scaled: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return scaled


def translate(words: Floats, english: Floats, targets: Floats) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Whether each word has a translation, and the mean of its nearest English words' targets."""
    cosines = unit(words - words.mean(0)) @ unit(english - english.mean(0)).T
    crowded = np.sort(np.partition(cosines, -10, axis=0)[-10:], axis=0).mean(0)
    near = 2 * cosines - crowded
    best = np.argsort(-near, axis=1, kind="stable")[:, :NEAREST]
    of_best = np.take_along_axis(near, best, 1)
    weights = np.exp((of_best - of_best[:, :1]) / SHARPNESS)
    weights /= weights.sum(1, keepdims=True)
    means: Floats = (weights[..., None] * targets[best]).sum(1)
    return np.take_along_axis(cosines, best[:, :1], 1)[:, 0] >= LEAST_COSINE, means


def main() -> None:
    """Writes words, their languages and their targets."""
    from toolroll.embedders.multilingual import MultilingualEmbedder

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--pieces", action="store_true", help="the words that are pieces of the encoder")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    started = time.perf_counter()
    counts = counted(args.texts)
    chosen = whole(counts) if args.pieces else frequent(counts)
    print(f"[{time.perf_counter() - started:5.0f} s] counted", flush=True)
    encoder = MultilingualEmbedder()
    sums = EnglishSums()
    english = [word for word in chosen.pop("en") if sums([word]).any()]
    of_english = np.stack([encoder.embed_query(word) for word in english])
    targets = sums(english)
    print(f"[{time.perf_counter() - started:5.0f} s] en {len(english)}", flush=True)
    words, languages, means = [], [], []
    for language, some in chosen.items():
        vectors = np.stack([encoder.embed_query(word) for word in some])
        is_known, mean = translate(vectors, of_english, targets)
        words += [word for word, known in zip(some, is_known, strict=True) if known]
        languages += [language] * int(is_known.sum())
        means.append(mean[is_known])
        print(
            f"[{time.perf_counter() - started:5.0f} s] {language} {is_known.sum()} of {len(some)}", flush=True
        )
    np.savez_compressed(
        args.out,
        words=np.array(words),
        languages=np.array(languages),
        targets=np.concatenate(means).astype(np.float16),
    )


if __name__ == "__main__":
    main()
