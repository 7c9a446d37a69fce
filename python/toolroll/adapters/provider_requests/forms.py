"""Finds the form of a provider's request by its path, and writes our own errors in that form."""

from __future__ import annotations

import json

from toolroll.formats.providers import PROVIDERS, installed_providers, provider_of
from toolroll.formats.providers.request_form import RequestForm


def form_of(method: str, path: str) -> RequestForm | None:
    """The form of the requests with this method and path; None if they are passed on as they are."""
    if method != "POST":
        return None
    for providers in (PROVIDERS.values, installed_providers):
        for provider in providers():
            for form in provider.requests:
                if form.path.search(path):
                    return form
    return None


def error_body(form: RequestForm | None, status: int, message: str) -> bytes:
    """The JSON of one of our errors, which clients read like the provider's own errors.

    form: of the request; None for OpenAI's.
    """
    write = (None if form is None else provider_of(form.provider).error) or PROVIDERS["openai"].error
    assert write is not None
    return json.dumps(write(status, f"toolroll: {message}")).encode()
