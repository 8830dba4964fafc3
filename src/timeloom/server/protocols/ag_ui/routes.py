"""The AG-UI route: maps runs to turns and threads to conversations."""

import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, IdError, conversation_id
from timeloom.ports.reader import ConversationInfo
from timeloom.runtime.hub.live_conversation import Accepted
from timeloom.server.authorize import let_in
from timeloom.server.history_match import Line, with_history
from timeloom.server.http.sse import EventStream
from timeloom.server.protocols.ag_ui.events import Decision, Message, Part, Resume, RunBody
from timeloom.server.protocols.ag_ui.run import Run
from timeloom.server.protocols.send_and_stream import ask
from timeloom.server.routes.chat import DecisionBody, decide
from timeloom.server.services import RequestContext

Sending = Callable[[], Awaitable[Accepted]]


async def post_run(call: RequestContext, body: RunBody) -> EventStream:
    """Send the last message to the thread's conversation, or decide its interrupts, and stream the turn."""
    if body.tools:
        raise CodedError("request_malformed", "tools must be empty; the agent uses only its configured tools")
    if body.resume:
        conversation, send = await _deciding(call, body.thread_id, body.resume)
    else:
        conversation, send = await _saying(call, body)
    asked = await ask(call.place, conversation, send)
    call.request.state.accepted = asked.accepted
    return EventStream(asked.opened, call.place.leave_s, frames=Run(body, asked.accepted))


async def _saying(call: RequestContext, body: RunBody) -> tuple[ConversationId, Sending]:
    hub = call.place.hub
    lines, message = _divided(body.messages)
    info = await _known(call, body.thread_id)
    if info is None:
        header = ConversationStarted(tenant=call.tenant, project=call.project, user=call.caller.user)
        info, message = await hub.found(header, _own_id(call, body.thread_id)), with_history(lines, message)
    conversation, author = info.id, call.author_in(info)
    return conversation, lambda: hub.say(conversation, message, author=author)


async def _deciding(call: RequestContext, thread: str, resume: tuple[Resume, ...]) -> tuple[ConversationId, Sending]:
    """Authorize the decisions; return the conversation and the function that submits them."""
    decider = await _decider(call, thread, ",".join(one.interrupt_id for one in resume))

    async def send() -> Accepted:
        accepted: Accepted | None = None
        for one in resume:
            said = one.payload or Decision()
            approved = one.status == "resolved" and said.approved
            done = await decide(decider, one.interrupt_id, DecisionBody(approved=approved, text=said.text))
            accepted = accepted or done
        assert accepted is not None
        return accepted

    return decider.conversation.id, send


async def _decider(call: RequestContext, thread: str, called: str) -> RequestContext:
    """Authorize a decision in the thread's conversation; the thread is its id, or the id is derived from the thread."""
    for name in (thread, _own_id(call, thread)):
        names = {"tenant": call.tenant, "project": call.project, "conversation_id": name, "call_id": called}
        try:
            return await let_in(call.place, "decider", call.request, names, call.operation)
        except CodedError as error:
            if error.code != "conversation_unknown":
                raise
    raise CodedError("approval_unknown", "no call of this thread waits for a decision")


async def _known(call: RequestContext, thread: str) -> ConversationInfo | None:
    """Return the thread's conversation; None if there is none. The thread is its id, or the id is derived from it."""
    for name in (thread, _own_id(call, thread)):
        try:
            return await call.visible(conversation_id(name))
        except IdError:
            continue
        except CodedError as error:
            if error.code != "conversation_unknown":
                raise
    return None


def _own_id(call: RequestContext, thread: str) -> ConversationId:
    """Return the conversation id derived from the thread: stable for one user, different for other users."""
    said = msgspec.json.encode((call.tenant, call.project, call.caller.user, thread))
    return ConversationId(f"conv_agui_{hashlib.sha256(said).hexdigest()[:32]}")


def _divided(messages: tuple[Message, ...]) -> tuple[tuple[Line, ...], str]:
    """Return the earlier messages and the text of the last one."""
    if not messages or messages[-1].role != "user" or not (message := _text(messages[-1])).strip():
        raise CodedError("request_malformed", "the last message must have the role user and a text")
    spoken = [one for one in messages[:-1] if one.role not in ("activity", "reasoning")]
    return tuple(Line(one.role, _text(one)) for one in spoken), message


def _text(message: Message) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    if not isinstance(message.content, tuple):
        return ""
    for part in message.content:
        _need_text(part)
    return "".join(part.text for part in message.content)


def _need_text(part: Part) -> None:
    if part.type != "text":
        raise CodedError("request_malformed", f"only text parts are supported, got type {part.type[:40]!r}")
