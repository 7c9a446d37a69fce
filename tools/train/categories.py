"""Trains the classifier of messages: read, write, analyse, generate, or none of them.

    python -m tools.train.categories --out python/toolroll/learning

Needs nothing but numpy; a minute of one core. The same messages give the same file.

It learns from `category_messages.tsv`, written for this project, and, weighing less, from verbs: "delete the
report" is a write whatever the report is about, and a few hundred messages do not say so of every verb and
every thing. The verbs below stand in for that. No sentence of a data set is among either.

The model is multinomial logistic regression, with a bound on the size of its weights, over the built-in
table's vector and the presence of cue words. The vector alone knows better what a message is about than what
is to be done with it: rare words weigh most in it, and those are seldom verbs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll.embedders.static import StaticEmbedder
from toolroll.learning.categories import CATEGORIES, FILE, GENERAL, Classifier, cue_words

Floats = npt.NDArray[np.float64]
Message = tuple[str, str]  # category, text

MESSAGES = "category_messages.tsv"
CLASSES = (*CATEGORIES, GENERAL)

CUE = 0.4  # a cue counts as much as a coordinate of this size, against the vector's length of 1
LEAST_MESSAGES = 8  # that a word must be in to be a cue
RIDGE = 1e-3
VERB_WEIGHT = 0.3  # of a sentence made of a verb, against a written message
THINGS_A_VERB = 3
LEAST = 0.4  # probability below which the answer is GENERAL
UNIT = 0.01  # of the weights in the file
FOLDS = 5

VERBS = {
    "read": (
        "show, list, get, find, look up, display, fetch, search for, check, view, open, see, read,"
        " retrieve, tell me about, tell me, pull up, give me, locate, browse, what is, what are, where is,"
        " where are, when is, who is, is there, are there, do we have, how many, how much is, which, look"
        " for, recommend, I'm looking for, provide information on, provide details of, get the details of,"
        " show me, any news about"
    ),
    "write": (
        "create, add, update, delete, remove, set, send, change, start, stop, cancel, book, enable,"
        " disable, move, rename, save, close, assign, schedule, order, buy, pay, turn on, turn off,"
        " restart, install, upload, post, approve, reject, edit, replace, reset, register, subscribe to,"
        " connect, link, attach, detach, grant, revoke, block, share, forward, transfer, submit, reserve,"
        " activate, restore, import, run, deploy, upgrade, store, record, log, mark, archive, lock,"
        " unlock, publish, invite, swap, refill, modify, configure, set up, execute, insert, remind me"
        " about, put, make a booking for, sell, place an order for"
    ),
    "analyse": (
        "compare, calculate, compute, analyse, analyze, explain, why is, evaluate, predict, estimate,"
        " classify, summarise, summarize, count, determine, solve, assess, diagnose, verify, check the"
        " accuracy of, find out why, convert, rank, measure, detect errors in, interpret, is it worth,"
        " what is the difference between, forecast, work out, figure out, identify patterns in, review,"
        " examine, judge, investigate, find the cause of, what do you think of, calculate the average of,"
        " multiply, detect, test, prove, group, segment, validate, what is the total of, what causes"
    ),
    "generate": (
        "write, draft, generate, compose, design, draw, translate, make, invent, rewrite, paraphrase,"
        " come up with, brainstorm, sketch, paint, illustrate, produce, create an image of, create a video"
        " about, write a story about, create a logo for, build a website for, create a poem about, turn"
        " into a song, suggest a name for, think up, render, visualise, visualize, write code for, make a"
        " diagram of, make a picture of, make a plan for, proofread, rephrase, give me ideas for, prepare"
        " a presentation on, develop an app for, create a plan for, craft, polish the wording of, make a"
        " chart of, convert into a PDF, create content for, produce a video about, make an audio version"
        " of, write an ad for"
    ),
}
THINGS = (
    "the report, my account, this file, a meeting, the invoice, our customers, the server, a photo, the"
    " order, my notes, the weather, this article, a flight, the song, an email, the house, a recipe, the"
    " database, a project, the game, my car, the contract, a product, the team, this message, a ticket,"
    " the garden, my budget, the network, a poster, the appointment, a virtual machine, the schedule, my"
    " presentation, the text, a user, the results, an event, a website, the stock, my subscription, the"
    " data, a list, a policy, the numbers, a hotel, a movie, the settings, my dog, the course, the"
    " image, a document, a book, the matrix, the key"
)
REQUESTS = (
    "{}", "{}", "Can you {}?", "Could you {} please?", "Please {}", "I need to {}", "I want to {}",
    "I'd like you to {}", "Help me {}", "Hey, {} for me",
)  # fmt: skip
QUESTIONS = ("{}?", "{}", "Hi, {}?", "Could you tell me {}?")
_QUESTION_WORDS = frozenset(("what", "where", "when", "who", "which", "why", "is", "are", "do", "how", "any"))


def written() -> list[Message]:
    """The messages written for this project."""
    text = Path(__file__).with_name(MESSAGES).read_text("utf-8")
    return [(kind, message) for kind, _, message in (line.partition("\t") for line in text.splitlines())]


def of_verbs(seed: int = 0) -> list[Message]:
    """Each verb with a few things, in the ways in which people ask."""
    draw = random.Random(seed)
    things = THINGS.split(", ")
    made: list[Message] = []
    for kind, verbs in VERBS.items():
        for verb in verbs.split(", "):
            for thing in draw.sample(things, THINGS_A_VERB):
                is_question = verb.split()[0] in _QUESTION_WORDS
                frames = QUESTIONS if is_question else ("{}",) if verb.startswith("I'm ") else REQUESTS
                made.append((kind, draw.choice(frames).format(f"{verb} {thing}")))
    return made


def cues_of(messages: Sequence[Message]) -> list[str]:
    """The cues that enough messages have, in alphabetical order."""
    counts = Counter(cue for _, text in messages for cue in cue_words(text))
    return sorted(cue for cue, count in counts.items() if count >= LEAST_MESSAGES)


def features(messages: Sequence[Message], cues: Sequence[str]) -> Floats:
    """float64[messages, 256 + cues + 1]: vector, cues, and a column of ones."""
    vectors = StaticEmbedder().embed([text for _, text in messages])
    column = {cue: i for i, cue in enumerate(cues)}
    present = np.zeros((len(messages), len(cues)))
    for row, (_, text) in enumerate(messages):
        present[row, [column[cue] for cue in cue_words(text) if cue in column]] = CUE
    return np.concatenate([vectors, present, np.ones((len(messages), 1))], axis=1)


def fit(x: Floats, kinds: npt.NDArray[np.intp], weights: Floats, steps: int = 1_500) -> Floats:
    """float64[columns, classes]: gradient descent with momentum on a convex loss.

    Source: Nesterov, "A method of solving a convex programming problem with convergence rate O(1/k²)", 1983.
    """
    share = weights / weights.sum()
    wanted = np.eye(len(CLASSES))[kinds]
    ridge = np.full((x.shape[1], 1), RIDGE)
    ridge[-1] = 0  # how frequent a category is, is no reason to bound it
    # The gradient changes at most this fast: half the largest eigenvalue of the features' second moments.
    steepest = 0.5 * float(np.linalg.eigvalsh((x * share[:, None]).T @ x)[-1]) + RIDGE
    at = before = np.zeros((x.shape[1], len(CLASSES)))
    for step in range(steps):
        ahead = at + step / (step + 3) * (at - before)
        gradient = x.T @ ((softmax(x @ ahead) - wanted) * share[:, None]) + ridge * ahead
        before, at = at, ahead - gradient / steepest
    return at


def softmax(logits: Floats) -> Floats:
    """Row by row."""
    raised: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    raised /= raised.sum(axis=1, keepdims=True)
    return raised


def train(messages: Sequence[Message], verbs: Sequence[Message]) -> dict[str, Any]:
    """The record that `Classifier.from_record` reads."""
    every = [*messages, *verbs]
    cues = cues_of(every)
    kinds = np.array([CLASSES.index(kind) for kind, _ in every])
    weights = np.repeat([1.0, VERB_WEIGHT], [len(messages), len(verbs)])
    learnt = fit(features(every, cues), kinds, weights)
    learnt[:, :] -= learnt.mean(axis=1, keepdims=True)  # what is added to all classes changes nothing
    learnt[256:-1] *= CUE
    whole = np.rint(learnt / UNIT).astype(int)
    return {
        "classes": list(CLASSES),
        "least": LEAST,
        "unit": UNIT,
        "bias": whole[-1].tolist(),
        "cues": {cue: whole[256 + i].tolist() for i, cue in enumerate(cues)},
        "vector": whole[:256].T.tolist(),
    }


def answers(classifier: Classifier, messages: Sequence[Message]) -> list[str]:
    """What it says of each."""
    vectors = StaticEmbedder().embed([text for _, text in messages])
    return [classifier.category(text, vector) for (_, text), vector in zip(messages, vectors, strict=True)]


def report(messages: Sequence[Message], said: Sequence[str]) -> str:
    """Confusion matrix (rows: what it is, columns: what was said), accuracy and macro-F1.

    Of messages of `GENERAL` nothing is asked but to be called so; the other figures are of the rest.
    """
    table = Counter((kind, answer) for (kind, _), answer in zip(messages, said, strict=True))
    lines = [" " * 10 + "".join(f"{answer:>10}" for answer in CLASSES)]
    for kind in CLASSES:
        lines.append(f"{kind:<10}" + "".join(f"{table[kind, answer]:>10}" for answer in CLASSES))
    asked = sum(count for (kind, _), count in table.items() if kind != GENERAL)
    told = sum(count for (kind, answer), count in table.items() if GENERAL not in (kind, answer))
    right = sum(table[kind, kind] for kind in CATEGORIES)
    f1 = []
    for kind in CATEGORIES:
        is_kind = sum(table[kind, answer] for answer in CLASSES)
        is_said = sum(table[other, kind] for other in CATEGORIES)
        f1.append(2 * table[kind, kind] / max(1, is_kind + is_said))
    lines.append(
        f"{asked} messages: {right / asked:.3f} right, macro-F1 {sum(f1) / len(f1):.3f};"
        f" {told / asked:.3f} told apart, {right / told:.3f} of these right"
    )
    return "\n".join(lines)


def judged_on_others(messages: Sequence[Message], verbs: Sequence[Message], started: float) -> list[str]:
    """What is said of each message by a classifier that was trained without it."""
    fold = np.random.default_rng(0).permutation(len(messages)) % FOLDS
    said = [""] * len(messages)
    for k in range(FOLDS):
        kept = [m for m, f in zip(messages, fold, strict=True) if f != k]
        rows = np.flatnonzero(fold == k)
        classifier = Classifier.from_record(train(kept, verbs))
        for row, answer in zip(rows, answers(classifier, [messages[int(i)] for i in rows]), strict=True):
            said[row] = answer
        print(f"[{time.perf_counter() - started:6.1f} s] fold {k + 1} of {FOLDS}", flush=True)
    return said


def main() -> None:
    """Writes the file, and says what it is worth on messages left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder")
    args = parser.parse_args()
    started = time.perf_counter()
    messages, verbs = written(), of_verbs()
    print(f"{len(messages)} messages, {len(verbs)} of verbs", flush=True)
    print(report(messages, judged_on_others(messages, verbs, started)))
    content = "".join(f"{kind}\t{text}\n" for kind, text in messages)
    record = {
        "about": "tools.train.categories",
        "embedder": StaticEmbedder().identity,
        "messages": hashlib.sha256(content.encode()).hexdigest(),
    } | train(messages, verbs)
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in record.items()]
    (args.out / FILE).write_text("{" + ",\n".join(lines) + "}\n", "utf-8")
    print(f"[{time.perf_counter() - started:6.1f} s] {args.out / FILE}: {len(record['cues'])} cues")


if __name__ == "__main__":
    main()
