"""The version of this package, for modules that `toolroll` itself imports."""

from __future__ import annotations

__version__ = "0.1.0"
