"""`Caller`: who makes a request and what they may do. `Grant`: what people of a group may do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fastapi import Request
from pydantic import BaseModel, ConfigDict, model_validator

from toolroll.learning.reporters import Reporter, UnnamedCaller
from toolroll.model.errors import Denied
from toolroll.registry.access.accounts import Account
from toolroll.registry.access.service_keys import ROLES, VOUCH, ServiceKey
from toolroll.server.admission import Ticket


@dataclass(frozen=True, slots=True)
class Caller:
    """The maker of a request.

    Attributes:
        name: of the key or the person; "anyone" if the service asks for no key.
        roles: names in `toolroll.registry.access.service_keys.ROLES`.
        org: the only organisation of the caller; "" is the platform, None means any organisation.
        plugin: the plugin that the role "sync" registers.
        key_id: of the service key; "" without one.
        sign_in: the way a person signed in, such as "account"; "" with a key.
        ticket: admits the request for its organisation; None if a host's application does that.
    """

    name: str
    roles: frozenset[str]
    org: str | None
    plugin: str = ""
    key_id: str = ""
    sign_in: str = ""
    address: str = ""
    ticket: Ticket | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_key(cls, key: ServiceKey, address: str) -> Caller:
        """The caller with this key."""
        return cls(key.name, frozenset(key.roles), key.org, key.plugin, key.key_id, address=address)

    @classmethod
    def of_account(cls, account: Account, address: str) -> Caller:
        """The person with this account."""
        return cls(account.name, frozenset(account.roles), account.org, sign_in="account", address=address)

    @classmethod
    def anyone(cls, address: str) -> Caller:
        """Anybody at this address, with every role."""
        return cls("anyone", frozenset(ROLES), None, address=address)

    @property
    def credential(self) -> str:
        """The key or the sign-in of the caller, to which limits apply."""
        return self.key_id or (f"{self.name} ({self.sign_in})" if self.sign_in else "")

    def reporter_of(self, named: str | None) -> Reporter | None:
        """The reporter of an outcome; None for the selection's user. named: the reporter in the request.

        Only a caller with the role "vouch" may name a reporter. Every other key counts as one unnamed
        reporter.
        """
        if VOUCH in self.roles:
            return named
        return UnnamedCaller(f"key {self.key_id}") if self.key_id or not self.name else self.name

    @property
    def actor(self) -> str:
        """The author of changes in the audit log: name, credential and address."""
        with_what = f"key {self.key_id}" if self.key_id else self.sign_in
        who = f"{self.name} ({with_what})" if with_what else self.name
        return f"{who} from {self.address}" if self.address else who

    def require(self, role: str) -> None:
        """Raises Denied if the caller lacks the role."""
        if role not in self.roles:
            raise Denied(f"{self.name or 'the caller'}: lacks the role {role!r}, which lets it {ROLES[role]}")

    def org_of(self, org: str | None) -> str:
        """The organisation of a request: the named one, else the caller's own.

        Raises:
            Denied: the caller is bound to another one.
            OrgRefused: the organisation has too many requests now.
        """
        if self.org is not None and org and org != self.org:
            raise Denied(f"{self.name or 'the caller'}: is not of organisation {org!r:.80}")
        owner = (org or "") if self.org is None else self.org
        if self.ticket is not None:
            self.ticket.enter(owner)
        return owner

    def require_any_org(self) -> None:
        """Raises Denied if the caller is bound to one organisation."""
        if self.org is not None:
            raise Denied(f"{self.name or 'the caller'}: is bound to one organisation; this is about all")


Identify = Callable[[Request], Caller]


def caller_of(request: Request) -> Caller:
    """The caller that the gate admitted. Raises Denied if there was no gate."""
    caller = getattr(request.state, "caller", None)
    if not isinstance(caller, Caller):
        raise Denied("the caller is not known: pass `identify` to the router")
    return caller


def trusted(request: Request) -> Caller:
    """A caller with every role, for applications that check their callers before our routes."""
    return Caller.anyone(address_of(request.scope.get("client")))


def address_of(client: object) -> str:
    """The address in the `client` of an ASGI scope; "" if the server does not know it."""
    return str(client[0]) if isinstance(client, (tuple, list)) and client else ""


@dataclass(frozen=True, slots=True)
class Person:
    """A person whom an identity provider knows.

    Attributes:
        issuer, subject: identify the person; the provider never reuses the pair.
        name: for people, and for the audit log.
        groups: the person's groups that the settings name.
        orgs: claim → organisation, for the claims that the settings name.
    """

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]
    orgs: Mapping[str, str]


AccountRole = Literal["select", "report", "read", "administer"]


class Grant(BaseModel):
    """The roles of a group's people, and their organisation.

    Attributes:
        group: a group at the identity provider; empty means everybody who signs in there.
        org: their organisation; empty means the platform.
        org_claim: a claim that names the organisation instead. A person without the claim gets nothing.
        any_org: whether they act for all organisations.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: str = ""
    roles: tuple[AccountRole, ...]
    org: str = ""
    org_claim: str = ""
    any_org: bool = False

    @model_validator(mode="after")
    def _names_one_organisation(self) -> Grant:
        if not self.roles:
            raise ValueError("roles is empty")
        if (self.org != "") + (self.org_claim != "") + self.any_org > 1:
            raise ValueError("org, org_claim and any_org go together with none of the others")
        return self

    def applies_to(self, person: Person) -> bool:
        """Whether the person is in the group, and has the claim."""
        in_group = not self.group or self.group in person.groups
        return in_group and (not self.org_claim or bool(person.orgs.get(self.org_claim)))


def caller_of_person(person: Person, grants: Iterable[Grant], address: str) -> Caller | None:
    """The caller that the first applicable grant makes of the person; None if no grant applies."""
    for grant in grants:
        if grant.applies_to(person):
            org = None if grant.any_org else person.orgs.get(grant.org_claim, grant.org)
            sign_in = f"{person.subject} at {person.issuer}"
            return Caller(person.name, frozenset(grant.roles), org, sign_in=sign_in, address=address)
    return None
