"""Errors of our own in the form of a provider, so that its clients raise what they usually do."""

from __future__ import annotations

import json

from toolroll.adapters.provider_requests.forms import RequestForm

_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_GEMINI = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    504: "DEADLINE_EXCEEDED",
}


def error_body(form: RequestForm | None, status: int, message: str) -> bytes:
    """The JSON of an error with this HTTP status. form: of the request; None for OpenAI's form."""
    provider = "openai" if form is None else form.provider
    message = f"toolroll: {message}"
    error: object
    if provider == "anthropic":
        kind = _ANTHROPIC.get(status, "api_error")
        error = {"type": "error", "error": {"type": kind, "message": message}}
    elif provider == "gemini":
        kind = _GEMINI.get(status, "UNAVAILABLE")
        error = {"error": {"code": status, "message": message, "status": kind}}
    else:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error = {"error": {"message": message, "type": kind, "param": None, "code": "toolroll"}}
    return json.dumps(error).encode()
