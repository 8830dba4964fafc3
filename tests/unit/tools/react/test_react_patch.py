"""react.patch edits files of the current turn exactly, and copies older ones before it does."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.react_tools import T1, T2, ToolHarness, decode_status, open_tool_harness
from timeloom.core.codes import CodedError
from timeloom.core.paths import FilePath
from timeloom.ports.tool import Outcome
from timeloom.tools.artifacts import find_stored_file
from timeloom.tools.react import patch as module
from timeloom.tools.react.patch import patch
from timeloom.tools.react.read import ReadItem, ReadTool
from timeloom.tools.workspace import Workspace

pytestmark = pytest.mark.anyio
BEFORE = "red\ngreen\nblue\n"
DIFF = "@@ -2,2 +2,2 @@\n green\n-blue\n+violet\n"
AFTER = "red\ngreen\nviolet\n"
HERE, THERE = "fi:turn_2.files/a.md", "fi:turn_1.files/a.md"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path / "out")


async def patched(stage: ToolHarness, path: str, text: str) -> Outcome:
    context = stage.context(T2)
    outcome = await patch(context, path, text)
    await stage.record("react.patch", context, outcome)
    return outcome


def on_disk(stage: ToolHarness, place: str = "turn_2/files/a.md") -> str:
    return (stage.out_dir / place).read_text()


async def test_a_diff_changes_the_file_and_is_shown_instead_of_the_file(stage: ToolHarness) -> None:
    await stage.record_file(HERE, BEFORE, T2)
    outcome = await patched(stage, "files/a.md", DIFF)
    file, diff = outcome.artifacts
    assert (file.path, file.text, file.kind, file.visibility) == (HERE, AFTER, "file", "external")
    assert file.shown
    assert file.shown.how == "stub"
    assert (diff.path, diff.text, diff.mime) == ("tc:turn_2.call2.result", DIFF, "text/x-diff")
    assert diff.content_only
    assert on_disk(stage) == AFTER
    assert decode_status(outcome) == {
        "path": HERE,
        "physical_path": "turn_2/files/a.md",
        "result": "patched",
        "hunks": [{"old_line": 2, "old_count": 2, "new_line": 2, "new_count": 2, "drift": 0}],
        "size_bytes": len(AFTER),
        "line_count": 3,
    }
    assert outcome.notices == ()


@pytest.mark.parametrize("path", ["turn_1/files/a.md", THERE])
async def test_a_file_of_another_turn_is_copied_then_patched_and_that_is_said(stage: ToolHarness, path: str) -> None:
    await stage.record_file(THERE, BEFORE)
    outcome = await patched(stage, path, DIFF)
    assert decode_status(outcome)["copied_from"] == THERE
    assert [notice.code for notice in outcome.notices] == ["protocol_violation.path_rewritten"]
    assert (on_disk(stage), on_disk(stage, "turn_1/files/a.md")) == (AFTER, BEFORE)
    stored = await find_stored_file(FilePath(T1, "files", "a.md"), stage)
    assert stored
    assert stored.data.decode() == BEFORE


async def test_a_copy_that_exists_is_patched_and_not_copied_again(stage: ToolHarness) -> None:
    await stage.record_file(THERE, BEFORE)
    await patched(stage, THERE, DIFF)
    outcome = await patched(stage, THERE, "@@ -1,2 +1,2 @@\n-red\n+pink\n green\n")
    assert on_disk(stage) == "pink\ngreen\nviolet\n"
    assert "copied_from" not in decode_status(outcome)


async def test_a_whole_new_text_replaces_or_creates_the_file(stage: ToolHarness) -> None:
    created = await patched(stage, "a.md", "one\n")
    assert (decode_status(created)["result"], len(created.artifacts), created.artifacts[0].shown) == (
        "created",
        1,
        None,
    )
    replaced = await patched(stage, "a.md", "two\n")
    assert (decode_status(replaced)["result"], on_disk(stage)) == ("replaced", "two\n")


async def test_a_deleted_file_is_gone_from_disk_and_timeline(stage: ToolHarness) -> None:
    await stage.record_file(HERE, BEFORE, T2)
    deleted = await patched(stage, "a.md", "--- a/a.md\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-red\n-green\n-blue\n")
    assert (decode_status(deleted)["result"], deleted.artifacts[0].text) == ("deleted", None)
    assert deleted.artifacts[0].shown == module.DELETED_STUB
    assert not (stage.out_dir / "turn_2/files/a.md").exists()
    read = await ReadTool().read(stage.context(T2), (HERE,))
    assert decode_status(read)["missing"] == [HERE]


@pytest.mark.parametrize("same", ["", BEFORE])
async def test_a_patch_that_changes_nothing_leaves_no_version(stage: ToolHarness, same: str) -> None:
    await stage.record_file(HERE, BEFORE, T2)
    outcome = await patched(stage, "a.md", same)
    assert (decode_status(outcome)["result"], outcome.artifacts, outcome.notices) == ("unchanged", (), ())


async def test_a_refused_patch_changes_nothing_and_copies_nothing(stage: ToolHarness) -> None:
    await stage.record_file(THERE, BEFORE)
    with pytest.raises(CodedError) as refused:
        await patch(stage.context(T2), THERE, "@@ -1 +1 @@\n-purple\n+x\n")
    assert refused.value.code == "patch_no_match"
    assert not (stage.out_dir / "turn_2").exists()


async def test_a_patch_of_no_file_says_where_other_turns_have_one(stage: ToolHarness) -> None:
    await stage.record_file(THERE, BEFORE)
    with pytest.raises(CodedError) as refused:
        await patch(stage.context(T2), "files/a.md", DIFF)
    assert refused.value.code == "patch_no_match"
    assert f"there is no file {HERE}; other turns have {THERE}: " in str(refused.value)
    with pytest.raises(CodedError) as unknown:
        await patch(stage.context(T2), "files/b.md", DIFF)
    assert "other turns" not in str(unknown.value)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("fi:turn_1.user.attachments/a.txt", "path_read_only"),
        ("turn_1/files/none.md", "path_not_found"),
        ("ar:turn_1.user.prompt", "path_not_a_file"),
        ("files/latin.txt", "tool_params_invalid"),
        ("files/big.txt", "file_too_large"),
    ],
)
async def test_what_cannot_be_patched_is_refused(
    stage: ToolHarness, monkeypatch: pytest.MonkeyPatch, path: str, code: str
) -> None:
    monkeypatch.setattr(module, "MAX_CONTENT_BYTES", 10)
    (stage.out_dir / "turn_2/files").mkdir(parents=True)
    (stage.out_dir / "turn_2/files/latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(CodedError) as refused:
        await patch(stage.context(T2), path, "a new text of some length\n")
    assert refused.value.code == code


async def test_displayed_line_numbers_are_refused(stage: ToolHarness) -> None:
    await stage.record_file(HERE, BEFORE, T2)
    read = await ReadTool().read(stage.context(T2), items=(ReadItem(path=HERE, line_count=3),))
    shown = read.artifacts[0].shown
    assert shown
    with pytest.raises(CodedError) as refused:
        await patch(stage.context(T2), "a.md", shown.text.partition("\n")[2])
    assert refused.value.code == "patch_line_numbers"


ADDED = "@@ -1 +1,2 @@\n red\n+pink\n"
CREATED = "--- /dev/null\n+++ b/files/new.md\n@@ -0,0 +1 @@\n+white\n"
REMOVED = "--- a/files/a.md\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-red\n-green\n-blue\n"


@pytest.mark.parametrize(
    ("path", "text", "place"),
    [("files/a.md", ADDED, "a.md"), ("files/new.md", CREATED, "new.md"), ("files/a.md", REMOVED, "a.md")],
    ids=["added lines", "a new file", "a file taken away"],
)
async def test_a_call_that_is_made_again_comes_to_the_same(
    stage: ToolHarness, path: str, text: str, place: str
) -> None:
    await stage.record_file(HERE, BEFORE, T2)
    context = stage.context(T2)
    file = stage.out_dir / "turn_2/files" / place
    first = await patch(context, path, text)
    left = file.read_text() if file.exists() else None
    assert await patch(context, path, text) == first
    assert (file.read_text() if file.exists() else None) == left


async def test_a_copied_file_is_copied_again_where_the_call_is_made_again(stage: ToolHarness) -> None:
    await stage.record_file(THERE, BEFORE)
    context = stage.context(T2)
    first = await patch(context, THERE, ADDED)
    assert decode_status(first)["copied_from"] == THERE
    assert await patch(context, THERE, ADDED) == first


async def test_another_call_goes_on_from_what_the_first_one_left(stage: ToolHarness) -> None:
    await stage.record_file(HERE, BEFORE, T2)
    await patched(stage, "files/a.md", ADDED)
    await patched(stage, "files/a.md", "@@ -2 +2,2 @@\n pink\n+rose\n")
    assert on_disk(stage) == "red\npink\nrose\ngreen\nblue\n"
    assert [str(path) for path in Workspace(stage.out_dir).list_files(()).files] == ["turn_2/files/a.md"]


async def test_what_a_program_wrote_in_the_place_of_what_was_kept_is_passed_over(stage: ToolHarness) -> None:
    await stage.record_file(HERE, BEFORE, T2)
    (stage.out_dir / "turn_2/files").mkdir(parents=True)
    (stage.out_dir / "turn_2/files/.part-before").write_bytes(b"\xc1 no record")
    await patched(stage, "files/a.md", DIFF)
    assert on_disk(stage) == AFTER


async def test_from_edition_2_on_copied_escapes_are_undone_where_the_file_has_none(stage: ToolHarness) -> None:
    await stage.record_file(HERE, "[x]\nplain\n~[y]\n", T2)
    context = replace(stage.context(T2), copies_from=2)
    outcome = await patch(context, "files/a.md", "@@ -1,3 +1,3 @@\n ~[x]\n-plain\n+new\n ~[y]\n")
    await stage.record("react.patch", context, outcome)
    assert on_disk(stage) == "[x]\nnew\n~[y]\n"
    assert outcome.artifacts[1].text == "@@ -1,3 +1,3 @@\n [x]\n-plain\n+new\n ~[y]\n"
    with pytest.raises(CodedError, match="patch"):
        await patch(stage.context(T2), "files/a.md", "@@ -1,2 +1,2 @@\n ~[x]\n-new\n+old\n")
