"""A catalog as one file, from which processes start without building anything.

The file is mapped: the searched arrays are views of it, and tools and names are decoded row by row. All
processes that map the same file share its pages. The sections of the file and their checks are in
docs/decisions/0044-catalogs-are-saved-as-mapped-files.md.

A file is replaced in one step, never edited. A process that has mapped the old one keeps it.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, SectionFile, SectionWriter, SortedStrings, Speller, ToolKeys
from toolroll._version import __version__
from toolroll.catalog.build_record import Samples
from toolroll.catalog.calibration import AT_LARGE, Calibration, CalibrationSet
from toolroll.catalog.catalog import Catalog, CatalogOptions
from toolroll.catalog.damping import Probes
from toolroll.catalog.deferred import Deferred
from toolroll.catalog.everyday import everyday_messages
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.mark_table import MarkTable, meaning_name
from toolroll.catalog.retriever import CalibratedRetriever
from toolroll.catalog.routes import RouteTable
from toolroll.catalog.saved_columns import (
    RowLists,
    SavedNames,
    SavedTools,
    check_rows,
    encoded,
    joined,
    plain,
    row_lists,
)
from toolroll.catalog.spelling import general_words, language_gate
from toolroll.catalog.switches import Switches
from toolroll.catalog.toolkits_by_meaning import ToolkitIndex
from toolroll.model.arrays import NO_ROWS, Rows, Scores
from toolroll.model.embedder import Embedder, Scale
from toolroll.model.errors import InvalidInput, NotFound, quoted
from toolroll.model.identity import tool_key
from toolroll.model.tools import Route, Toolkit
from toolroll.runtime.files import replacing

_KIND, _VERSION = "catalog", 1
_MAGIC = b"TOOLSECT"


def save(catalog: Catalog, path: str | PathLike[str], extra: Mapping[str, Any]) -> None:
    """Writes the catalog, and its caller's additions as JSON, in place of any file at the path.

    The measurements for the weights in use are saved, too, so a search or `compose` must have made them.

    Raises InvalidInput if it cannot be written, or a value of the catalog has no form in JSON.
    """
    if catalog.parts is not None:
        raise InvalidInput("save: the catalog is an organisation's; save the shared one")
    if not isinstance(catalog.speller, Speller):
        raise InvalidInput("save: the catalog is that of one request; make one with from_tools")
    with replacing(path) as fresh:
        try:
            writer = SectionWriter(fresh, _KIND, _VERSION)
            _CatalogWriter(catalog, catalog.speller, writer, dict(extra)).write()
            writer.finish()
        except RuntimeError as error:
            raise InvalidInput(f"{os.fspath(path)}: {error}") from error


def is_saved(path: str | PathLike[str]) -> bool:
    """Whether the file begins like a saved catalog."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _CatalogWriter:
    """Writes one catalog, section by section."""

    catalog: Catalog
    speller: Speller
    writer: SectionWriter
    extra: dict[str, Any]

    def write(self) -> None:
        catalog, writer, add = self.catalog, self.writer, self.writer.add
        about: dict[str, Any] = {
            "toolroll": __version__,
            "tools": len(catalog),
            "options": asdict(catalog.options),
            "space": catalog.space,
            "dim": catalog.dim,
            "revision": catalog.revision,
            "scale": {**asdict(catalog.scale), "centre": base64.b64encode(catalog.scale.centre).decode()},
            "toolkits": [asdict(toolkit) for toolkit in catalog.toolkits.values()],
            "routes": [asdict(route) for route in catalog.routes.definitions],
            "hosted": catalog.hosted,
            "extra": self.extra,
        }
        self._columns()
        about["below"] = self._row_lists("below", catalog.below)
        if catalog.routes.rows is not catalog.below:
            about["reached"] = self._row_lists("reached", catalog.routes.rows)
        marks = {meaning_name(meaning): rows for meaning, rows in catalog.marks.rows().items()}
        about["marks"] = self._row_lists("marks", marks)
        self._indexes("", catalog.indexes)
        add("lexicon", self.speller.catalog)
        if catalog.toolkit_index is not None:
            about["toolkit_index"] = catalog.toolkit_index.names
            add("toolkit.vectors", catalog.toolkit_index.vectors)
        about["probes"] = self._probes(catalog.probes)
        if catalog.calibration_set is not None:
            about["calibration"] = self._calibration_set(catalog.calibration_set)
        about["measured"] = [
            self._measured(f"measured.{at}", key, known)
            for at, (key, known) in enumerate(dict(catalog._retrievers).items())
        ]
        try:
            text = json.dumps(about, separators=(",", ":"), default=plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"save: a hosted tool or a rule cannot be saved as JSON: {error}") from error
        writer.add("about", np.frombuffer(text.encode(), np.uint8))

    def _columns(self) -> None:
        catalog, add = self.catalog, self.writer.add
        text, ends = joined(map(encoded, catalog.tools))
        add("tools", text)
        add("tools.ends", ends)
        add("names", SortedStrings.of(list(catalog.names)))
        everything = np.arange(len(catalog), dtype=np.int32)
        add("costs", np.asarray(catalog.costs[everything]))
        keys = list(zip(*map(tool_key, catalog.tools), strict=True)) or [(), (), ()]
        for name, column in zip(("arm", "intent", "group"), keys, strict=True):
            add(f"keys.{name}", np.array(column, np.uint64))
        add("inactive", NO_ROWS if catalog.inactive is None else catalog.inactive.rows())
        add("public", (Bitset.full(len(catalog)) - catalog.not_public).rows())
        add("base", catalog.base)
        add("pinned", catalog.pinned)

    def _row_lists(self, name: str, lists: Mapping[str, Rows]) -> list[str]:
        begins, rows = row_lists(lists.values())
        self.writer.add(f"{name}.begins", begins)
        self.writer.add(f"{name}.rows", rows)
        return list(lists)

    def _indexes(self, prefix: str, indexes: Indexes) -> None:
        self.writer.add(f"{prefix}postings", indexes.postings)
        if indexes.vectors is not None:
            self.writer.add(f"{prefix}vectors", indexes.vectors)
        if indexes.intents is not None:
            self.writer.add(f"{prefix}intents", indexes.intents)

    def _probes(self, probes: Probes) -> dict[str, Any]:
        self.writer.add("probe.toolkits", probes.toolkits)
        self.writer.add("probe.have_examples", probes.have_examples.view(np.uint8))
        if probes.vectors is not None:
            self.writer.add("probe.vectors", probes.vectors.reshape(-1))
        if probes.everyday is not None:
            self.writer.add("probe.everyday", probes.everyday.reshape(-1))
        return {"texts": probes.texts, "owners": probes.owners, "is_english": probes.is_english}

    def _calibration_set(self, held_out: CalibrationSet) -> dict[str, Any]:
        self._indexes("calibration.", held_out.indexes)
        self.writer.add("calibration.owners", held_out.owners)
        parts = [part for first, pieces in held_out.turns for part in (first, *pieces)]
        vectors = [vector for _, vector, _, _ in parts if vector is not None]
        if vectors:
            self.writer.add("calibration.parts", np.concatenate(vectors).astype(np.float32))
        return {
            "size": held_out.indexes.size,
            "pieces": [len(pieces) for _, pieces in held_out.turns],
            "parts": [(text, vector is not None, trust, weight) for text, vector, trust, weight in parts],
        }

    def _measured(self, name: str, key: tuple[float, ...], known: CalibratedRetriever) -> dict[str, Any]:
        if known.damping is not None:
            self.writer.add(f"{name}.damping", np.asarray(known.damping))
        if known.calibration is not AT_LARGE:
            self.writer.add(f"{name}.best", known.calibration.best)
            self.writer.add(f"{name}.own", known.calibration.own)
        return {"weights": key, "has_vectors": known.calibration.has_vectors}


@dataclass(frozen=True, slots=True, eq=False)
class SavedCatalog:
    """An open file.

    Attributes:
        path: as the caller wrote it.
        options: how the catalog was built.
        extra: the additions of the caller of `save`.
    """

    path: str
    options: CatalogOptions
    extra: Mapping[str, Any]
    _file: SectionFile
    _about: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | PathLike[str]) -> SavedCatalog:
        """Maps the file and verifies its header.

        Raises:
            NotFound: there is no such file.
            InvalidInput: it is no saved catalog, is damaged, or is of another version.
        """
        name = os.fspath(path)
        try:
            file = SectionFile.open(name, _KIND, _VERSION)
        except RuntimeError as error:
            if not os.path.exists(name):
                raise NotFound(f"catalog {name!r:.300}: no such file") from error
            raise InvalidInput(f"catalog {name!r:.300}: {error}") from error
        except ValueError as error:
            raise InvalidInput(f"catalog {name!r:.300}: {error}") from error
        with _sound(name):
            about = json.loads(bytes(file.array("about").data))
            written = about["toolroll"]
        if written != __version__:
            raise InvalidInput(
                f"catalog {name!r:.300}: was saved by toolroll {quoted(written)}, this is {__version__}: "
                "build it again"
            )
        with _sound(name):
            return cls(name, CatalogOptions(**about["options"]), about["extra"], file, about)

    @property
    def toolkits(self) -> tuple[Toolkit, ...]:
        """All toolkits, including toolkits that only a tool names."""
        with _sound(self.path):
            return tuple(
                [
                    Toolkit(
                        **{
                            **toolkit,
                            "settings_keys": tuple(toolkit["settings_keys"]),
                            "members": tuple(toolkit["members"]),
                        }
                    )
                    for toolkit in self._about["toolkits"]
                ]
            )

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes, as they were written."""
        with _sound(self.path):
            return tuple(
                [
                    Route(**{name: tuple(values) for name, values in route.items()})
                    for route in self._about["routes"]
                ]
            )

    def catalog(self, embedder: Embedder | None, wanted: CatalogOptions) -> Catalog:
        """The catalog, ready to select.

        embedder: the catalog's embedder, for messages. wanted: the needs of the caller's profile.

        Raises InvalidInput if the file is damaged, or was built with another embedder or for another profile.
        """
        self.check(embedder, wanted)
        with _sound(self.path):
            return self._catalog()

    def check(self, embedder: Embedder | None, wanted: CatalogOptions) -> None:
        """Checks the arguments of `catalog`.

        Raises InvalidInput if the file was built with another embedder or for another profile.
        """
        space = self._about["space"]
        identity = "" if embedder is None else embedder.identity
        if identity != space:
            built = f"with the embedder {quoted(space)}" if space else "without an embedder"
            given = f"is {quoted(identity)}" if identity else "is none"
            raise InvalidInput(
                f"catalog {self.path!r:.300}: was built {built}, and the one of messages {given}: pass the "
                "same one, or build it again"
            )
        had = self.options
        for name, is_met in (
            ("toolkits_by_meaning", had.toolkits_by_meaning or not wanted.toolkits_by_meaning),
            ("damping", had.damping or not wanted.damping),
            ("description_counts", had.description_counts == wanted.description_counts),
            ("keyword_mode", had.keyword_mode == wanted.keyword_mode),
        ):
            if not is_met:
                raise InvalidInput(
                    f"catalog {self.path!r:.300}: was built for another profile: its {name} is "
                    f"{quoted(getattr(had, name))}, the profile wants {quoted(getattr(wanted, name))}: build "
                    "it again with this profile"
                )

    def _catalog(self) -> Catalog:
        about, array = self._about, self._file.array
        size, dim = int(about["tools"]), int(about["dim"])
        names = SavedNames(self._file.strings("names"))
        tools = SavedTools(array("tools"), array("tools.ends"))
        costs = array("costs")
        keys = [array(f"keys.{name}") for name in ("arm", "intent", "group")]
        columns = (names, tools, costs, *keys)
        if any(len(column) != size for column in columns) or costs.dtype != np.int32:
            raise ValueError("a column is not as long as the catalog")
        toolkits = {toolkit.name: toolkit for toolkit in self.toolkits}
        below = self._row_lists("below", size)
        reached = self._row_lists("reached", size) if "reached" in about else below
        indexes = self._indexes("", size, dim)
        scale = about["scale"]
        catalog = Catalog(
            tools=tools,
            names=names,
            toolkits=toolkits,
            below=below,
            indexes=indexes,
            parts=None,
            samples=Deferred.of(Samples(self._probes(size, dim), self._calibration_set(dim))),
            toolkit_index=self._toolkit_index(toolkits, dim),
            scale=Scale(
                float(scale["gain"]), float(scale["floor"]), base64.b64decode(scale["centre"], validate=True)
            ),
            routes=RouteTable.of(size, self.routes, reached, None, self.options.keyword_mode),
            marks=MarkTable.saved(self._row_lists("marks", size)),
            speller=Speller(self._file.lexicon("lexicon"), general_words(), language_gate()),
            switches=Switches.of(size, [toolkits[name] for name in below], below),
            inactive=Bitset.of(size, rows) if len(rows := array("inactive")) else None,
            not_public=Bitset.full(size) - Bitset.of(size, array("public")),
            base=self._rows("base", size),
            pinned=self._rows("pinned", size),
            costs=costs,
            keys=Deferred(lambda: ToolKeys(*keys)),
            hosted=tuple(about["hosted"]),
            space=str(about["space"]),
            dim=dim,
            options=self.options,
            _revision=Deferred(lambda: str(about["revision"])),
        )
        for at, measured in enumerate(about["measured"]):
            weights = tuple(measured["weights"])
            catalog._retrievers[weights] = self._measured(f"measured.{at}", measured, indexes)
        return catalog

    def _rows(self, name: str, size: int) -> Rows:
        rows: Rows = self._file.array(name)
        check_rows(rows, size)
        return rows

    def _row_lists(self, name: str, size: int) -> RowLists:
        return RowLists(
            self._about[name], self._file.array(f"{name}.begins"), self._file.array(f"{name}.rows"), size
        )

    def _indexes(self, prefix: str, size: int, dim: int) -> Indexes:
        file = self._file
        vectors = file.vectors(f"{prefix}vectors") if f"{prefix}vectors" in file else None
        intents = file.intents(f"{prefix}intents") if f"{prefix}intents" in file else None
        if {one.dim for one in (vectors, intents) if one is not None} - {dim}:
            raise ValueError("vectors are not as wide as stated")
        return Indexes(size, vectors, file.postings(f"{prefix}postings"), intents)

    def _matrix(self, name: str, dim: int, *dtypes: type[np.generic]) -> npt.NDArray[Any]:
        array = self._file.array(name)
        if array.dtype not in dtypes or not dim:
            raise ValueError(f"{name} has numbers of another type")
        return array.reshape(-1, dim)

    def _probes(self, size: int, dim: int) -> Probes:
        about = self._about["probes"]
        texts, owners = tuple(map(str, about["texts"])), tuple(map(tuple, about["owners"]))
        check_rows(np.array([row for some in owners for row in some], np.int32), size)
        vectors = None
        if "probe.vectors" in self._file:
            vectors = self._matrix("probe.vectors", dim, np.float32, np.float16)
        if (
            len(owners) != len(texts)
            or not all(owners)
            or len(texts if vectors is None else vectors) != len(texts)
        ):
            raise ValueError("not one owner and vector a probe")
        toolkits, have_examples = (
            self._file.array("probe.toolkits"),
            self._file.array("probe.have_examples").astype(np.bool_),
        )
        check_rows(toolkits + 1, size + 1)  # numbers of toolkits, -1 for none
        if not len(toolkits) == len(have_examples) == (size if texts else len(toolkits)):
            raise ValueError("not one toolkit a tool")
        everyday = None
        if "probe.everyday" in self._file:
            everyday = self._matrix("probe.everyday", dim, np.float16)
            if len(everyday) != len(everyday_messages()) or not np.isfinite(everyday).all():
                raise ValueError("not one vector an everyday message")
        return Probes(texts, owners, toolkits, have_examples, vectors, bool(about["is_english"]), everyday)

    def _toolkit_index(self, toolkits: Mapping[str, Toolkit], dim: int) -> ToolkitIndex | None:
        if "toolkit_index" not in self._about:
            return None
        names, vectors = tuple(self._about["toolkit_index"]), self._file.vectors("toolkit.vectors")
        if vectors.size != len(names) or vectors.dim != dim or not toolkits.keys() >= set(names):
            raise ValueError("not one vector a toolkit")
        return ToolkitIndex(names, vectors)

    def _calibration_set(self, dim: int) -> CalibrationSet | None:
        about = self._about.get("calibration")
        if about is None:
            return None
        size = int(about["size"])
        indexes = self._indexes("calibration.", size, dim)
        vectors: Iterator[Scores] = iter(())
        if "calibration.parts" in self._file:
            vectors = iter(self._matrix("calibration.parts", dim, np.float32))
        parts = iter(
            [
                (str(text), next(vectors) if has_vector else None, float(trust), float(weight))
                for text, has_vector, trust, weight in about["parts"]
            ]
        )
        turns = tuple([(next(parts), tuple([next(parts) for _ in range(n)])) for n in about["pieces"]])
        owners = self._rows("calibration.owners", size)
        if len(owners) != len(turns):
            raise ValueError("not one owner a message")
        return CalibrationSet(indexes, turns, owners)

    def _measured(self, name: str, about: Mapping[str, Any], indexes: Indexes) -> CalibratedRetriever:
        def column(part: str) -> Scores | None:
            if f"{name}.{part}" not in self._file:
                return None
            scores: Scores = self._file.array(f"{name}.{part}")
            if scores.dtype != np.float32 or not np.isfinite(scores).all():
                raise ValueError(f"{part} has a number that is none")
            return scores

        factors, best, own = column("damping"), column("best"), column("own")
        calibration = AT_LARGE
        if best is not None and own is not None:
            calibration = Calibration(best, own, bool(about["has_vectors"]))
        return CalibratedRetriever(indexes.retriever(factors), factors, calibration)


@contextmanager
def _sound(path: str) -> Iterator[None]:
    """Raises InvalidInput for any error while a file is read, because the file may be hostile."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        StopIteration,
        TypeError,
        ValueError,
    ) as error:
        raise InvalidInput(f"catalog {path!r:.300}: is damaged, build it again: {error}") from error
