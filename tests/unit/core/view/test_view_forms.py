"""The view of forms: which wait for an answer."""

from timeloom.core.blocks import AnyBlock, ExternalEvent, ResultStatus, ToolCall, ToolError
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.timeline import Draft, to_entry
from timeloom.core.view.forms import FormsView
from timeloom.core.view.views import fold

TURN, TS = TurnId("turn_1"), "2026-02-09T02:14:32Z"
CALL, OTHER = CallId("0123456789ab"), CallId("0123456789ac")


def forms(*blocks: AnyBlock) -> FormsView:
    return fold(to_entry(Draft(TURN, TS, block), seq) for seq, block in enumerate(blocks, 1)).forms


def ask(call: CallId = CALL, error: ToolError | None = None) -> tuple[AnyBlock, ...]:
    return ToolCall(tool_id="react.form", tool_call_id=call), ResultStatus(tool_call_id=call, text="x", error=error)


def event(text: str, kind: str = "form") -> ExternalEvent:
    return ExternalEvent(kind=kind, message_id=MessageId("m1"), text=text)


def test_a_form_waits_until_its_answer() -> None:
    assert forms(*ask()).open_forms() == [CALL]
    answered = forms(*ask(), *ask(OTHER), event(f'{{"form":"{CALL}","values":{{}}}}'), event(f'{{"form":"{CALL}"}}'))
    assert answered.open_forms() == [OTHER]
    assert answered.forms[CALL].answered == 5


def test_a_form_whose_call_failed_or_runs_does_not_wait() -> None:
    assert forms(*ask(error=ToolError("form_malformed", "no"))).open_forms() == []
    assert forms(ask()[0]).open_forms() == []


def test_other_events_and_calls_answer_nothing() -> None:
    others = (
        event("yes"),
        event('{"form": 3}'),
        event(f'{{"form":"{OTHER}"}}'),
        event(f'{{"form":"{CALL}"}}', "alert"),
    )
    assert forms(*ask(), *others).open_forms() == [CALL]
    stored = ExternalEvent(kind="form", message_id=MessageId("m1"), text=ref_of(b"x"))
    assert forms(*ask(), stored).open_forms() == [CALL]
    call = ToolCall(tool_id="t.look", tool_call_id=CALL)
    assert forms(call, ResultStatus(tool_call_id=CALL, text="x"), event(f'{{"form":"{CALL}"}}')).forms == {}
