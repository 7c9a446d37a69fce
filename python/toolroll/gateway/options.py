"""`GatewayOptions`: the section "toolroll" of a configuration file, beside its servers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from toolroll.front.limits import FrontLimits
from toolroll.gateway.server_spec import Review

Mode = Literal["auto", "search", "dynamic", "all"]
MODES: tuple[Mode, ...] = get_args(Mode)
Destructive = Literal["allow", "ask", "deny"]
AnswerFormat = Literal["markdown", "json"]
_ORIGIN = re.compile(r"https?://[^/?#@\s]+")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_SPELLINGS = {
    "disabledTools": "exclude_tools",
    "excludeTools": "exclude_tools",
    "enabledTools": "include_tools",
    "includeTools": "include_tools",
    "tools": "include_tools",
}


class ServerOptions(_Section):
    """Options of one server, beside its entry in the client's file. See `ServerSpec`.

    Attributes:
        include_tools: narrows the tools that the server's entry includes.
        exclude_tools: adds to the tools that the server's entry excludes.
    """

    enabled: bool = True
    role: Literal["", "guardian", "channel"] | None = None
    sensitive: bool | None = None
    instance: Literal["user", "shared"] | None = None
    review: Review | None = None
    sign_in: Literal["shared", "user"] | None = None
    sign_in_origins: tuple[str, ...] = ()
    command_prefix: tuple[str, ...] | None = None
    cwd: str | None = None
    timeout_s: float | None = Field(None, gt=0, le=86_400)
    start_timeout_s: float | None = Field(None, gt=0, le=3_600)
    max_in_flight: int | None = Field(None, ge=1, le=10_000)
    questions_per_call: int | None = Field(None, ge=0, le=1_000)
    questions_per_minute: int | None = Field(None, ge=0, le=10_000)
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()

    @field_validator("sign_in_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not _ORIGIN.fullmatch(each):
                raise ValueError(
                    f"has {without_secrets(each)!r:.100}, must be like https://login.example.org"
                )
        return value

    @model_validator(mode="before")
    @classmethod
    def _is_spelt_our_way(cls, value: Any) -> Any:
        """Names the right key for another spelling: the most similar key may mean the opposite."""
        for key in value if isinstance(value, dict) else ():
            if key in _SPELLINGS:
                raise ValueError(
                    f"{key!r} is a key of the server's own entry, here it is {_SPELLINGS[key]!r}"
                )
        return value


class CallerOptions(_Section):
    """The caller, if nobody signs in: over stdio, and over HTTP on the loopback interface. See `Context`."""

    org: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    tier: str = ""
    page: str = ""


class ClaimNames(_Section):
    """Names of the claims of a token that become fields of `Context`.

    "" stands for no claim, and `realm_access.roles` for a nested one.
    """

    org: str = ""
    user: str = "sub"
    roles: str = ""
    tier: str = ""


class KeyOptions(_Section):
    """A service key and its bearer.

    Attributes:
        key: a reference to the key, such as `${env:CI_KEY}`.
        user: by default the name of the key.
    """

    key: str = Field(min_length=1, repr=False)
    org: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    tier: str = ""


class RegistryKeyOptions(_Section):
    """The bearers of the registry's service keys.

    Attributes:
        roles: the roles of `Context` for each role of a key.
    """

    roles: Mapping[Literal["select", "report", "vouch", "sync", "read", "administer"], tuple[str, ...]] = (
        Field(default_factory=dict)
    )
    tier: str = ""


class IdentityOptions(_Section):
    """Sign-in of callers over HTTP.

    Attributes:
        url: the address of the gateway for clients, without a path.
        issuer: the OpenID Connect provider whose tokens are accepted; "" accepts no tokens.
        audience, scopes: required of tokens; the default audience is the URL with `/mcp`.
        keys: service keys by name.
        registry_keys: the bearers of the registry's service keys; None refuses these keys.
    """

    url: str
    issuer: str = ""
    audience: str = ""
    scopes: tuple[str, ...] = ()
    claims: ClaimNames = ClaimNames()
    keys: Mapping[str, KeyOptions] = Field(default_factory=dict)
    registry_keys: RegistryKeyOptions | None = None

    @field_validator("url", "issuer")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        """Refuses addresses over which others can read tokens."""
        host = urlsplit(value).hostname or ""
        if value and not value.startswith("https://") and not is_loopback(host):
            raise ValueError(f"is {without_secrets(value)!r:.200}, must begin with https://")
        return value

    @model_validator(mode="after")
    def _has_callers(self) -> IdentityOptions:
        if not self.issuer and not self.keys and self.registry_keys is None:
            raise ValueError("needs an issuer, keys or registry_keys")
        return self

    @property
    def resource(self) -> str:
        """The audience of tokens."""
        return f"{self.url.rstrip('/')}/mcp"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class HttpOptions(_Section):
    """Limits for everybody who reaches the gateway's port. See `FrontLimits`."""

    max_connections: int = Field(default=2_048, ge=2, le=1_000_000)
    max_header_bytes: int = Field(default=32 * 2**10, ge=2**10, le=2**20)
    max_in_flight_bytes: int = Field(default=64 * 2**20, ge=8 * 2**20, le=2**40)
    patience_s: float = Field(default=10.0, ge=1, le=3_600)

    @property
    def front(self) -> FrontLimits:
        """Returns the front's limits. A body has at most 4 MiB, the limit of the package `mcp`."""
        return FrontLimits(
            connections=self.max_connections,
            header_bytes=self.max_header_bytes,
            in_flight_bytes=self.max_in_flight_bytes,
            patience_s=self.patience_s,
        )


class GatewayOptions(_Section):
    """The section "toolroll". docs/gateway.md has the meaning of each key."""

    mode: Mode = "auto"
    separator: str = Field(default="_", pattern="^[_-]{1,4}$")
    tags: bool = True
    catalog: str = ""
    embedder: str = "static"
    profile: str = "default"
    review: Review = "changed"
    destructive: Destructive = "allow"
    answer_format: AnswerFormat = "markdown"
    result_limit: int = Field(default=50_000, ge=0)
    first_list_s: float = Field(default=1.5, ge=0, le=600)
    refresh_s: float = Field(default=600.0, ge=1)
    keep_s: float = Field(default=30.0, ge=0)
    log_arguments: bool = False
    caller: CallerOptions = CallerOptions()
    identity: IdentityOptions | None = None
    http: HttpOptions = HttpOptions()
    tokens_key: str = Field(default="", repr=False)
    hooks: tuple[str, ...] = ()
    servers: Mapping[str, ServerOptions] = Field(default_factory=dict)


def without_secrets(url: str) -> str:
    """Returns an address for messages: without user, password, query and fragment."""
    scheme, separator, rest = re.split(r"[?#]", url, maxsplit=1)[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def with_changes(options: GatewayOptions, **values: Any) -> GatewayOptions:
    """Returns the options with the values that are not None, checked."""
    given = {name: value for name, value in values.items() if value is not None}
    return GatewayOptions.model_validate({**options.model_dump(), **given}) if given else options
