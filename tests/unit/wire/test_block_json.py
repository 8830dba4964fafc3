"""The JSON form of blocks is exact and lossless, and accepts unknown fields."""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    BLOCK_CLASSES,
    Attachment,
    BlockError,
    Completion,
    Digest,
    Hosting,
    Notes,
    PlanRecorded,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    ToolCall,
    Unknown,
    UserPrompt,
)
from timeloom.core.ids import CallId, PlanId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.timeline import Draft
from timeloom.testing.samples import sample_drafts
from timeloom.testing.strategies import drafts
from timeloom.wire.block_json import decode_block, encode_block
from timeloom.wire.layouts import UNKNOWN_CALL
from timeloom.wire.record import decode_record, encode_record

TURN = TurnId("turn_1")
TS = "2026-02-09T02:14:32.676425Z"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def as_json(draft: Draft) -> dict[str, object]:
    return json.loads(encode_block(draft))


def from_json(value: dict[str, object]) -> Draft:
    return decode_block(json.dumps(value).encode(), TS)


def test_there_is_a_sample_of_every_class() -> None:
    assert {type(draft.block) for draft in sample_drafts()} == set(BLOCK_CLASSES)


@pytest.mark.parametrize("draft", sample_drafts(), ids=lambda draft: draft.block.type_name)
def test_every_sample_comes_back_equal(draft: Draft) -> None:
    again = decode_block(encode_block(draft), TS)
    assert again.block == draft.block
    assert (again.original, encode_block(again)) == ("", encode_block(draft))


@given(drafts)
def test_every_block_comes_back_equal(draft: Draft) -> None:
    again = decode_block(encode_block(draft), TS)
    assert again.block == draft.block or isinstance(draft.block, Unknown)
    assert encode_block(again) == encode_block(draft)


@given(drafts, st.dictionaries(st.text(min_size=1, max_size=6), json_values, max_size=3), st.data())
def test_unknown_fields_survive_anywhere(draft: Draft, extra: dict[str, object], data: st.DataObject) -> None:
    value = as_json(draft)
    if data.draw(st.booleans()):
        value = extra | value
    else:
        value["meta"] = extra | dict(value.get("meta") or {})  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert as_json(from_json(value)) == value


known_types = st.sampled_from(
    ("react.tool.call", "react.plan", "conv.sources.added", "react.plan.history", "turn.header", "odd")
)


@given(
    st.dictionaries(st.sampled_from(("ts", "turn_id", "path", "text", "meta", "mime", "x")), json_values, max_size=5),
    known_types,
)
def test_any_object_survives(value: dict[str, object], type_name: str) -> None:
    value["type"] = type_name
    assert as_json(from_json(value)) == value


@pytest.mark.parametrize(
    "odd", [r'"\ud800"', "1e400", "9" * 5001, "-0.0", "[" * 300 + "]" * 300, r'"\u0000"', '{"\\udc00":1}', "1E-999"]
)
def test_an_object_with_what_no_typed_value_has_is_kept(odd: str) -> None:
    data = f'{{"type": "react.thinking", "turn_id": "turn_1", "x": {odd}, "text": "a"}}'.encode()
    draft = decode_block(data, TS)
    assert draft.turn_id == "turn_1"
    assert encode_block(draft) == data
    assert decode_record(encode_record(draft), 1).block == draft.block


def test_a_number_that_no_count_has_makes_no_typed_block() -> None:
    draft = from_json({"type": "react.round.start", "turn_id": "turn_1", "meta": {"round": 10**30}})
    assert isinstance(draft.block, Unknown)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"type": NaN}',
        b'{"type": "x", "y": Infinity}',
        b"\xff{}",
        b'"text"',
        b'{"type": "x"',
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_what_is_not_an_object_is_refused(data: bytes) -> None:
    with pytest.raises(BlockError):
        decode_block(data, TS)


def test_an_object_of_unknown_type_keeps_its_place() -> None:
    draft = from_json({"type": "new.kind", "turn_id": "turn_7", "ts": TS, "path": "fi:turn_7.files/x"})
    assert isinstance(draft.block, Unknown)
    assert (draft.turn_id, draft.block.foreign_type, draft.block.foreign_path) == (
        "turn_7",
        "new.kind",
        "fi:turn_7.files/x",
    )


def test_a_prompt_has_the_documented_form() -> None:
    assert as_json(Draft(TURN, TS, UserPrompt(text="hello"))) == {
        "type": "user.prompt",
        "author": "user",
        "turn_id": "turn_1",
        "ts": TS,
        "mime": "text/markdown",
        "path": "ar:turn_1.user.prompt",
        "text": "hello",
    }


def test_a_call_carries_its_payload_as_json_text() -> None:
    call = ToolCall(tool_id="react.write", tool_call_id=CallId("abc"), params='{"path":"a.md"}')
    value = as_json(Draft(TURN, TS, call))
    assert value["path"] == "tc:turn_1.abc.call"
    assert value["text"] == f'{{"tool_id":"react.write","tool_call_id":"abc","params":{{"path":"a.md"}},"ts":"{TS}"}}'


def test_notes_say_their_channel() -> None:
    value = as_json(Draft(TURN, TS, Notes(tool_call_id=CallId("abc"), text="Drafting")))
    assert value["path"] == "ar:turn_1.react.notes.abc"
    assert value["meta"] == {"tool_call_id": "abc", "channel": "timeline_text"}


def test_metadata_is_a_digest_without_hosting() -> None:
    digest = Digest(
        artifact_path="fi:turn_1.files/report.md", physical_path="turn_1/files/report.md", kind="display", tokens=12
    )
    value = as_json(Draft(TURN, TS, ResultDigest(tool_call_id=CallId("abc"), digest=digest)))
    assert value["path"] == "tc:turn_1.abc.result"
    assert json.loads(str(value["text"])) == {
        "artifact_path": "fi:turn_1.files/report.md",
        "physical_path": "turn_1/files/report.md",
        "kind": "display",
        "tokens": 12,
        "tool_call_id": "abc",
    }


def test_a_file_says_where_it_is_hosted_in_its_meta() -> None:
    content = ResultContent(
        tool_call_id=CallId("abc"),
        artifact_path="fi:turn_1.files/report.pdf",
        mime="application/pdf",
        data=b"%PDF",
        hosting=Hosting(hosted_uri="s3://x", rn="ef:x", key="k"),
    )
    value = as_json(Draft(TURN, TS, content))
    assert value["base64"] == "JVBERg=="
    assert value["meta"] == {
        "tool_call_id": "abc",
        "hosted_uri": "s3://x",
        "rn": "ef:x",
        "key": "k",
        "physical_path": "turn_1/files/report.pdf",
        "role": "content",
    }


def test_a_plan_has_its_statuses_by_number() -> None:
    snapshot = PlanSnapshot(plan_id=PlanId("plan:turn_1:abcd"), steps=("look", "write"), statuses=("done", "pending"))
    value = as_json(Draft(TURN, TS, PlanRecorded(snapshot=snapshot)))
    assert value["path"] == "ar:turn_1.react.plan.plan:turn_1:abcd"
    assert json.loads(str(value["text"]))["status"] == {"1": "done", "2": "pending"}


def test_an_answer_has_the_bare_path_and_says_its_number() -> None:
    value = as_json(Draft(TURN, TS, Completion(text="done", n=2)))
    assert (value["path"], value["meta"]) == ("ar:turn_1.assistant.completion", {"n": 2})


def test_a_summary_names_the_turns_it_covers() -> None:
    value = as_json(Draft(TURN, TS, RangeSummary(covered_turn_ids=(TURN,), text="so far")))
    assert value["meta"] == {"covered_turn_ids": ["turn_1"]}


def test_a_stored_payload_is_named_instead_of_shown() -> None:
    ref = ref_of(b"long")
    value = as_json(Draft(TURN, TS, UserPrompt(text=ref)))
    assert "text" not in value
    assert value["meta"] == {"blobs": {"text": {"sha256": ref.sha256, "size_bytes": 4}}}


def test_a_call_whose_parameters_are_stored_names_them_beside_itself() -> None:
    ref = ref_of(b'{"x": 1}')
    draft = Draft(TURN, TS, ToolCall(tool_id="a.b", tool_call_id=CallId("c1"), params=ref))
    value = as_json(draft)
    assert json.loads(str(value["text"])) == {"tool_id": "a.b", "tool_call_id": "c1", "ts": TS}
    assert value["meta"] == {"blobs": {"params": {"sha256": ref.sha256, "size_bytes": 8}}}
    assert from_json(value) == draft


def test_older_spellings_are_understood_and_given_back() -> None:
    call = {"type": "react.tool.call", "path": "tc:turn_123.tool_calls.abc123.in.json", "turn_id": "turn_123"}
    call["text"] = json.dumps(
        {"tool_id": "web_tools.web_search", "tool_call_id": "abc123", "reasoning": "", "params": {}}
    )
    result = {"type": "react.tool.result", "call_id": "abc123", "mime": "application/json"}
    result |= {"path": "tc:turn_123.tool_calls.abc123.out.json", "text": '{"error": {"code": "missing_artifact"}}'}
    meta = result | {"text": '{"artifact_path": "fi:turn_123.files/x.pdf"}'}
    file = {
        "type": "react.tool.result",
        "path": "fi:turn_123.files/x.pdf",
        "mime": "application/pdf",
        "base64": "JVBERg==",
    }
    file |= {"meta": {"tool_call_id": "abc123"}}
    found = [from_json(value) for value in (call, result, meta, file)]  # pyright: ignore[reportArgumentType]
    assert [type(draft.block) for draft in found] == [ToolCall, ResultStatus, ResultDigest, ResultContent]
    assert {getattr(draft.block, "tool_call_id", "") for draft in found} == {"abc123"}
    assert [as_json(draft) for draft in found] == [call, result, meta, file]


def test_a_call_whose_text_was_shortened_is_still_a_call() -> None:
    text = '{"tool_id": "react.write", "tool_call_id": "c7", "params": {"content": "# Plan... [see x]", ...}}'
    value: dict[str, object] = {"type": "react.tool.call", "path": "tc:turn_1.c7.call", "text": text}
    draft = from_json(value)
    assert draft.block == ToolCall(tool_id="react.write", tool_call_id=CallId("c7"), params="{}")
    assert as_json(draft) == value


@pytest.mark.parametrize("text", ["...", '{"tool_id": 7, ...', '{"tool_id": "a.b", "tool_call_id": 7}'])
def test_a_call_that_names_no_tool_is_kept_as_it_came(text: str) -> None:
    value: dict[str, object] = {"type": "react.tool.call", "path": "tc:turn_1.c7.call", "text": text}
    draft = from_json(value)
    assert isinstance(draft.block, Unknown)
    assert as_json(draft) == value


def test_a_file_that_names_no_call_is_still_the_content_of_a_file() -> None:
    path = "fi:turn_1.files/plan.md"
    value: dict[str, object] = {"type": "react.tool.result", "path": path, "mime": "text/markdown", "text": "# Plan"}
    draft = from_json(value)
    assert draft.block == ResultContent(
        tool_call_id=UNKNOWN_CALL, artifact_path=path, mime="text/markdown", text="# Plan"
    )
    assert as_json(draft) == value


def test_a_file_takes_its_call_from_its_digest() -> None:
    path = "fi:turn_1.files/plan.md"
    meta = {"digest": {"artifact_path": path, "tool_call_id": "c7"}}
    value: dict[str, object] = {"type": "react.tool.result", "path": path, "mime": "text/markdown", "meta": meta}
    draft = from_json(value)
    assert isinstance(draft.block, ResultContent)
    assert (draft.block.tool_call_id, draft.block.digest) == ("c7", Digest(artifact_path=path))
    assert as_json(draft) == value


@pytest.mark.parametrize("type_name", ["react.tool.result", "user.attachment"])
def test_a_file_whose_bytes_were_replaced_by_a_placeholder_is_still_a_file(type_name: str) -> None:
    path = "fi:turn_1.user.attachments/plan.pdf"
    value: dict[str, object] = {"type": type_name, "path": path, "mime": "application/pdf", "base64": "<removed>"}
    draft = from_json(value)
    assert isinstance(draft.block, ResultContent | Attachment)
    assert (draft.block.artifact_path, draft.block.data) == (path, None)
    assert as_json(draft) == value


@pytest.mark.parametrize("role", ["receipt", 7])
def test_a_result_of_a_role_nobody_knows_is_kept(role: object) -> None:
    value: dict[str, object] = {"type": "react.tool.result", "meta": {"role": role}, "text": "x"}
    draft = from_json(value)
    assert isinstance(draft.block, Unknown)
    assert as_json(draft) == value


@pytest.mark.parametrize(("said", "kept"), [("2026-02-09T03:15:49+00:00", "2026-02-09T03:15:49Z"), ("yesterday", TS)])
def test_a_time_in_another_spelling_leaves_the_block_typed(said: str, kept: str) -> None:
    value: dict[str, object] = {"type": "user.prompt", "turn_id": "turn_1", "ts": said, "text": "hi"}
    draft = from_json(value)
    assert (draft.block, draft.ts) == (UserPrompt(text="hi"), kept)
    assert as_json(draft) == value


def test_a_foreign_object_that_is_stored_is_named_instead_of_shown() -> None:
    ref = ref_of(b"{}")
    value = as_json(Draft(TURN, TS, Unknown(json=ref, foreign_type="new.kind")))
    assert cast(dict[str, object], value["meta"])["blobs"] == {"json": {"sha256": ref.sha256, "size_bytes": 2}}


def test_a_place_that_no_entry_can_have_leaves_the_block_to_the_conversation() -> None:
    draft = from_json({"type": "user.prompt", "turn_id": "../x", "ts": "yesterday", "text": "hi"})
    assert (draft.turn_id, draft.ts) == ("", TS)
