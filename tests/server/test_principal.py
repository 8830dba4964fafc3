"""What a principal may do with a conversation: by membership first, then by role and ownership."""

from itertools import product
from typing import get_args

import pytest

from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationInfo
from timeloom.server.auth.principal import WILDCARD, ConversationAccess, Principal, Role

TS = "2026-02-09T02:14:32Z"
ACCESSES: tuple[ConversationAccess, ...] = get_args(ConversationAccess)
ROLES: tuple[Role, ...] = get_args(Role)
ALLOWED: dict[tuple[Role, bool], tuple[ConversationAccess, ...]] = {
    ("user", True): ACCESSES,
    ("user", False): (),
    ("approver", True): ACCESSES,
    ("approver", False): ("read", "decide"),
    ("admin", True): ACCESSES,
    ("admin", False): ACCESSES,
}
"""What a member may do, by role and by whether the conversation is theirs."""


def conversation(owner: str) -> ConversationInfo:
    return ConversationInfo(
        id=ConversationId("conv_1"), tenant="home", project="demo", user=owner, started_ts=TS, last_ts=TS, tail=1
    )


def accesses(principal: Principal, owner: str) -> tuple[ConversationAccess, ...]:
    return tuple(access for access in ACCESSES if principal.can_access(access, conversation(owner)))


@pytest.mark.parametrize(("role", "is_owner"), ALLOWED)
@pytest.mark.parametrize(("tenant", "project"), [*product(("home", WILDCARD), ("demo", WILDCARD))])
def test_a_member_has_the_access_of_their_role(tenant: str, project: str, role: Role, is_owner: bool) -> None:
    principal = Principal(tenant=tenant, project=project, user="ann", role=role)
    assert principal.is_member("home", "demo")
    assert accesses(principal, "ann" if is_owner else "bob") == ALLOWED[role, is_owner]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("tenant", "project"), [("away", "demo"), ("home", "other"), ("away", "other"), ("away", "*"), ("*", "other")]
)
def test_nobody_from_another_project_has_access_whatever_their_role_and_name(
    tenant: str, project: str, role: Role
) -> None:
    principal = Principal(tenant=tenant, project=project, user="ann", role=role)
    assert not principal.is_member("home", "demo")
    assert accesses(principal, "ann") == accesses(principal, "bob") == ()


@pytest.mark.parametrize(
    ("tenant", "project", "role", "is_operator"),
    [
        ("*", "*", "admin", True),
        ("*", "*", "approver", False),
        ("*", "*", "user", False),
        ("*", "demo", "admin", False),
        ("home", "*", "admin", False),
    ],
)
def test_only_an_admin_of_everything_is_an_operator(tenant: str, project: str, role: Role, is_operator: bool) -> None:
    assert Principal(tenant=tenant, project=project, user="op", role=role).is_operator == is_operator
