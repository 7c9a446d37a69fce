"""`Grant`: what people of a group may do, where an identity provider says who is in which group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from toolroll.server.callers import Caller
from toolroll.server.page_sessions import Person

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
