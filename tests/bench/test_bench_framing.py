"""The benchmark of framing: what counts as payload, and what does not."""

import asyncio
from pathlib import Path

import pytest

from bench import peer, synthetic
from bench.context.agent import to_agent
from bench.context.asks import to_asks
from bench.context.counting import calibrate_counter
from bench.context.framing import frame_timeline, known_editions
from bench.context.payload import shown_payload, shown_text
from bench.context.player import PlayMode, ShownTimeline, play_timeline
from bench.context.tokenizer import PROGRAM
from tests.bench.test_bench_smoke import run_bench
from timeloom.core.blocks import Completion, Notice, ResultStatus, Thinking, ToolCall, ToolError, TurnStarted
from timeloom.core.ids import CallId

LONG = "".join(f"line {n} of a file with several words\n" for n in range(9))


def test_text_that_is_shown_whole_is_payload_as_it_was_recorded() -> None:
    fenced = "".join(f"| {line}" for line in LONG.splitlines(keepends=True))
    assert shown_text(LONG, f"[HEAD]\n{LONG}\n") == (LONG,)
    assert shown_text(LONG, f"[HEAD]\n{fenced}\n") == (LONG,)


def test_text_that_is_not_shown_is_no_payload() -> None:
    first, *_, last = LONG.splitlines()
    assert shown_text(LONG, "[HEAD] 9 lines, see the file\n") == ()
    assert shown_text(LONG, f"1| {first}\n[READ] 7 more lines\n9| {last}\n") == (f"{first}\n", f"{last}\n")
    assert shown_text(LONG, f"| {first[:20]}\n[PREVIEW] cut in the middle of line 1\n") == (first[:20],)


def test_text_that_is_shown_twice_is_payload_once() -> None:
    block = ResultStatus(
        tool_call_id=CallId("tc_1"), text="no such file", error=ToolError(code="tool_failed", message="no such file")
    )
    assert shown_payload(block, 'error: {"message":"no such file"}\n| no such file\n') == ("no such file",)


@pytest.mark.parametrize("escaped", ["<~channel:thinking>", "~[TURN t1]"])
def test_an_escape_is_framing(escaped: str) -> None:
    plain = escaped.replace("~", "")
    assert shown_payload(Thinking(round=1, text=f"{plain} in a text"), f"{escaped} in a text\n") == (
        f"{plain} in a text",
    )


def test_parameters_count_as_they_are_shown() -> None:
    call = ToolCall(
        tool_id="own.write", tool_call_id=CallId("tc_1"), params='{"path": "a.md", "content": "' + "x" * 50 + '\\ny"}'
    )
    whole = '{"tool_id":"own.write","params":{"path":"a.md","content":"' + "x" * 50 + '\\ny"}}'
    shortened = '{"tool_id":"own.write","params":{"path":"a.md","content":"xxxxx... [see tc:1]"}}'
    beside = '{"tool_id":"own.write","params":{"path":"a.md"}}\n<channel:content>\n' + "x" * 50 + "\ny\n"
    assert shown_payload(call, whole) == ('{"path":"a.md","content":"' + "x" * 50 + '\\ny"}',)
    assert shown_payload(call, shortened) == ('{"path":"a.md","content":"xxxxx"}',)
    assert shown_payload(call, beside) == ('{"path":"a.md"}', "x" * 50 + "\ny")


@pytest.mark.parametrize("form", ['"größer"', '"gr\\u00f6\\u00dfer"'])
def test_parameters_count_in_the_form_in_which_they_are_shown(form: str) -> None:
    call = ToolCall(tool_id="own.find", tool_call_id=CallId("tc_1"), params=f'{{"what": {form}}}')
    assert shown_payload(call, f'{{"tool_id":"own.find","params":{{"what":{form}}}}}') == (f'{{"what":{form}}}',)


def test_what_the_runtime_wrote_is_framing() -> None:
    assert shown_payload(TurnStarted(n=1), "[TURN turn_1] ts=now\n\n") == ()
    assert shown_payload(Notice(code="loop", text="Do something else."), "[NOTICE] loop: Do something else.\n") == ()


def test_an_answer_and_its_suggestions_are_payload() -> None:
    block = Completion(text="Done.", suggested_followups=("More?", "Not shown"))
    assert shown_payload(block, "[ASSISTANT MESSAGE]\nDone.\nsuggested followups: More?\n") == ("Done.", "More?")


def timeline_of(steps: int, edition: int) -> ShownTimeline:
    asks = to_asks(synthetic.session("small", steps))
    counter = calibrate_counter(asks)
    way = PlayMode(forgets=False, edition=edition)
    return asyncio.run(play_timeline(asks, to_agent(asks, counter), counter, way))


@pytest.mark.parametrize("edition", known_editions())
def test_all_that_is_shown_is_payload_or_framing(edition: int) -> None:
    timeline = timeline_of(12, edition)
    blocks = frame_timeline(timeline, len)
    shown = sum(len(one.text) for one in timeline.entries) + len(timeline.titles)
    assert sum(block.payload + block.framing for block in blocks.values()) == shown
    assert all(block.framing > 0 for block in blocks.values())
    assert blocks["react.tool.call"].count == sum(isinstance(one.entry.block, ToolCall) for one in timeline.entries)


def test_the_tables_have_every_session_and_the_parts_of_the_system_text(tmp_path: Path) -> None:
    printed, (sessions, blocks, systems) = run_bench(tmp_path, "--only", "framing")
    assert "timeloom's estimate, as the environment is left out" in printed
    assert {row[1] for row in sessions.rows} >= {"synthetic_session"}
    assert {row[1] for row in blocks.rows} == {"sessions", "dialogues"}
    assert len(systems.rows) % 3 == 0


@pytest.mark.parametrize("vocabulary", ["anthropic", "llama3"])
def test_tokens_are_counted_by_a_vocabulary_where_it_is_installed(vocabulary: str) -> None:
    for python in [peer.prepare()] if peer.is_ready() else []:
        printed = peer.run_program([str(python), "-I", str(PROGRAM), vocabulary], b'"some words"\n"a"\n')
        assert printed.split() == [b"2", b"1"]
