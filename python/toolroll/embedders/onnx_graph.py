"""Runs our graphs with separate weights on onnxruntime (the extras `onnx` and `multilingual`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from toolroll.model.errors import EmbedderUnavailable

T = TypeVar("T")
Run = Callable[[Mapping[str, npt.NDArray[Any]]], npt.NDArray[np.float32]]


def load(whose: str, graph: bytes, weights: Mapping[str, npt.NDArray[Any]], install: str) -> Run:
    """A function from the graph's inputs to its only output, safe to call from several threads.

    It runs on its caller's thread alone: onnxruntime's thread pool would compete with the application's, and
    the order of its sums would depend on the number of cores. `whose` and `install` go into the errors.
    """
    try:
        import onnxruntime as ort  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise EmbedderUnavailable(f"{whose}: {error}: {install}") from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        values = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(w)) for w in weights.values()]
        options.add_external_initializers(list(weights), values)
        session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class
        raise EmbedderUnavailable(f"{whose}: onnxruntime {ort.__version__}: {error}") from error

    def run(inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        try:
            result: npt.NDArray[np.float32] = session.run(None, dict(inputs))[0]
        except Exception as error:
            raise EmbedderUnavailable(f"{whose}: {error}") from error
        return result

    return run


def each(
    run: Callable[[T], npt.NDArray[np.float32]], items: Sequence[T], threads: int, dim: int
) -> npt.NDArray[np.float32]:
    """float32[n, dim]: `run` of each item, `threads` of them at once, never in a batch."""
    vectors = np.empty((len(items), dim), np.float32)
    if threads == 1 or len(items) < 2:
        for row, item in enumerate(items):
            vectors[row] = run(item)
    else:
        with ThreadPoolExecutor(threads, "toolroll-embedder") as pool:
            for row, vector in enumerate(pool.map(run, items)):
                vectors[row] = vector
    return vectors
