"""react.pull brings older files to the worker, and react.checkout makes copies of them that can be edited."""

from pathlib import Path

import msgspec
import pytest

from tests.harness.react_tools import T2, ToolHarness, decode_status, open_tool_harness
from timeloom.core.blocks import Digest, ResultContent, ResultDigest
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId
from timeloom.ports.tool import Outcome
from timeloom.tools.react import select_files
from timeloom.tools.react.checkout import CheckoutStatus, checkout
from timeloom.tools.react.patch import DELETED_STUB
from timeloom.tools.react.pull import PullStatus, pull
from timeloom.tools.react.read import ReadTool
from timeloom.tools.react.write import write

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    """An earlier turn with three files, an output and an attachment."""
    stage = await open_tool_harness(tmp_path / "out")
    for name in ("files/src/main.py", "files/src/lib/util.py", "files/readme.md", "outputs/table.csv"):
        await stage.record_file(f"fi:turn_1.{name}", f"this is {name}", mime="text/plain")
    await stage.attach("map.png", "image/png", PNG)
    return stage


async def pulled(stage: ToolHarness, *paths: str) -> PullStatus:
    context = stage.context(T2)
    outcome = await pull(context, paths)
    assert outcome.artifacts == ()
    await stage.record("react.pull", context, outcome)
    return msgspec.json.decode(outcome.status or "", type=PullStatus)


async def test_a_relative_name_is_pulled_and_checked_out_from_the_newest_turn(stage: ToolHarness) -> None:
    assert [file.path for file in (await pulled(stage, "./readme.md")).pulled] == ["fi:turn_1.files/readme.md"]
    assert [file.copied_from for file in status(await checked_out(stage, "readme.md")).copied] == [
        "fi:turn_1.files/readme.md"
    ]


async def checked_out(stage: ToolHarness, *paths: str, replace: bool = False) -> Outcome:
    context = stage.context(T2)
    outcome = await checkout(context, paths, "replace" if replace else "overlay")
    await stage.record("react.checkout", context, outcome)
    return outcome


def status(outcome: Outcome) -> CheckoutStatus:
    return msgspec.json.decode(outcome.status or "", type=CheckoutStatus)


def tree(stage: ToolHarness, turn: str = T2) -> dict[str, str]:
    root = stage.out_dir / turn / "files"
    return {file.relative_to(root).as_posix(): file.read_text() for file in sorted(root.rglob("*")) if file.is_file()}


# --- pull --------------------------------------------------------------------------------------------------------


async def test_files_and_attachments_are_brought_read_only(stage: ToolHarness) -> None:
    found = await pulled(stage, "fi:turn_1.files/readme.md", "fi:turn_1.user.attachments/map.png")
    assert [file.physical_path for file in found.pulled] == ["turn_1/files/readme.md", "turn_1/attachments/map.png"]
    assert all(file.readonly for file in found.pulled)
    place = stage.out_dir / "turn_1/attachments/map.png"
    assert (place.read_bytes(), place.stat().st_mode & 0o222) == (PNG, 0)


@pytest.mark.parametrize(
    ("folder", "count"),
    [
        ("fi:turn_1.files/src/", 2),
        ("fi:turn_1.files/src", 2),
        ("turn_1/files/", 3),
        ("turn_1/outputs/", 1),
        ("turn_1/attachments/", 1),
    ],
)
async def test_a_folder_means_the_files_that_the_timeline_knows_below_it(
    stage: ToolHarness, folder: str, count: int
) -> None:
    assert len((await pulled(stage, folder)).pulled) == count


async def test_what_cannot_be_brought_is_missing_for_a_reason(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_2.files/mine.md", "mine", T2)
    part = Digest(artifact_path="fi:turn_1.outputs/part.txt", size_bytes=99)
    content = ResultContent(tool_call_id=CallId("c"), artifact_path=part.artifact_path, mime="text/plain", text="be")
    await stage.append(ResultDigest(tool_call_id=CallId("c"), digest=part), content)
    found = await pulled(
        stage,
        "fi:turn_1.files/none.md",
        "fi:turn_1.files/none/",
        "ar:turn_1.user.prompt",
        "fi:turn_2.files/mine.md",
        part.artifact_path,
        "/etc/passwd",
    )
    assert [(file.path, file.readonly) for file in found.pulled] == [("fi:turn_2.files/mine.md", False)]
    assert [reason.partition(":")[0] for reason in found.reasons.values()] == [
        "path_not_found",
        "path_not_a_file",
        "path_malformed",
        "path_not_found",
        "path_not_found",
    ]
    assert "of fi:turn_1.outputs/part.txt only the first 2 bytes were kept" in found.reasons[part.artifact_path]


async def test_one_call_brings_only_so_many_files(stage: ToolHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for paths in ((), ("fi:turn_1.files/x.md",) * 101):
        with pytest.raises(CodedError) as refused:
            await pull(stage.context(T2), paths)
        assert refused.value.code == "tool_params_invalid"
    monkeypatch.setattr(select_files, "MAX_SELECTED_FILES", 2)
    found = await pulled(stage, "turn_1/files/")
    assert found.reasons["turn_1/files/"].startswith("tool_params_invalid: fi:turn_1.files/ holds 3 files")


async def test_what_a_read_has_shown_is_no_version_of_the_file(stage: ToolHarness) -> None:
    (stage.out_dir / "turn_1/files").mkdir(parents=True)
    (stage.out_dir / "turn_1/files/disk.txt").write_text("on disk alone")
    context = stage.context(T2)
    await stage.record("react.read", context, await ReadTool().read(context, ("turn_1/files/disk.txt",)))
    (stage.out_dir / "turn_1/files/disk.txt").unlink()
    assert (await pulled(stage, "turn_1/files/disk.txt")).pulled == []


# --- checkout ----------------------------------------------------------------------------------------------------


async def test_an_overlay_puts_copies_over_what_is_there(stage: ToolHarness) -> None:
    await checked_out(stage, "fi:turn_1.files/readme.md")
    (stage.out_dir / "turn_2/files/own.md").write_text("my own")
    (stage.out_dir / "turn_2/files/readme.md").write_text("edited")
    outcome = await checked_out(stage, "turn_1/files/")
    assert tree(stage) == {
        "own.md": "my own",
        "readme.md": "this is files/readme.md",
        "src/lib/util.py": "this is files/src/lib/util.py",
        "src/main.py": "this is files/src/main.py",
    }
    assert (stage.out_dir / "turn_2/files/readme.md").stat().st_mode & 0o200
    assert [copy.copied_from for copy in status(outcome).copied] == [
        "fi:turn_1.files/src/main.py",
        "fi:turn_1.files/src/lib/util.py",
        "fi:turn_1.files/readme.md",
    ]


async def test_a_copy_is_a_version_on_the_timeline_that_is_not_shown(stage: ToolHarness) -> None:
    outcome = await checked_out(stage, "fi:turn_1.files/readme.md")
    (copy,) = outcome.artifacts
    assert (copy.path, copy.text, copy.visibility) == (
        "fi:turn_2.files/readme.md",
        "this is files/readme.md",
        "external",
    )
    assert copy.shown
    assert copy.shown.how == "stub"
    (stage.out_dir / "turn_2/files/readme.md").unlink()
    read = await ReadTool().read(stage.context(T2), ("fi:turn_2.files/readme.md",))
    assert read.artifacts[0].text == "this is files/readme.md"


async def test_a_copy_over_a_file_stays_as_visible_as_that_file_was(stage: ToolHarness) -> None:
    context = stage.context(T2)
    await stage.record("react.write", context, await write(context, "readme.md", channel="internal", content="# Own"))
    (copy,) = (await checked_out(stage, "fi:turn_1.files/readme.md")).artifacts
    assert (copy.visibility, copy.channel) == ("internal", "internal")


async def test_a_copy_of_a_file_that_nobody_described_is_internal(stage: ToolHarness) -> None:
    place = stage.out_dir / "turn_1/files/found.md"
    place.parent.mkdir(parents=True)
    place.write_text("# Found")
    (copy,) = (await checked_out(stage, "fi:turn_1.files/found.md")).artifacts
    assert (copy.visibility, copy.kind) == ("internal", "file")


async def test_what_is_the_same_already_is_not_copied_again(stage: ToolHarness) -> None:
    await checked_out(stage, "fi:turn_1.files/readme.md")
    again = await checked_out(stage, "fi:turn_1.files/readme.md")
    assert (again.artifacts, status(again).unchanged) == ((), ["fi:turn_2.files/readme.md"])


async def test_replace_takes_all_other_files_away_for_good(stage: ToolHarness) -> None:
    await checked_out(stage, "fi:turn_1.files/readme.md")
    (stage.out_dir / "turn_2/files/own.md").write_text("never recorded")
    outcome = await checked_out(stage, "fi:turn_1.files/src/", replace=True)
    assert list(tree(stage)) == ["src/lib/util.py", "src/main.py"]
    assert status(outcome).removed == ["fi:turn_2.files/own.md", "fi:turn_2.files/readme.md"]
    assert (outcome.artifacts[-1].path, outcome.artifacts[-1].shown) == ("fi:turn_2.files/readme.md", DELETED_STUB)
    read = await ReadTool().read(stage.context(T2), ("fi:turn_2.files/readme.md", "fi:turn_2.files/own.md"))
    assert decode_status(read)["missing"] == ["fi:turn_2.files/readme.md", "fi:turn_2.files/own.md"]
    assert (await pulled(stage, "fi:turn_1.files/readme.md")).missing == []


async def test_bytes_are_copied_as_they_are(stage: ToolHarness) -> None:
    (stage.out_dir / "turn_1/files").mkdir(parents=True)
    (stage.out_dir / "turn_1/files/a.xlsx").write_bytes(b"PK\0\xff")
    (stage.out_dir / "turn_1/files/latin.txt").write_bytes(b"caf\xe9")
    outcome = await checked_out(stage, "turn_1/files/a.xlsx", "turn_1/files/latin.txt")
    assert (stage.out_dir / "turn_2/files/latin.txt").read_bytes() == b"caf\xe9"
    assert [(copy.text, copy.data, copy.shown) for copy in outcome.artifacts] == [
        (None, b"PK\0\xff", None),
        (None, b"caf\xe9", None),
    ]


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        ((), "tool_params_invalid"),
        (("fi:turn_1.outputs/table.csv",), "tool_params_invalid"),
        (("fi:turn_1.user.attachments/map.png",), "tool_params_invalid"),
        (("fi:turn_1.files/readme.md", "fi:turn_1.files/none.md"), "path_not_found"),
        (("fi:turn_9.files/",), "path_not_found"),
    ],
)
async def test_a_checkout_that_cannot_be_whole_changes_nothing(
    stage: ToolHarness, paths: tuple[str, ...], code: str
) -> None:
    with pytest.raises(CodedError) as refused:
        await checkout(stage.context(T2), paths, "replace")
    assert refused.value.code == code
    assert not (stage.out_dir / T2).exists()
