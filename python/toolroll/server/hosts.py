"""The host names of the service: a request under another name is refused.

A browser lets any page send requests to 127.0.0.1 under the page's own host name (DNS rebinding). So a
service without keys must check the name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY = "*"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_allowed(header: bytes, allowed: Collection[str]) -> bool:
    """Whether a Host header names one of these hosts. Its port does not count; "*" allows any."""
    if ANY in allowed:
        return True
    name = header.decode("latin-1").lower()
    before, colon, port = name.rpartition(":")
    if colon and port.isdecimal():
        name = before
    return name in allowed
