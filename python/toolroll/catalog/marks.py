"""The meanings of a message's marks: file endings, keys, numbers and times (marks.hpp).

"put costs.xlsx next to PAY-310" names neither a workbook nor an issue. Each kind of mark has a few words
here. A tool whose name or toolkit has one of them deals with this kind.
"""

from __future__ import annotations

from collections.abc import Mapping

# Kind → words in the names of the tools that deal with it; plurals are added. URLs and IP addresses are
# missing: tools of all kinds take them, and counting them lost more places than it gained.
MEANINGS: Mapping[str, tuple[str, ...]] = {
    "path": ("file", "directory", "folder", "path", "filesystem"),
    "ticket key": ("jira", "issue", "ticket"),
    "issue number": ("issue", "pull"),
    "pull request": ("pull", "github"),
    "merge request": ("merge", "gitlab"),
    "commit": ("commit", "git"),
    "vulnerability": ("vulnerability", "vulnerabilities", "cve", "advisory", "advisories", "security"),
    "arXiv number": ("arxiv", "paper"),
    "DOI": ("doi", "paper", "article", "publication", "citation"),
    "mail address": ("mail", "email", "gmail"),
    "phone number": ("phone", "call", "sms"),
    "time": ("time", "calendar", "event", "schedule", "reminder", "alarm"),
    "date": ("date", "calendar", "event"),
    "coordinates": ("coordinate", "latitude", "longitude", "geocode", "location", "map"),
    "temperature": ("temperature", "thermostat", "climate", "weather"),
    "ticker": ("ticker", "stock", "quote", "share"),
    "channel": ("channel",),
    "cells": ("cell", "range", "worksheet", "spreadsheet"),
    "bucket": ("bucket", "s3", "storage"),
    "SQL": ("sql", "query", "queries", "database"),
}

# The same by the endings of files.
_BY_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "xlsx xls xlsm ods": ("excel", "workbook", "worksheet", "spreadsheet"),
    "csv tsv parquet": ("csv", "spreadsheet", "table", "dataset"),
    "pptx ppt odp": ("powerpoint", "presentation", "slide"),
    "docx doc odt rtf": ("word", "docx", "document"),
    "pdf": ("pdf", "document"),
    "db sqlite sqlite3 duckdb": ("sqlite", "duckdb", "database", "sql"),
    "png jpg jpeg gif webp heic tif tiff svg bmp": ("image", "picture", "photo"),
    "mp3 wav m4a flac ogg opus aac": ("audio", "sound", "speech", "transcribe"),
    "mp4 mov mkv avi webm": ("video",),
    "zip tar tgz gz rar 7z": ("archive", "zip", "unzip", "compress", "extract"),
    "py js ts tsx jsx go rs java cpp rb php cs kt swift sh": ("code", "source", "file", "repository"),
    "ipynb": ("notebook", "jupyter"),
    "json jsonl yaml yml toml xml ini conf": ("json", "yaml", "xml", "file"),
    "txt md log": ("file", "text", "markdown"),
    "ics": ("calendar", "event"),
    "vcf": ("contact",),
    "eml msg": ("mail", "email"),
}
ENDINGS: Mapping[str, tuple[str, ...]] = {
    f".{ending}": words for endings, words in _BY_ENDINGS.items() for ending in endings.split()
}
