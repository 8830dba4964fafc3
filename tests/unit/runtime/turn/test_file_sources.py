"""Files that calls produce are sources that an answer can cite."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.replies import answers
from tests.harness.timeline import CALL, RESULT, TURN, BlockTimeline
from tests.harness.turn import TurnHarness, blocks_of, calls, run
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    Digest,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    ToolCall,
    ToolError,
)
from timeloom.core.paths import MAX_SID
from timeloom.core.payload import ref_of
from timeloom.core.sources import SourceRow
from timeloom.ports.tool import ToolContext
from timeloom.runtime.turn.file_sources import add_file_sources
from timeloom.tools.define import tool

NOW, LATER = "2026-02-09T02:14:32.676425Z", "2026-02-09T02:15:00.000000Z"
FILE = f"fi:{TURN}.files/a.md"
DIGEST = Digest(
    artifact_path=FILE,
    physical_path=f"{TURN}/files/a.md",
    mime="text/markdown",
    kind="file",
    visibility="external",
    size_bytes=7,
)


def result(digest: Digest = DIGEST, text: str | None = "# Title") -> list[AnyBlock]:
    content = ResultContent(tool_call_id=CALL, artifact_path=digest.artifact_path, mime=digest.mime, text=text)
    return [ResultDigest(tool_call_id=CALL, digest=digest), content]


def timeline(tool_id: str = "x.y", *before: AnyBlock) -> BlockTimeline:
    known = BlockTimeline(*before)
    known.append(ToolCall(tool_id=tool_id, tool_call_id=CALL), turn=TURN)
    return known


def rows_of(blocks: Sequence[AnyBlock], known: BlockTimeline | None = None, now: str = NOW) -> tuple[SourceRow, ...]:
    whole = add_file_sources(blocks, TURN, (known or timeline()).views, now)
    added = [block for block in whole if block not in blocks]
    return added[0].rows if added and isinstance(added[0], SourcesAdded) else ()


def test_a_produced_file_is_a_source_with_its_place_and_its_first_words() -> None:
    (row,) = rows_of(result())
    assert row == SourceRow(
        sid=1,
        source_type="file",
        title="a.md",
        text="# Title",
        mime="text/markdown",
        size_bytes=7,
        artifact_path=FILE,
        physical_path=f"{TURN}/files/a.md",
        modified_time_iso=NOW,
    )


@pytest.mark.parametrize("mime", ["text/csv", "image/png", "application/pdf"])
def test_pictures_and_documents_are_sources_too(mime: str) -> None:
    (row,) = rows_of(result(replace(DIGEST, mime=mime), None))
    assert (row.mime, row.text) == (mime, "")


def test_a_text_that_is_stored_apart_is_a_source_without_words() -> None:
    content = ResultContent(tool_call_id=CALL, artifact_path=FILE, mime="text/markdown", text=ref_of(b"# Title"))
    (row,) = rows_of([ResultDigest(tool_call_id=CALL, digest=DIGEST), content])
    assert row.text == ""


@pytest.mark.parametrize(
    "digest",
    [
        replace(DIGEST, visibility="internal"),
        replace(DIGEST, visibility=None),
        replace(DIGEST, mime="application/zip"),
        replace(DIGEST, error=ToolError("x", "y")),
        replace(DIGEST, size_bytes=0),
        replace(DIGEST, artifact_path=RESULT, physical_path=""),
    ],
)
def test_what_no_answer_can_cite_is_no_source(digest: Digest) -> None:
    assert rows_of(result(digest)) == ()


@pytest.mark.parametrize("tool_id", ["react.read", "react.pull"])
def test_a_file_that_a_call_only_shows_is_no_source(tool_id: str) -> None:
    assert rows_of(result(), timeline(tool_id)) == ()


def test_rows_stand_before_the_results_and_after_the_rows_of_the_tool() -> None:
    own = SourcesAdded(rows=(SourceRow(sid=4, title="web", url="https://a.example"),), tool_call_id=CALL)
    notice = Notice(code="tool_call_error", text="careful", tool_call_id=CALL)
    report = ResultStatus(tool_call_id=CALL, text="made")
    blocks = add_file_sources([notice, own, report, *result()], TURN, timeline().views, NOW)
    assert [type(block).__name__ for block in blocks] == [
        *("Notice", "SourcesAdded", "SourcesAdded", "ResultStatus", "ResultDigest", "ResultContent")
    ]
    assert isinstance(added := blocks[2], SourcesAdded)
    assert ([row.sid for row in added.rows], added.tool_call_id) == ([5], None)


def test_a_changed_file_keeps_its_id_and_an_unchanged_one_its_row() -> None:
    known = timeline("x.y", SourcesAdded(rows=rows_of(result())))
    assert rows_of(result(), known, LATER) == ()
    (row,) = rows_of(result(replace(DIGEST, size_bytes=9), "# Another"), known, LATER)
    assert (row.sid, row.text, row.size_bytes, row.modified_time_iso) == (1, "# Another", 9, LATER)
    assert rows_of(result(replace(DIGEST, size_bytes=9), "# Another"), known, NOW) == ()


def test_a_full_pool_takes_no_further_files() -> None:
    full = SourcesAdded(rows=(SourceRow(sid=MAX_SID, title="last", url="https://a.example"),))
    assert rows_of(result(), timeline("x.y", full)) == ()


def test_an_answer_cites_a_file_that_the_agent_wrote_and_nothing_is_tainted(tmp_path: Path) -> None:
    async def check() -> None:
        wrote = calls("react.write", path="a.md", content="# The fares of three ferries")
        turns = await TurnHarness(tmp_path, wrote, answers("It is all in the file [[S:1]].")).open()
        assert await turns.run("go") == "completed"
        (answer,) = [block for block in await blocks_of(turns) if isinstance(block, Completion)]
        assert answer.sources_used == (1,)
        # Its own words do not become foreign ones by standing in the pool.
        assert set(turns.session.views.governance.origins) == {"user"}

    run(check)


def test_files_of_calls_that_a_program_makes_at_once_get_different_ids(tmp_path: Path) -> None:
    async def check() -> None:
        async def play(context: ToolContext) -> str:
            """Plays."""
            nested = context.nested
            assert nested
            texts = [json.dumps({"path": f"{n}.md", "content": f"# File number {n}"}) for n in range(6)]
            await asyncio.gather(*(nested.call("react.write", text) for text in texts))
            return "played"

        stage = TurnHarness(tmp_path, calls("t.play"), answers("done"))
        stage.extra = (tool("t.play", effect="idempotent")(play),)
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        rows = turns.session.views.sources.pool.list_rows()
        assert [row.sid for row in rows] == [1, 2, 3, 4, 5, 6]
        assert {row.title for row in rows} == {f"{n}.md" for n in range(6)}

    run(check)
