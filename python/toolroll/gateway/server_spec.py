"""`ServerSpec`: how one MCP server is reached, as the configuration says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Transport = Literal["stdio", "http", "sse", "openapi"]
Role = Literal["", "guardian", "channel"]
ROLES: tuple[Role, ...] = get_args(Role)
Instance = Literal["user", "shared"]
Review = Literal["auto", "changed", "all"]
LONGEST_NAME = 100


def prefix_of(name: str) -> str:
    """A server's name as tools and files carry it: letters, digits, "_" and "-"."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "server"


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One MCP server.

    Texts may hold references such as `${env:TOKEN}`. They are resolved when the server is started, so a
    missing variable stops this server and no other.

    Attributes:
        name: the prefix of its tools.
        transport: how it is reached.
        command, args: the program, for stdio.
        env: variables that its process gets beside a clean environment.
        env_file: a file with more of them, as `NAME=value` lines; "" for none.
        cwd: its working folder; "" for the gateway's own.
        command_prefix: put in front of the command, such as a container's or bubblewrap's command line.
        openapi: for a service that is no MCP server: the file or URL of its OpenAPI document.
        url, headers: for http, sse and openapi.
        role: "guardian" is started before all others; "channel" is a note for people.
        sensitive: its arguments are never logged, and its tools have the annotation `sensitive`.
        review: what of its lists waits for approval; None for what holds for all servers.
        sign_in: whose sign-in its requests carry, if it asks for one: each user's own, or one for all.
        sign_in_origins: where its sign-in may be, beside its own address and public ones with https.
        instance: "user" starts a process for each user, "shared" one for all.
        timeout_s: for a call.
        start_timeout_s: for the start with the first list.
        max_in_flight: calls that it gets at the same time; more wait.
        questions_per_call: that it may ask the client during one call; 0 for none.
        questions_per_minute: that it may ask one client in a minute.
        include_tools: its own names of the tools that are taken over; None for all.
        exclude_tools: those that are not, also if they are included.
        place: file and line of its entry, for messages.
    """

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    env_file: str = ""
    cwd: str = ""
    command_prefix: tuple[str, ...] = ()
    openapi: str = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    role: Role = ""
    sensitive: bool = False
    instance: Instance = "user"
    review: Review | None = None
    sign_in: Literal["shared", "user"] = "shared"
    sign_in_origins: tuple[str, ...] = ()
    timeout_s: float = 60.0
    start_timeout_s: float = 30.0
    max_in_flight: int = 32
    questions_per_call: int = 10
    questions_per_minute: int = 20
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    place: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether all users share one connection: a remote server without users is one already."""
        if self.transport == "stdio":
            return self.instance == "shared"
        return self.sign_in == "shared"
