"""Paths with the alias of a turn or call are read, written back as they stand, and never mistaken for long paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.paths.test_paths_properties import CALLS, PATHS, TEXTS, WORDS
from timeloom.core.blocks.block import BlockError, need_path
from timeloom.core.ids import CallId, IdError, TurnId, make_call_id, make_turn_id, parse_turn_id
from timeloom.core.paths import (
    AliasedPath,
    CallTextPath,
    CompletionPath,
    FilePath,
    LogicalPath,
    PathError,
    ToolPath,
    TurnForm,
    UserPromptPath,
    call_alias,
    make_alias,
    parse,
    parse_long,
    parse_resource,
    parse_turn_alias,
    rewrite_path,
    to_logical,
    turn_alias,
)

TURN, CALL = TurnId("turn_9"), CallId("18f62649fb3b")

EXPANDED = [
    ("ar:t12.user.prompt", f"ar:{TURN}.user.prompt"),
    ("ar:t12.assistant.completion.2", f"ar:{TURN}.assistant.completion.2"),
    ("ar:t12.react.notes.3", f"ar:{TURN}.react.notes.{CALL}"),
    ("ar:t12.react.approval.3", f"ar:{TURN}.react.approval.{CALL}"),
    ("ar:t12.react.thinking.3", f"ar:{TURN}.react.thinking.3"),
    ("ar:t12.react.plan.ack.3", f"ar:{TURN}.react.plan.ack.3"),
    ("ar:t12.react.plan.plan:turn_9:abcd", f"ar:{TURN}.react.plan.plan:turn_9:abcd"),
    ("ar:t12.react.turn.index", f"ar:{TURN}.react.turn.index"),
    ("ar:t12.artifacts.report.v2.md", f"ar:{TURN}.artifacts.report.v2.md"),
    ("ar:t12.external.followup.m7", f"ar:{TURN}.external.followup.m7"),
    ("tc:t12.3.call", f"tc:{TURN}.{CALL}.call"),
    ("tc:t12.3.result", f"tc:{TURN}.{CALL}.result"),
    ("fi:t12/report.md", f"fi:{TURN}.files/report.md"),
    ("fi:t12/src/main.py", f"fi:{TURN}.files/src/main.py"),
    ("fi:t12.outputs/x", f"fi:{TURN}.outputs/x"),
    ("fi:t12.user.attachments/x", f"fi:{TURN}.user.attachments/x"),
    ("fi:t12.external.form.attachments/m7/scan.png", f"fi:{TURN}.external.form.attachments/m7/scan.png"),
    ("su:t12.conv.range.summary", f"su:{TURN}.conv.range.summary"),
    ("ws:t12.conv.working.summary.4", f"ws:{TURN}.conv.working.summary.4"),
]


@pytest.mark.parametrize(("text", "expected"), EXPANDED)
def test_an_alias_stands_wherever_a_turn_or_call_id_stands(text: str, expected: str) -> None:
    path = parse(text)
    assert isinstance(path, AliasedPath)
    assert (str(path), path.turn, path.call) == (text, 12, 3 if str(CALL) in expected else None)
    assert str(path.expand(TURN, CALL)) == expected


def test_a_file_may_name_its_folder_and_is_written_without_it() -> None:
    assert str(parse("fi:t12.files/report.md")) == "fi:t12/report.md"


def test_an_older_spelling_of_a_tool_path_takes_an_alias_too() -> None:
    assert str(parse("tc:t12.tool_calls.3.out.json")) == "tc:t12.3.result"


@pytest.mark.parametrize("text", ["tc:t12.18f62649fb3b.result", "tc:t12.s1.result", "tc:t12.007.result"])
def test_a_call_may_have_its_id_after_the_alias_of_its_turn(text: str) -> None:
    path = parse(text)
    assert isinstance(path, AliasedPath)
    assert path.call is None
    assert str(path) == text


def test_a_number_is_the_id_of_a_call_after_the_id_of_a_turn() -> None:
    assert parse("tc:turn_9.3.result") == ToolPath(TURN, CallId("3"), "result")


@pytest.mark.parametrize(
    "text",
    [
        *("ar:t0.user.prompt", "ar:t012.user.prompt", "ar:t12345678.user.prompt", "ar:t.user.prompt"),
        *("ar:T12.user.prompt", "ar:t１２.user.prompt", "ar:t-1.user.prompt", "ar: t12.user.prompt"),
        *("fi:t12", "fi:t12/", "fi:t12./x", "fi:t12/../x", "fi:t12//x", "fi:t12.3/x", "tc:t12.3", "tc:t12.3.x"),
        *("tc:turn_9.t12.3.result", "sk:t12/../x", "so:t12", "ti:t12"),
    ],
)
def test_other_texts_with_an_alias_are_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse(text)


def test_the_error_quotes_the_alias_and_not_what_stands_in_its_place() -> None:
    with pytest.raises(PathError, match=r"got 't12\.3\.x'"):
        parse("tc:t12.3.x")


def test_a_skill_and_a_document_may_be_named_like_an_alias() -> None:
    assert [str(parse(text)) for text in ("sk:t12", "ks:t12/a.md")] == ["sk:t12", "ks:t12/a.md"]
    assert not isinstance(parse("sk:t12"), AliasedPath)


@pytest.mark.parametrize("text", [text for text, _ in EXPANDED])
def test_recorded_paths_are_long(text: str) -> None:
    with pytest.raises(PathError):
        parse_long(text)
    with pytest.raises(BlockError):
        need_path(text, "path")


def test_paths_of_other_conversations_are_long() -> None:
    with pytest.raises(PathError):
        parse_resource("ef:home:demo:chatbot:file:ann:conv_1:t1:artifact:outputs/report.pdf")


def test_a_physical_path_is_long() -> None:
    with pytest.raises(PathError):
        to_logical("t12/files/report.md")
    assert rewrite_path("t12/files/a.md", TURN).path == FilePath(TURN, "files", "t12/files/a.md")


def test_a_call_whose_id_is_a_number_has_no_alias_without_its_number() -> None:
    path = ToolPath(TURN, CallId("7"), "result")
    assert make_alias(path, 12) is None
    assert str(make_alias(path, 12, 3)) == "tc:t12.3.result"
    assert str(make_alias(CallTextPath(TURN, "note", CALL), 12)) == f"ar:t12.react.note.{CALL}"


def test_aliases_are_written_like_this() -> None:
    assert (turn_alias(12), call_alias(12, 3), parse_turn_alias("t12"), parse_turn_alias("turn_12")) == (
        "t12",
        "t12.3",
        12,
        None,
    )


@given(PATHS)
def test_no_long_path_is_mistaken_for_an_aliased_one(path: LogicalPath) -> None:
    assert parse(str(path)) == parse_long(str(path)) == path


@given(st.integers(min_value=0, max_value=2**60), st.integers(min_value=0, max_value=2**60), CALLS)
def test_no_id_of_a_turn_or_call_is_an_alias(epoch_ms: int, bits: int, call: CallId) -> None:
    turn = make_turn_id(epoch_ms, bits)
    assert parse_turn_alias(turn) is None
    for known in (call, make_call_id(bits)):
        assert parse(f"tc:{turn}.{known}.result") == ToolPath(turn, known, "result")


@given(st.integers(min_value=1, max_value=9_999_999), WORDS)
def test_no_alias_is_the_id_of_a_turn(number: int, word: str) -> None:
    with pytest.raises(IdError):
        parse_turn_id(turn_alias(number))
    assert parse_turn_alias(f"turn_{word}") is None


@given(PATHS, st.integers(min_value=1, max_value=9_999_999), st.integers(min_value=1, max_value=999_999_999))
def test_an_aliased_path_reads_back_and_expands_to_the_path(path: LogicalPath, number: int, call: int) -> None:
    if not isinstance(path, TurnForm):
        return
    known = call if isinstance(path, ToolPath | CallTextPath) else None
    alias = make_alias(path, number, known)
    assert alias is not None
    assert parse(str(alias)) == alias
    assert alias.expand(path.turn, getattr(path, "call", None)) == path


@given(st.sampled_from(["fi:t12/", "fi:t12.outputs/", "tc:t12.", "ar:t12.", "su:t12."]), TEXTS)
def test_any_aliased_text_is_canonical_or_refused(start: str, text: str) -> None:
    try:
        path = parse(start + text)
    except PathError:
        return
    assert isinstance(path, AliasedPath)
    assert parse(str(path)) == path


def test_a_path_without_a_call_ignores_the_id_of_a_call() -> None:
    path = parse("ar:t1.assistant.completion")
    assert isinstance(path, AliasedPath)
    assert path.expand(TURN, CALL) == CompletionPath(TURN)
    assert make_alias(UserPromptPath(TURN), 1, 3) == parse("ar:t1.user.prompt")
