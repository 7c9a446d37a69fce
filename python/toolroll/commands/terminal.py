"""What a command writes: results on standard output, progress on standard error while a person looks."""

from __future__ import annotations

import json
import sys


def print_json(value: object) -> None:
    """Prints one JSON value; NaN is none and would be an error."""
    print(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


class Progress:
    """One line that is written over, and gone at the end. Writes nothing where nobody looks."""

    def __init__(self) -> None:
        self.shows = sys.stderr.isatty()
        self._last = ""

    def __call__(self, text: str) -> None:
        """Shows the text in place of what was there."""
        if self.shows and text != self._last:
            self._last = text
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leaves the line empty."""
        if self._last:
            self._last = ""
            print("\r\033[K", end="", file=sys.stderr, flush=True)
