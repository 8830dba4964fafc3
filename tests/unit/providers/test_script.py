"""The scripted model and the file it is read from."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import Usage
from timeloom.core.blocks.round import CallPurpose
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.providers.script_file import MAX_SCRIPT_BYTES, ScriptError, parse_script, read_script
from timeloom.testing import ScriptedModel


def ask(
    model: ScriptedModel, number: int = 0, purpose: CallPurpose = "decision", opening: str = ""
) -> list[ModelEvent]:
    request = ModelRequest(
        system="12345678", segments=(TextSegment("1234"),), number=number, purpose=purpose, opening=opening
    )

    async def collect() -> list[ModelEvent]:
        async with aclosing(model.stream(request)) as events:
            return [event async for event in events]

    return asyncio.run(collect())


def text(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextPiece))


def test_the_nth_call_of_a_purpose_gets_the_nth_step_of_that_purpose() -> None:
    model = ScriptedModel.from_text("""
- reply: one
- {reply: a title, when: title}
- {reply: two, repeat: 2}
- {reply: a summary, when: compaction}
- {reply: for ever, repeat: true}
""")
    assert [text(ask(model, n)) for n in (0, 1, 2, 3, 999)] == ["one", "two", "two", "for ever", "for ever"]
    assert [text(ask(model, 0)), text(ask(model, 0))] == ["one", "one"]
    assert [text(ask(model, 0, "title")), text(ask(model, 0, "compaction"))] == ["a title", "a summary"]


def test_a_call_beyond_the_script_is_an_error_that_says_so() -> None:
    calls: list[tuple[CallPurpose, int]] = [("decision", 1), ("title", 0)]
    for purpose, number in calls:
        with pytest.raises(
            ModelError,
            match=f"no {purpose} reply for call {number + 1}; it answers 1 of decision; the prompt ends with",
        ) as caught:
            ask(ScriptedModel(["only"]), number, purpose)
        assert caught.value.kind == "invalid"


def test_a_script_without_titles_logs_no_missing_title(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ModelError, match="no title reply"):
        ask(ScriptedModel(["only"]), 0, "title")
    assert not caplog.records
    with pytest.raises(ModelError, match="no title reply"):
        ask(ScriptedModel(parse_script("[{reply: a title, when: title}]")), 1, "title")
    assert "no title reply for call 2" in caplog.text


def test_the_first_user_message_chooses_the_scene() -> None:
    model = ScriptedModel.from_text("""
- {match: "(?i)weather", steps: [{reply: rain}]}
- {match: "^hello$", steps: [{reply: hi}]}
- reply: otherwise
""")
    openings = ("The Weather?", "hello", "hello you")
    assert [text(ask(model, opening=opening)) for opening in openings] == ["rain", "hi", "otherwise"]


def test_a_script_may_be_one_scene_and_then_answers_no_other() -> None:
    model = ScriptedModel.from_text("{match: a, steps: [{reply: b}]}")
    assert text(ask(model, opening="a")) == "b"
    with pytest.raises(ModelError, match="no `match`"):
        ask(model, opening="c")


def test_pieces_have_the_size_that_was_asked_for() -> None:
    events = ask(ScriptedModel.from_text("- {reply: 'abcdefg', chunk: 3, delay_ms: 0.1}"))
    assert events[:-1] == [TextPiece("abc"), TextPiece("def"), TextPiece("g")]


def test_usage_is_as_written_or_estimated_from_the_text() -> None:
    model = ScriptedModel.from_text(
        "- {reply: abcde, usage: {input_tokens: 9, cache_read_tokens: 8}}\n- {reply: abcde}"
    )
    assert ask(model, 0)[-1] == FinishEvent("end", Usage(input_tokens=9, cache_read_tokens=8), "script")
    assert ask(model, 1)[-1] == FinishEvent("end", Usage(input_tokens=3, output_tokens=2), "script")


def test_a_cut_carries_its_usage() -> None:
    with pytest.raises(ModelError) as caught:
        ask(ScriptedModel.from_text("- {reply: abcde, error: cut, usage: {output_tokens: 4}}"))
    assert caught.value.usage == Usage(output_tokens=4)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "empty"),
        ("just text", "line 1: a script is a list"),
        ("- text", r"item 1 \(line 1\) is not a mapping"),
        ("- reply: a\n- reply: b\n  replies: c", r"item 2 \(line 2\) has unknown keys `replies`"),
        ("- when: title", "neither `reply` nor `error`"),
        ("- {reply: 4}", "Expected `str`"),
        ("- {reply: a, chunk: 0}", ">= 1"),
        ("- {reply: a, repeat: false}", "`repeat`"),
        ("- {reply: a, when: later}", "when"),
        ("- {reply: a, error: broken}", "error"),
        ("- {reply: a, usage: {tokens: 1}}", "tokens"),
        ("- {reply: a, usage: {input_tokens: -1}}", "between 0 and"),
        ("- {reply: a, usage: {input_tokens: [1]}}", "line 1: expected a string, a number or a boolean"),
        ("- &a {reply: a, usage: *a}", "line 1: expected a string, a number or a boolean"),
        ("- {reply: 2026-01-01}", "quotes"),
        ("- {reply: !!python/name:os.system x}", "quotes"),
        ("- {reply: a, reply: b}", "unique in their mapping"),
        ("- {[a]: b}", "keys must be words"),
        ("- {match: a}", "a scene needs exactly `match` and `steps`"),
        ("- {match: a, steps: {reply: b}}", "`steps` is a list"),
        ("- {match: 5, steps: []}", "regular expression of at most"),
        ("- {match: '(', steps: []}", "not a regular expression"),
        ("- reply: 'open\n", "line 2 is not YAML"),
        ("- a\n--- \n- b", "is not YAML"),
        ("- \x07", "characters that YAML does not allow"),
        ("[" * 100_000, "nested deeper"),
        ("- " * 100_000, "nested deeper"),
        ("#" * (MAX_SCRIPT_BYTES + 1), "larger than"),
        ("- {match: a, steps: &s [" + "{reply: a}," * 20_000 + "]}\n" + "- {match: b, steps: *s}\n" * 6, "more than"),
    ],
)
def test_what_is_no_script_is_refused_with_its_place(script: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        parse_script(script)


def test_truths_and_nothing_are_read_as_such() -> None:
    (scene,) = parse_script("- {reply: a, repeat: yes, error: ~}")
    assert (scene.steps[0].repeat, scene.steps[0].error) == (True, None)


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                "- ",
                "reply: ",
                "a",
                "\n",
                "  ",
                "{",
                "}",
                "[",
                "]",
                ": ",
                "match: ",
                "steps: ",
                "&x ",
                "*x",
                "!!int ",
                "'",
                '"',
                "error: cut",
            ]
        )
    ).map("".join)
)
def test_any_text_is_a_script_or_refused(script: str) -> None:
    try:
        parse_script(script)
    except ScriptError as error:
        assert error.code == "script_malformed"


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"- reply: \xff")
    with pytest.raises(ScriptError, match=r"a\.yaml is not UTF-8"):
        read_script(tmp_path / "a.yaml")
