"""Finds the form of a provider's request by its path."""

from __future__ import annotations

from toolroll.formats.providers import PROVIDERS, installed_providers
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
