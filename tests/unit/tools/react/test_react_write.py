"""react.write makes a text a file of the current turn, on disk and on the timeline."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.react_tools import T1, T2, ToolHarness, open_tool_harness
from timeloom.core.blocks import Note, SourcesAdded
from timeloom.core.codes import CodedError
from timeloom.core.sources import SourceRow
from timeloom.ports.tool import Outcome
from timeloom.tools.react import write as module
from timeloom.tools.react.patch import patch
from timeloom.tools.react.read import ReadTool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.react.write import Channel, write

pytestmark = pytest.mark.anyio
REPORT = "# Report\n\nFrisia is cheaper [[S:1,3]] and [[S:9]].\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path / "out")


async def wrote(
    stage: ToolHarness, path: str, content: str, channel: Channel = "canvas", scratchpad: bool = False
) -> Outcome:
    context = stage.context(T2)
    outcome = await write(context, path, content=content, channel=channel, scratchpad=scratchpad)
    await stage.record("react.write", context, outcome)
    return outcome


async def test_a_written_file_is_on_disk_and_on_the_timeline(stage: ToolHarness) -> None:
    await stage.append(SourcesAdded(rows=(SourceRow(sid=1, title="a"), SourceRow(sid=3, title="b"))))
    outcome = await wrote(stage, "files/reports/summary.md", REPORT)
    (artifact,) = outcome.artifacts
    assert (artifact.path, artifact.physical_path) == (
        "fi:turn_2.files/reports/summary.md",
        "turn_2/files/reports/summary.md",
    )
    assert (artifact.mime, artifact.kind, artifact.visibility, artifact.channel) == (
        "text/markdown",
        "file",
        "external",
        "canvas",
    )
    assert (artifact.text, artifact.size_bytes, artifact.sources_used) == (REPORT, len(REPORT), (1, 3))
    assert (stage.out_dir / artifact.physical_path).read_text() == REPORT
    assert [notice.code for notice in outcome.notices] == ["tool_call_warning.missing_sources"]
    assert (outcome.status, outcome.blocks, outcome.error) == (None, (), None)
    read = await ReadTool().read(stage.context(T2), ("fi:turn_2.files/reports/summary.md",))
    assert '"exists_in_visible_context":["fi:turn_2.files/reports/summary.md"]' in str(read.status)


async def test_a_path_of_another_turn_is_moved_into_the_current_one_and_that_is_said(stage: ToolHarness) -> None:
    outcome = await wrote(stage, "turn_1/outputs/x.csv", "a,b\n1,2\n3,4\n")
    assert outcome.artifacts[0].path == "fi:turn_2.outputs/x.csv"
    assert [notice.code for notice in outcome.notices] == ["protocol_violation.path_rewritten"]
    assert not (stage.out_dir / T1).exists()


async def test_what_is_internal_is_kept_from_the_user_and_a_scratchpad_is_also_a_note(stage: ToolHarness) -> None:
    plain = await wrote(stage, "notes.md", "[D] decided to compare by price", "internal")
    assert (plain.artifacts[0].visibility, plain.blocks) == ("internal", ())
    noted = await wrote(stage, "notes.md", "[D] decided to compare by price\n", "internal", scratchpad=True)
    (note,) = noted.blocks
    assert isinstance(note, Note)
    assert note.text == "[D] decided to compare by price"


@pytest.mark.parametrize(
    ("path", "content", "warned"),
    [("a.html", "<p>hi</p>", True), ("a.md", "ok", True), ("a.csv", "a,b\n1,2\n", False), ("a.bin", "x" * 16, False)],
)
async def test_a_file_that_is_unusually_small_is_warned_of(
    stage: ToolHarness, path: str, content: str, warned: bool
) -> None:
    (artifact,) = (await wrote(stage, path, content)).artifacts
    assert bool(artifact.write_warning) == warned


async def test_an_empty_file_is_an_error_and_leaves_what_was_there(stage: ToolHarness) -> None:
    await wrote(stage, "a.md", "something of some length")
    outcome = await wrote(stage, "a.md", " \n")
    (failed,) = outcome.artifacts
    assert failed.error
    assert failed.error.code == "tool_result_error"
    assert (failed.text, failed.size_bytes, failed.kind, failed.visibility) == (None, 0, "file", "external")
    assert (stage.out_dir / "turn_2/files/a.md").read_text() == "something of some length"
    read = await ReadTool().read(stage.context(T2), ("files/a.md",), max_text_symbols=20)
    assert read.artifacts[0].text


@pytest.mark.parametrize(
    ("path", "content", "channel", "scratchpad", "code"),
    [
        ("turn_1/attachments/menu.md", "text", "canvas", False, "path_read_only"),
        ("files/.part-x.md", "text", "canvas", False, "path_name_unsafe"),
        ("../../x.md", "text", "canvas", False, "path_escapes_root"),
        ("/etc/x.md", "text", "canvas", False, "path_escapes_root"),
        ("a.pdf", "text", "canvas", False, "tool_params_invalid"),
        ("a.md", "half \ud800", "canvas", False, "tool_params_invalid"),
        ("a.md", "text", "canvas", True, "tool_params_invalid"),
        ("a.md", "x" * 1001, "internal", True, "tool_params_invalid"),
        ("a.md", "x" * 2000, "canvas", False, "file_too_large"),
    ],
)
async def test_what_cannot_be_written_is_refused_before_anything_is_changed(
    stage: ToolHarness,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    content: str,
    channel: Channel,
    scratchpad: bool,
    code: str,
) -> None:
    monkeypatch.setattr(module, "MAX_CONTENT_BYTES", 1500)
    with pytest.raises(CodedError) as refused:
        await write(stage.context(T2), path, content=content, channel=channel, scratchpad=scratchpad)
    assert refused.value.code == code
    assert not stage.out_dir.exists()


def test_the_catalogue_names_the_channel_before_the_text() -> None:
    (spec,) = [tool.spec for tool in react_tools() if tool.spec.tool_id == "react.write"]
    assert list(json.loads(spec.params_schema)["properties"])[:3] == ["path", "channel", "content"]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("a.md", "So [[S:1]], [[S:9]] and `[[S:8]]`.", "9"),
        ("a.md", "So `[[S:8]]` only.", ""),
        ("a.html", "<p>[[S:7]]</p><code>[[S:8]]</code> and more text", "7"),
        ("a.txt", "So [[S:2-20]] is.", "2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 9 more"),
        ("a.py", "print('[[S:9]] is none')", ""),
    ],
)
async def test_a_file_that_cites_what_is_not_in_the_pool_says_so(
    stage: ToolHarness, name: str, content: str, named: str
) -> None:
    await stage.append(SourcesAdded(rows=(SourceRow(sid=1, title="a"),)))
    for outcome in (
        await wrote(stage, f"files/{name}", content),
        await patch(stage.context(T2), f"files/other-{name}", content),
    ):
        assert [notice.code for notice in outcome.notices] == (["tool_call_warning.missing_sources"] if named else [])
        assert all(f"not in the pool: {named};" in notice.text for notice in outcome.notices)


async def test_from_edition_2_on_copied_escapes_are_undone_unless_the_old_file_has_them(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_1.files/a.md", "[x]\n~[y]\n", T1)
    content = "~[x]\n~[y]\nclose </~channel:code>\n"

    async def written(path: str, copies_from: int) -> str:
        context = replace(stage.context(T2), copies_from=copies_from)
        outcome = await write(context, path, content=content)
        await stage.record("react.write", context, outcome)
        return (stage.out_dir / "turn_2" / path).read_text()

    assert await written("files/other.md", 2) == "[x]\n[y]\nclose </channel:code>\n"
    assert await written("files/a.md", 2) == "[x]\n~[y]\nclose </channel:code>\n"
    assert await written("files/a.md", 2) == "[x]\n~[y]\nclose </channel:code>\n"
    assert await written("files/exact.md", 1) == content
