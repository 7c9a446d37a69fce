"""What was answered to each query, one JSON object a line, for whoever wants to score or compare it.

{"id": "q1", "ranked": ["best", "next"], "score": 0.93, "abstain": false}
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from toolroll.evaluation.dataset import Query
from toolroll.evaluation.metrics import Answer
from toolroll.files import replace_file


def write_run(path: str | os.PathLike[str], queries: Sequence[Query], answers: Sequence[Answer]) -> None:
    """Writes the file whole or leaves what was there.

    Raises:
        InvalidInput: it cannot be written.
    """
    lines = "".join(
        json.dumps(
            {
                "id": query.id,
                "ranked": answer.ranked,
                "score": answer.confidence,
                "abstain": answer.abstained,
            },
            ensure_ascii=False,
        )
        + "\n"
        for query, answer in zip(queries, answers, strict=True)
    )
    replace_file(path, lines.encode())
