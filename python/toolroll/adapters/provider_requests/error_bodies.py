"""Errors of our own in the form of a provider, so that its clients raise what they usually do."""

from __future__ import annotations

import json

from toolroll.formats.providers import PROVIDERS, provider_of
from toolroll.formats.providers.request_form import RequestForm


def error_body(form: RequestForm | None, status: int, message: str) -> bytes:
    """The JSON of an error with this HTTP status. form: of the request; None for OpenAI's form."""
    write = PROVIDERS["openai"].error if form is None else provider_of(form.provider).error
    write = write or PROVIDERS["openai"].error
    assert write is not None
    return json.dumps(write(status, f"toolroll: {message}")).encode()
