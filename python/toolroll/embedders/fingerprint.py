"""Identifies the model behind a name on a server, so that a replaced model is noticed.

A server does not show its weights, so a model is identified by its vector of one fixed text. A hash of that
vector would not do: the same model on another day or GPU differs in the fifth digit, and a single rounded
digit would discard the vectors of a whole catalog. So the vector is stored in a small file beside the cached
vectors, and a vector close enough to it means the same model.
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
SAME = 0.999  # least cosine between two answers of one model; its 4-bit quantisation is near 0.98
FORMAT = 1
MOST_MODELS = 4  # remembered for one name, so that switching back finds the old vectors

Vector = npt.NDArray[np.float32]


class FingerprintStore:
    """The stored answers of the models behind one name and one set of settings.

    A missing or damaged file is replaced. If it cannot be written, nothing is stored.
    """

    def __init__(self, settings: dict[str, Any], place: str, folder: str | os.PathLike[str] | None) -> None:
        """settings: the values that change a vector. place: distinguishes two servers with equal settings."""
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
        """Revision and vector of the last known model."""
        return next(reversed(self._known.items()), None)

    def revision_of(self, answer: Vector) -> str:
        """The revision of the model that gave this answer: a stored one, or one made from the answer."""
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
            logger.warning("%s: %s; the model is not remembered", self._path, error)
            self._path = None


def is_same(one: Vector, other: Vector) -> bool:
    """Whether two answers, both of unit length, come from one model."""
    return one.shape == other.shape and float(one @ other) >= SAME
