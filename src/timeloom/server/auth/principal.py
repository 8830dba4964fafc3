"""The authenticated caller of a request, and the conversations that it may access."""

from typing import Annotated, Final, Literal, assert_never

import msgspec
from msgspec import Meta

from timeloom.platform.user_names import check_user_name
from timeloom.ports.reader import ConversationInfo

WILDCARD: Final = "*"
"""The wildcard for all tenants or all projects."""

Role = Literal["user", "approver", "admin"]

ScopeName = Annotated[str, Meta(pattern=r"\A(?:\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")]

ConversationAccess = Literal["read", "change", "decide"]
"""A kind of access to a conversation; `decide` answers an approval request of a turn."""


class Principal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An authenticated user with their tenant, project and role."""

    tenant: ScopeName
    project: ScopeName
    user: str
    role: Role = "user"

    def __post_init__(self) -> None:
        check_user_name(self.user)

    @property
    def id(self) -> str:
        """An id that is unique among all principals."""
        return f"{self.tenant}/{self.project}/{self.user}"

    @property
    def is_operator(self) -> bool:
        """Whether this is an admin of all tenants and projects."""
        return (self.tenant, self.project, self.role) == (WILDCARD, WILDCARD, "admin")

    def is_member(self, tenant: str, project: str) -> bool:
        """Whether the principal belongs to that project."""
        return self.tenant in (tenant, WILDCARD) and self.project in (project, WILDCARD)

    def can_access(self, access: ConversationAccess, info: ConversationInfo) -> bool:
        """Whether the principal owns the conversation, or their role allows this access in its project."""
        if not self.is_member(info.tenant, info.project):
            return False
        match self.role:
            case "admin":
                return True
            case "approver":
                return access != "change" or self.user == info.user
            case "user":
                return self.user == info.user
            case _:
                assert_never(self.role)
