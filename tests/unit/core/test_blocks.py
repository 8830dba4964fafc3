"""Blocks: no constructor makes an ill-formed one, and payloads leave and come back unchanged."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    BLOCK_CLASSES,
    BLOCK_TYPES,
    AnyBlock,
    ApprovalRequested,
    Attachment,
    ChannelText,
    Completion,
    ConversationStarted,
    Cut,
    Digest,
    ExternalEvent,
    Feedback,
    Followup,
    Gate,
    Hidden,
    ModelAnswered,
    Notes,
    Notice,
    PlansCompacted,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    SourcesAdded,
    ToolCall,
    ToolError,
    TurnStarted,
    Unknown,
    Usage,
    UserPrompt,
    WorkingSummary,
    make_tool_error,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES, extract_payloads, find_blob_refs, restore_payloads
from timeloom.core.blocks.redact import redact_block
from timeloom.core.blocks.valid_text import with_valid_text
from timeloom.core.codes import CODES, CodedError
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.payload import BlobRef, max_utf8_bytes, ref_of, size_of
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft
from timeloom.testing.strategies import blocks

CALL = CallId("c1")
FILE = "fi:turn_1.files/a.md"
ROW = SourceRow(sid=1, source_type="manual", title="x")

ILL_FORMED: list[Callable[[], object]] = [
    lambda: ConversationStarted(tenant="", project="p", user="u"),
    lambda: TurnStarted(n=0),
    lambda: Completion(text="x", n=0),
    lambda: WorkingSummary(text=""),
    lambda: ChannelText(channel="A chart", mime="text/plain", text="x", round=1),
    lambda: ChannelText(channel="chart", mime="", text="x", round=1),
    lambda: ChannelText(channel="chart", mime="text/plain", text="x", round=1, n=0),
    lambda: RangeSummary(covered_turn_ids=(), text="x"),
    lambda: RangeSummary(covered_turn_ids=(), text="x", first_seq=3, last_seq=2),
    lambda: SourcesAdded(rows=()),
    lambda: SourcesAdded(rows=(ROW,) * 1 + tuple(msgspec.structs.replace(ROW, sid=n) for n in range(2, 600))),
    lambda: ToolCall(tool_id="", tool_call_id=CALL),
    lambda: ToolCall(tool_id="x", tool_call_id=CallId("a/b")),
    lambda: ToolCall(tool_id="x", tool_call_id=CALL, params="[]"),
    lambda: ToolCall(tool_id="x", tool_call_id=CALL, params='{"a": NaN}'),
    lambda: ToolCall(tool_id="x", tool_call_id=CALL, params='{"a": "\ud800"}'),
    lambda: ToolCall(tool_id="x", tool_call_id=CALL, params='{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    lambda: ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path="fi:turn_1.files/../x")),
    lambda: ResultContent(tool_call_id=CALL, artifact_path="report.md", mime="text/plain"),
    lambda: ResultContent(tool_call_id=CALL, artifact_path=FILE, mime="text/plain", text="a", data=b"a"),
    lambda: Attachment(artifact_path="tc:turn_1.tool_calls.x.out.json", mime="text/plain"),
    lambda: Hidden(target="everything", replacement="x"),
    lambda: Hidden(target=FILE, replacement=""),
    lambda: Pruned(cuts=()),
    lambda: Pruned(cuts=(Cut(1, 4), Cut(4, 5))),
    lambda: Cut(0, 4),
    lambda: PlansCompacted(plans=()),
    lambda: Feedback(origin="machine", confidence=1.5),
    lambda: ExternalEvent(kind="Form", message_id=MessageId("m")),
    lambda: Followup(message_id=MessageId(""), text="x"),
    lambda: Usage(output_tokens=-1),
    lambda: Notes(tool_call_id=CALL, text=""),
    lambda: Notice(code="x", text="y", tool_call_id=CallId("")),
    lambda: Gate(policy="x", verdict="allow", tool_call_id=CallId("")),
    lambda: ApprovalRequested(tool_call_id=CALL, tool_id="", text="x"),
    lambda: ModelAnswered(round=0, model="m", stop_reason="end"),
    lambda: Unknown(json="[]"),
    lambda: Shown("whole", 3, "text"),
    lambda: Shown("preview", 3),
]


@pytest.mark.parametrize("make", ILL_FORMED)
def test_an_ill_formed_block_cannot_be_made(make: Callable[[], object]) -> None:
    with pytest.raises(CodedError):
        make()


def test_every_type_has_a_class_and_every_class_a_type() -> None:
    assert {cls.type_name for cls in BLOCK_CLASSES} - {"unknown"} == set(BLOCK_TYPES)
    assert BLOCK_TYPES["react.tool.result"] is ResultDigest


def test_a_notice_without_a_call_and_a_title_have_no_path() -> None:
    turn = TurnId("turn_1")
    assert Notice(code="x", text="y").path(turn) == ""
    assert Notice(code="x", text="y", tool_call_id=CALL).path(turn) == "tc:turn_1.c1.notice"
    assert Notice(code="x", text="y").alias(turn) == ""


def test_errors_of_our_own_have_registered_codes() -> None:
    assert make_tool_error("tool_timeout", "60 s passed").code in CODES
    with pytest.raises(KeyError):
        make_tool_error("no_such_code", "x")
    with pytest.raises(KeyError):
        CodedError("no_such_code", "x")


@given(blocks, st.integers(0, 30))
def test_payloads_come_back_as_they_went(block: AnyBlock, inline_bytes: int) -> None:
    before = set(find_blob_refs(block))
    small, taken = extract_payloads(block, inline_bytes)
    assert set(find_blob_refs(small)) == before | set(taken)
    known = dict.fromkeys(before, b"")
    if not before:
        assert restore_payloads(small, lambda ref: (taken | known)[ref]) == block
    assert extract_payloads(small, inline_bytes) == (small, {})


def test_bytes_never_stay_in_the_block_and_short_text_does() -> None:
    small, taken = extract_payloads(ResultContent(tool_call_id=CALL, artifact_path=FILE, mime="image/png", data=b"x"))
    assert small.data == ref_of(b"x")
    assert taken == {ref_of(b"x"): b"x"}
    assert extract_payloads(UserPrompt(text="é" * (INLINE_BYTES // 2)))[1] == {}


def test_the_body_of_a_source_leaves_its_row() -> None:
    rows = (msgspec.structs.replace(ROW, content="y" * (INLINE_BYTES + 1)), ROW)
    small, taken = extract_payloads(SourcesAdded(rows=rows))
    assert isinstance(small.rows[0].content, BlobRef)
    assert small.rows[1] == ROW
    assert restore_payloads(small, taken.__getitem__).rows == rows


def test_a_drafts_payloads_are_its_blocks_and_its_originals() -> None:
    long = "x" * (INLINE_BYTES + 1)
    draft = Draft(
        TurnId("turn_1"), "2026-02-09T02:14:32Z", UserPrompt(text=long), original='{"type": "user.prompt"}' + long
    )
    small, taken = extract_payloads(draft)
    assert len(find_blob_refs(small)) == len(taken) == 2
    assert restore_payloads(small, taken.__getitem__) == draft


@pytest.mark.parametrize("payload", ["é", "é".encode(), ref_of("é".encode())])
def test_a_payload_has_its_size_wherever_it_is(payload: str | bytes | BlobRef) -> None:
    assert size_of(payload) == 2
    assert not isinstance(payload, str) or max_utf8_bytes(payload) >= 2
    assert max_utf8_bytes("ab") == 2


HALF, WHOLE = "a\ud83d", "a\ufffd"


def test_text_with_half_a_character_becomes_valid_wherever_it_stands() -> None:
    error = ToolError(code="x", message=HALF, details={HALF: HALF, "n": 1})
    valid = with_valid_text(ResultStatus(tool_call_id=CALL, text=HALF, error=error))
    assert valid.text == WHOLE
    assert valid.error == ToolError(code="x", message=WHOLE, details={WHOLE: WHOLE, "n": 1})
    rows = with_valid_text(SourcesAdded(rows=(ROW, msgspec.structs.replace(ROW, sid=2, title="é")))).rows
    assert rows == (ROW, msgspec.structs.replace(ROW, sid=2, title="é"))
    assert with_valid_text(Completion(text="x", suggested_followups=("ok", HALF))).suggested_followups == ("ok", WHOLE)


@given(blocks)
def test_valid_text_is_not_copied(block: AnyBlock) -> None:
    assert with_valid_text(block) is block


def test_an_erased_channel_keeps_its_path_and_is_plain_text_without_a_widget() -> None:
    turn = TurnId("turn_1")
    block = ChannelText(channel="chart", mime="application/json", text="[1]", round=1, n=2, widget="bars")
    erased = redact_block(block)
    assert isinstance(erased, ChannelText)
    assert (erased.path(turn), erased.alias(turn)) == ("ar:turn_1.channel.chart.2", "ar:turn_1.channel.chart")
    assert (erased.text, erased.mime_type(), erased.widget, erased.erased) == ("[ERASED]", "text/plain", "", True)
