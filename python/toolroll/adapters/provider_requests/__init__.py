"""Replaces the list of tools in the JSON bytes of requests to providers, and nothing else.

The drop-in proxy (`toolroll serve --upstream`) and the HTTP client (`adapters/http_client.py`) share it.
"""

from toolroll.adapters.provider_requests.forms import form_of
from toolroll.adapters.provider_requests.headers import HEADER, RequestHeaders
from toolroll.adapters.provider_requests.request_selector import (
    Delivery,
    OutgoingRequest,
    RequestReport,
    RequestSelector,
)
from toolroll.formats.providers.request_form import RequestForm

__all__ = [
    "HEADER",
    "OutgoingRequest",
    "Delivery",
    "RequestForm",
    "RequestHeaders",
    "RequestReport",
    "RequestSelector",
    "form_of",
]
