"""The place that is served: a store, the hub around it, and what its routes need beside them."""

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
"""Names of calls as the audit trail has them: what is none could be what somebody said."""

_logger = logging.getLogger(__name__)

NOBODY: Final = Caller(tenant="nobody", project="nobody", user="nobody")
"""Who asks for what everybody may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All that a server serves with."""

    store: Store
    hub: Hub
    reruns: Reruns
    doorkeeper: Doorkeeper
    watch: Watch
    audit: AuditTrail
    workspaces: Path
    """The folder with a folder of files for each conversation."""
    clock: Clock
    ids: Ids
    max_body_bytes: int
    tenant: str = "local"
    project: str = "default"
    """Where a key of all tenants or projects is, at addresses that name none; `timeloom chat` is there, too."""
    histories: Histories = field(default_factory=Histories)
    leave_s: float = 3.0
    """How long a reader may take for the last event of its stream; then it is left without."""
    uploads: UploadLimits = field(default_factory=UploadLimits)
    rules: Rules = field(default_factory=Rules)
    gate: Gate = field(default_factory=Gate)
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def data_dir(self) -> Path:
        """The data folder, in which the workspaces lie."""
        return self.workspaces.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One request, as far as it was let in."""

    place: Services
    request: Request
    caller: Caller = NOBODY
    tenant: str = ""
    project: str = ""
    info: ConversationInfo | None = None
    operation: str = ""
    call_id: str = ""
    """The call that is decided on, or several of them, as far as the request says."""

    @property
    def conversation(self) -> ConversationInfo:
        """The conversation that the address names, and which the caller may see."""
        assert self.info is not None
        return self.info

    def watched(self, end: End) -> AbstractContextManager[None]:
        """A connection that the caller keeps, which is ended once their token has lost what it stood for."""
        return self.place.watch.over(token_of(self.request), self.caller, end)

    def author_in(self, info: ConversationInfo) -> str:
        """Whose words the caller's are in that conversation: of whoever it belongs to they are the user's."""
        return USER if info.user == self.caller.user else self.caller.user

    async def visible(self, conversation: str, act: Act = "change") -> ConversationInfo:
        """The conversation of that id, if it is of this project and the caller may do that to it.

        That somebody is let in to what is not their own is on the audit trail before they are.
        """
        info = await self.place.store.info(ConversationId(conversation))
        if (info.tenant, info.project) != (self.tenant, self.project) or not self.caller.may(act, info):
            raise unknown(conversation)
        if info.user != self.caller.user:
            await self.record(info.id, info.user)
        return info

    async def record(self, conversation: str = "", owner: str = "") -> None:
        """Puts on the audit trail what is asked for; raises where that cannot be kept."""
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
        """Puts on the audit trail what was answered; that it was asked for is there already, if it has to be."""
        asked: AuditEntry | None = getattr(self.request.state, "audited", None)
        if asked is None:
            return
        ended = replace(asked, ts=timestamp(self.place.clock.epoch_us()), status=status)
        try:
            await self.place.audit.add(ended)
        except CodedError as error:
            _logger.warning("the audit trail lacks an answer", exc_info=error, extra={"fields": {"audit_id": asked.id}})


def unknown(conversation: str) -> CodedError:
    """What is said of a conversation that is not there, or not for whoever asks."""
    return CodedError("conversation_unknown", f"no conversation has the id {conversation[:60]!r}")
