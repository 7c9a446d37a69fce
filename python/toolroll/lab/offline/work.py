"""Runs independent tasks: in this process, in several, or on a Ray cluster, with the same results.

A task is a function of its arguments that returns bytes. Results are in the order of the tasks. With a folder
of kept results, a killed run can continue; on Ray, another worker repeats the tasks of a lost worker.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Literal

from toolroll.model.errors import InvalidInput, quoted
from toolroll.runtime.files import replace_file

On = Literal["here", "ray"]
ON = ("here", "ray")
Progress = Callable[[int, int], None]
_DIGEST = 32


def run(
    tasks: Sequence[Task],
    *,
    on: On = "here",
    jobs: int = 1,
    kept: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[bytes]:
    """The results of the tasks.

    on: "here", or "ray" for the cluster of RAY_ADDRESS or, without one, a new cluster. jobs: processes here,
        or workers of a new cluster. kept: a folder that keeps results for later runs of the same tasks.

    Raises:
        InvalidInput: an argument is wrong, or the folder cannot be written.
        Unavailable: Ray is not installed, or its workers end again and again.
    """
    report = progress or (lambda done, of: None)
    found: dict[int, bytes] = {}
    if kept is not None:
        os.makedirs(kept, exist_ok=True)
        for at, task in enumerate(tasks):
            result = _read(_path(kept, task))
            if result is not None:
                found[at] = result
    left = [at for at in range(len(tasks)) if at not in found]
    report(len(found), len(tasks))
    for place, result in stream([tasks[at] for at in left], on=on, jobs=jobs):
        at = left[place]
        if kept is not None:
            replace_file(_path(kept, tasks[at]), hashlib.sha256(result).digest() + result)
        found[at] = result
        report(len(found), len(tasks))
    return [found[at] for at in range(len(tasks))]


def stream(tasks: Sequence[Task], *, on: On, jobs: int) -> Iterator[tuple[int, bytes]]:
    """Each task's number and result, in the order of completion. Arguments and errors as for `run`."""
    if on not in ON:
        raise InvalidInput(f"on: is {quoted(on)}, must be one of {', '.join(ON)}")
    if not tasks:
        return
    if on == "ray":
        from toolroll.lab.offline import ray_cluster

        yield from ray_cluster.stream([task.run for task in tasks], jobs)
        return
    if jobs == 1:
        for at, task in enumerate(tasks):
            yield at, task.run()
        return
    # Spawned, not forked: a fork would copy locks of other threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), context) as pool:
        waiting = {pool.submit(task.run): at for at, task in enumerate(tasks)}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _path(kept: str | os.PathLike[str], task: Task) -> str:
    name = f"{task.call.__module__}.{task.call.__qualname__}\0{task.name}"
    return os.path.join(kept, f"{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}.result")


def _read(path: str) -> bytes | None:
    """A kept result; None if it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    digest, result = content[:_DIGEST], content[_DIGEST:]
    return result if hashlib.sha256(result).digest() == digest else None


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work that any process can do.

    Attributes:
        name: identifies a kept result, so it must contain everything on which the result depends.
        call: a module-level function, which other processes import.
        arguments: pickled.
    """

    name: str
    call: Callable[..., bytes]
    arguments: tuple[Any, ...] = ()

    def run(self) -> bytes:
        """The result."""
        return self.call(*self.arguments)
