"""HTTP clients that select tools, for the providers' own Python libraries: the drop-in without a proxy.

    from toolroll.adapters.http_client import toolroll_client

    client = OpenAI(http_client=toolroll_client(roll))

They are clients of httpx2, or of httpx if httpx2 is not installed.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from toolroll.adapters.provider_requests import (
    HEADER,
    OutgoingRequest,
    RequestHeaders,
    RequestSelector,
    form_of,
)
from toolroll.adapters.provider_requests.forms import error_body
from toolroll.adapters.provider_requests.headers import PREFIX
from toolroll.formats.providers.request_form import RequestForm
from toolroll.model.errors import Denied, InvalidInput, ToolrollError
from toolroll.roll import Toolroll

_LIBRARIES = ("httpx2", "httpx")


def toolroll_client(
    roll: Toolroll | RequestSelector | None = None,
    *,
    max_tools: int | None = None,
    library: ModuleType | None = None,
    **options: Any,
) -> Any:
    """An `httpx2.Client` or `httpx.Client` that sends only the selected tools to a provider.

    Args:
        roll: applies rules, learns and keeps conversations; None for one in memory. A
            `RequestSelector` has more options.
        max_tools: how many tools are sent at most, beside hosted ones.
        library: the module `httpx` or `httpx2`, as the provider's library needs it; None takes `httpx2` if it
            is there, else `httpx`.
        options: of the client, such as `timeout` and `proxy`.
    """
    http = _library(library)
    selector = roll if isinstance(roll, RequestSelector) else RequestSelector(roll, max_tools=max_tools)

    class SelectingClient(http.Client):  # type: ignore[name-defined,misc]
        """Selects before each request."""

        def send(self, request: Any, **how: Any) -> Any:
            form = form_of(request.method, request.url.path)
            try:
                _check_path(selector, request, form)
                if form is None:
                    return super().send(_without_our_headers(request), **how)
                changed = selector.select(request.read(), form, _our_headers(request))
            except ToolrollError as error:
                return _error_response(http, request, form, error)
            response = super().send(_with_body(http, request, changed), **how)
            return _with_report(response, changed)

    return SelectingClient(**{"follow_redirects": True, **options})


def toolroll_async_client(
    roll: Toolroll | RequestSelector | None = None,
    *,
    max_tools: int | None = None,
    library: ModuleType | None = None,
    **options: Any,
) -> Any:
    """`toolroll_client` for an event loop: an `httpx2.AsyncClient` or `httpx.AsyncClient`."""
    http = _library(library)
    selector = roll if isinstance(roll, RequestSelector) else RequestSelector(roll, max_tools=max_tools)

    class SelectingClient(http.AsyncClient):  # type: ignore[name-defined,misc]
        """Selects before each request."""

        async def send(self, request: Any, **how: Any) -> Any:
            form = form_of(request.method, request.url.path)
            try:
                _check_path(selector, request, form)
                if form is None:
                    return await super().send(_without_our_headers(request), **how)
                changed = await selector.aselect(await request.aread(), form, _our_headers(request))
            except ToolrollError as error:
                return _error_response(http, request, form, error)
            response = await super().send(_with_body(http, request, changed), **how)
            return _with_report(response, changed)

    return SelectingClient(**{"follow_redirects": True, **options})


def _library(library: ModuleType | None) -> Any:
    if library is not None:
        return library
    for name in _LIBRARIES:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ModuleNotFoundError("toolroll_client needs httpx2 or httpx: pip install httpx2", name="httpx2")


def _raw_headers(request: Any) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in request.headers.raw]


def _our_headers(request: Any) -> RequestHeaders:
    return RequestHeaders.of(_raw_headers(request))


def _check_path(selector: RequestSelector, request: Any, form: RequestForm | None) -> None:
    headers = request.headers
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        path = request.url.raw_path.split(b"?")[0].decode("latin-1")
        selector.check_path(form, path, _our_headers(request))


def _without_our_headers(request: Any) -> Any:
    """The request without our headers."""
    for name in [name for name, _ in _raw_headers(request) if name.startswith(PREFIX)]:
        del request.headers[name.decode("latin-1")]
    return request


def _with_body(http: Any, request: Any, changed: OutgoingRequest) -> Any:
    request = _without_our_headers(request)
    if changed.body is request.content:
        return request
    headers = [one for one in request.headers.raw if one[0].lower() != b"content-length"]
    return http.Request(
        request.method, request.url, headers=headers, content=changed.body, extensions=request.extensions
    )


def _with_report(response: Any, changed: OutgoingRequest) -> Any:
    if changed.report is not None:
        response.headers[HEADER] = str(changed.report)
    return response


def _error_response(http: Any, request: Any, form: RequestForm | None, error: ToolrollError) -> Any:
    """The provider's answer to a request that must not be sent."""
    status = 400 if isinstance(error, InvalidInput) else 403 if isinstance(error, Denied) else 503
    headers = {"content-type": "application/json"}
    return http.Response(
        status, content=error_body(form, status, str(error)), headers=headers, request=request
    )
