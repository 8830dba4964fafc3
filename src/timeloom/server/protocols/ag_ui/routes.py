"""The AG-UI route: maps runs to turns and threads to conversations."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, IdError, parse_conversation_id
from timeloom.ports.reader import ConversationInfo
from timeloom.runtime.hub.state import SendReceipt
from timeloom.server.authorize import authorize
from timeloom.server.history_match import HistoryMessage, quoted_roles, with_history
from timeloom.server.protocols.ag_ui.events import (
    AgUiContentPart,
    AgUiMessage,
    InterruptAnswer,
    InterruptDecision,
    RunBody,
)
from timeloom.server.protocols.ag_ui.run import RunStream, RunTranslator
from timeloom.server.protocols.send_and_stream import send_and_stream
from timeloom.server.request_context import RequestContext
from timeloom.server.routes.chat import DecisionBody, submit_decision

SendMessage = Callable[[], Awaitable[SendReceipt]]


async def post_run(context: RequestContext, body: RunBody) -> RunStream:
    """Send the last message to the thread's conversation, or decide its interrupts, and stream the turn."""
    if body.tools:
        raise CodedError("request_malformed", "tools must be empty; the agent uses only its configured tools")
    if body.resume:
        conversation, send = await _prepare_decisions(context, body.thread_id, body.resume)
    else:
        conversation, send = await _prepare_message(context, body)
    sent = await send_and_stream(context.services, conversation, send)
    context.request.state.accepted = sent.accepted
    return RunStream(sent.opened, context.services.drain_timeout_s, encoder=RunTranslator(body, sent.accepted))


async def _prepare_message(context: RequestContext, body: RunBody) -> tuple[ConversationId, SendMessage]:
    hub = context.services.hub
    history, message = _split_messages(body.messages)
    info = await _find_conversation(context, body.thread_id)
    bundle = _read_bundle(body)
    if info is not None:
        context.check_bundle(info, bundle)
        conversation, author = info.id, context.author_in(info)
        return conversation, lambda: hub.send_message(conversation, message, author=author)
    header = await context.start_header(bundle)
    conversation = (await hub.create_empty(header, _derive_conversation_id(context, body.thread_id))).id
    first, quoted = with_history(history, message), quoted_roles(history)
    return conversation, lambda: hub.send_message(conversation, first, quoted_roles=quoted)


def _read_bundle(body: RunBody) -> str:
    """Return the bundle that the forwarded properties name; clients put values of their own there too."""
    props = cast("object", body.forwarded_props)
    bundle = cast("dict[str, object]", props).get("bundle", "") if isinstance(props, dict) else ""
    if not isinstance(bundle, str):
        raise CodedError("request_malformed", "forwardedProps.bundle must be the name of a bundle")
    return bundle


async def _prepare_decisions(
    context: RequestContext, thread: str, resume: tuple[InterruptAnswer, ...]
) -> tuple[ConversationId, SendMessage]:
    """Authorize the decisions; return the conversation and the function that submits them."""
    decider = await _authorize_decider(context, thread, ",".join(one.interrupt_id for one in resume))

    async def send() -> SendReceipt:
        accepted: SendReceipt | None = None
        for one in resume:
            decision = one.payload or InterruptDecision()
            approved = one.status == "resolved" and decision.approved
            done = await submit_decision(decider, one.interrupt_id, DecisionBody(approved=approved, text=decision.text))
            accepted = accepted or done
        assert accepted is not None
        return accepted

    return decider.conversation.id, send


async def _authorize_decider(context: RequestContext, thread: str, call_ids: str) -> RequestContext:
    """Authorize a decision in the thread's conversation; the thread is its id, or the id is derived from the thread."""
    for name in (thread, _derive_conversation_id(context, thread)):
        names = {"tenant": context.tenant, "project": context.project, "conversation_id": name, "call_id": call_ids}
        try:
            return await authorize(context.services, "decider", context.request, names, context.operation)
        except CodedError as error:
            if error.code != "conversation_unknown":
                raise
    raise CodedError("approval_unknown", "no call of this thread waits for a decision")


async def _find_conversation(context: RequestContext, thread: str) -> ConversationInfo | None:
    """Return the thread's conversation; None if there is none. The thread is its id, or the id is derived from it."""
    for name in (thread, _derive_conversation_id(context, thread)):
        try:
            return await context.require_conversation(parse_conversation_id(name))
        except IdError:
            continue
        except CodedError as error:
            if error.code != "conversation_unknown":
                raise
    return None


def _derive_conversation_id(context: RequestContext, thread: str) -> ConversationId:
    """Return the conversation id derived from the thread: stable for one user, different for other users."""
    key = msgspec.json.encode((context.tenant, context.project, context.principal.user, thread))
    return ConversationId(f"conv_agui_{hashlib.sha256(key).hexdigest()[:32]}")


def _split_messages(messages: tuple[AgUiMessage, ...]) -> tuple[tuple[HistoryMessage, ...], str]:
    """Return the earlier messages and the text of the last one."""
    if not messages or messages[-1].role != "user" or not (message := _text(messages[-1])).strip():
        raise CodedError("request_malformed", "the last message must have the role user and a text")
    earlier = [one for one in messages[:-1] if one.role not in ("activity", "reasoning")]
    return tuple(HistoryMessage(one.role, _text(one)) for one in earlier), message


def _text(message: AgUiMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    if not isinstance(message.content, tuple):
        return ""
    for part in message.content:
        _require_text(part)
    return "".join(part.text for part in message.content)


def _require_text(part: AgUiContentPart) -> None:
    if part.type != "text":
        raise CodedError("request_malformed", f"only text parts are supported, got type {part.type[:40]!r}")
