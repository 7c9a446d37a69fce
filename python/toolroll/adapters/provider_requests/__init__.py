"""Requests to providers as they travel: bytes of JSON in which only the list of tools is replaced.

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
