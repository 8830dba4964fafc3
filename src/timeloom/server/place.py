"""The place that is served: a store, the hub around it, and what its routes need beside them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from starlette.requests import Request

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.runtime.hub import Hub
from timeloom.server.access import Act, Caller, Doorkeeper
from timeloom.server.audit import AuditEntry, AuditTrail
from timeloom.server.histories import Histories
from timeloom.server.limits import Gate
from timeloom.server.metrics import Metrics
from timeloom.server.rules import Rules
from timeloom.server.uploads import UploadLimits

NOBODY: Final = Caller(tenant="nobody", project="nobody", user="nobody")
"""Who asks for what everybody may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """All that a server serves with."""

    store: Store
    hub: Hub
    doorkeeper: Doorkeeper
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
class Call:
    """One request, as far as it was let in."""

    place: Place
    request: Request
    caller: Caller = NOBODY
    tenant: str = ""
    project: str = ""
    info: ConversationInfo | None = None
    operation: str = ""

    @property
    def conversation(self) -> ConversationInfo:
        """The conversation that the address names, and which the caller may see."""
        assert self.info is not None
        return self.info

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
            call_id=str(self.request.path_params.get("call_id", ""))[:64],
        )
        await place.audit.add(entry)
        about.audited = entry


def unknown(conversation: str) -> CodedError:
    """What is said of a conversation that is not there, or not for whoever asks."""
    return CodedError("conversation_unknown", f"no conversation has the id {conversation[:60]!r}")
