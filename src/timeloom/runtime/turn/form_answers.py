"""Reads the forms of a conversation and checks the answers of people."""

from timeloom.core.blocks import ExternalEvent, ToolCall
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId
from timeloom.core.policy.forms import Form, check_answer, encode_answer, parse_form
from timeloom.core.view.forms import FORM_EVENT
from timeloom.runtime.session.session import Session


async def read_form(session: Session, call: CallId) -> Form:
    """Return the form of that call, which waits for an answer; raise `form_unknown` or `form_answered`."""
    known = session.views.forms.forms.get(call)
    if known is None or not known.is_shown:
        raise CodedError("form_unknown", f"no call {call[:60]!r} of this conversation shows a form")
    if known.answered:
        raise CodedError("form_answered", f"the form of the call {call} is answered already")
    (entry,) = await session.entries([known.seq])
    assert isinstance(entry.block, ToolCall)
    return parse_form(await session.text(entry.block.params))


async def form_answer_text(session: Session, call: CallId, answer: str) -> str:
    """Return the text of the event for an answer, given as a JSON object; raise if it does not fit the form."""
    form = await read_form(session, call)
    return encode_answer(call, form, check_answer(form, answer))


async def make_form_event(session: Session, call: CallId, answer: str, by: str) -> ExternalEvent:
    """Return the event for the answer of that person; raise if it does not fit the form."""
    text = await form_answer_text(session, call, answer)
    message = session.new_message_id()
    return ExternalEvent(kind=FORM_EVENT, message_id=message, text=text, mime="application/json", author=by)
