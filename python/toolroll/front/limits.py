"""`FrontLimits`: the limits of one process for all clients of its port."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import dataclass, replace

from toolroll.model.errors import InvalidInput

try:
    import resource
except ModuleNotFoundError:  # Windows, where sockets are no descriptors
    resource = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)
_OTHER_DESCRIPTORS = 256  # for files, the database, and the files open at the start


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """Limits of one process that listens on a port.

    Attributes:
        connections: open connections. An address may have as many as are still free, so at most half of them.
        header_bytes: the longest header of a request, with its first line.
        body_bytes: the longest body of a request.
        in_flight_bytes: bytes of all bodies at a time. A caller may have as many as are still free.
        patience_s: the longest time for a header, and the longest pause within a body.
        slowest_bytes_s: a body must arrive at least at this average rate, in bytes a second.
        answer_s: how long a client may leave an answer unread.
        proxies: addresses or networks that send the requests of many clients; the limit by address does not
            apply to them.
    """

    connections: int = 2_048
    header_bytes: int = 32 * 1_024
    body_bytes: int = 4 * 2**20
    in_flight_bytes: int = 256 * 2**20
    patience_s: float = 10.0
    slowest_bytes_s: int = 4_096
    answer_s: float = 60.0
    proxies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.in_flight_bytes < 2 * self.body_bytes:  # one caller gets half
            raise InvalidInput(
                f"max_in_flight_bytes is {self.in_flight_bytes}, must be at least {2 * self.body_bytes}: one "
                "caller gets half of it, which must be enough for the longest body"
            )

    def is_proxy(self, address: str) -> bool:
        """Whether this address is one of the proxies."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in ipaddress.ip_network(proxy, strict=False) for proxy in self.proxies)


def fitted(limits: FrontLimits, descriptors_each: int = 1) -> FrontLimits:
    """Raises the system's limit of descriptors, and returns the limits with as many connections as it allows.

    descriptors_each: of a connection and of everything that its request opens, such as a connection to a
        provider.
    """
    if resource is None:
        return limits
    wanted = limits.connections * descriptors_each + _OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
        except (OSError, ValueError):  # macOS has another limit
            pass
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    connections = max(1, (soft - min(_OTHER_DESCRIPTORS, soft // 2)) // descriptors_each)
    _log.warning(
        "at most %d connections in place of %d: the process may open %d files (ulimit -n), and needs %d",
        *(connections, limits.connections, soft, wanted),
    )
    return replace(limits, connections=connections)
