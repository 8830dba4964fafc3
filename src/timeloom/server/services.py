"""Services that all request handlers share, and the context of one request."""

import logging
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.runtime.hub.hub import Hub
from timeloom.runtime.hub.live_conversation import USER
from timeloom.server.auth.access_policy import Rules
from timeloom.server.auth.audit_log import AuditEntry, AuditTrail
from timeloom.server.auth.authenticate import Act, Caller, Doorkeeper, token_of
from timeloom.server.auth.revocation import End, Watch
from timeloom.server.history_match import Histories
from timeloom.server.http.uploads import UploadLimits
from timeloom.server.observability.metrics import Metrics
from timeloom.server.rate_limit import Gate
from timeloom.server.rerun_jobs import Reruns

_CALLS: Final = re.compile(r"[A-Za-z0-9_,-]{0,200}")
"""The form of call ids that the audit log accepts. Any other text could be a part of a message, so it is left out."""

_logger = logging.getLogger(__name__)

NOBODY: Final = Caller(tenant="nobody", project="nobody", user="nobody")
"""The principal of requests that need no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services and limits of one server."""

    store: Store
    hub: Hub
    reruns: Reruns
    doorkeeper: Doorkeeper
    watch: Watch
    audit: AuditTrail
    workspaces: Path
    """The folder that contains one folder of files per conversation."""
    clock: Clock
    ids: Ids
    max_body_bytes: int
    tenant: str = "local"
    project: str = "default"
    """Used by keys for all tenants or projects on routes that name none; `timeloom chat` uses the same."""
    histories: Histories = field(default_factory=Histories)
    leave_s: float = 3.0
    """Seconds that a client may take to receive the last event of its stream before the connection is closed."""
    uploads: UploadLimits = field(default_factory=UploadLimits)
    rules: Rules = field(default_factory=Rules)
    gate: Gate = field(default_factory=Gate)
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def data_dir(self) -> Path:
        """The data folder, which contains the workspaces."""
        return self.workspaces.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """An authorized request: its principal, its project and, where the route names one, its conversation."""

    place: Services
    request: Request
    caller: Caller = NOBODY
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

    def watched(self, end: End) -> AbstractContextManager[None]:
        """Call `end` if the token is revoked or its principal changes while the returned context is open."""
        return self.place.watch.over(token_of(self.request), self.caller, end)

    def author_in(self, info: ConversationInfo) -> str:
        """Return the author of the principal's messages in that conversation: its owner is stored as `user`."""
        return USER if info.user == self.caller.user else self.caller.user

    async def visible(self, conversation: str, act: Act = "change") -> ConversationInfo:
        """Return the conversation if it belongs to this project and the principal may access it; raise otherwise.

        Access to a conversation of another user is written to the audit log before this returns.
        """
        info = await self.place.store.info(ConversationId(conversation))
        if (info.tenant, info.project) != (self.tenant, self.project) or not self.caller.may(act, info):
            raise unknown(conversation)
        if info.user != self.caller.user:
            await self.record(info.id, info.user)
        return info

    async def record(self, conversation: str = "", owner: str = "") -> None:
        """Write the request to the audit log, once per request; raise if the log cannot be written."""
        place, caller, about = self.place, self.caller, self.request.state
        if getattr(about, "audited", None) is not None:
            return
        entry = AuditEntry(
            id=f"{place.ids.bits() % 2**64:016x}",
            ts=timestamp(place.clock.epoch_us()),
            tenant=self.tenant,
            project=self.project,
            user=caller.user,
            role=caller.role,
            operation=self.operation,
            conversation_id=conversation,
            owner=owner,
            call_id=self.call_id if _CALLS.fullmatch(self.call_id) else "",
        )
        await place.audit.add(entry)
        about.audited = entry

    async def record_end(self, status: int) -> None:
        """Write the response status to the audit log if the request is in it."""
        asked: AuditEntry | None = getattr(self.request.state, "audited", None)
        if asked is None:
            return
        ended = replace(asked, ts=timestamp(self.place.clock.epoch_us()), status=status)
        try:
            await self.place.audit.add(ended)
        except CodedError as error:
            _logger.warning("audit log lacks a response", exc_info=error, extra={"fields": {"audit_id": asked.id}})


def unknown(conversation: str) -> CodedError:
    """Return the error for a conversation that does not exist or that the principal may not access."""
    return CodedError("conversation_unknown", f"no conversation has the id {conversation[:60]!r}")
