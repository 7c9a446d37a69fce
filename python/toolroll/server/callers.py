"""`Caller`: who makes a request, for which organisation, and what they may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request

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
