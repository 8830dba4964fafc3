"""The result blocks of every call have one order, are bounded, and close the call."""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.timeline import CALL, OLD_TURN, RESULT, TS, TURN, BlockTimeline
from timeloom.core.blocks import (
    AnyBlock,
    Feedback,
    Hosting,
    Note,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    SourcesAdded,
    ToolCall,
    ToolError,
    make_tool_error,
)
from timeloom.core.blocks.extract_payloads import extract_payloads
from timeloom.core.ids import CallId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.tool import MAX_TEXT_BYTES, Artifact, Outcome, ToolNotice, ToolSpec
from timeloom.runtime.turn import tool_result as module
from timeloom.runtime.turn.tool_result import TOOL_BLOCKS, CallRef, build_result_blocks
from timeloom.testing import strategies as some
from timeloom.wire.record import decode_record, encode_record

FILE = f"fi:{TURN}.files/a.md"


def show(text: str, _mime: str, path: str) -> Shown:
    """Whole up to ten characters, then a preview."""
    return Shown("whole", len(text)) if len(text) <= 10 else Shown("preview", len(text), f"{text[:10]} of {path}")


def spec(tool_id: str = "x.y", *, reports: bool = False, max_text_bytes: int = MAX_TEXT_BYTES) -> ToolSpec:
    return ToolSpec(tool_id=tool_id, purpose="Does.", reports=reports, max_text_bytes=max_text_bytes)


def blocks_of(
    outcome: Outcome, tool: ToolSpec | None = None, timeline: BlockTimeline | None = None
) -> Sequence[AnyBlock]:
    at = CallRef(spec=tool or spec(), turn_id=TURN, tool_call_id=CALL)
    return build_result_blocks(outcome, at, (timeline or called()).views, show)


def called(tool_id: str = "x.y", *before: AnyBlock) -> BlockTimeline:
    timeline = BlockTimeline(*before)
    timeline.append(ToolCall(tool_id=tool_id, tool_call_id=CALL), turn=TURN)
    return timeline


def kinds(blocks: Sequence[AnyBlock]) -> list[str]:
    return [type(block).__name__ for block in blocks]


def text_artifact(text: str, path: str = FILE) -> Artifact:
    return Artifact(path=path, mime="text/markdown", text=text, kind="file", visibility="external")


def notices_of(blocks: Sequence[AnyBlock]) -> list[tuple[str, str]]:
    return [(block.code, block.text) for block in blocks if isinstance(block, Notice)]


def content_of(blocks: Sequence[AnyBlock]) -> ResultContent:
    [content] = [block for block in blocks if isinstance(block, ResultContent)]
    return content


def digest_of(blocks: Sequence[AnyBlock]) -> ResultDigest:
    [digest] = [block for block in blocks if isinstance(block, ResultDigest)]
    return digest


# --- the sequences that tools leave ----------------------------------------------------------------------------


def test_a_search_leaves_its_sources_metadata_and_the_list() -> None:
    listed = Artifact(path=RESULT, mime="application/json", text='[{"sid":1}]', kind="file", visibility="internal")
    blocks = blocks_of(Outcome(sources=(SourceRow(sid=1, title="A"),), artifacts=(listed,)))
    assert kinds(blocks) == ["SourcesAdded", "ResultDigest", "ResultContent"]
    digest = digest_of(blocks).digest
    assert (digest.artifact_path, digest.physical_path) == (RESULT, "")
    assert (digest.kind, digest.visibility, digest.tool_call_id) == ("file", "internal", CALL)


def test_a_written_file_leaves_metadata_with_its_tokens_and_the_content() -> None:
    artifact = Artifact(
        path=FILE,
        mime="text/markdown",
        text="# Report, long",
        kind="display",
        visibility="external",
        channel="canvas",
        physical_path="/srv/out/turn_2/files/a.md",
        sources_used=(1, 2),
        write_warning="small",
        hosting=Hosting(hosted_uri="s3://b/k", rn="ef:x", key="k"),
    )
    blocks = blocks_of(Outcome(artifacts=(artifact,)))
    assert kinds(blocks) == ["ResultDigest", "ResultContent"]
    digest, content = digest_of(blocks).digest, content_of(blocks)
    assert (digest.tokens, digest.size_bytes, digest.edited) == (14, 14, False)
    assert (digest.physical_path, digest.channel, digest.sources_used) == (f"{TURN}/files/a.md", "canvas", (1, 2))
    assert digest.write_warning == "small"
    assert content.shown == Shown("preview", 14, f"# Report,  of {FILE}")
    assert content.hosting == artifact.hosting
    assert content.digest == digest


def test_an_exec_call_leaves_its_report_and_each_file_in_its_own_way() -> None:
    files = (
        Artifact(path=f"fi:{TURN}.files/report.pdf", mime="application/pdf", data=b"%PDF"),
        Artifact(path=f"fi:{TURN}.files/notes.txt", mime="text/plain", text="é" * 20_000, size_bytes=40_000),
        Artifact(path=f"fi:{TURN}.files/data.xlsx", mime="application/vnd.ms-excel", data=b"PK"),
    )
    error = ToolError(code="missing_artifact", message="b.csv was not produced", details={"missing": "b.csv"})
    outcome = Outcome(status="Runtime error", status_mime="text/markdown", artifacts=files, error=error)
    blocks = blocks_of(outcome, spec("exec_tools.execute_code_python", reports=True, max_text_bytes=20 * 1024))
    assert kinds(blocks) == ["ResultStatus", *["ResultDigest", "ResultContent"] * 3]
    status, _, pdf, _, text, table, sheet = blocks
    assert isinstance(status, ResultStatus)
    assert (status.text, status.mime, status.error) == ("Runtime error", "text/markdown", error)
    assert isinstance(pdf, ResultContent) and isinstance(text, ResultContent) and isinstance(sheet, ResultContent)
    assert (pdf.data, pdf.shown) == (b"%PDF", Shown("whole"))
    assert text.text == "é" * 10 * 1024 + "...[truncated]"
    assert (sheet.text, sheet.data, sheet.shown) == (None, None, None)
    assert isinstance(table, ResultDigest)
    assert (table.digest.size_bytes, table.digest.tokens) == (2, None)


def test_a_read_leaves_its_status_first() -> None:
    outcome = Outcome(status='{"paths":[]}', artifacts=(text_artifact("a"), text_artifact("b", "sk:guide")))
    blocks = blocks_of(outcome)
    assert kinds(blocks) == ["ResultStatus", "ResultDigest", "ResultContent", "ResultDigest", "ResultContent"]
    assert blocks[0] == ResultStatus(
        tool_call_id=CALL, text='{"paths":[]}', mime="application/json", shown=show('{"paths":[]}', "", RESULT)
    )


def test_a_call_that_leaves_nothing_gets_a_plain_receipt() -> None:
    blocks = blocks_of(Outcome(blocks=(Note(tool_call_id=CALL, text="[D] decided"),)))
    assert kinds(blocks) == ["ResultStatus", "Note"]


def test_a_patch_leaves_metadata_first_and_its_summary_last() -> None:
    diff = Artifact(path=RESULT, mime="text/x-diff", text="@@ -1 +1 @@", content_only=True)
    outcome = Outcome(artifacts=(text_artifact("# A"), diff), summary='{"result":"patched"}')
    blocks = blocks_of(outcome)
    assert kinds(blocks) == ["ResultDigest", "ResultContent", "ResultContent", "ResultStatus"]
    assert isinstance(blocks[2], ResultContent) and isinstance(blocks[3], ResultStatus)
    assert (blocks[2].artifact_path, blocks[2].digest) == (RESULT, None)
    assert (blocks[3].text, blocks[3].mime) == ('{"result":"patched"}', "application/json")


def test_content_without_metadata_does_not_close_a_call_alone() -> None:
    row = Artifact(path="so:sources_pool[1]", mime="text/plain", text="[1] A", content_only=True)
    assert kinds(blocks_of(Outcome(artifacts=(row,)))) == ["ResultStatus", "ResultContent"]


def test_metadata_can_stand_alone() -> None:
    artifact = Artifact(path=FILE, mime="text/plain", size_bytes=7, meta_only=True)
    assert kinds(blocks_of(Outcome(artifacts=(artifact,)))) == ["ResultDigest"]


# --- errors ----------------------------------------------------------------------------------------------------


def test_an_error_is_told_and_stands_in_the_receipt() -> None:
    error = make_tool_error("tool_timeout", "took too long")
    notice, status = blocks_of(Outcome(error=error))
    assert notice == Notice(code="tool_timeout", text="took too long", tool_call_id=CALL)
    assert isinstance(status, ResultStatus) and isinstance(status.text, str)
    assert json.loads(status.text) == {"error": {"code": "tool_timeout", "message": "took too long"}}
    assert (status.mime, status.error) == ("application/json", error)


def test_a_foreign_code_is_told_under_one_of_ours() -> None:
    outcome = Outcome(error=ToolError(code="quota", message="no more"))
    assert notices_of(blocks_of(outcome)) == [("tool_call_error", "quota: no more")]


def test_an_error_that_was_told_is_not_told_again() -> None:
    error = make_tool_error("hide_before_cache", "too old")
    outcome = Outcome(notices=(ToolNotice("hide_before_cache", "it lies before the cache point"),), error=error)
    assert notices_of(blocks_of(outcome)) == [("hide_before_cache", "it lies before the cache point")]


def test_a_tool_that_reports_tells_errors_in_its_report_only() -> None:
    report = spec(reports=True)
    failed = Artifact(path=FILE, mime="text/plain", error=ToolError(code="missing_artifact", message="not produced"))
    status, digest = blocks_of(Outcome(error=ToolError(code="oom", message="no memory"), artifacts=(failed,)), report)
    assert isinstance(status, ResultStatus)
    assert (status.text, status.mime) == ("Runtime error: oom — no memory", "text/markdown")
    assert isinstance(digest, ResultDigest)
    assert digest.digest.error == failed.error
    violation = make_tool_error("protocol_violation.param_ref_not_visible", "not visible")
    assert kinds(blocks_of(Outcome(error=violation), report)) == ["Notice", "ResultStatus"]


def test_a_file_that_is_missing_is_told_and_has_no_content() -> None:
    error = make_tool_error("tool_result_error", "the file is empty")
    blocks = blocks_of(Outcome(artifacts=(Artifact(path=FILE, mime="text/html", error=error),)))
    assert kinds(blocks) == ["Notice", "ResultDigest"]
    assert notices_of(blocks) == [("tool_result_error", f"{FILE}: the file is empty")]
    both = blocks_of(Outcome(error=error, artifacts=(Artifact(path=FILE, mime="text/html", error=error),)))
    assert notices_of(both) == [("tool_result_error", "the file is empty")]
    assert kinds(both) == ["Notice", "ResultDigest"]
    nowhere = blocks_of(Outcome(error=error, artifacts=(Artifact(path="/x", mime="text/html", error=error),)))
    assert kinds(nowhere) == ["Notice", "Notice", "ResultStatus"]


def test_what_is_at_no_logical_path_is_told_and_left_out() -> None:
    blocks = blocks_of(Outcome(artifacts=(text_artifact("a", "/srv/out/a.md"),)))
    assert kinds(blocks) == ["Notice", "ResultStatus"]
    assert "/srv" not in str(blocks)


def test_an_older_spelling_of_a_path_is_made_the_usual_one() -> None:
    blocks = blocks_of(Outcome(artifacts=(text_artifact("a", f"tc:{TURN}.tool_calls.{CALL}.out.json"),)))
    assert content_of(blocks).artifact_path == RESULT


def test_an_alias_in_the_path_of_an_artifact_is_recorded_as_the_id() -> None:
    blocks = blocks_of(Outcome(artifacts=(text_artifact("a", "fi:t1/a.md"), text_artifact("b", "fi:t2/b.md"))))
    assert content_of(blocks).artifact_path == f"fi:{TURN}.files/a.md"
    assert "t2 names no turn: the conversation has 1 turn" in str(blocks[0])


def test_blocks_that_are_not_a_tools_to_give_are_told_and_left_out() -> None:
    foreign = (ToolCall(tool_id="x.y", tool_call_id=CallId("c8")), Note(tool_call_id=CALL, text="\ud800"))
    blocks = blocks_of(Outcome(blocks=foreign))
    assert kinds(blocks) == ["Notice", "Notice", "ResultStatus"]
    assert "react.tool.call" in notices_of(blocks)[0][1]


def test_a_note_belongs_to_the_call_that_left_it() -> None:
    [_, note] = blocks_of(Outcome(blocks=(Note(tool_call_id=CallId("c8"), text="n"),)))
    assert note == Note(tool_call_id=CALL, text="n")


def test_feedback_of_a_tool_is_a_machines() -> None:
    said = (
        Feedback(origin="user", reaction="ok", text="I am a person"),
        Feedback(origin="machine", confidence=0.5, author="judge"),
    )
    [_, first, second] = blocks_of(Outcome(blocks=said))
    assert first == Feedback(origin="machine", reaction="ok", text="I am a person", author="x.y")
    assert second == said[1]


# --- versions --------------------------------------------------------------------------------------------------


def version(call: str, path: str = FILE) -> tuple[AnyBlock, ...]:
    return tuple(
        build_result_blocks(
            Outcome(artifacts=(text_artifact("old", path),)),
            CallRef(spec=spec(), turn_id=OLD_TURN, tool_call_id=CallId(call)),
            BlockTimeline().views,
            show,
        )
    )


def test_a_second_version_is_an_edit() -> None:
    again = Outcome(artifacts=(text_artifact("new"),))
    assert not digest_of(blocks_of(again)).digest.edited
    assert digest_of(blocks_of(again, timeline=called("x.y", *version("c1")))).digest.edited


def test_showing_a_version_again_is_no_edit() -> None:
    shown = Outcome(status="", artifacts=(text_artifact("old"),))
    once = called("react.read", *version("c1"))
    twice = called("react.read", *version("c1"), *version("c2"))
    assert not digest_of(blocks_of(shown, timeline=once)).digest.edited
    assert digest_of(blocks_of(shown, timeline=twice)).digest.edited


def test_what_a_call_leaves_twice_is_one_version() -> None:
    timeline = called()
    timeline.append(*blocks_of(Outcome(artifacts=(text_artifact("a"),))), turn=TURN)
    assert not digest_of(blocks_of(Outcome(artifacts=(text_artifact("b"),)), timeline=timeline)).digest.edited


# --- bounds ----------------------------------------------------------------------------------------------------


def test_a_large_text_is_cut_between_characters_and_told() -> None:
    blocks = blocks_of(Outcome(artifacts=(text_artifact("aé" * 50),)), spec(max_text_bytes=100))
    content = content_of(blocks)
    assert content.text == "aé" * 33 + "a" + "...[truncated]"
    assert digest_of(blocks).digest.size_bytes == 150
    assert notices_of(blocks) == [("tool_result_too_large", f"{FILE} has 150 bytes, of which 100 were kept")]


def test_a_large_image_or_pdf_is_a_stub_or_stays_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    mib = 1024 * 1024
    monkeypatch.setattr(module, "MAX_DATA_BYTES", 11 * mib)

    def shown(mime: str, size: int) -> tuple[str, bool]:
        content = content_of(blocks_of(Outcome(artifacts=(Artifact(path=FILE, mime=mime, data=b"x" * size),))))
        return content.shown.how if content.shown else "", content.data is not None

    sizes = (4 * mib, 6 * mib, 12 * mib)
    assert [shown("image/png", size) for size in sizes] == [("whole", True), ("stub", True), ("", False)]
    assert [shown("application/PDF; a=b", size) for size in sizes] == [("whole", True), ("whole", True), ("", False)]


def test_a_tool_that_knows_how_its_content_is_shown_decides_it() -> None:
    lines = Shown("preview", 3, "lines [2-3]/9")
    artifact = Artifact(path=FILE, mime="text/plain", text="two\nthree", shown=lines)
    blocks = blocks_of(Outcome(artifacts=(artifact,)))
    assert (content_of(blocks).shown, digest_of(blocks).digest.tokens) == (lines, 3)


def test_a_call_leaves_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CALL_BYTES", 10)
    monkeypatch.setattr(module, "MAX_ARTIFACTS", 3)
    artifacts = tuple(text_artifact("12345", f"fi:{TURN}.files/{n}.md") for n in range(5))
    blocks = blocks_of(Outcome(artifacts=artifacts))
    contents = [block for block in blocks if isinstance(block, ResultContent)]
    assert [content.text for content in contents] == ["12345", "12345", None]
    assert [code for code, _ in notices_of(blocks)] == ["tool_result_too_large"] * 2
    picture = Artifact(path=FILE, mime="image/png", data=b"x" * 11)
    assert content_of(blocks_of(Outcome(artifacts=(picture,)))).data is None


def test_more_sources_than_one_selection_can_name_stay_out() -> None:
    rows = tuple(SourceRow(sid=sid, title="A") for sid in range(1, 502))
    blocks = blocks_of(Outcome(sources=rows))
    assert isinstance(blocks[1], SourcesAdded)
    assert len(blocks[1].rows) == 500
    assert notices_of(blocks)[0][0] == "tool_result_too_large"


def test_notices_and_words_are_bounded() -> None:
    notices = tuple(ToolNotice("tool_call_error", f"{n} " + "x" * 9999) for n in range(99))
    blocks = blocks_of(Outcome(notices=(ToolNotice("", ""), ToolNotice("tool_timeout", ""), *notices)))
    assert len(notices_of(blocks)) == 50
    assert max(len(text) for _, text in notices_of(blocks)) == 2000
    assert notices_of(blocks)[0] == ("tool_call_error", "no reason was given")


def test_the_details_of_an_error_are_bounded() -> None:
    error = ToolError(code="", message="", details={"big": 10**30, "long": "x" * 999, "n": 1, "none": None})
    [_, status] = blocks_of(Outcome(error=error))
    assert isinstance(status, ResultStatus) and status.error
    assert status.error.code == "tool_call_error"
    assert status.error.details == {"big": str(10**30), "long": "x" * 200, "n": 1, "none": None}


def test_stored_text_stays_stored_and_is_shown_by_what_it_says() -> None:
    ref = ref_of(b"stored")
    artifact = Artifact(path=FILE, mime="text/plain", text=ref)
    at = CallRef(spec=spec(), turn_id=TURN, tool_call_id=CALL)
    known = build_result_blocks(Outcome(artifacts=(artifact,)), at, called().views, show, {ref: "stored"})
    assert (content_of(known).text, content_of(known).shown) == (ref, Shown("whole", 6))
    picture = Outcome(artifacts=(Artifact(path=FILE, mime="image/png", data=ref),))
    assert (content_of(blocks_of(picture)).data, content_of(blocks_of(picture)).shown) == (ref, Shown("whole"))
    unknown = content_of(blocks_of(Outcome(artifacts=(artifact,))))
    assert unknown.shown is not None
    assert (unknown.shown.how, "react.read" in unknown.shown.text) == ("stub", True)


# --- for any outcome -------------------------------------------------------------------------------------------

wild_text = st.text(max_size=30) | st.just("\ud800") | st.just("x" * 300)
wild_errors = st.builds(
    ToolError,
    code=st.sampled_from(("tool_timeout", "odd", "", "protocol_violation.path_rewritten")),
    message=wild_text,
    where=wild_text,
    details=st.dictionaries(wild_text, st.none() | st.integers() | st.floats() | wild_text, max_size=3),
)
wild_artifacts = st.builds(
    Artifact,
    path=some.paths() | st.just(RESULT) | wild_text | st.just("so:sources_pool[1]"),
    mime=some.mimes | st.sampled_from(("application/pdf", "", "image/png")) | wild_text,
    text=st.none() | wild_text | some.blob_refs,
    data=st.none() | st.binary(max_size=20) | some.blob_refs,
    kind=st.sampled_from(("file", "display", None)),
    visibility=st.sampled_from(("external", "internal", None)),
    channel=wild_text,
    physical_path=wild_text,
    sources_used=st.lists(st.integers(1, 9), max_size=2).map(tuple),
    size_bytes=st.none() | st.integers(0, 99),
    write_warning=wild_text,
    error=st.none() | wild_errors,
    hosting=st.none() | st.builds(Hosting, hosted_uri=wild_text, rn=wild_text, key=wild_text),
    meta_only=st.booleans(),
    content_only=st.booleans(),
    shown=st.none()
    | st.just(Shown("whole", 3))
    | st.builds(Shown, st.sampled_from(("preview", "stub")), st.integers(0, 9), wild_text.filter(bool)),
)
outcomes = st.builds(
    Outcome,
    notices=st.lists(st.builds(ToolNotice, code=wild_text, text=wild_text), max_size=3).map(tuple),
    sources=st.lists(some.source_rows, max_size=3).map(tuple),
    blocks=st.lists(some.blocks, max_size=3).map(tuple),
    status=st.none() | wild_text,
    status_mime=wild_text,
    artifacts=st.lists(wild_artifacts, max_size=4).map(tuple),
    summary=st.none() | wild_text,
    error=st.none() | wild_errors,
)
specs = st.builds(
    spec,
    st.sampled_from(("react.read", "x.y")),
    reports=st.booleans(),
    max_text_bytes=st.sampled_from((1, 10, 1000)),
)


@given(some.timelines(12), outcomes, specs)
def test_the_blocks_of_any_outcome_are_in_order_close_the_call_and_can_be_stored(
    entries: Sequence[Entry], outcome: Outcome, tool: ToolSpec
) -> None:
    timeline = BlockTimeline(*(entry.block for entry in entries[1:]))
    timeline.append(ToolCall(tool_id=tool.tool_id, tool_call_id=CALL), turn=TURN)
    blocks = blocks_of(outcome, tool, timeline)
    assert in_order(blocks)
    assert f"{TURN}.{CALL}" in timeline.views.calls.open
    timeline.append(*blocks, turn=TURN)
    assert f"{TURN}.{CALL}" not in timeline.views.calls.open
    for seq, block in enumerate(blocks, 1):
        stored, _ = extract_payloads(block)
        assert decode_record(encode_record(Draft(TURN, TS, stored)), seq).block == stored


def in_order(blocks: Sequence[AnyBlock]) -> bool:
    """Notices, sources, results, own blocks; a status first or last among results, metadata before its content."""
    ranks = [rank(block) for block in blocks]
    results = [block for block, at in zip(blocks, ranks, strict=True) if at == 2]
    inner = [block for block in results[1:-1] if isinstance(block, ResultStatus)]
    paired = all(
        isinstance(before, ResultDigest) and before.digest == block.digest
        for before, block in pairwise([None, *results])
        if isinstance(block, ResultContent) and block.digest
    )
    closes = any(isinstance(block, ResultStatus | ResultDigest) for block in results)
    return ranks == sorted(ranks) and not inner and paired and closes


def rank(block: AnyBlock) -> int:
    match block:
        case Notice():
            return 0
        case SourcesAdded():
            return 1
        case ResultStatus() | ResultDigest() | ResultContent():
            return 2
        case _:
            assert isinstance(block, TOOL_BLOCKS)
            return 3


def test_a_reference_of_a_source_is_kept() -> None:
    row = SourceRow(sid=1, title="A", content=BlobRef("0" * 64, 10**9))
    blocks = blocks_of(Outcome(sources=(row,)))
    assert blocks[0] == SourcesAdded(rows=(row,), tool_call_id=CALL)


# --- where files are hosted -------------------------------------------------------------------------------------


def hosted(artifact: Artifact, tool_id: str = "x.y", *before: AnyBlock) -> Hosting | None:
    at = CallRef(
        spec=spec(tool_id),
        turn_id=TURN,
        tool_call_id=CALL,
        locate=lambda path: Hosting(hosted_uri=f"/file?path={path}"),
    )
    return content_of(
        build_result_blocks(Outcome(artifacts=(artifact,)), at, called(tool_id, *before).views, show)
    ).hosting


def test_a_file_that_the_user_can_download_says_where_it_is_hosted() -> None:
    assert hosted(text_artifact("# A")) == Hosting(hosted_uri=f"/file?path={FILE}")
    workbook = Artifact(path=FILE, mime="application/zip", data=b"PK", visibility="external", size_bytes=2)
    assert hosted(workbook) == Hosting(hosted_uri=f"/file?path={FILE}")


@pytest.mark.parametrize(
    "artifact",
    [
        Artifact(path=FILE, mime="text/plain", text="# A", visibility="internal"),
        Artifact(path=FILE, mime="text/plain", text="# A"),
        Artifact(path=FILE, mime="text/plain", visibility="external", size_bytes=0),
        Artifact(path=RESULT, mime="text/plain", text="# A", visibility="external"),
        Artifact(path=FILE, mime="text/plain", text="# A", visibility="external", error=ToolError("x", "y")),
    ],
)
def test_what_nobody_can_download_is_hosted_nowhere(artifact: Artifact) -> None:
    assert hosted(artifact) is None


def test_a_tool_that_hosts_its_files_itself_says_where() -> None:
    own = Hosting(hosted_uri="s3://bucket/a", rn="rn", key="a")
    artifact = Artifact(path=FILE, mime="text/plain", text="# A", visibility="external", hosting=own)
    assert hosted(artifact) == own


def test_a_read_of_a_file_does_not_host_it_again() -> None:
    assert hosted(text_artifact("# A"), "react.read") is None
