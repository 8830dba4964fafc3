"""The short aliases of turns and calls lead to the ids of the conversation, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import AnyBlock, ConversationStarted, Notes, ResultStatus, ToolCall, TurnStarted, UserPrompt
from timeloom.core.blocks.redact import redact_block
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import PathError, parse, parse_long
from timeloom.core.render.names import Names
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.aliases import ConversationNames, expand_aliases, parse_in, resolve_aliases, rewrite_in
from timeloom.core.view.views import Views, fold
from timeloom.testing.strategies import timelines
from timeloom.wire.snapshot import decode_views, encode_views

TS = "2026-02-09T02:14:32.676425Z"
ONE, TWO = TurnId("turn_1770603271112_2yz1lp"), TurnId("turn_x")
A, B, C = CallId("18f62649fb3b"), CallId("7"), CallId("call_c")


def call(call_id: CallId, by: CallId | None = None) -> ToolCall:
    return ToolCall(tool_call_id=call_id, tool_id="web.search", params="{}", by=by)


def log(*blocks: tuple[TurnId, AnyBlock]) -> list[Entry]:
    header = Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))
    drafts = [header, *(Draft(turn, TS, block) for turn, block in blocks)]
    return [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]


LOG = log(
    (ONE, TurnStarted(n=1)),
    (ONE, UserPrompt(text="hello")),
    (ONE, Notes(tool_call_id=B, text="first the second")),
    (ONE, call(A)),
    (ONE, ResultStatus(tool_call_id=A, text="found")),
    (ONE, call(B)),
    (TWO, TurnStarted(n=2)),
    (TWO, call(C)),
)


@pytest.fixture
def views() -> Views:
    return fold(LOG)


@pytest.fixture
def names(views: Views) -> Names:
    return ConversationNames(views)


def test_turns_and_calls_have_their_numbers_as_names(names: Names) -> None:
    assert [names.turn(ONE), names.turn(TWO)] == ["t1", "t2"]
    # The notes of the second call come first, but calls are numbered by their `react.tool.call` blocks.
    assert [names.call(ONE, A), names.call(ONE, B), names.call(TWO, C)] == ["t1.1", "t1.2", "t2.1"]


def test_other_turns_and_calls_keep_their_ids(names: Names) -> None:
    assert names.turn(TurnId("turn_9")) == "turn_9"
    assert names.call(TWO, A) == A
    assert names.call(TurnId("turn_9"), A) == A


def test_a_call_that_only_has_notes_has_no_number_yet() -> None:
    views = fold(log((ONE, Notes(tool_call_id=A, text="soon"))))
    assert ConversationNames(views).call(ONE, A) == A
    assert ConversationNames(views).path(f"ar:{ONE}.react.notes.{A}") == f"ar:t1.react.notes.{A}"


@pytest.mark.parametrize(
    ("path", "alias"),
    [
        (f"ar:{ONE}.user.prompt", "ar:t1.user.prompt"),
        (f"tc:{ONE}.{A}.result", "tc:t1.1.result"),
        (f"tc:{ONE}.{B}.call", "tc:t1.2.call"),
        (f"ar:{ONE}.react.notes.{B}", "ar:t1.react.notes.2"),
        (f"fi:{TWO}.files/report.md", "fi:t2/report.md"),
        (f"fi:{TWO}.outputs/a/b.csv", "fi:t2.outputs/a/b.csv"),
        (f"fi:{TWO}.user.attachments/x.pdf", "fi:t2.user.attachments/x.pdf"),
        (f"su:{TWO}.conv.range.summary.1", "su:t2.conv.range.summary.1"),
    ],
)
def test_paths_are_shown_with_aliases_and_read_back(path: str, alias: str, names: Names, views: Views) -> None:
    assert names.path(path) == alias
    assert str(resolve_aliases(parse(alias), views)) == path
    assert expand_aliases(alias, views) == path


@pytest.mark.parametrize(
    "path",
    [
        *("fi:turn_9.files/a.md", "tc:turn_9.7.result", "so:sources_pool[1-3]", "ar:turns[2].react.turn.index"),
        *(f"tc:{TWO}.7.result", "sk:t1", "files/a.md", "https://example.com/t1/files/a", "", "fi:t1/a.md", "x" * 5000),
    ],
)
def test_other_paths_stay_as_they_are(path: str, names: Names) -> None:
    assert names.path(path) == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fi:t3/a.md", "t3 names no turn: the conversation has 2 turns"),
        ("tc:t1.3.result", r"t1\.3 names no call: turn 1 has 2 calls"),
        ("tc:t2.2.result", r"t2\.2 names no call: turn 2 has 1 call$"),
        ("t3/files/a.md", "t3 names no turn: the conversation has 2 turns"),
    ],
)
def test_an_alias_of_nothing_is_refused_with_the_numbers_that_exist(text: str, message: str, views: Views) -> None:
    with pytest.raises(PathError, match=message) as refused:
        expand_aliases(text, views)
    assert refused.value.code == "path_not_found"


def test_an_empty_conversation_has_no_aliases() -> None:
    with pytest.raises(PathError, match="t1 names no turn: the conversation has 0 turns"):
        parse_in("fi:t1/a.md", Views())


def test_a_long_path_is_parsed_as_it_stands(views: Views) -> None:
    assert parse_in("fi:turn_9.files/a.md", views) == parse_long("fi:turn_9.files/a.md")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fi:t1/src/", f"fi:{ONE}.files/src/"),
        ("fi:t1/", f"fi:{ONE}.files/"),
        ("fi:t1.outputs/", f"fi:{ONE}.outputs/"),
        ("t1/files/a.md", f"{ONE}/files/a.md"),
        ("./t1/outputs/", f"./{ONE}/outputs/"),
        ("t1/attachments", f"{ONE}/attachments"),
        ("t1/external/form/attachments/m/a.png", f"{ONE}/external/form/attachments/m/a.png"),
    ],
)
def test_folders_and_physical_paths_take_aliases(text: str, expected: str, views: Views) -> None:
    assert expand_aliases(text, views) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "t1",
            "t1/",
            "t1/report.md",
            "files/t1/files/a.md",
            "t01/files/a.md",
            "t1/filesystem/a.md",
            "x t1/files/",
        ),
        *(f"{ONE}/files/a.md", f"fi:{ONE}.files/src/", "fi:t1", "fi:t1/../a", "turn_t1/files/a.md", "T1/files/a.md"),
    ],
)
def test_other_texts_are_left_to_their_parser(text: str, views: Views) -> None:
    assert expand_aliases(text, views) == text


def test_a_turn_is_found_by_id_number_and_alias(views: Views) -> None:
    assert [views.turns.find_named(text) for text in (ONE, "1", "t1", "t2")] == [ONE, ONE, ONE, TWO]
    assert [views.turns.find_named(text) for text in ("", "0", "3", "t3", "01", "t", "tt1", "turn_9")] == [None] * 8


def test_a_file_is_rewritten_into_the_current_turn(views: Views) -> None:
    assert [
        (str(found.path), found.changed)
        for found in (rewrite_in(text, TWO, views) for text in ("fi:t1/a.md", "t2/files/a.md", "a.md"))
    ] == [(f"fi:{TWO}.files/a.md", True), (f"fi:{TWO}.files/a.md", False), (f"fi:{TWO}.files/a.md", False)]


def test_calls_of_programs_are_numbered_too_and_a_repeated_call_keeps_its_number() -> None:
    views = fold(log((ONE, call(A)), (ONE, call(B, by=A)), (ONE, call(A)), (ONE, call(C))))
    assert [ConversationNames(views).call(ONE, one) for one in (A, B, C)] == ["t1.1", "t1.2", "t1.3"]


def test_erased_blocks_keep_their_numbers(views: Views) -> None:
    erased = [to_entry(Draft(one.turn_id, one.ts, redact_block(one.block)), one.seq) for one in LOG[1:]]
    again = fold([LOG[0], *erased])
    assert (again.turns.by_number, again.calls.by_number) == (views.turns.by_number, views.calls.by_number)


def test_a_copied_beginning_keeps_its_numbers(views: Views) -> None:
    fork = fold([*LOG[:5], to_entry(Draft(TurnId("turn_other"), TS, TurnStarted(n=2)), 6)])
    assert [ConversationNames(fork).path(f"tc:{ONE}.{A}.{part}") for part in ("call", "result")] == [
        "tc:t1.1.call",
        "tc:t1.1.result",
    ]
    assert fork.turns.find(1) == views.turns.find(1)
    assert fork.turns.find(2) == "turn_other"


@given(timelines(), st.data())
def test_each_turn_and_call_comes_back_from_its_name(entries: list[Entry], data: st.DataObject) -> None:
    cut = data.draw(st.integers(min_value=0, max_value=len(entries)))
    first = fold(entries[:cut])
    restored = decode_views(encode_views(first))
    assert restored is not None
    views = fold(entries[cut:], restored)
    names = ConversationNames(views)
    # Plain code over the whole log.
    turns = list(dict.fromkeys(entry.turn_id for entry in entries if entry.turn_id != NO_TURN))
    assert [names.turn(turn) for turn in turns] == [f"t{number}" for number in range(1, len(turns) + 1)]
    for number, turn in enumerate(turns, 1):
        blocks = [entry.block for entry in entries if entry.turn_id == turn]
        calls = dict.fromkeys(block.tool_call_id for block in blocks if isinstance(block, ToolCall))
        for n, call_id in enumerate(calls, 1):
            assert names.call(turn, call_id) == f"t{number}.{n}"
    for entry in entries:
        if entry.path and entry.turn_id != NO_TURN:
            assert str(parse_in(names.path(entry.path), views)) == entry.path
