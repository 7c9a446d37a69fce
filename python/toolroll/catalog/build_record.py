"""The inputs of a catalog's build, by row. No selection reads them: a catalog with changes is made from them.

Each value depends on one tool alone and is smaller than the tool, such as a digest; see refresh.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from toolroll.catalog.calibration import CalibrationSet, ExampleDigests
from toolroll.catalog.damping import NO_PROBES, ProbeDigests, Probes
from toolroll.model.arrays import Rows
from toolroll.model.tools import Route, Tool, Toolkit

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Texts of a catalog that tell how its tools compete: searches for them measure it.

    Attributes:
        probes: texts that show which tools are found for most messages.
        calibration_set: messages that are held out, to learn what scores mean; None if there are too few.
        probe_tools: the first owner of each probe.
        held_out_tools: the tools of the calibration set, by place.
        descriptions: tool → its `ToolText.description`, for descriptions that might be probes.
    """

    probes: Probes = NO_PROBES
    calibration_set: CalibrationSet | None = None
    probe_tools: tuple[Tool, ...] = ()
    held_out_tools: tuple[Tool, ...] = ()
    descriptions: Mapping[str, tuple[Tool, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class BuildRecord:
    """The inputs of a build.

    Attributes:
        digests: uint8[n, 16], digests of the parts of each tool that the revision reads.
        probe_digests: None if hubs are not damped.
        example_digests: choose the held-out messages.
        toolkit_names, toolkit_numbers: the toolkit of row r is toolkit_names[toolkit_numbers[r]].
        declared, routes: toolkits and routes, as they were defined.
        members: toolkit → rows of its members and of its descendants' members.
    """

    digests: npt.NDArray[np.uint8]
    probe_digests: ProbeDigests | None
    example_digests: ExampleDigests
    toolkit_names: tuple[str, ...]
    toolkit_numbers: npt.NDArray[np.int32]
    declared: tuple[Toolkit, ...]
    routes: tuple[Route, ...]
    members: Mapping[str, Rows]


def digests_of(tools: Sequence[Tool], schemas: Sequence[str]) -> npt.NDArray[np.uint8]:
    """uint8[n, 16], of the parts of each tool that the revision reads. schemas: `schema_text` of each."""
    digests = b"".join(_digest(tool, schema) for tool, schema in zip(tools, schemas, strict=True))
    return np.frombuffer(digests, np.uint8).reshape(-1, _DIGEST_BYTES)


def _digest(tool: Tool, schema: str) -> bytes:
    kept = (tool.toolkit, tool.summary, tool.when_to_use, tool.tags, tool.examples, tool.status, tool.public)
    governed = (tool.pinned, tool.pin_weight, *([tool.interchangeable] if tool.interchangeable else ()))
    hints = (sorted(tool.hints.items()),) if tool.annotations else ()  # rules read them
    written = repr((schema, kept, *governed, *hints)).encode("utf-8", "surrogatepass")
    return blake2b(written, digest_size=_DIGEST_BYTES).digest()
