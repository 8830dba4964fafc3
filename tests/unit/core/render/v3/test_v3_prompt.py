"""Prompts of edition 3: shorter messages, answers and calls, and all else as in edition 2."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.harness.hostile_lines import forged_lines, hostile, split_at_breaks
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    Notes,
    ResultContent,
    ResultStatus,
    Shown,
    ToolCall,
    ToolError,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.editions import THIRD_EDITION, renderer_for
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.segments import is_byte_prefix
from timeloom.core.render.v2.renderer import V2_RENDERER
from timeloom.core.render.v3.as_written import shown_as_written, shown_in_call
from timeloom.core.render.v3.renderer import V3_RENDERER
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.testing.conversations import AnyPayload, conversations
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"
TURN, NEXT, CALL = TurnId("turn_1"), TurnId("turn_2"), CallId("c1")


def in_edition_3(entries: Sequence[Entry]) -> list[Entry]:
    """The same entries in turns of edition 3."""
    return [
        replace(entry, block=replace(entry.block, edition=3)) if isinstance(entry.block, TurnStarted) else entry
        for entry in entries
    ]


def log(*drafts: tuple[TurnId, str, AnyBlock]) -> list[Entry]:
    return [to_entry(Draft(*draft), seq) for seq, draft in enumerate(drafts, 1)]


def shown(block: AnyBlock) -> str:
    """The text of the block as the third entry of a turn."""
    entries = log((TURN, TS, TurnStarted(n=1, edition=3)), (TURN, TS, UserPrompt(text="Hi")), (TURN, TS, block))
    return V3_RENDERER.entry_text(entries[-1], fold(entries), AnyPayload()).text


def test_the_third_edition_records_the_number_4() -> None:
    assert renderer_for(THIRD_EDITION) is V3_RENDERER
    assert V3_RENDERER.number == 4


def test_a_message_names_its_turn_and_the_time_stands_before_it_once_an_hour() -> None:
    entries = log(
        (TURN, TS, TurnStarted(n=1, edition=3)),
        (TURN, TS, UserPrompt(text="Hi")),
        (NEXT, "2026-02-09T02:59:59Z", TurnStarted(n=2, edition=3)),
        (NEXT, "2026-02-09T02:59:59Z", UserPrompt(text="Again")),
        (TurnId("turn_3"), "2026-02-09T03:00:00Z", TurnStarted(n=3, edition=3)),
    )
    prompt, views = PromptView(renderer=V3_RENDERER), fold(entries)
    for entry in entries:
        prompt.add(entry, views)
    text = "".join(segment.text for segment in prompt.segments())
    assert text == (
        "[TURNS] oldest first\n[TIME] 2026-02-09 02:14\n[USER t1]\nHi\n\n[USER t2]\nAgain\n\n[TIME] 2026-02-09 03:00\n"
    )


def test_a_turn_that_no_view_knows_shows_its_time() -> None:
    entry = Entry(turn_id=TURN, ts=TS, block=TurnStarted(n=1, edition=3), seq=1)
    assert V3_RENDERER.entry_text(entry, Views()).text == "[TIME] 2026-02-09 02:14\n"


def test_the_tail_says_where_the_current_turn_begins() -> None:
    views = fold(log((TURN, TS, TurnStarted(n=1, edition=3))))
    assert V3_RENDERER.current_turn(views) == "[CURRENT TURN t1] from its message on, above\n"


def test_an_answer_of_one_line_stands_between_its_tags() -> None:
    assert shown(Completion(text="At nine.")) == "<channel:final_answer>At nine.</channel:final_answer>\n"
    assert shown(Completion(text="")) == '<channel:action>{"action":"complete"}</channel:action>\n'
    assert shown(Completion(text="a\nb", suggested_followups=("And back?",))) == (
        '<channel:action>{"action":"complete","suggested_followups":["And back?"]}</channel:action>\n'
        "<channel:final_answer>\na\nb\n</channel:final_answer>\n"
    )


def test_a_call_stands_alone() -> None:
    call = ToolCall(tool_id="web.search", tool_call_id=CALL, params='{"q":"ferry"}')
    assert shown(call) == '<channel:action>{"tool_id":"web.search","params":{"q":"ferry"}}</channel:action>\n'
    assert shown(replace(call, params="{}")) == '<channel:action>{"tool_id":"web.search"}</channel:action>\n'


def test_the_end_of_a_turn_repeats_no_marks_of_steps() -> None:
    assert shown(TurnEnded(reason="completed")) == ""
    assert shown(TurnEnded(reason="completed", text="✓ [2] written")) == ""
    assert shown(TurnEnded(reason="completed", text="Done.\n✓ [2]")) == "[TURN END] completed: Done.\n"
    assert shown(TurnEnded(reason="exited", text="✓ [2]")) == "[TURN END] exited: ✓ [2]\n"


def test_other_entries_are_those_of_edition_2() -> None:
    entries = log((TURN, TS, TurnStarted(n=1)), (TURN, TS, Notes(tool_call_id=CALL, text="I look.")))
    views = fold(entries)
    assert V3_RENDERER.entry_text(entries[1], views) == V2_RENDERER.entry_text(entries[1], views)


def test_a_long_message_and_a_long_answer_are_shortened_by_lines() -> None:
    entries = log(
        (TURN, TS, TurnStarted(n=1, edition=3)),
        (TURN, TS, UserPrompt(text="line\n" * 900)),
        (TURN, TS, Completion(text="word " * 900)),
    )
    views = fold(entries)
    message, answer = (V3_RENDERER.shorten_entry(entry, 200, views) for entry in entries[1:])
    assert message.startswith("[USER t1]\nline\n")
    assert answer.startswith("<channel:final_answer>\nword ")
    assert max(len(message), len(answer)) < 600


PATCH_TRAITS = ToolTraits(path_param="path", conversation_only=True)
FILE = "fi:turn_1.files/a.md"


def shown_of_call(block: AnyBlock, traits: ToolTraits | None = PATCH_TRAITS) -> str:
    """The text of a result of the first call."""
    call = ToolCall(tool_id="own.patch", tool_call_id=CALL, traits=traits)
    entries = log((TURN, TS, TurnStarted(n=1, edition=3)), (TURN, TS, call), (TURN, TS, block))
    return V3_RENDERER.entry_text(entries[-1], fold(entries), AnyPayload()).text


def file_content(stub: Shown | None, path: str = FILE) -> ResultContent:
    return ResultContent(tool_call_id=CALL, artifact_path=path, mime="text/plain", text="a\nb", shown=stub)


def test_a_short_text_that_a_call_wrote_is_not_shown_again() -> None:
    assert shown_of_call(file_content(shown_as_written("a\nb", 3))) == "[t1.1 fi:t1/a.md] 2 lines, as written\n"
    assert shown_of_call(file_content(shown_as_written("a\n", 3))) == "[t1.1 fi:t1/a.md] 1 line, as written\n"
    assert shown_of_call(file_content(shown_in_call("@@", 3), f"tc:{TURN}.{CALL}.result")) == ""
    assert shown_of_call(file_content(None)) == "[t1.1 fi:t1/a.md]\na\nb\n[/t1.1]\n"
    own = Shown("stub", 1, "[READ] page 1\n[READ] page 2")
    assert shown_of_call(file_content(own)) == "[t1.1 fi:t1/a.md]\n[READ] page 1\n[READ] page 2\n[/t1.1]\n"
    result = file_content(Shown("stub", 1, "[READ] all [[S:1]]\r"), f"tc:{TURN}.{CALL}.result")
    assert shown_of_call(result) == "[t1.1] all [~[S:1]]\n"


@pytest.mark.parametrize(("text", "edition"), [("", 3), ("x" * 401, 3), ("x", 2)])
def test_other_texts_are_shown_where_they_are_written(text: str, edition: int) -> None:
    assert shown_as_written(text, edition) is None
    assert shown_in_call(text, edition) is None


@pytest.mark.parametrize(
    ("status", "is_shown"),
    [
        ('{"path":"a","result":"patched","hunks":[{"old_line":1,"drift":0}]}', False),
        ('{"path":"a","result":"created"}', False),
        ('{"path":"a","result":"patched","hunks":[{"drift":2}]}', True),
        ('{"path":"a","result":"patched","copied_from":"b"}', True),
        ('{"path":"a","result":"unchanged"}', True),
        ('{"path":"a","result":"deleted"}', True),
        ("patched", True),
        ('{"result":1}', True),
    ],
)
def test_the_status_of_a_write_is_shown_if_it_says_more_than_its_files(status: str, is_shown: bool) -> None:
    block = ResultStatus(tool_call_id=CALL, text=status, mime="application/json")
    assert bool(shown_of_call(block)) == is_shown
    assert shown_of_call(block, None)
    assert shown_of_call(replace(block, error=ToolError("e", "m")))


@given(conversations())
def test_a_prompt_opened_from_what_is_visible_is_the_same(drawn: list[Entry]) -> None:
    entries = in_edition_3(drawn)
    prompt, views = PromptView(renderer=V3_RENDERER), Views()
    for entry in entries:
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
    opened = PromptView.from_views(views, {entry.seq: entry for entry in entries}, AnyPayload())
    assert opened.segments() == prompt.segments()
    assert opened.tokens == prompt.tokens


@given(timelines())
def test_views_that_are_further_ahead_change_no_message_and_no_turn(drawn: Sequence[Entry]) -> None:
    views = fold(drawn)
    for at, entry in enumerate(drawn, 1):
        if isinstance(entry.block, TurnStarted | UserPrompt | Completion | TurnEnded):
            then, later = (V3_RENDERER.entry_text(entry, known, AnyPayload()) for known in (fold(drawn[:at]), views))
            assert then == later


@given(conversations(forgetting=False))
def test_the_cacheable_part_only_grows(drawn: list[Entry]) -> None:
    prompt, views = PromptView(renderer=V3_RENDERER), Views()
    before = prompt.segments()
    for entry in in_edition_3(drawn):
        views.add(entry)
        prompt.add(entry, views, AnyPayload())
        now = prompt.segments()
        assert is_byte_prefix(before, now)
        before = now


BLOCKS: dict[str, Callable[[str], AnyBlock]] = {
    "prompt": lambda text: UserPrompt(text=text),
    "answer": lambda text: Completion(text=text, suggested_followups=(text,)),
    "call": lambda text: ToolCall(tool_id=text, tool_call_id=CALL),
    "end": lambda text: TurnEnded(reason="completed", text=text),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS.keys())
@given(text=hostile)
def test_no_line_of_foreign_text_begins_as_a_line_of_the_runtime(make: Callable[[str], AnyBlock], text: str) -> None:
    for before, after in (("x\nx", text), ("x", " ".join(split_at_breaks(text)))):
        own, attacked = (
            V3_RENDERER.entry_text(Entry(turn_id=TURN, ts=TS, block=make(words), seq=1), Views(), AnyPayload()).text
            for words in (before, before + after)
        )
        assert len(forged_lines(attacked)) == len(forged_lines(own))
        assert attacked.count("<channel:") == own.count("<channel:")
        assert attacked.count("</channel:") == own.count("</channel:")


def test_a_call_is_never_cut_inside_a_tag() -> None:
    call = ToolCall(tool_id="react.write", tool_call_id=CALL, params='{"path":"a.md","content":"x\\ny"}')
    entries = log((TURN, TS, TurnStarted(n=1, edition=3)), (TURN, TS, call))
    views = fold(entries)
    whole = V3_RENDERER.entry_text(entries[1], views).text
    for chars in range(20, len(whole)):
        text = V3_RENDERER.shorten_entry(entries[1], chars, views)
        assert text.count("</channel:action") <= 1
        assert text.count("<channel:") == text.count("</channel:")
