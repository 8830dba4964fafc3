"""The context of one request: its principal, its project and its conversation."""

import logging
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request

from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import timestamp
from timeloom.ports.reader import ConversationInfo
from timeloom.runtime.hub.state import USER
from timeloom.server.auth.audit_log import AuditEntry
from timeloom.server.auth.principal import ConversationAccess, Principal
from timeloom.server.auth.revocation import EndConnection
from timeloom.server.services import Services

_CALL_IDS: Final = re.compile(r"[A-Za-z0-9_,-]{0,200}")
"""The form of call ids that the audit log accepts. Any other text could be a part of a message, so it is left out."""

_logger = logging.getLogger(__name__)

ANONYMOUS: Final = Principal(tenant="nobody", project="nobody", user="nobody")
"""The principal of requests that need no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """An authorized request: its principal, its project and, where the route names one, its conversation."""

    services: Services
    request: Request
    principal: Principal = ANONYMOUS
    tenant: str = ""
    project: str = ""
    info: ConversationInfo | None = None
    operation: str = ""
    call_id: str = ""
    """The ids of the calls that the request decides on, separated by commas; empty for other requests."""

    @property
    def conversation(self) -> ConversationInfo:
        """The conversation that the route names; the principal may access it."""
        assert self.info is not None
        return self.info

    def monitor_revocation(self, end: EndConnection) -> AbstractContextManager[None]:
        """Call `end` if the token is revoked or its principal changes while the returned context is open."""
        credential = self.services.authenticator.credential(self.request)
        return self.services.revocation_monitor.monitor(credential, self.principal, end)

    def author_in(self, info: ConversationInfo) -> str:
        """Return the author of the principal's messages in that conversation: its owner is stored as `user`."""
        return USER if info.user == self.principal.user else self.principal.user

    async def start_header(self, bundle: str = "") -> ConversationStarted:
        """Return the header of a new conversation of the principal in that bundle, or in the default one.

        Raises `bundle_unknown` or `bundle_disabled`.
        """
        bundles = self.services.bundles
        await bundles.refresh(bundle or bundles.default)
        return ConversationStarted(
            tenant=self.tenant, project=self.project, user=self.principal.user, bundle=bundles.choose(bundle)
        )

    def check_bundle(self, info: ConversationInfo, bundle: str) -> None:
        """Raise if a message to the conversation names another bundle than the conversation has."""
        if bundle and bundle != info.bundle:
            has = f"belongs to the bundle {info.bundle}" if info.bundle else "has no bundle"
            raise CodedError("request_malformed", f"the conversation {has}, and keeps it; omit bundle")

    async def require_conversation(self, conversation: str, act: ConversationAccess = "change") -> ConversationInfo:
        """Return the conversation if it belongs to this project and the principal may access it; raise otherwise.

        The error is `forbidden` for those who may only read it, and `conversation_unknown` for all others.
        Access to a conversation of another user is written to the audit log before this returns.
        """
        info = await self.services.store.info(ConversationId(conversation))
        is_here = (info.tenant, info.project) == (self.tenant, self.project)
        if not is_here or not self.principal.can_access("read", info):
            raise unknown_conversation_error(conversation)
        if not self.principal.can_access(act, info):
            # Its existence is no secret for those who may read it.
            message = f"you may read {info.id}, but only its owner and admins of the project may change it"
            raise CodedError("forbidden", message)
        if info.user != self.principal.user:
            await self.record_request(info.id, info.user)
        return info

    async def record_request(self, conversation: str = "", owner: str = "") -> None:
        """Write the request to the audit log, once per request; raise if the log cannot be written."""
        services, principal, state = self.services, self.principal, self.request.state
        if getattr(state, "audited", None) is not None:
            return
        entry = AuditEntry(
            id=f"{services.ids.bits() % 2**64:016x}",
            ts=timestamp(services.clock.epoch_us()),
            tenant=self.tenant,
            project=self.project,
            user=principal.user,
            role=principal.role,
            operation=self.operation,
            conversation_id=conversation,
            owner=owner,
            call_id=self.call_id if _CALL_IDS.fullmatch(self.call_id) else "",
        )
        await services.audit_log.add(entry)
        state.audited = entry

    async def record_response(self, status: int) -> None:
        """Write the response status to the audit log if the request is in it."""
        request_entry: AuditEntry | None = getattr(self.request.state, "audited", None)
        if request_entry is None:
            return
        response_entry = replace(request_entry, ts=timestamp(self.services.clock.epoch_us()), status=status)
        try:
            await self.services.audit_log.add(response_entry)
        except CodedError as error:
            _logger.warning(
                "audit log lacks a response", exc_info=error, extra={"fields": {"audit_id": request_entry.id}}
            )


def mounted_path(request: Request, path: str) -> str:
    """Return the path below the prefix at which another application has mounted this one."""
    return f"{request.scope.get('root_path', '')}{path}"


def unknown_conversation_error(conversation: str) -> CodedError:
    """Return the error for a conversation that does not exist or that the principal may not access."""
    return CodedError("conversation_unknown", f"no conversation has the id {conversation[:60]!r}")
