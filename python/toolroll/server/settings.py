"""`ServerSettings`: how the service runs. `setting_sources` reads them."""

from __future__ import annotations

import ipaddress
import json
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from toolroll.front.configuration_errors import matching
from toolroll.front.limits import FrontLimits
from toolroll.selection.environment_names import SERVER_PREFIX
from toolroll.server.callers import Grant

_Url = Annotated[str, matching(r"https?://[^?#\s]+", "a URL with http:// or https://, without ? and #")]
CLOSING_SHARE = 0.3  # of the grace period: for writing outcomes, once all requests have finished


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        wanted = "an address or a network, such as 10.0.0.7 or 10.0.0.0/8"
        raise PydanticCustomError("worded", "must be {wanted}", {"wanted": wanted}) from None
    return text


class ServerSettings(BaseModel):
    """The settings of the service and of the drop-in; docs/service.md and docs/drop-in.md explain each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    catalog: str = ""
    read_replica: str = ""
    listen_url: str = ""
    upstream: str = ""
    upstream_delivery: Literal["replace", "allow"] = "replace"
    upstream_k: int | None = Field(default=None, ge=0)
    upstream_max_tools: int | None = Field(default=None, ge=0)
    upstream_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    upstream_max_body_bytes: int = Field(default=64 * 2**20, ge=1_024, le=2**32)
    upstream_allowed: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65_535)
    workers: int = Field(default=1, ge=1, le=256)
    grace_s: float = Field(default=30.0, ge=1, le=3_600)
    embedder: str = "static"
    profile: str = "default"
    messages: Literal["kept", "hashed", "dropped", "none"] = "hashed"
    published: str = ""
    published_name: str = "main"
    published_trust: tuple[str, ...] = ()
    outbox: str = ""
    keeper: Literal["process", "thread", "none"] = "process"
    authentication: Literal["keys", "none"] = "keys"
    hosts: tuple[str, ...] = ()
    key_rate: str = "5000/second"
    key_concurrency: int = Field(default=64, ge=1, le=100_000)
    concurrency: int = Field(default=1_024, ge=2, le=100_000)
    org_rate: str = "5000/second"
    max_body_bytes: int = Field(default=4 * 2**20, ge=1_024, le=2**30)
    max_in_flight_bytes: int = Field(default=256 * 2**20, ge=2**20, le=2**40)
    max_header_bytes: int = Field(default=32 * 2**10, ge=2**10, le=2**20)
    max_connections: int = Field(default=2_048, ge=2, le=1_000_000)
    patience_s: float = Field(default=10.0, ge=1, le=3_600)
    session_secret: Annotated[str, matching(r"(?s).{32,}", "at least 32 characters long")] = Field(
        default="", repr=False
    )
    sign_in_rate: str = "10/minute"
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ()
    public_url: Annotated[
        str, matching(r"https?://[^/?#\s]+", "a URL without a path, such as https://tools.example.com")
    ] = ""
    oidc_issuer: _Url = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = Field(default="", repr=False)
    oidc_label: str = ""
    oidc_scopes: str = "openid profile email"
    oidc_groups_claim: str = "groups"
    oidc_grants: tuple[Grant, ...] = ()
    metrics_folder: str = ""
    traces_url: _Url = ""
    log: Literal["text", "json"] = "text"
    log_requests: bool = False

    @property
    def front(self) -> FrontLimits:
        """The limits of each worker's front.

        Raises:
            InvalidInput: two of the limits contradict each other.
        """
        return FrontLimits(
            connections=self.max_connections,
            header_bytes=self.max_header_bytes,
            body_bytes=self.upstream_max_body_bytes if self.upstream else self.max_body_bytes,
            in_flight_bytes=self.max_in_flight_bytes,
            patience_s=self.patience_s,
            proxies=self.trusted_proxies,
        )

    def variables(self) -> dict[str, str]:
        """The same settings as environment variables, for worker processes."""
        return {
            SERVER_PREFIX + name.upper(): json.dumps(value) if isinstance(value, list) else str(value)
            for name, value in self.model_dump(mode="json").items()
            if value is not None
        }
