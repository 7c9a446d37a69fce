"""`ServerSettings`: how the service runs. `setting_sources` reads them."""

from __future__ import annotations

import ipaddress
import json
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

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


class ServerSettings(BaseSettings):
    """How the service runs.

    Attributes:
        catalog: URL of the registry; with an upstream, it may be empty.
        read_replica: URL of a PostgreSQL with a copy of the registry, which analytics read; empty for none.
        listen_url: URL of the registry's PostgreSQL without a pooler, for notifications; empty for none.
        upstream: URL of a provider, in front of which to run the drop-in in place of the service; empty for
            the service.
        upstream_delivery: whether the drop-in replaces the list of tools, or keeps it and restricts
            the model.
        upstream_k, upstream_max_tools: of the drop-in's selections, as in `Toolroll.select`.
        upstream_timeout_s: how long the provider may be silent.
        upstream_max_body_bytes: the longest body of a request to the drop-in.
        upstream_allowed: paths and members of bodies that pass though tools in them are not looked at.
        host, port: the address to listen on.
        workers: processes that share the port.
        grace_s: how long a stop may take: requests finish, then outcomes are written.
        embedder, profile: as `Toolroll.open` takes them.
        messages: how events keep messages: their text, a keyed digest, nothing, or no events at all.
        published: where `toolroll catalogs build` publishes the registry's catalog; empty to build it here.
        published_name: under which it is published.
        published_trust: public keys of publishers, or files of them.
        keeper: what counts events and outcomes while nothing else does: a process that `toolroll serve`
            starts, a thread in each worker, or nothing, where `toolroll registry keep` runs.
        outbox: the file where outcomes wait for the database; empty as in `Recording`.
        authentication: whether callers need a service key; without keys, only this machine can call.
        hosts: names by which the service may be called; empty for those of this machine.
        key_rate: how many requests a key has in which time, in each worker.
        key_concurrency: how many requests of a key are answered at a time, in each worker.
        concurrency: how many requests of organisations each worker answers at a time, and of a key for all
            organisations; one organisation gets as many as are free, so half of them alone.
        org_rate: how many requests an organisation has in which time, in each worker.
        max_body_bytes: the longest body of a request.
        max_in_flight_bytes: of all bodies that each worker reads or works on at a time; one caller gets as
            many as are free, so half of them alone.
        max_header_bytes: the longest header of a request, with its first line.
        max_connections: how many connections each worker has open; one address gets as many as are free.
        patience_s: how long the header of a request may take, and how long its body may rest.
        session_secret: signs the sessions of the admin page; empty for a random one at each start.
        sign_in_rate: how often people may try to sign in from an address without waiting, in each worker.
        trusted_proxies: addresses or networks of proxies, whose `X-Forwarded-For` and `…-Proto` count.
        public_url: the URL of the service as browsers know it; empty to take each request's.
        oidc_issuer: the identity provider at which people sign in; empty for none.
        oidc_client_id, oidc_client_secret: of the service at the provider; a public client has no secret.
        oidc_label: the provider's name on the page; empty for its host name.
        oidc_scopes: are asked of the provider.
        oidc_groups_claim: the claim that has a person's groups.
        oidc_grants: what people of a group may do; the first one that applies counts.
        metrics_folder: where several workers leave their metrics for each other; empty for a temporary one.
        traces_url: where a collector of OpenTelemetry takes spans, as OTLP over HTTP; empty for no spans.
        log: the form of the lines on standard error.
        log_requests: whether each request has a line.
    """

    model_config = SettingsConfigDict(env_prefix=SERVER_PREFIX, extra="forbid", frozen=True)

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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Reads nothing by itself: `SettingSources` knows where each value comes from."""
        return (init_settings,)

    @property
    def front(self) -> FrontLimits:
        """What the front of each worker lets in.

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
