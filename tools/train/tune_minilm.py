"""Tunes MiniLM on the bank: a low-rank delta of each matrix, on the weights of the extra `onnx`.

    python -m tools.train.tune_minilm --out python/toolroll/embedders/data --state state.npz

Needs the extra `onnx` (the weights) and torch 2, on one CPU thread. `--state` is written every 10 steps; the same
command continues from it. The same bank, versions and kind of processor give the same file, however
often the training was interrupted: all draws are functions of seed and step.

Each step has messages and one target for each, and the loss wants each message nearest to its own target and
each target nearest to its own message. In half of the steps the capabilities come in pairs of siblings, that
is, with the same object and another action: an encoder must tell "move the meeting" from "cancel the
meeting". Matrix products run over the words of all texts of a step without padding, and only the attention
pads texts, to the longest of a chunk.

The file has `--share` of the trained delta: weights between the published and the tuned ones keep the gain on
tools, and lose less on other messages.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021; Reimers & Gurevych,
"Sentence-BERT", EMNLP 2019, for the loss; Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022,
for the share.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch  # type: ignore[import-not-found, unused-ignore]
from tools.train.capabilities import BANK, Capability, describe, read_bank, siblings
from torch.nn import functional as F  # type: ignore[import-not-found, unused-ignore]

from toolroll._core import WordPiece
from toolroll.embedders import minilm

Pieces = npt.NDArray[np.int32]
Weights = dict[str, Any]

HEADS = 12
MOST_PIECES = 48  # of a text; few messages of the bank have more
CHUNKS = 6  # of the texts of a step, by length, for the attention
TEMPERATURE = 0.05
BACK = 0.5  # weight of the direction from targets to messages
WARM_UP = 20  # steps
SAVED = 10  # steps from one written state to the next


def dequantised() -> Weights:
    """The 8-bit weights of the package as tensors in bfloat16; matrices are [in, out]."""
    held = minilm._weights("int8", minilm.WEIGHTS["int8"].installed())
    out: Weights = {}
    for name, value in held.items():
        if name == "token.q":
            value = value * held["token.s"][:, None]
        elif name.endswith(".q"):
            value = value * held[f"{name[:-2]}.s"]
        if not name.endswith(".s"):
            floats = torch.from_numpy(np.array(value, np.float32))
            out[name.removesuffix(".q")] = floats.to(torch.bfloat16)
    return out


def begin(rank: int, seed: int) -> dict[str, Any]:
    """The parameters of the delta: `a` float32[in, rank] drawn, `b` float32[rank, out] zero."""
    rng = np.random.default_rng(seed)
    parameters = {}
    for name, _, _, rows, columns in minilm.delta_parts():
        a = rng.normal(size=(rows, rank)) / np.sqrt(rows)
        parameters[f"{name}.a"] = torch.nn.Parameter(torch.from_numpy(a.astype(np.float32)))
        parameters[f"{name}.b"] = torch.nn.Parameter(torch.zeros(rank, columns))
    return parameters


def attend(query: Any, key: Any, value: Any, seen: Any) -> Any:
    """Attention of each head; torch's own is seven times slower in bfloat16 on a CPU."""
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~seen, -1e4), -1) @ value


@dataclass(frozen=True)
class Chunk:
    """Texts of similar length, whose words stand one after the other from `begin` to `end`.

    Attributes:
        row, at: text and place of each word.
        seen: bool[texts, longest], whether there is a word.
    """

    begin: int
    end: int
    row: Any
    at: Any
    seen: Any


def chunks(lengths: npt.NDArray[np.int64]) -> list[Chunk]:
    """Chunks of texts in the order of their lengths."""
    made, begin = [], 0
    for some in np.array_split(lengths, min(CHUNKS, len(lengths))):
        end = begin + int(some.sum())
        at = np.concatenate([np.arange(n) for n in some])
        row = np.repeat(np.arange(len(some)), some)
        seen = np.arange(some.max()) < some[:, None]
        made.append(Chunk(begin, end, *map(torch.from_numpy, (row, at, seen))))
        begin = end
    return made


class Encoder:
    """The model with a delta, over texts without padding, in bfloat16."""

    def __init__(self, weights: Weights, delta: dict[str, Any], scale: float) -> None:
        self.weights, self.delta, self.scale = weights, delta, scale

    def embed(self, texts: Sequence[Pieces]) -> Any:
        """float32[n, 384], unit rows."""
        w = self.weights
        lengths = np.array([len(text) + 2 for text in texts])
        order = np.argsort(lengths, kind="stable")
        lengths = lengths[order]
        ids = np.concatenate([(minilm.CLS, *texts[i], minilm.SEP) for i in order]).astype(np.int64)
        parts = chunks(lengths)
        at = torch.cat([part.at for part in parts])
        x = self._norm(w["token"][torch.from_numpy(ids)] + w["position"][at], "norm")
        for layer in range(minilm.LAYERS):
            x = self._layer(x, layer, parts)
        row = torch.from_numpy(np.repeat(order, lengths))
        return F.normalize(torch.zeros(len(texts), x.shape[1]).index_add(0, row, x.float()), dim=1)

    def _layer(self, x: Any, layer: int, parts: Sequence[Chunk]) -> Any:
        qkv = self._product(x, layer, "qkv", ("query", "key", "value"))
        heads = torch.cat([self._attention(qkv[part.begin : part.end], part) for part in parts])
        x = self._norm(x + self._product(heads, layer, "out"), f"{layer}.norm1")
        wide = F.gelu(self._product(x, layer, "up"))
        return self._norm(x + self._product(wide, layer, "down"), f"{layer}.norm2")

    def _attention(self, qkv: Any, part: Chunk) -> Any:
        n, longest = part.seen.shape
        padded = qkv.new_zeros(n, longest, qkv.shape[1]).index_put((part.row, part.at), qkv)
        split = padded.view(n, longest, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = attend(*split, part.seen[:, None, None, :])
        return mixed.permute(0, 2, 1, 3).reshape(n, longest, -1)[part.row, part.at]

    def _product(self, x: Any, layer: int, name: str, parts: Sequence[str] = ()) -> Any:
        matrix = f"{layer}.{name}"
        names = [f"{layer}.{part}" for part in parts] or [matrix]
        # `a` of all parts side by side is one product.
        low = x @ torch.cat([self.delta[f"{one}.a"] for one in names], 1).to(x.dtype)
        lows = low.split(low.shape[1] // len(names), 1)
        scaled = [self.scale * self.delta[f"{one}.b"] for one in names]
        added = [some @ b.to(x.dtype) for some, b in zip(lows, scaled, strict=True)]
        bare = torch.addmm(self.weights[f"{matrix}.b"], x, self.weights[matrix])
        return bare + (torch.cat(added, 1) if len(added) > 1 else added[0])

    def _norm(self, x: Any, name: str) -> Any:
        return F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.w"], self.weights[f"{name}.b"], 1e-12)


class Draws:
    """The texts of each step, as a function of seed and step."""

    def __init__(self, bank: Sequence[Capability], batch: int, seed: int) -> None:
        self._bank, self._batch, self._seed = bank, batch, seed
        self._messages = [(place, text) for place, one in enumerate(bank) for text in one.messages]
        self._siblings = siblings(bank)

    def __len__(self) -> int:
        return len(self._messages)

    def step(self, step: int) -> tuple[list[int], list[str], list[str]]:
        """Places in the bank, messages and targets."""
        rng = np.random.default_rng((self._seed, step))
        if step % 2:
            drawn = [self._messages[i] for i in rng.choice(len(self._messages), self._batch, replace=False)]
        else:
            drawn = []
            for group in rng.permutation(len(self._siblings)):
                for place in rng.permutation(self._siblings[group])[:4].tolist():
                    texts = self._bank[place].messages
                    drawn.append((place, texts[rng.integers(len(texts))]))
                if len(drawn) >= self._batch:
                    break
            drawn = drawn[: self._batch]
        places = [place for place, _ in drawn]
        return places, [text for _, text in drawn], [self._target(place, rng) for place in places]

    def _target(self, place: int, rng: np.random.Generator) -> str:
        one = self._bank[place]
        prose = one.descriptions[rng.integers(len(one.descriptions))]
        head = (f"{one.words}: ", f"{one.name}: ", "")[rng.choice(3, p=(0.4, 0.4, 0.2))]
        return head + prose


def loss_of(encoder: Encoder, places: Sequence[int], messages: list[Pieces], targets: list[Pieces]) -> Any:
    """The mean over a step; other messages of the same capability count as neither right nor wrong."""
    vectors = encoder.embed([*messages, *targets])
    logits = vectors[: len(messages)] @ vectors[len(messages) :].T / TEMPERATURE
    own = torch.tensor(places)
    same = (own[:, None] == own[None]) & ~torch.eye(len(own), dtype=torch.bool)
    logits = logits.masked_fill(same, -1e4)
    right = torch.arange(len(own))
    return F.cross_entropy(logits, right) + BACK * F.cross_entropy(logits.T, right)


def restore(path: Path, parameters: dict[str, Any], optimiser: Any) -> int:
    """Reads the state; returns the number of finished steps."""
    with np.load(path) as state:
        for name, parameter in parameters.items():
            parameter.data = torch.from_numpy(state[name])
            optimiser.state[parameter] = {
                "step": torch.tensor(float(state["step"])),
                "exp_avg": torch.from_numpy(state[f"{name}.first"]),
                "exp_avg_sq": torch.from_numpy(state[f"{name}.second"]),
            }
        return int(state["step"])


def save(path: Path, parameters: dict[str, Any], optimiser: Any, step: int) -> None:
    """Writes the state; an interruption leaves the previous one."""
    arrays: dict[str, Any] = {"step": np.int64(step)}
    for name, parameter in parameters.items():
        held = optimiser.state[parameter]
        arrays[name] = parameter.detach().numpy()
        arrays[f"{name}.first"], arrays[f"{name}.second"] = (
            held["exp_avg"].numpy(),
            held["exp_avg_sq"].numpy(),
        )
    part = path.with_name(path.name + ".part.npz")
    np.savez(part, **arrays)
    os.replace(part, path)


def flat(parameters: dict[str, Any], scale: float) -> npt.NDArray[np.float16]:
    """The delta in the order that `minilm.delta_parts` reads, with the scale in `b`."""
    arrays = []
    for name, *_ in minilm.delta_parts():
        arrays.append(parameters[f"{name}.a"].detach().numpy().ravel())
        arrays.append(scale * parameters[f"{name}.b"].detach().numpy().ravel())
    return np.concatenate(arrays).astype("<f2")


def main() -> None:
    """Reads the bank, writes the delta."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bank", type=Path, default=BANK, help="folder")
    parser.add_argument("--out", type=Path, required=True, help="folder of the delta")
    parser.add_argument("--state", type=Path, required=True, help="written and continued from (.npz)")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.7, help="of the trained delta in the file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    bank = read_bank(args.bank, more=True)
    draws = Draws(bank, args.batch, args.seed)
    files = resources.files("toolroll.embedders.data")
    wordpiece = WordPiece(files.joinpath("vocab.txt").read_text("utf-8").splitlines())
    scale = 16 / args.rank
    parameters = begin(args.rank, args.seed)
    encoder = Encoder(dequantised(), parameters, scale)
    optimiser = torch.optim.AdamW(parameters.values(), lr=args.rate, weight_decay=0.01)
    done = restore(args.state, parameters, optimiser) if args.state.exists() else 0
    print(
        f"{len(draws)} messages, {sum(p.numel() for p in parameters.values())} parameters, from step {done}"
    )
    started, seen = time.process_time(), []
    for step in range(done, args.steps):
        places, messages, targets = draws.step(step)
        pieces = [[wordpiece.encode(text, MOST_PIECES) for text in texts] for texts in (messages, targets)]
        for group in optimiser.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / WARM_UP) * max(0.02, 1 - step / args.steps)
        loss = loss_of(encoder, places, *pieces)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimiser.step()
        seen.append(float(loss.detach()))
        if (step + 1) % SAVED == 0 or step + 1 == args.steps:
            save(args.state, parameters, optimiser, step + 1)
            print(
                f"[{time.process_time() - started:6.0f} s of CPU] step {step + 1} of {args.steps}: "
                f"loss {np.mean(seen):.4f}",
                flush=True,
            )
            seen = []
    file = args.out / f"{minilm.DELTA}.npy"
    np.save(file, flat(parameters, scale * args.share))
    about = {
        "name": "toolroll-minilm",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "rank": args.rank,
        "base": minilm.WEIGHTS["int8"].distribution,
        "licence": "Apache-2.0",
        "bank": describe(bank),
        "recipe": {name: getattr(args, name) for name in ("steps", "batch", "rate", "seed", "share")},
    }
    file.with_suffix(".json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    print(f"{file}: {about['sha256']}")


if __name__ == "__main__":
    main()
