"""Where the text of a conversation came from."""

from timeloom.core.blocks import (
    AnyBlock,
    AttachmentMeta,
    Digest,
    ExternalEvent,
    Feedback,
    Followup,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    ToolCall,
    ToolError,
    ToolTraits,
    TurnStarted,
    Unknown,
    UserPrompt,
)
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.view.text_origins import TextOrigin, TextOriginsView

TURN = TurnId("turn_1770603271112_2yz1lp")
CALL = CallId("18f62649fb3b")


def _fold(*blocks: AnyBlock) -> TextOriginsView:
    view = TextOriginsView()
    for seq, block in enumerate(blocks, 1):
        view.add(Entry(seq=seq, turn_id=TURN, ts=f"2026-02-09T02:14:{seq:02}Z", block=block))
    return view


def _result_of(tool_id: str, traits: ToolTraits | None = None) -> dict[TextOrigin, int]:
    call = ToolCall(tool_id=tool_id, tool_call_id=CALL, traits=traits)
    return _fold(call, ResultStatus(tool_call_id=CALL, text="found")).origins


def test_what_the_user_typed_is_the_users() -> None:
    assert _fold(TurnStarted(n=1), UserPrompt(text="hello")).origins == {"user": 2}


def test_each_origin_is_remembered_where_it_first_stood() -> None:
    event = ExternalEvent(kind="alert", message_id=MessageId("m1"), text="disk full")
    view = _fold(UserPrompt(text="a"), UserPrompt(text="b"), event, event)
    assert view.origins == {"user": 1, "event": 3}


def test_roles_that_a_message_quotes_have_an_origin_of_their_own() -> None:
    assert _fold(UserPrompt(text="a", quoted_roles=("tool",))).origins == {"user": 1, "quoted": 1}
    later = Followup(message_id=MessageId("m1"), text="b", quoted_roles=("assistant",))
    assert _fold(UserPrompt(text="a"), later).origins == {"user": 1, "quoted": 2}
    assert _fold(UserPrompt(text="a"), Followup(message_id=MessageId("m1"), text="b")).origins == {"user": 1}


def test_what_a_machine_or_an_unknown_block_says_comes_from_outside() -> None:
    assert _fold(Feedback(origin="machine", text="send it now")).origins == {"event": 1}
    assert _fold(Feedback(origin="user", text="well done")).origins == {}
    assert _fold(Unknown(json='{"type":"x.y","text":"send it"}', foreign_type="x.y")).origins == {"event": 1}


def test_an_attachment_is_a_file_whoever_sent_it() -> None:
    digest = Digest(artifact_path=f"fi:{TURN}.user.attachments/a.txt", mime="text/plain")
    assert _fold(AttachmentMeta(digest=digest)).origins == {"file": 1}


def test_sources_are_of_where_they_were_found() -> None:
    web = SourceRow(sid=1, title="page", url="https://example.org/")
    typed = SourceRow(sid=2, title="by hand", source_type="manual")
    assert _fold(SourcesAdded(rows=(web, typed))).origins == {"web": 1, "user": 1}


def test_the_rows_of_a_results_files_are_of_the_origin_of_the_result() -> None:
    file = SourceRow(sid=1, source_type="file", artifact_path="fi:turn_1.files/a.md", physical_path="turn_1/files/a.md")
    assert _fold(SourcesAdded(rows=(file,))).origins == {}
    assert _fold(SourcesAdded(rows=(file,), tool_call_id=CallId("c1"))).origins == {"file": 1}


def test_a_result_is_foreign_unless_it_says_only_what_the_model_wrote() -> None:
    assert _result_of("crm.lookup") == {"tool": 2}
    assert _result_of("react.read") == {"file": 2}
    assert _result_of("react.plan") == {}


def test_a_result_of_an_own_tool_is_of_the_origin_that_its_traits_say() -> None:
    assert _result_of("notes.open", ToolTraits(result_text="file")) == {"file": 2}
    assert _result_of("notes.save", ToolTraits(result_text="own")) == {}
    assert _result_of("react.read", ToolTraits()) == {"tool": 2}


def test_a_result_whose_call_is_not_known_is_foreign() -> None:
    call = ToolCall(tool_id="react.plan", tool_call_id=CALL)
    later = ResultStatus(tool_call_id=CALL, text="found")
    assert _fold(call, RoundStarted(round=2), later).origins == {"tool": 3}


def test_what_the_runtime_says_of_a_call_that_was_not_run_is_its_own() -> None:
    call = ToolCall(tool_id="crm.lookup", tool_call_id=CALL)
    error = ToolError(code="gate_refused", message="not here")
    assert _fold(call, ResultStatus(tool_call_id=CALL, text="not here", error=error)).origins == {}
