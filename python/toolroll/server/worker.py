"""The application that a worker process runs, and the end of a worker whose parent is gone."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

from starlette.types import ASGIApp

from toolroll.front.connections import Front
from toolroll.front.limits import fitted
from toolroll.server.application import create_application
from toolroll.server.drop_in.application import create_drop_in
from toolroll.server.logs import configure
from toolroll.server.setting_sources import read_settings

_log = logging.getLogger(__name__)


def end_with_parent() -> None:
    """Stops this worker by SIGTERM when its parent has ended. Otherwise it would keep the port."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        _log.warning("stopping: the process that started this worker is gone")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="toolroll-parent", daemon=True).start()


# How many new objects cause a collection of the young ones. With 700, Python's default, requests and rows of
# events cause hundreds of collections a second, and each holds up all requests.
_COLLECT_EVERY = 20_000
# When a thread that writes events lets the one that answers go on. Python's default is five times that.
_SWITCH_S = 0.001

_front: Front | None = None  # of this process: uvicorn makes connections by a name that it imports


def connection(**arguments: Any) -> asyncio.Protocol:
    """Makes the protocol of an accepted connection, for uvicorn's option `http`."""
    assert _front is not None
    return _front.connection(**arguments)


def create_from_environment() -> ASGIApp:
    """The service or the drop-in, with the settings in the environment."""
    settings = read_settings()
    configure(settings.log)
    end_with_parent()
    global _front
    # A request to the drop-in opens a connection to the provider.
    _front = Front(fitted(settings.front, 2 if settings.upstream else 1))
    application = create_drop_in(settings) if settings.upstream else create_application(settings)
    _favour_requests()
    return application


def _favour_requests() -> None:
    """Makes the interpreter interrupt requests less, by collections of garbage and by background threads."""
    gc.collect()
    gc.freeze()  # the catalog and the modules live as long as the process
    gc.set_threshold(_COLLECT_EVERY, *gc.get_threshold()[1:])
    sys.setswitchinterval(_SWITCH_S)
