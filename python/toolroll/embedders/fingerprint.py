"""Tells a model that is reached by its name alone from another one that took that name over.

A server has no weights that we could hash, so a model is known by what it answers to one fixed text. A hash
of that answer alone would not do: the same model on another day or card differs in the fifth digit, and one
digit that lies on a boundary would give up the vectors of a whole catalog. So the answer is remembered, in a
small file beside the cached vectors, and what is near enough to it is the same model.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll.embedders.cached import default_folder

logger = logging.getLogger(__name__)

TEXT = "Should I bring an umbrella to Oslo tomorrow? 내일 비가 오나요? create_calendar_event(title, start)"
SAME = 0.999  # least cosine between two answers of one model; quantised to 4 bits it is another, near 0.98
FORMAT = 1
MOST_MODELS = 4  # models remembered for one name: who switches back and forth finds his vectors again

Vector = npt.NDArray[np.float32]


class FingerprintStore:
    """The answers by which the models behind one name and one set of settings are known, on disk.

    A file that is missing or damaged is begun again; one that cannot be written is done without.
    """

    def __init__(self, settings: dict[str, Any], place: str, folder: str | os.PathLike[str] | None) -> None:
        """settings: whatever changes a vector; place: whatever else tells two servers apart."""
        self._settings = json.dumps({"format": FORMAT, **settings}, sort_keys=True)
        digest = hashlib.sha256(f"{self._settings}\n{place}".encode()).hexdigest()[:16]
        readable = re.sub(r"[^a-z0-9]+", "-", str(settings.get("model", "")).lower()).strip("-")[:40]
        self._path: Path | None = None
        with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home
            self._path = (
                Path(folder) if folder is not None else default_folder()
            ) / f"{readable}-{digest}.probe"
        self._known = self._read()  # revision → answer, the latest last

    @property
    def latest(self) -> tuple[str, Vector] | None:
        """Revision and answer of the model that was here last."""
        return next(reversed(self._known.items()), None)

    def revision_of(self, answer: Vector) -> str:
        """The revision of the model that gave this answer: a known one, else made from the answer."""
        for revision, known in self._known.items():
            if is_same(answer, known):
                if next(reversed(self._known)) != revision:
                    self._known[revision] = self._known.pop(revision)
                    self._write()
                return revision
        rounded = [round(float(number), 2) + 0.0 for number in answer]  # + 0.0: no minus before a zero
        revision = hashlib.sha256(f"{self._settings}\n{rounded}".encode()).hexdigest()[:12]
        self._known[revision] = answer
        while len(self._known) > MOST_MODELS:
            del self._known[next(iter(self._known))]
        self._write()
        return revision

    def _read(self) -> dict[str, Vector]:
        if self._path is None:
            return {}
        try:
            content = json.loads(self._path.read_bytes())
            if content["format"] != FORMAT:
                return {}
            known = {str(one["revision"]): np.array(one["answer"], np.float32) for one in content["known"]}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}
        return {
            revision: answer
            for revision, answer in known.items()
            if answer.ndim == 1 and abs(float(answer @ answer) - 1) < 0.01  # a NaN is not
        }

    def _write(self) -> None:
        if self._path is None:
            return
        known = [
            {"revision": revision, "answer": [round(float(number), 6) for number in answer]}
            for revision, answer in self._known.items()
        ]
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False) as file:
                json.dump({"format": FORMAT, "known": known}, file)
            os.replace(file.name, self._path)
        except OSError as error:
            logger.warning("%s: %s; the model will have to be met again", self._path, error)
            self._path = None


def is_same(one: Vector, other: Vector) -> bool:
    """Whether two answers, both of unit length, are one model's."""
    return one.shape == other.shape and float(one @ other) >= SAME
