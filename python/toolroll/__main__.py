"""`python -m toolroll`: the command line."""

from __future__ import annotations

import sys

from toolroll.cli import main

sys.exit(main())
