"""The turn index names everything of a turn that can be read again, in few words."""

from collections.abc import Sequence

from hypothesis import given

from timeloom.core.blocks import (
    AnyBlock,
    AttachmentMeta,
    Completion,
    Digest,
    ModelAnswered,
    ModelCalled,
    PlanRecorded,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    Shown,
    SourcesAdded,
    ToolCall,
    ToolError,
    UserPrompt,
)
from timeloom.core.ids import CallId, PlanId, TurnId
from timeloom.core.paths import MAX_SELECTED, parse
from timeloom.core.payload import ref_of
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.turn_index import HINT_CHARS, IndexRow, fold_line, hint, turn_index
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"
TURN = TurnId("turn_1")
CALL = CallId("c1")
FILE = "fi:turn_1.files/a.pdf"


def rows_of(*blocks: AnyBlock) -> list[IndexRow]:
    entries = [to_entry(Draft(TURN, TS, block), seq) for seq, block in enumerate(blocks, 1)]
    return list(turn_index(TURN, entries).rows)


@given(timelines())
def test_every_path_of_a_turn_is_in_its_index(entries: Sequence[Entry]) -> None:
    here = [entry for entry in entries if entry.turn_id == TURN]
    listed = {row.path for row in turn_index(TURN, here).rows}
    for entry in here:
        digest_only = isinstance(entry.block, ResultDigest)
        assert not entry.path or digest_only or entry.path in listed
    assert all(len(row.hint) <= HINT_CHARS and "\n" not in row.hint for row in turn_index(TURN, here).rows)


def test_a_call_and_its_artifact_name_the_tool() -> None:
    digest = Digest(artifact_path=FILE, kind="file", mime="application/pdf", size_bytes=7)
    content = ResultContent(tool_call_id=CALL, artifact_path="fi:turn_1.files/b.pdf", mime="application/pdf")
    call = ToolCall(tool_id="x.write", tool_call_id=CALL, params='{"path":"a.pdf"}')
    assert rows_of(call, ResultDigest(tool_call_id=CALL, digest=digest), content) == [
        IndexRow("tool", "tc:turn_1.c1.call", '{"path":"a.pdf"}', "x.write"),
        IndexRow("artifact", FILE, "file application/pdf 7 bytes", "x.write"),
        IndexRow("artifact", "fi:turn_1.files/b.pdf", "application/pdf", "x.write"),
    ]


def test_rows_say_what_happened_in_their_own_words() -> None:
    snapshot = PlanSnapshot(plan_id=PlanId("p1"), steps=("look", "write"), statuses=("done", "pending"))
    row = SourceRow(sid=3, source_type="web", url="https://a.example/", title="Menu")
    failed = Digest(artifact_path=FILE, error=ToolError(code="tool_timeout", message="60 s"))
    hints = [
        row.hint
        for row in rows_of(
            UserPrompt(text="  where\nto eat "),
            AttachmentMeta(digest=Digest(artifact_path="fi:turn_1.user.attachments/menu.pdf"), summary="2 pages"),
            AttachmentMeta(digest=Digest(artifact_path="fi:turn_1.user.attachments/m.txt", mime="text/plain")),
            RoundStarted(round=1),
            PlanRecorded(snapshot=snapshot),
            SourcesAdded(rows=(row,)),
            ResultDigest(tool_call_id=CALL, digest=failed),
            ModelCalled(round=2, model="m", request_sha256="x"),
            ModelAnswered(round=1, model="m", stop_reason="end"),
            Completion(text=ref_of(b"stored")),
        )
    ]
    assert hints == [
        "where to eat",
        "2 pages",
        "text/plain",
        "open: look; write",
        "Menu",
        "tool_timeout: 60 s",
        "m",
        "m end",
        "(6 bytes)",
    ]


def test_a_large_result_is_hinted_at_with_what_was_recorded_about_it() -> None:
    ref, call, path = ref_of(b"x" * 50_000), CallId("c1"), "tc:turn_1.c1.result"
    shown = Shown("preview", 9, "[PREVIEW] 6000 of 50000 characters", hint="{rows: list of 300 objects}")
    (result,) = rows_of(
        ResultContent(tool_call_id=call, artifact_path=path, mime="application/json", text=ref, shown=shown)
    )
    (status,) = rows_of(ResultStatus(tool_call_id=call, text=ref, shown=shown))
    assert result.hint == status.hint == "(50000 bytes) {rows: list of 300 objects}"
    (older,) = rows_of(ResultStatus(tool_call_id=call, text=ref, shown=Shown("preview", 9, "[PREVIEW] of it")))
    assert older.hint == "(50000 bytes)"


def test_a_long_hint_is_cut() -> None:
    assert hint("x" * 500) == "x" * (HINT_CHARS - 1) + "…"


def test_no_row_is_left_out_and_every_entry_is_named_by_its_place() -> None:
    calls = [ToolCall(tool_id="x.y", tool_call_id=CallId(f"c{n}")) for n in range(MAX_SELECTED + 3)]
    index = turn_index(TURN, [to_entry(Draft(TURN, TS, call), seq) for seq, call in enumerate(calls, 1)])
    assert len(index.rows) == MAX_SELECTED + 3
    assert [str(one) for one in index.places] == ["ar:log[1-500]", "ar:log[501-503]"]
    assert str(parse(index.path)) == "ar:turn_1.react.turn.index"


def test_an_older_version_of_a_file_is_read_at_its_place() -> None:
    versions = [ResultContent(tool_call_id=CALL, artifact_path=FILE, mime="text/plain", text=text) for text in "abc"]
    assert rows_of(*versions) == [
        IndexRow("artifact", FILE, "c"),
        IndexRow("artifact", "ar:log[1]", f"an older version of {FILE}"),
        IndexRow("artifact", "ar:log[2]", f"an older version of {FILE}"),
    ]


def test_a_hint_changes_no_character_but_ascii_white_space() -> None:
    assert hint(" a\t\n b\u00a0c\u3000d ") == "a b\u00a0c\u3000d"
    assert fold_line("a\u2028b\x85\x1c") == "a\\u2028b\\u0085\\u001c"
