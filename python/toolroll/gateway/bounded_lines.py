"""The output of a stdio server as lines of a bounded length, by a codec.

The package `mcp` collects a server's output until a line ends, however long it gets. It takes the name of a
codec for the output's characters. This one is UTF-8, hands over whole lines, and replaces a line that is too
long by a short text. `Traffic` recognises the text and ends the connection.
"""

from __future__ import annotations

import codecs
from contextvars import ContextVar

from pydantic import ValidationError

from toolroll.gateway.whole_lists import WholeLists, has_list

CODEC = "toolroll_lines"
LONGEST = 32_000_000  # bytes


class Meter:
    """Counts what is read of a server. This one has no limits.

    Attributes:
        held: bytes of answers that have begun and not ended.
    """

    def __init__(self) -> None:
        self.held = 0

    def read(self, size: int) -> float:
        """Notes that so many bytes of its output were read; the seconds to wait before more are."""
        return 0.0


METER: ContextVar[Meter] = ContextVar("meter")  # of the server that is opened in this context
TOO_LONG = f"a line of its output has more than {LONGEST:,} bytes"


class LineDecoder(codecs.IncrementalDecoder):
    """Decodes whole lines of UTF-8. The beginning of a line waits for its end."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._begun, self._is_skipping = bytearray(), False
        self._meter, self._lists = METER.get(Meter()), WholeLists()

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
        """The lines that end in the data. final: the last line ends here, too."""
        self._meter.read(len(data))
        if self._is_skipping:
            _, end, data = bytes(data).partition(b"\n")
            if not end:
                return ""
            self._is_skipping = False
        lines, end, rest = bytes(data).rpartition(b"\n")
        text = ""
        if end:
            lines = bytes(self._begun) + lines if self._begun else lines
            if has_list(lines):
                lines = b"\n".join(map(self._lists.readable, lines.split(b"\n")))
            text = lines.decode("utf-8", self.errors) + "\n"
            self._begun.clear()
        self._begun += rest
        if len(self._begun) > LONGEST:
            self._begun.clear()
            self._is_skipping = True
            text += f"{TOO_LONG}\n"
        if final:
            text += self._begun.decode("utf-8", self.errors)
            self._begun.clear()
        return text

    def reset(self) -> None:
        """Forgets the line that has begun."""
        self._begun, self._is_skipping = bytearray(), False


def is_too_long(error: Exception) -> bool:
    """Whether the package could not read a line because it stands for one that was too long."""
    return isinstance(error, ValidationError) and any(
        each.get("input") == TOO_LONG for each in error.errors(include_url=False, include_context=False)
    )


def _codec(name: str) -> codecs.CodecInfo | None:
    if name != CODEC:
        return None
    return codecs.CodecInfo(
        codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=LineDecoder, name=CODEC
    )


codecs.register(_codec)
