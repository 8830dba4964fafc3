"""Prompts of edition 2: incremental rendering equals rendering at once, and no foreign line looks like ours."""

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.harness.hostile_lines import forged_lines, hostile
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Completion,
    Digest,
    ExternalEvent,
    Followup,
    ModelAnswered,
    Note,
    Notes,
    Notice,
    RangeSummary,
    ReactCompletion,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    StageGate,
    Steer,
    Thinking,
    ToolCall,
    ToolCode,
    ToolError,
    TurnEnded,
    TurnStarted,
    Unknown,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.segments import is_byte_prefix
from timeloom.core.render.v2.renderer import V2_RENDERER
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.testing.conversations import AnyPayload, conversations
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"
TURN, CALL, MESSAGE = TurnId("turn_1"), CallId("c1"), MessageId("m1")
RESULT, FILE = "tc:turn_1.c1.result", "fi:turn_1.files/a.md"


def in_edition_2(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries in turns of edition 2."""
    return [
        replace(entry, block=replace(entry.block, edition=2)) if isinstance(entry.block, TurnStarted) else entry
        for entry in entries
    ]


def follow(entries: Sequence[Entry]) -> tuple[PromptView, Views]:
    """The prompt and the views after these entries, kept up to date entry by entry."""
    prompt, views = PromptView(renderer=V2_RENDERER), Views()
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
    return prompt, views


@given(conversations())
def test_a_prompt_opened_from_what_is_visible_is_the_same(drawn: list[Entry]) -> None:
    entries = in_edition_2(drawn)
    prompt, views = follow(entries)
    opened = PromptView.from_views(views, {entry.seq: entry for entry in entries}, AnyPayload())
    assert opened.segments() == prompt.segments()
    assert opened.tokens == prompt.tokens


@given(timelines())
def test_views_that_are_further_ahead_change_nothing(drawn: Sequence[Entry]) -> None:
    views = fold(drawn)
    for at, entry in enumerate(drawn, 1):
        then = fold(drawn[:at])
        names_call = getattr(entry.block, "tool_call_id", None)
        known = then.calls.get(entry.turn_id, names_call) if names_call else None
        later = views.calls.get(entry.turn_id, names_call) if names_call else None
        if (known and known.tool_id, known and known.call_seq) == (later and later.tool_id, later and later.call_seq):
            assert V2_RENDERER.entry_text(entry, then, AnyPayload()) == V2_RENDERER.entry_text(
                entry, views, AnyPayload()
            )


@given(conversations(forgetting=False))
def test_the_cacheable_part_only_grows(drawn: list[Entry]) -> None:
    prompt, views = PromptView(renderer=V2_RENDERER), Views()
    before = prompt.segments()
    for entry in in_edition_2(drawn):
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
        now = prompt.segments()
        assert is_byte_prefix(before, now)
        before = now


def result(**of: object) -> ResultContent:
    return replace(ResultContent(tool_call_id=CALL, artifact_path=FILE, mime="text/markdown"), **of)


def params(**of: str) -> str:
    return json.dumps(of, ensure_ascii=False)


BLOCKS: dict[str, Callable[[str], AnyBlock]] = {
    "prompt": lambda text: UserPrompt(text=text),
    "followup": lambda text: Followup(message_id=MESSAGE, text=text),
    "steer": lambda text: Steer(message_id=MESSAGE, text=text),
    "event": lambda text: ExternalEvent(kind="form", message_id=MESSAGE, text=text, mime=text),
    "attachment": lambda text: AttachmentMeta(digest=Digest(artifact_path=FILE, mime=text), summary=text),
    "attached text": lambda text: Attachment(artifact_path=FILE, mime="text/plain", text=text, shown=Shown("whole")),
    "attached preview": lambda text: Attachment(
        artifact_path=FILE, mime="text/plain", text=text, shown=Shown("preview", 1, text)
    ),
    "result": lambda text: result(text=text, artifact_path=RESULT),
    "file": lambda text: result(text=text),
    "preview": lambda text: result(text=text, shown=Shown("preview", 1, f"x{text}")),
    "binary": lambda text: result(data=b"x", mime=text),
    "status": lambda text: ResultStatus(tool_call_id=CALL, text=text, error=ToolError(text, text, text, {text: text})),
    "digest": lambda text: ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=FILE, write_warning=text)),
    "code": lambda text: ToolCode(tool_call_id=CALL, text=text),
    "call": lambda text: ToolCall(tool_id=text, tool_call_id=CALL, params=params(path=text, other=text)),
    "write": lambda text: ToolCall(tool_id="react.write", tool_call_id=CALL, params=params(content="x\n" + text)),
    "long write": lambda text: ToolCall(
        tool_id="react.write", tool_call_id=CALL, params=params(content=text + "x" * 500, path=text)
    ),
    "notice": lambda text: Notice(code=text, text=text, tool_call_id=CALL),
    "thinking": lambda text: Thinking(round=1, text=text),
    "note": lambda text: Note(tool_call_id=CALL, text=text),
    "answer": lambda text: Completion(text=text, suggested_followups=(text,)),
    "closing": lambda text: ReactCompletion(text=text),
    "summary": lambda text: WorkingSummary(text=text),
    "range": lambda text: RangeSummary(text=text, covered_turn_ids=(TURN,)),
    "interrupted": lambda text: ModelAnswered(round=1, model="m", stop_reason="", interrupted=True, text=text),
    "stage": lambda text: StageGate(text=text),
    "unknown": lambda text: Unknown(json=f"{{{text}}}", foreign_type=text),
    "end": lambda text: TurnEnded(reason="stopped", text=text),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS.keys())
@given(text=hostile)
def test_no_line_of_foreign_text_begins_as_a_line_of_the_runtime(make: Callable[[str], AnyBlock], text: str) -> None:
    own, hostile_text = (
        V2_RENDERER.entry_text(Entry(turn_id=TURN, ts=TS, block=make(words), seq=1), Views(), AnyPayload()).text
        for words in ("x\nx", f"x\nx{text}")
    )
    assert len(forged_lines(hostile_text)) == len(forged_lines(own))
    assert hostile_text.count("<channel:") == own.count("<channel:")
    assert hostile_text.count("</channel:") == own.count("</channel:")


def test_notes_show_the_marks_of_plan_steps_as_the_agent_writes_them() -> None:
    notes = Notes(tool_call_id=CALL, text="✓ [1] found\n… 2) writing\n[TURN t9]\n<channel:code>")
    shown = V2_RENDERER.entry_text(Entry(turn_id=TURN, ts=TS, block=notes, seq=1), Views()).text
    assert shown == "<channel:notes>\n✓ [1] found\n… 2) writing\n~[TURN t9]\n<~channel:code>\n</channel:notes>\n"


def test_a_hidden_entry_and_a_pinned_one_have_lines_of_the_runtime() -> None:
    drafts = [Draft(TURN, TS, block) for block in (TurnStarted(n=1, edition=2), UserPrompt(text="x"))]
    prompt, _ = follow([to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)])
    (segment,) = prompt.segments()
    assert segment.text == (
        "[TURNS] oldest first; the last one is the current turn\n[TURN t1] 2026-02-09 02:14\n[USER]\nx\n\n"
    )
