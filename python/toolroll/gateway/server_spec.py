"""`ServerSpec`: how to reach one MCP server, from the configuration."""

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
    """The form of a server's name in tools and files: letters, digits, "_" and "-"."""
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
        command_prefix: put before the command, such as a container's or bubblewrap's command line.
        openapi: the file or URL of the OpenAPI document of an HTTP service.
        url, headers: for http, sse and openapi.
        role: "guardian" is started before all others; "channel" is a note for people.
        sensitive: its arguments are never logged, and its tools have the annotation `sensitive`.
        review: the changes of its lists that wait for approval; None for the setting of all servers.
        sign_in: whether each user signs in, or one user for all, if the server asks for a sign-in.
        sign_in_origins: addresses for its sign-in, beside its own and public ones with https.
        instance: "user" starts a process for each user, "shared" one for all.
        timeout_s: for a call.
        start_timeout_s: for the start with the first list.
        max_in_flight: most calls at the same time; more wait.
        questions_per_call, questions_per_minute: most questions to a client during one call, and in a minute.
        include_tools: its own names of the tools to include; None includes all.
        exclude_tools: its own names of tools to leave out, also if they are included.
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
        """Whether all users share one connection, as with a remote server without users."""
        if self.transport == "stdio":
            return self.instance == "shared"
        return self.sign_in == "shared"
