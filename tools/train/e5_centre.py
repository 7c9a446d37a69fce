"""Finds what all vectors of multilingual-e5-small have in common: `embedders/multilingual.py` takes it off.

    python -m tools.train.e5_centre --summaries names.tsv --out python/toolroll/embedders/data

The model puts any two texts at a cosine of 0.7 to 0.95, and texts of one language, or two questions, nearer
to each other than a message is to the tool that serves it. So three things are computed from texts whose
matter does not repeat: their mean over languages, in which each language counts alike; the directions in
which the languages' means differ; and those in which a text differs from a request that is made of it
("Can you help me …?"). `names.tsv` is described in `corpus.py`. The result, `multilingual_e5_centre.npy`, is
float32[1 + n, 384]: the mean, then orthonormal directions. Nothing of the texts is kept.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tools.train.corpus import TASK_FRAMES

from toolroll.embedders.multilingual import MultilingualEmbedder

# A summary is of the first language whose signs it has.
LANGUAGES = {
    "Korean": "[가-힣]{4}", "Japanese": "[ぁ-んァ-ン]{4}", "Chinese": "[一-龥]{6}",
    "Russian": "[а-яА-Я]{5}", "Arabic": "[ء-ي]{4}", "English": r"^[ -~]+$",
}  # fmt: skip
EACH = 150  # summaries of a language
FRAMED = 400
STYLES = 2  # directions of requests; 1 to 4 are as good, from 8 on English catalogs lose
SHORTEST, LONGEST = 25, 110  # characters


def by_language(summaries: Sequence[str]) -> dict[str, list[str]]:
    """The first EACH summaries of each language."""
    found: dict[str, list[str]] = {name: [] for name in LANGUAGES}
    for text in summaries:
        for name, signs in LANGUAGES.items():
            if re.search(signs, text):
                if len(found[name]) < EACH:
                    found[name].append(text)
                break
    return found


def centre(
    languages: Sequence[npt.NDArray[np.float32]],
    plain: npt.NDArray[np.float32],
    framed: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """The mean and the directions, from vectors: by language, and of texts before and after framing."""
    means = np.stack([vectors.mean(axis=0) for vectors in languages])
    mean = means.mean(axis=0)
    _, _, differ = np.linalg.svd(means - mean, full_matrices=False)
    _, _, style = np.linalg.svd(framed - plain, full_matrices=False)
    directions, _ = np.linalg.qr(np.concatenate([differ[: len(means) - 1], style[:STYLES]]).T)
    return np.concatenate([mean[None], directions.T]).astype(np.float32)


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--summaries", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder")
    args = parser.parse_args()
    lines = args.summaries.read_text("utf-8").splitlines()
    texts = sorted({line.partition("\t")[2].strip().rstrip(".") for line in lines})
    texts = [text for text in texts if SHORTEST < len(text) < LONGEST]
    draw = random.Random(0)
    draw.shuffle(texts)
    found = by_language(texts)
    english = [text for text in texts if text.isascii()][EACH : EACH + FRAMED]
    framed = [draw.choice(TASK_FRAMES).format(text[0].lower() + text[1:]) for text in english]
    embedder = MultilingualEmbedder()

    def embedded(some: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.stack([embedder.uncentred(text) for text in some])

    result = centre([embedded(some) for some in found.values()], embedded(english), embedded(framed))
    np.save(args.out / "multilingual_e5_centre.npy", result)
    counts = ", ".join(f"{len(some)} {name}" for name, some in found.items())
    print(f"{counts}, {len(framed)} requests: {result.shape}")


if __name__ == "__main__":
    main()
