"""Tunes the static table on the bank: the distilled table's rows move until messages are near their tools.

    python -m tools.train.tune_table --out python/toolroll/embedders/data/static_minilm

Needs nothing but numpy; two to five minutes of one core. It starts from the distilled table (`distilled/`,
made by `distil.py`) and from the bank. The same files, versions and kind of processor give the same bytes: all
draws come from one seed, all sums are on one thread in a fixed order, and 8 bits remain at the end.

Each step has messages and one target for each, and the loss wants each message nearest to its own target and
each target nearest to its own message. Some steps take all capabilities of an object, so that their actions
tell them apart. Each row is drawn toward its distilled row, so a piece that the bank does not have keeps its
vector, and so does a piece that it has in few texts, nearly.

Rows that are zero stay zero: a text in another script has no vector rather than a wrong one.

Source: van den Oord, Li & Vinyals, "Representation Learning with Contrastive Predictive Coding", 2018, for the
loss; Kingma & Ba, "Adam", ICLR 2015.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads them

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tools.train.capabilities import BANK, Capability, describe, read_bank, siblings
from tools.train.distil import quantise

from toolroll import _core
from toolroll.embedders.static import checksum

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]

DISTILLED = Path(__file__).with_name("distilled")

BACK = 0.5  # weight of the direction from targets to messages
SAME_OBJECT = 0.25  # share of the steps that take whole objects
WARM_UP = 20  # steps
MOST_PIECES = 400  # of a text


@dataclass(frozen=True)
class Bags:
    """The pieces of texts, one after the other.

    Attributes:
        pieces: of all texts.
        begins: int[n + 1]: text i has the pieces begins[i] to begins[i + 1], at least one.
    """

    pieces: Ints
    begins: Ints

    @classmethod
    def of(cls, texts: Sequence[str], known: npt.NDArray[np.bool_]) -> Bags:
        """known: the pieces that count. A text without any has piece 0, whose row is zero."""
        encode = _core.WordPiece(vocabulary()).encode
        found = [ids[known[ids]] for ids in (encode(text, MOST_PIECES) for text in texts)]
        found = [ids if len(ids) else np.zeros(1, np.int32) for ids in found]
        return cls(np.concatenate(found).astype(np.intp), np.cumsum([0, *map(len, found)]))

    def part(self, chosen: Ints) -> Bags:
        """Of these texts, in this order."""
        counts = self.begins[chosen + 1] - self.begins[chosen]
        begins = np.concatenate(([0], np.cumsum(counts)))
        places = np.arange(begins[-1]) + np.repeat(self.begins[chosen] - begins[:-1], counts)
        return Bags(self.pieces[places], begins)

    @property
    def owners(self) -> Ints:
        """The text of each piece."""
        return np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins))

    def sums(self, rows: Floats) -> Floats:
        """float32[n, dim]: the sum of each text's rows."""
        summed: Floats = np.add.reduceat(rows[self.pieces], self.begins[:-1])
        return summed


def vocabulary() -> list[str]:
    """The pieces by row."""
    return resources.files("toolroll.embedders.data").joinpath("vocab.txt").read_text("utf-8").splitlines()


def targets(bank: Sequence[Capability]) -> tuple[list[str], Ints]:
    """The texts that messages are held against, and int[n + 1]: where those of each capability begin."""
    texts = [
        [f"{head}: {prose}" for prose in one.descriptions for head in (one.words, one.name)] for one in bank
    ]
    return [text for some in texts for text in some], np.cumsum([0, *map(len, texts)])


def unit(rows: Floats) -> tuple[Floats, Floats]:
    """Rows at unit length, and their lengths."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-6))
    return rows / lengths, lengths


def softmax(logits: Floats, axis: int) -> Floats:
    """Over rows or columns."""
    raised: Floats = np.exp(logits - logits.max(axis=axis, keepdims=True))
    raised /= raised.sum(axis=axis, keepdims=True)
    return raised


def gradient(
    messages: Floats, wanted: Floats, capabilities: Ints, temperature: float
) -> tuple[float, Floats, Floats]:
    """Loss, and its gradient by the sums of the messages' and the targets' rows.

    Messages and targets of one capability are neither right nor wrong for each other, except in pairs.
    """
    q, q_length = unit(messages)
    t, t_length = unit(wanted)
    n = len(q)
    right = np.eye(n, dtype=np.float32)
    logits = q @ t.T / np.float32(temperature)
    logits[(capabilities[:, None] == capabilities[None]) & (right == 0)] = -1e9
    to, back = softmax(logits, 1), softmax(logits, 0)
    loss = float(-np.log(np.maximum(np.diag(to), 1e-9)).mean())
    by_logit = ((to - right) + np.float32(BACK) * (back - right)) / np.float32(n * (1 + BACK) * temperature)
    by_q, by_t = by_logit @ t, by_logit.T @ q
    by_q = (by_q - q * (by_q * q).sum(1, keepdims=True)) / q_length
    by_t = (by_t - t * (by_t * t).sum(1, keepdims=True)) / t_length
    return loss, by_q, by_t


class Batches:
    """The messages of each step."""

    def __init__(self, bank: Sequence[Capability], batch: int, seed: int) -> None:
        self.owners: Ints = np.repeat(np.arange(len(bank)), [len(one.messages) for one in bank])
        self._begins = np.concatenate(([0], np.cumsum([len(one.messages) for one in bank])))
        self._objects = siblings(bank)
        self._batch = batch
        self._rng = np.random.default_rng(seed)

    def draw(self, begins: Ints) -> tuple[Ints, Ints]:
        """Messages, and one target of each message's capability; begins: of the targets."""
        rng = self._rng
        if rng.random() < SAME_OBJECT:
            capabilities: list[int] = []
            for group in rng.permutation(len(self._objects)):
                capabilities += self._objects[group]
                if len(capabilities) >= self._batch:
                    break
            chosen = self._any(self._begins, np.array(capabilities[: self._batch]))
        else:
            count = min(self._batch, len(self.owners))
            chosen = rng.choice(len(self.owners), count, replace=False)
        return chosen, self._any(begins, self.owners[chosen])

    def _any(self, begins: Ints, of: Ints) -> Ints:
        counts = begins[of + 1] - begins[of]
        drawn: Ints = begins[of] + (self._rng.random(len(of)) * counts).astype(np.intp)
        return drawn


def tune(
    distilled: Floats,
    bank: Sequence[Capability],
    *,
    epochs: float,
    batch: int,
    rate: float,
    temperature: float,
    attraction: float,
    seed: int,
) -> Floats:
    """Adam on the rows that a step touches; the rate rises over `WARM_UP` steps and falls to zero."""
    known = distilled.any(axis=1)
    messages = Bags.of([text for one in bank for text in one.messages], known)
    texts, begins = targets(bank)
    wanted = Bags.of(texts, known)
    batches = Batches(bank, batch, seed)
    rows = distilled.copy()
    first, second = np.zeros_like(rows), np.zeros_like(rows)
    squares = np.maximum((distilled**2).sum(1, keepdims=True), np.float32(1e-6))
    steps = int(epochs * len(batches.owners) / batch)
    started, seen = time.perf_counter(), 0.0
    for step in range(steps):
        chosen, target = batches.draw(begins)
        some, others = messages.part(chosen), wanted.part(target)
        loss, by_message, by_target = gradient(
            some.sums(rows), others.sums(rows), batches.owners[chosen], temperature
        )
        pieces = np.concatenate((some.pieces, others.pieces))
        by_place = np.concatenate((by_message[some.owners], by_target[others.owners]))
        order = np.argsort(pieces, kind="stable")
        touched, at = np.unique(pieces[order], return_index=True)
        by_row = np.add.reduceat(by_place[order], at)
        by_row, touched = by_row[known[touched]], touched[known[touched]]
        pull = (rows[touched] - distilled[touched]) / squares[touched]
        by_row += np.float32(2 * attraction / len(touched)) * pull
        first[touched] = 0.9 * first[touched] + 0.1 * by_row
        second[touched] = 0.999 * second[touched] + 0.001 * by_row**2
        current = rate * min(1.0, (step + 1) / WARM_UP) * (1 - step / steps)
        mean = first[touched] / np.float32(1 - 0.9 ** (step + 1))
        spread = np.sqrt(second[touched] / np.float32(1 - 0.999 ** (step + 1)))
        rows[touched] -= np.float32(current) * mean / (spread + np.float32(1e-8))
        seen += loss
        if step % 100 == 99:
            taken = time.perf_counter() - started
            print(f"[{taken:6.1f} s] step {step + 1} of {steps}: loss {seen / 100:.4f}", flush=True)
            seen = 0.0
    return rows


def main() -> None:
    """Reads the distilled table and the bank, writes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--distilled", type=Path, default=DISTILLED, help="folder of the table to begin with")
    parser.add_argument("--bank", type=Path, default=BANK, help="folder")
    parser.add_argument("--out", type=Path, required=True, help="folder of the table")
    parser.add_argument("--epochs", type=float, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--temperature", type=float, default=0.15)
    parser.add_argument("--attraction", type=float, default=1.0, help="of a row to its distilled row")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    table, scale = np.load(args.distilled / "table.npy"), np.load(args.distilled / "scale.npy")
    about = json.loads((args.distilled / "table.json").read_text("utf-8"))
    bank = read_bank(args.bank)
    recipe = {
        name: getattr(args, name) for name in ("epochs", "batch", "rate", "temperature", "attraction", "seed")
    }
    rows = tune(table * scale[:, None], bank, **recipe)
    table, scale = quantise(rows)
    args.out.mkdir(parents=True, exist_ok=True)
    np.save(args.out / "table.npy", table)
    np.save(args.out / "scale.npy", scale)
    made = {
        "name": about["name"],
        "sha256": checksum(table, scale),
        "pieces": about["pieces"],
        "dim": about["dim"],
        "licence": about["licence"],
        "bank": describe(bank),
        "recipe": recipe,
        "distilled": {name: about[name] for name in ("sha256", "teacher", "texts", "recipe", "measured")},
    }
    (args.out / "table.json").write_text(json.dumps(made, indent=2) + "\n", "utf-8")
    print(f"{args.out}: {made['sha256']}")


if __name__ == "__main__":
    main()
