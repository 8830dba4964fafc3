"""The route that lists the calls that wait for the caller's decision."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import GatedStep, pending_approvals
from timeloom.ports.reader import ConversationInfo, ConversationUnknownError, OpenTurnQuery
from timeloom.server.auth.principal import WILDCARD
from timeloom.server.conversation_states import load_progress, load_title
from timeloom.server.request_context import RequestContext

MAX_EXAMINED: Final = 1000
"""Conversations with an open turn that one request examines; the cursor then continues after them."""

STORE_PAGE: Final = 200


class ApprovalsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of the waiting calls."""

    cursor: Annotated[str, Meta(max_length=128)] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class WaitingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a decision, with its question and its conversation."""

    conversation_id: ConversationId
    title: str
    user: str
    """The owner of the conversation."""
    turn_id: TurnId
    seq: int
    tool_call_id: CallId
    tool_id: str
    text: str
    """The question."""
    policy: str
    ts: str
    """When the question was asked."""


class ApprovalsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting calls, in the order of their conversations. `cursor` requests the next page; it is empty on the last."""

    approvals: tuple[WaitingApproval, ...]
    cursor: str = ""


async def list_approvals(context: RequestContext, query: ApprovalsQuery) -> ApprovalsPage:
    """List the calls of the project that wait for a decision of the caller."""
    role, policy = context.principal.role, context.services.access_policy
    if role == "user" and policy.approvals == "approver":
        return ApprovalsPage(approvals=())
    found, examined = list[WaitingApproval](), 0
    cursor, owner = query.cursor, context.principal.user if role == "user" else ""
    while examined < MAX_EXAMINED:
        page = await context.services.store.conversations_with_open_turn(
            OpenTurnQuery(tenant=context.tenant, project=context.project, user=owner, after=cursor, limit=STORE_PAGE)
        )
        for info in page:
            if len(found) >= query.limit:
                return await _to_page(context, found, cursor)
            found += await _load_waiting(context, info)
            cursor = info.id
        examined += len(page)
        if len(page) < STORE_PAGE:
            return await _to_page(context, found, "")
    return await _to_page(context, found, cursor)


async def _to_page(context: RequestContext, found: list[WaitingApproval], cursor: str) -> ApprovalsPage:
    """Return the page; a page with conversations of other users is written to the audit log first."""
    others = {one.user for one in found} - {context.principal.user}
    if others:
        await context.record_request(owner=WILDCARD if len(others) > 1 else others.pop())
    return ApprovalsPage(approvals=tuple(found), cursor=cursor)


async def _load_waiting(context: RequestContext, info: ConversationInfo) -> list[WaitingApproval]:
    services = context.services
    try:
        steps = pending_approvals(await load_progress(services, info.id))
        title = await load_title(services, info) if steps else ""
        return [
            _to_waiting(info, title, entry, step)
            for step in steps
            # An entry that is not stored yet is in memory only; the next request finds it.
            for entry in await services.store.load(info.id, after=step.asked_seq - 1, limit=1)
        ]
    except ConversationUnknownError:
        # It was deleted since the list was read.
        return []


def _to_waiting(info: ConversationInfo, title: str, entry: Entry, step: GatedStep) -> WaitingApproval:
    return WaitingApproval(
        conversation_id=info.id,
        title=title,
        user=info.user,
        turn_id=entry.turn_id,
        seq=entry.seq,
        tool_call_id=step.call_id,
        tool_id=step.tool_id,
        text=step.question,
        policy=step.policy,
        ts=entry.ts,
    )
