"""A selection as JSON. The schemas of its tools are the catalog's prepared bytes, put in as they are."""

from __future__ import annotations

import json

from toolroll.selection.selection import Selection

_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make an encoder for each call


def selection_json(selection: Selection, provider: str | None, receipt: str | None) -> bytes:
    """The answer to a request for a selection.

    provider: adds the tools as this provider takes them. receipt: is added where it is one.
    """
    fields = {
        "names": selection.names,
        "event_id": selection.event_id,
        "catalog_revision": selection.catalog_revision,
        "confidence": selection.confidence,
        "has_match": selection.has_match,
        "degraded": selection.degraded,
        "missing_required": selection.missing_required,
        **({} if receipt is None else {"receipt": receipt}),
    }
    text = _encode(fields).encode()
    if provider is None:
        return text
    return b'%b,"schemas":%b}' % (text[:-1], selection.schemas_json(provider))
