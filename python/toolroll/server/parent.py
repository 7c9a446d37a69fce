"""Ends a worker whose parent is gone: nobody would stop it, and it would keep the port."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading

_log = logging.getLogger(__name__)


def end_with_parent() -> None:
    """Stops this process, as SIGTERM does, when the process that started it has ended. For workers alone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        _log.warning("stopping: the process that started this worker is gone")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="toolroll-parent", daemon=True).start()
