"""Opens a roll when it is imported, as an application does that a server preloads and then forks."""

from __future__ import annotations

import os

from tests.integration.start_methods import open_roll, use

pid, roll = os.getpid(), open_roll()
use(roll, "server")
