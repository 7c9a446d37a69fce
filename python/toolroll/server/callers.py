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
    """Who makes a request.

    Attributes:
        name: of the key, or of whatever the host's application knows; "anyone" where nobody is asked.
        roles: names in `toolroll.registry.access.service_keys.ROLES`.
        org: the organisation to which the caller is bound; "" is the platform, None means any organisation.
        plugin: the plugin that the role "sync" registers.
        key_id: of the service key; "" without one.
        sign_in: how a person signed in, such as "account"; "" with a key.
        address: where the request comes from.
        ticket: admits the request for its organisation; None where a host's application does that.
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
        """Whoever calls from there, for everything."""
        return cls("anyone", frozenset(ROLES), None, address=address)

    @property
    def credential(self) -> str:
        """What the caller came with, for limits: a key, or a sign-in under a name."""
        return self.key_id or (f"{self.name} ({self.sign_in})" if self.sign_in else "")

    def reporter_of(self, named: str | None) -> Reporter | None:
        """Who reports an outcome, if the request names this reporter; None for the selection's user.

        Only a caller who vouches for the users whom it names is believed. Others report as themselves: all
        that a key sends is of one unnamed caller.
        """
        if VOUCH in self.roles:
            return named
        return UnnamedCaller(f"key {self.key_id}") if self.key_id or not self.name else self.name

    @property
    def actor(self) -> str:
        """The author of changes, as the audit log names it: who, and from where."""
        with_what = f"key {self.key_id}" if self.key_id else self.sign_in
        who = f"{self.name} ({with_what})" if with_what else self.name
        return f"{who} from {self.address}" if self.address else who

    def require(self, role: str) -> None:
        """Raises Denied if the caller lacks the role."""
        if role not in self.roles:
            raise Denied(f"{self.name or 'the caller'}: lacks the role {role!r}, which lets it {ROLES[role]}")

    def org_of(self, org: str | None) -> str:
        """The organisation that a request is for: the one that it names, else the caller's own.

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
    """The caller whom the service's gate let in. Raises Denied where there was no gate."""
    caller = getattr(request.state, "caller", None)
    if not isinstance(caller, Caller):
        raise Denied("the caller is not known: pass `identify` to the router")
    return caller


def trusted(request: Request) -> Caller:
    """Anybody, for everything. For applications that check their callers themselves, before our routes."""
    return Caller.anyone(address_of(request.scope.get("client")))


def address_of(client: object) -> str:
    """The address in an ASGI scope's `client`; "" where the server does not know it."""
    return str(client[0]) if isinstance(client, (tuple, list)) and client else ""


@dataclass(frozen=True, slots=True)
class Person:
    """A person whom an identity provider knows.

    Attributes:
        issuer, subject: who it is; the provider never gives the same pair to somebody else.
        name: for people, and for the audit log.
        groups: of the person, as far as the service's settings name them.
        orgs: claim → organisation, of the claims that the settings name.
    """

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]
    orgs: Mapping[str, str]


AccountRole = Literal["select", "report", "read", "administer"]


class Grant(BaseModel):
    """What people of a group may do, and for which organisation.

    Attributes:
        group: of the identity provider; empty for everybody who signs in there.
        roles: of these people.
        org: their organisation; empty for the platform.
        org_claim: a claim that has the organisation instead. A person without the claim gets nothing.
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
    """The person as a caller, by the first grant that applies; None if no grant does."""
    for grant in grants:
        if grant.applies_to(person):
            org = None if grant.any_org else person.orgs.get(grant.org_claim, grant.org)
            sign_in = f"{person.subject} at {person.issuer}"
            return Caller(person.name, frozenset(grant.roles), org, sign_in=sign_in, address=address)
    return None
