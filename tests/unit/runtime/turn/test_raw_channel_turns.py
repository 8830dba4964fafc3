"""Tests for turns of edition 2 whose model writes long texts in raw channels."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.harness.misformatted_replies import Form
from tests.harness.raw_channel_replies import RAW_DRAFTS, RAW_FORMS, action, raw
from tests.harness.replies import answers, decision_reply
from tests.harness.turn import Step, TurnHarness, blocks_of, blocks_of_type, run
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ModelAnswered,
    ModelCalled,
    Notes,
    Notice,
    ToolCall,
    ToolCode,
    TurnStarted,
)
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.policy.read_reply import read_reply
from timeloom.core.render.editions import SECOND_EDITION, renderer_for
from timeloom.core.render.foreign_text.fence import escape
from timeloom.core.render.v2.fence import fence_text, unfence_text
from timeloom.core.stream.decision import CallToolDecision
from timeloom.core.stream.raw_text import escape_tags
from timeloom.runtime.turn.loop import TurnRunner

TEXT = 'A "page" with \\ and </channel:content>.\n\n[section]\n'
ANSWER = "It says </channel:final_answer> and\n\n- more [[S:9]]"
PATCH = "@@ -1,1 +1,1 @@\n-one\n+two\n"


def write(content: str | None = None, notes: str = "") -> str:
    params = {"path": "files/a.md", "kind": "file", **({"content": content} if content is not None else {})}
    call = {"tool_id": "react.write", "params": params}
    return json.dumps({"action": "call_tool", "notes": notes, "tool_call": call})


def harness(tmp_path: Path, edition: int, *steps: str | Step, limits: TurnLimits | None = None) -> TurnHarness:
    made = TurnHarness(tmp_path, *steps, limits=limits)
    made.setting = msgspec.structs.replace(made.setting, edition=edition)
    return made


def own_blocks(blocks: list[AnyBlock]) -> list[object]:
    """Return the parts of the blocks that the model wrote."""
    found: list[object] = []
    for block in blocks:
        match block:
            case Notes(text=text) | ToolCode(text=text):
                found.append(text)
            case ToolCall(tool_id=tool_id, params=params):
                assert isinstance(params, str)
                found.append((tool_id, json.loads(params)))
            case Completion(text=text, suggested_followups=followups):
                found.append((text, followups))
            case _:
                pass
    return found


def written_file(turns: TurnRunner) -> str:
    return (turns.action_context.out_dir / turns.session.views.progress.turn_id / "files" / "a.md").read_text()


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_both_forms_record_the_same_blocks_and_show_the_same_text(tmp_path: Path, chunk: int) -> None:
    escaped = fence_text(TEXT)
    in_json = (action(write(escaped, "I write.")), answers(ANSWER, "More?"))
    in_channels = (
        raw("notes", "I write.") + action(write()) + raw("content", escaped),
        action('{"action":"complete","suggested_followups":["More?"]}') + raw("final_answer", escape_tags(ANSWER)),
    )

    async def record(folder: Path, replies: tuple[str, ...]) -> tuple[list[object], list[str], str]:
        steps: list[Step] = [{"reply": reply, "chunk": chunk} for reply in replies]
        stage = harness(folder, SECOND_EDITION, *steps)
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        blocks = await blocks_of(turns)
        assert {one.edition for one in blocks if isinstance(one, TurnStarted)} == {2}
        (notice,) = blocks_of_type(blocks, Notice)
        assert isinstance(notice, Notice)
        assert notice.code == "source_unknown"
        shown = [stage.channel_text(channel) for channel in ("timeline_text", "canvas", "answer")]
        assert {(one.index, one.file) for one in stage.deltas} == {(0, ""), (0, "files/a.md")}
        return own_blocks(blocks), shown, written_file(turns)

    async def check() -> None:
        one = await record(tmp_path / "json", in_json)
        assert await record(tmp_path / "raw", in_channels) == one
        assert one[1] == ["I write.", escaped, ANSWER]
        assert one[2] == TEXT

    run(check)


def test_a_patch_stands_in_its_channel(tmp_path: Path) -> None:
    patch = json.dumps(
        {"action": "call_tool", "tool_call": {"tool_id": "react.patch", "params": {"path": "files/a.md"}}}
    )

    async def check() -> None:
        stage = harness(
            tmp_path,
            SECOND_EDITION,
            action(write()) + raw("content", "one\n"),
            action(patch) + raw("patch", PATCH.rstrip("\n")),
            "<channel:final_answer>\nDone.\n</channel:final_answer>",
        )
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        assert written_file(turns) == "two\n"
        assert not blocks_of_type(await blocks_of(turns), Notice)

    run(check)


def test_several_actions_have_their_own_texts(tmp_path: Path) -> None:
    other = write().replace("a.md", "b.md")

    async def check() -> None:
        reply = action(write()) + raw("content", "one") + action(other) + raw("content", "two")
        reply += action('{"action":"complete"}') + raw("final_answer", "Both.")
        stage = harness(tmp_path, SECOND_EDITION, reply, limits=TurnLimits(fanout="safe_fanout"))
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        calls = [one for one in blocks_of_type(await blocks_of(turns), ToolCall) if isinstance(one, ToolCall)]
        assert [json.loads(str(call.params))["content"] for call in calls] == ["one", "two"]
        assert stage.channel_text("canvas") == "onetwo"
        assert stage.channel_text("answer") == "Both."

    run(check)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (action(write("x")) + raw("content", "y"), "protocol_violation.decision_malformed"),
        (action(write("x")) + raw("final_answer", "y"), "protocol_violation.channel_unused"),
        (action(write("x")) + raw("patch", "y"), "protocol_violation.channel_unused"),
    ],
)
def test_a_text_without_one_place_is_refused_with_a_reason(tmp_path: Path, reply: str, code: str) -> None:
    async def check() -> None:
        stage = harness(tmp_path, SECOND_EDITION, reply, raw("final_answer", "Done."))
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        blocks = await blocks_of(turns)
        (notice,) = blocks_of_type(blocks, Notice)
        assert isinstance(notice, Notice)
        assert notice.code == code
        assert not blocks_of_type(blocks, ToolCall)

    run(check)


def test_a_reply_is_read_in_the_edition_of_its_turn_after_a_restart(tmp_path: Path) -> None:
    async def check() -> None:
        stage = harness(tmp_path, SECOND_EDITION, action('{"action":"complete"}') + raw("final_answer", "Done."))
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        before = await turns.model_caller.load_reply()
        after = await (await stage.reopen(turns.session)).model_caller.load_reply()
        assert before is not None
        assert after == before
        assert before.decisions

    run(check)


def test_a_cut_stream_with_a_raw_channel_is_asked_for_again(tmp_path: Path) -> None:
    async def check() -> None:
        cut: Step = {"reply": "<channel:final_answer>\nIt will", "error": "cut"}
        stage = harness(tmp_path, SECOND_EDITION, cut, raw("final_answer", "It will rain."))
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        (answer,) = blocks_of_type(await blocks_of(turns), Completion)
        assert isinstance(answer, Completion)
        assert answer.text == "It will rain."
        assert stage.channel_text("answer") == "It willIt will rain."

    run(check)


def test_the_first_edition_does_not_fill_a_call_from_a_raw_channel(tmp_path: Path) -> None:
    async def check() -> None:
        stage = harness(tmp_path, 1, action(write()) + raw("content", "one"), answers("Done."))
        turns = await stage.open()
        await turns.run("go")
        blocks = await blocks_of(turns)
        (call,) = blocks_of_type(blocks, ToolCall)
        assert isinstance(call, ToolCall)
        assert "content" not in str(call.params)
        assert stage.channel_text("canvas") == ""

    run(check)


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_slips_in_raw_channels_need_no_second_request(tmp_path: Path, chunk: int) -> None:
    async def check(form: Form) -> None:
        reply = form.reply.replace("a.md", "files/a.md").replace("@@ -1 +1 @@", "whole new text")
        stage = harness(tmp_path, SECOND_EDITION, {"reply": reply, "chunk": chunk}, answers("ok"))
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        blocks = await blocks_of(turns)
        first = blocks_of_type(blocks, ModelAnswered)[0]
        assert isinstance(first, ModelAnswered)
        assert first.repairs, form
        is_call = bool(blocks_of_type(blocks, ToolCall))
        assert len(blocks_of_type(blocks, ModelCalled)) == 1 + is_call

    async def check_all() -> None:
        for form in (one for one in RAW_FORMS if one.code is None):
            await check(form)

    run(check_all)


@pytest.mark.parametrize("chunk", [1, 100_000])
def test_a_draft_in_raw_channels_is_not_executed(tmp_path: Path, chunk: int) -> None:
    async def check() -> None:
        for draft in RAW_DRAFTS:
            step: Step = {"reply": draft, "chunk": chunk, "repeat": 3}
            stage = harness(tmp_path, SECOND_EDITION, step, limits=TurnLimits(fanout="safe_fanout"))
            turns = await stage.open()
            await turns.run("go")
            assert not blocks_of_type(await blocks_of(turns), ToolCall), draft

    run(check)


def test_escaped_lines_of_a_prompt_do_not_reach_files(tmp_path: Path) -> None:
    async def check(edition: int, copied: str) -> str:
        stage = harness(tmp_path / str(edition), edition, decision_reply(json.loads(write(copied))), answers("ok"))
        turns = await stage.open()
        await turns.run("go")
        return written_file(turns)

    async def check_all() -> None:
        assert await check(SECOND_EDITION, fence_text(TEXT)) == TEXT
        assert await check(1, escape(TEXT)) == TEXT
        assert await check(1, "~[section]") == "~[section]"

    run(check_all)


@pytest.mark.parametrize("content", [fence_text(TEXT).rstrip(), "</channel:content>\n[section]\n~~[more]"])
def test_a_past_call_is_shown_in_the_form_that_stands_for_it(tmp_path: Path, content: str) -> None:
    async def check() -> None:
        stage = harness(tmp_path, SECOND_EDITION, action(write(content)), answers("ok"))
        turns = await stage.open()
        await turns.run("go")
        session = turns.session
        entries = await session.entries(range(1, session.views.tail + 1))
        (call,) = [entry for entry in entries if isinstance(entry.block, ToolCall)]
        shown = renderer_for(SECOND_EDITION).entry_text(call, session.views).text
        (decision,) = read_reply(shown, edition=SECOND_EDITION).decisions
        assert isinstance(decision, CallToolDecision)
        # An escape in the recorded text is undone when the call runs, so it is not shown twice.
        assert unfence_text(json.loads(decision.params)["content"]) == unfence_text(content)

    run(check)


@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize("edition", [1, 2])
def test_an_answer_of_edition_2_loses_copied_escapes(tmp_path: Path, edition: int, *, is_raw: bool) -> None:
    copied = "See:\n~[link](u)\n[~[S:1]]"
    reply = raw("final_answer", copied) if is_raw and edition == 2 else answers(copied)

    async def check() -> None:
        stage = harness(tmp_path, edition, reply)
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        answer = copied if edition == 1 else "See:\n[link](u)\n[~[S:1]]"
        assert [block.text for block in await blocks_of(turns) if isinstance(block, Completion)] == [answer]
        assert stage.channel_text("answer") == answer

    run(check)
