"""Runs tasks on a Ray cluster. Needs the extra `ray`; every node needs toolroll and the tasks' own extras."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from toolroll.model.errors import ToolrollError, Unavailable
from toolroll.runtime.extras import needs_extra

with needs_extra("--on ray", "ray"):
    import ray

_Task = Callable[[], bytes]
_RETRIES = 5  # of a task whose worker is lost
_AHEAD = 4  # tasks that are handed to the cluster, for each of its processors


def stream(tasks: Sequence[_Task], workers: int) -> Iterator[tuple[int, bytes]]:
    """Each task's number and result, in the order of completion. workers: of a cluster that this call starts.

    Raises:
        Unavailable: the workers of a task end repeatedly, or the cluster is gone.
        ToolrollError: from a task.
    """
    is_ours = not ray.is_initialized()
    if is_ours:
        address = os.environ.get("RAY_ADDRESS")
        options = (
            {"address": address} if address else {"num_cpus": max(1, workers), "include_dashboard": False}
        )
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    try:
        yield from _done([*enumerate(tasks)])
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, ToolrollError):
            raise cause from error
        raise
    except ray.exceptions.RayError as error:
        raise Unavailable(f"ray: {str(error).strip().splitlines()[0]}") from error
    finally:
        if is_ours:
            ray.shutdown()


def _done(tasks: Sequence[tuple[int, _Task]]) -> Iterator[tuple[int, bytes]]:
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run)
    resources: Mapping[str, float] = ray.cluster_resources()
    ahead = max(1, int(resources.get("CPU", 1))) * _AHEAD
    waiting, left = {}, iter(tasks)
    for at, task in left:
        waiting[remote.remote(task)] = at
        if len(waiting) >= ahead:
            break
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for reference in ready:
            at = waiting.pop(reference)
            yield at, ray.get(reference)
            following = next(left, None)
            if following is not None:
                waiting[remote.remote(following[1])] = following[0]


def _run(task: _Task) -> bytes:
    return task()
