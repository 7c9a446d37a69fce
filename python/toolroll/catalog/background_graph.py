"""Builds the graph of a large catalog in the background.

Selections scan all vectors until the graph is complete. It becomes part of the catalog's vector index, which
pipelines, variants and organisations share, so nothing else is replaced.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Literal, TypeAlias, TypedDict

from toolroll._core import GraphBuild, VectorIndex
from toolroll.catalog.catalog import Catalog

GraphState: TypeAlias = Literal["none", "building", "ready"]


class GraphHealth(TypedDict):
    """The graph in `Toolroll.health`.

    Attributes:
        state: "none" if there is no graph and nothing builds one.
        rows: how many rows are linked, while it is being built.
    """

    state: GraphState
    rows: int


class BackgroundGraph:
    """At most one build, for the catalog that serves. No call waits.

    The thread is the core's own: it needs no interpreter, so a process that ends does not wait for it. The
    child of a fork builds its own graph.
    """

    def __init__(self) -> None:
        self._index: VectorIndex | None = None
        self._build: GraphBuild | None = None
        self._is_stopped = False
        self._pid = os.getpid()

    def follow(self, catalog: Catalog) -> None:
        """Builds the graph of this catalog, if it wants one. Ends any other build."""
        index = catalog.indexes.vectors
        if index is self._index:
            return
        self.stop()
        self._index, self._is_stopped = index, not catalog.wants_graph
        self._restart()

    def stop(self) -> None:
        """Ends the build without a graph."""
        if self._build is not None and self._pid == os.getpid():
            self._build.stop()
        self._build, self._is_stopped = None, True

    def health(self) -> GraphHealth:
        """The state of the graph. In the child of a fork, the first call begins its build."""
        if self._pid != os.getpid():
            self._restart()
        index, build = self._index, self._build
        if index is not None and index.has_graph:
            return {"state": "ready", "rows": index.size}
        if build is not None and build.is_running:
            return {"state": "building", "rows": build.done}
        return {"state": "none", "rows": 0}

    def _restart(self) -> None:
        self._build, self._pid = None, os.getpid()
        if self._index is not None and not self._is_stopped and not self._index.has_graph:
            with suppress(RuntimeError):  # the system has no more threads
                self._build = GraphBuild(self._index)
