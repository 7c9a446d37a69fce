"""Makes the multilingual table: rows for pieces of fifteen languages, in the space of the English table.

    python -m tools.train.multilingual_table --texts translations.tsv --words words.npz pieces.npz \\
        --out python/toolroll/embedders/data/static_multilingual

Needs nothing but numpy and, for the vocabulary, the extra `multilingual`; five minutes of one core. A text is the
sum of its pieces' rows, and the loss wants each text near the vector that the English table gives its English
original, and nearer to that one than to the others of its batch. Three kinds of texts teach it:

- translations of software (`translations.py`), a third of them in a request frame (`request_frames.tsv`);
- the bank's messages in all languages (`bank/languages`);
- one to three words in a frame, translated by an encoder (`word_translations.py`) or by us
  (`everyday_words.tsv`).

First a gate is fitted (`english_gate.py`), which says whether a text or a word is English. English words in a
text, such as names, keep the rows of the English table, and the other rows learn beside them. The same files, versions and kind of processor give the same bytes.

Source: Kingma & Ba, "Adam", ICLR 2015; van den Oord, Li & Vinyals, "Representation Learning with Contrastive
Predictive Coding", 2018, for the loss.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads them

import argparse
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tools.train.capabilities import describe, read_bank
from tools.train.distil import quantise
from tools.train.english_gate import LATIN, fit_gate, parts_of
from tools.train.multilingual_pieces import (
    BEGINNING,
    DATA,
    LANGUAGES,
    UNSPACED,
    EnglishSums,
    Reader,
    bank_messages,
    cutter,
    pieces_of_e5,
    read_texts,
    unaccented,
)
from tools.train.tune_table import softmax, unit

from toolroll.embedders.static import checksum

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

FRAMES = Path(__file__).with_name("request_frames.tsv")
EVERYDAY = Path(__file__).with_name("everyday_words.tsv")
EVERYDAY_COUNTS = 4  # as many words as one that was translated by the encoder
WORDS_COUNT = 10  # as many occurrences, when pieces are counted
FRAMED = 0.35  # share of translations in a frame
UNACCENTED = 0.1  # share of texts in Latin letters without their accents, as people type them in a hurry
MOST_PIECES = 64  # of a text
MOST_WORDS = 3  # of a message made of words
MADE_OF_WORDS = 15_000  # messages a language
# Which kind a text of a batch is of, and which language.
KINDS = {"software": 0.55, "bank": 0.12, "words": 0.33}
WEIGHTS = {"zh": 2.0, "ja": 1.7, "ko": 1.7, "ru": 1.5, "de": 1.2, "es": 1.2}
OTHERS = 0.7
NEGATIVE_BELOW = 0.9  # cosine of two originals that are different enough to be told apart
GATE_SHARE = 0.1  # of the translations that teach the gate
WARM_UP = 50  # steps


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of one language and kind.

    Attributes:
        pieces: of all texts, one after the other.
        begins: int[n + 1].
        targets: float16[n, dim], unit length.
    """

    pieces: Ints
    begins: npt.NDArray[np.int64]
    targets: npt.NDArray[np.float16]


def frames() -> dict[str, list[str]]:
    """Language → frames, in the same order in all languages."""
    lines = FRAMES.read_text("utf-8").splitlines()
    return {language: some for language, *some in (line.split("\t") for line in lines)}


def vocabulary(samples: Mapping[str, Sequence[str]], size: int) -> tuple[list[str], Floats]:
    """The pieces that the texts use most, and their scores. samples: language → texts."""
    pieces, scores = pieces_of_e5()
    cut = cutter(pieces, scores)
    shares = np.zeros(len(pieces))
    for language, texts in sorted(samples.items()):
        counts = np.bincount(np.concatenate([cut(text) for text in texts]), minlength=len(pieces))
        shares += WEIGHTS.get(language, OTHERS) * counts / counts.sum()
    letters = np.array([len(piece.removeprefix(BEGINNING)) for piece in pieces])
    single = (letters == 1) & (shares > 0)
    order = np.lexsort((np.arange(len(pieces)), -shares, ~single))
    kept = np.sort(order[:size][shares[order[:size]] > 0])
    return [pieces[at] for at in kept], scores[kept]


def bags(texts: Sequence[str], targets: Floats, read: Reader) -> Texts:
    """Texts that have pieces of the new table, and a target."""
    has_target = targets.any(1)
    found = [read(text)[:MOST_PIECES] for text in texts]
    kept = [at for at, pieces in enumerate(found) if pieces and pieces[0] < read.size and has_target[at]]
    return Texts(
        np.array([piece for at in kept for piece in found[at]], np.int32),
        np.cumsum([0, *(len(found[at]) for at in kept)]),
        unit(targets[kept])[0].astype(np.float16),
    )


class Training:
    """All texts, and how batches are drawn from them."""

    def __init__(self, parts: dict[tuple[str, str], Texts], batch: int, seed: int) -> None:
        self._keys = sorted(parts)
        self._parts = [parts[key] for key in self._keys]
        weights = np.array([KINDS[kind] * WEIGHTS.get(language, OTHERS) for kind, language in self._keys])
        self._shares = weights / weights.sum()
        self._batch, self._rng = batch, np.random.default_rng(seed)

    def draw(self) -> tuple[Ints, npt.NDArray[np.int64], Floats]:
        """Pieces, where each text's begin, and targets."""
        counts = self._rng.multinomial(self._batch, self._shares)
        pieces, sizes, targets = [], [], []
        for part, count in zip(self._parts, counts, strict=True):
            chosen = self._rng.integers(0, len(part.targets), count)
            for at in chosen:
                pieces.append(part.pieces[part.begins[at] : part.begins[at + 1]])
            sizes.append(part.begins[chosen + 1] - part.begins[chosen])
            targets.append(part.targets[chosen])
        begins = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
        return np.concatenate(pieces), begins, np.concatenate(targets).astype(np.float32)


def gradient(sums: Floats, targets: Floats, contrast: float, temperature: float) -> tuple[float, Floats]:
    """Mean distance from the targets, and the gradient of the loss by the sums."""
    vectors, lengths = unit(sums)
    n = np.float32(len(sums))
    cosines = (vectors * targets).sum(1)
    by_vector = -targets / n
    logits = vectors @ targets.T
    alike = targets @ targets.T > NEGATIVE_BELOW
    np.fill_diagonal(alike, False)
    logits /= np.float32(temperature)
    logits[alike] = -1e9
    shares = softmax(logits, 1)
    shares[np.diag_indices(len(sums))] -= 1
    by_vector += np.float32(contrast / temperature) / n * (shares @ targets)
    by_vector -= vectors * (by_vector * vectors).sum(1, keepdims=True)
    return float(1 - cosines.mean()), by_vector / lengths


def fit(
    training: Training, count: int, english: Floats, *, steps: int, rate: float, contrast: float, temperature: float,
    seed: int,
) -> Floats:  # fmt: skip
    """Adam on the rows that a step touches; the rate rises over `WARM_UP` steps and falls to zero.

    english: rows that stay as they are; the pieces from `count` on.
    """
    drawn = np.random.default_rng(seed).normal(0, 0.02, (count, english.shape[1])).astype(np.float32)
    rows = np.concatenate((drawn, english))
    first, second = np.zeros_like(drawn), np.zeros_like(drawn)
    started, seen = time.perf_counter(), 0.0
    for step in range(steps):
        pieces, begins, targets = training.draw()
        sums = np.add.reduceat(rows[pieces], begins[:-1])
        loss, by_text = gradient(sums, targets, contrast, temperature)
        owners = np.repeat(np.arange(len(targets)), np.diff(begins))
        is_ours = pieces < count
        pieces, owners = pieces[is_ours], owners[is_ours]
        order = np.argsort(pieces, kind="stable")
        touched, at = np.unique(pieces[order], return_index=True)
        by_row = np.add.reduceat(by_text[owners[order]], at)
        mean = first[touched] = 0.9 * first[touched] + 0.1 * by_row
        square = second[touched] = 0.999 * second[touched] + 0.001 * by_row**2
        current = rate * min(1.0, (step + 1) / WARM_UP) * (1 - step / steps)
        scale = np.float32(current * np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1)))
        rows[touched] -= scale * mean / (np.sqrt(square) + np.float32(1e-8))
        seen += loss
        if step % 100 == 99:
            print(f"[{time.perf_counter() - started:6.0f} s] step {step + 1}: {seen / 100:.4f}", flush=True)
            seen = 0.0
    return rows[:count]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs of an English text and its translation, by language.

    Attributes:
        software: translations of software.
        bank: the bank's messages.
        words: words and the sums of their English words.
    """

    software: dict[str, list[tuple[str, str]]]
    bank: dict[str, list[tuple[str, str]]]
    words: dict[str, tuple[list[str], Floats]]


def read_corpus(texts: Path, words: Sequence[Path], sums: EnglishSums, share: float, seed: int) -> Corpus:
    """All texts; share: of the translations, for a trial."""
    rng = np.random.default_rng(seed)
    software: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for language, english, text in read_texts(texts):
        if share == 1 or rng.random() < share:
            software[language].append((english, text))
    bank: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for language, english, text in bank_messages():
        bank[language].append((english, text))
    files = [np.load(file) for file in words]
    everyday = everyday_words()
    known = {}
    for language in LANGUAGES:
        some, targets = [], []
        for file in files:
            own = np.flatnonzero(file["languages"] == language)
            some += file["words"][own].tolist()
            targets.append(file["targets"][own].astype(np.float32))
        of_us = everyday.get(language, []) * EVERYDAY_COUNTS
        some += [word for _, word in of_us]
        targets.append(sums([english for english, _ in of_us]))
        known[language] = some, np.concatenate(targets)
    return Corpus(software, bank, known)


def everyday_words() -> dict[str, list[tuple[str, str]]]:
    """Language → pairs of an English word and one that says it."""
    head, *lines = (line.split("\t") for line in EVERYDAY.read_text("utf-8").splitlines())
    return {
        language: [(line[0], word) for line in lines for word in line[at].split("/")]
        for at, language in enumerate(head)
        if at
    }


def training_texts(
    corpus: Corpus, read: Reader, sums: EnglishSums, seed: int
) -> dict[tuple[str, str], Texts]:
    """Kind and language → texts."""
    rng = np.random.default_rng(seed)
    of_language = frames()
    english_frames = of_language["en"]
    frame_sums = sums([frame.replace("{}", " ") for frame in english_frames])
    parts: dict[tuple[str, str], Texts] = {}
    for language in LANGUAGES:
        has_accents = language in LATIN
        for kind, pairs, framed in (("software", corpus.software, FRAMED), ("bank", corpus.bank, 0.0)):
            originals, others = [], []
            for english, text in pairs[language]:
                if rng.random() < framed:
                    at = int(rng.integers(len(english_frames)))
                    text = of_language[language][at].format(text.rstrip(".。 :：…"))
                    english = english_frames[at].format(english)
                originals.append(english)
                others.append(unaccented(text) if has_accents and rng.random() < UNACCENTED else text)
            parts[kind, language] = bags(others, sums(originals), read)
        some, targets = corpus.words[language]
        made, goals = list(some), [*targets]
        for _ in range(MADE_OF_WORDS):
            chosen = rng.integers(len(some), size=int(rng.integers(1, MOST_WORDS + 1)))
            at = int(rng.integers(len(english_frames)))
            text = ("" if language in UNSPACED else " ").join(some[word] for word in chosen)
            made.append(of_language[language][at].format(text))
            goals.append(targets[chosen].sum(0) + frame_sums[at])
        parts["words", language] = bags(made, np.array(goals, np.float32), read)
        print(language, *(f"{kind} {len(parts[kind, language].targets):,}" for kind in KINDS), flush=True)
    return parts


def gate_texts(texts: Path, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """English texts, and texts in other languages with Latin letters, some without their accents."""
    english, others = [], []
    for language, original, text in read_texts(texts):
        if language in LATIN and rng.random() < GATE_SHARE:
            english.append(original)
            others.append(unaccented(text) if rng.random() < 0.3 else text)
    for language, original, text in bank_messages():
        if language in LATIN:
            english.append(original)
            others.append(text)
            others.append(unaccented(text))
    english = sorted(set(english))
    for one in read_bank():
        english += [*one.messages, *one.descriptions]
    return parts_of(english, rng), parts_of(others, rng)


def table_checksum(folder: Path) -> str:
    """SHA-256 over all that the vectors depend on."""
    table, scale, scores, gate = (
        np.load(folder / f"{name}.npy") for name in ("table", "scale", "scores", "gate")
    )
    return checksum(table, scale, scores.tobytes(), gate.tobytes(), (folder / "pieces.txt").read_bytes())


def main() -> None:
    """Writes pieces, scores, rows and scales."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--words", type=Path, required=True, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="folder of the table")
    parser.add_argument("--share", type=float, default=1.0, help="of the translations, for a trial")
    parser.add_argument("--pieces", type=int, default=38_000)
    parser.add_argument("--steps", type=int, default=1_800)
    parser.add_argument("--batch", type=int, default=1_024)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--contrast", type=float, default=0.1)
    parser.add_argument("--temperature", type=float, default=0.06)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    recipe = {
        name: getattr(args, name)
        for name in ("share", "pieces", "steps", "batch", "rate", "contrast", "temperature", "seed")
    }
    sums = EnglishSums()
    gate = fit_gate(*gate_texts(args.texts, np.random.default_rng(args.seed)), sums.encode, sums.size)
    corpus = read_corpus(args.texts, args.words, sums, args.share, args.seed)
    split = Reader([], np.zeros(0, np.float32), gate).others
    samples = {
        language: [
            *(split(text) for pairs in (corpus.software, corpus.bank) for _, text in pairs[language]),
            *corpus.words[language][0] * WORDS_COUNT,
        ]
        for language in LANGUAGES
    }
    pieces, scores = vocabulary(samples, args.pieces)
    scores = scores.astype(np.float16).astype(np.float32)
    del samples
    print(f"{len(pieces):,} pieces", flush=True)
    parts = training_texts(corpus, Reader(pieces, scores, gate), sums, args.seed)
    rows = fit(
        Training(parts, args.batch, args.seed), len(pieces), sums.rows, steps=args.steps, rate=args.rate,
        contrast=args.contrast, temperature=args.temperature, seed=args.seed,
    )  # fmt: skip
    table, scale = quantise(rows)
    args.out.mkdir(parents=True, exist_ok=True)
    np.save(args.out / "table.npy", table)
    np.save(args.out / "scale.npy", scale)
    np.save(args.out / "scores.npy", scores.astype(np.float16))
    np.save(args.out / "gate.npy", gate.astype(np.float16))
    (args.out / "pieces.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    sources = args.texts.with_suffix(".json")
    made = {
        "name": "static-multilingual",
        "sha256": table_checksum(args.out),
        "pieces": len(table),
        "dim": table.shape[1],
        "languages": LANGUAGES,
        "licence": "Apache-2.0; the pieces and their scores are XLM-R's (MIT)",
        "english": json.loads((DATA / "static_minilm" / "table.json").read_text("utf-8"))["sha256"],
        "texts": json.loads(sources.read_text("utf-8")),
        "words": [hashlib.sha256(file.read_bytes()).hexdigest() for file in args.words],
        "bank": describe(read_bank()),
        "recipe": recipe,
    }
    (args.out / "table.json").write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    print(f"{args.out}: {made['sha256']}")


if __name__ == "__main__":
    main()
