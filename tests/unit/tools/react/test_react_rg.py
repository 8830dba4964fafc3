"""react.rg finds files by name and text by content, and no pattern can hang it."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.react_tools import T2, ToolHarness, open_tool_harness
from timeloom.core.codes import CodedError
from timeloom.core.paths import PhysicalPath
from timeloom.ports.tool import Outcome
from timeloom.tools.react import rg as module
from timeloom.tools.react.grep import MAX_PATTERN_CHARS, check_pattern
from timeloom.tools.react.grep_worker import matching_lines
from timeloom.tools.react.read import ReadItem, ReadTool
from timeloom.tools.react.rg import RgStatus, rg
from timeloom.tools.workspace import Workspace

pytestmark = pytest.mark.anyio
HOSTILE = r"(a|aa)+$"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["python", "ripgrep"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ripgrep on the path, and without it."""
    monkeypatch.setenv("PATH", "" if request.param == "python" else str(Path(sys.executable).parent))
    assert (shutil.which("rg") is None) == (request.param == "python")


with_both = pytest.mark.usefixtures("engine")


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    stage = await open_tool_harness(tmp_path / "out")
    for place, text in FILES.items():
        Workspace(stage.out_dir).write(PhysicalPath(place), text.encode())
    Workspace(stage.out_dir).write(PhysicalPath("turn_2/files/photo.png"), b"\x89PNG\0needle")
    return stage


FILES = {
    "turn_1/files/old.md": "an old needle\n",
    "turn_1/attachments/menu.txt": "a Needle with a capital\n",
    "turn_2/files/src/main.py": "import os\n" * 10 + "needle = 1\n" + "pass\n" * 20 + "x = needle\nprint(needle)\n",
    "turn_2/files/report.md": "# Report\nwith a nëedle of another spelling",
    "turn_2/outputs/table.csv": "a,b\nneedle,2\r\n",
}


async def found(
    stage: ToolHarness, pattern: str = "", name: str = "", *roots: str, ignore_case: bool = False
) -> RgStatus:
    outcome = await rg(stage.context(T2), pattern, name, roots, ignore_case)
    assert outcome.artifacts == ()
    return msgspec.json.decode(outcome.status or "", type=RgStatus)


def places(status: RgStatus) -> list[str]:
    return sorted(file.physical_path for file in status.files)


@with_both
async def test_content_is_found_with_what_it_takes_to_read_the_regions(stage: ToolHarness) -> None:
    status = await found(stage, "needle", "", "files/")
    (file,) = status.files
    assert (file.logical_path, file.physical_path) == ("fi:turn_2.files/src/main.py", "turn_2/files/src/main.py")
    text = FILES[file.physical_path]
    assert (file.size_bytes, file.text_symbols, file.line_count) == (len(text), len(text), 33)
    assert [(match.line, match.text) for match in file.matches] == [
        (11, "needle = 1"),
        (32, "x = needle"),
        (33, "print(needle)"),
    ]
    assert file.read_items == (
        ReadItem(path=file.logical_path, line_start=8, line_count=7),
        ReadItem(path=file.logical_path, line_start=29, line_count=5),
    )
    read = await ReadTool().read(stage.context(T2), items=file.read_items)
    assert str(read.artifacts[0].text).startswith("import os\nimport os\nimport os\nneedle = 1\n")
    assert (status.searched_files, status.complete, status.notes) == (2, True, [])


@pytest.mark.parametrize(
    ("roots", "where"),
    [
        ((), ["turn_1/files/old.md", "turn_2/files/src/main.py", "turn_2/outputs/table.csv"]),
        (("outputs",), ["turn_2/outputs/table.csv"]),
        (("turn_1",), ["turn_1/files/old.md"]),
        (("turn_1/files/old.md",), ["turn_1/files/old.md"]),
        (("fi:turn_2.files/src/", "files/src"), ["turn_2/files/src/main.py"]),
        (("fi:turn_2.files/src/main.py",), ["turn_2/files/src/main.py"]),
        (("attachments/",), []),
    ],
)
@with_both
async def test_roots_say_where_to_look(stage: ToolHarness, roots: tuple[str, ...], where: list[str]) -> None:
    assert places(await found(stage, "needle", "", *roots)) == where


@with_both
async def test_names_are_matched_alone_or_with_their_folders(stage: ToolHarness) -> None:
    assert places(await found(stage, "", r"^report\.md$")) == ["turn_2/files/report.md"]
    assert places(await found(stage, "", r"src/.*\.py$")) == ["turn_2/files/src/main.py"]
    by_name = (await found(stage, "", r"\.PNG$", ignore_case=True)).files
    assert [(file.physical_path, file.line_count, file.read_items) for file in by_name] == [
        ("turn_2/files/photo.png", None, ())
    ]
    assert places(await found(stage, "needle", r"\.csv$")) == ["turn_2/outputs/table.csv"]
    whole = (await found(stage, "", "main")).files[0]
    assert whole.read_items == (ReadItem(path=whole.logical_path, line_start=1, line_count=33),)


@with_both
async def test_case_counts_unless_it_is_asked_not_to(stage: ToolHarness) -> None:
    assert places(await found(stage, "NEEDLE")) == []
    assert len(places(await found(stage, "NEEDLE", ignore_case=True))) == 4
    assert places(await found(stage, "nëedle")) == ["turn_2/files/report.md"]


@with_both
async def test_a_pattern_that_only_python_knows_is_found_too(stage: ToolHarness) -> None:
    assert places(await found(stage, r"(?<=x = )needle")) == ["turn_2/files/src/main.py"]


@with_both
async def test_a_pattern_may_look_like_an_option(stage: ToolHarness) -> None:
    Workspace(stage.out_dir).write(PhysicalPath("turn_2/files/--files"), b"say --pre=x\n")
    assert places(await found(stage, "--pre=x")) == ["turn_2/files/--files"]


async def test_a_hostile_pattern_ends_with_its_time(stage: ToolHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(module, "DEADLINE_S", 0.5)
    Workspace(stage.out_dir).write(PhysicalPath("turn_2/files/bomb.txt"), b"a" * 5000 + b"b\n")
    status = await found(stage, HOSTILE, "", "files/")
    assert not status.complete
    assert "takes too long" in status.notes[0]


async def test_a_name_search_that_takes_too_long_says_so(stage: ToolHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(module, "DEADLINE_S", 0.3)
    Workspace(stage.out_dir).write(PhysicalPath(f"turn_2/files/{'a' * 120}b"), b"x")
    status = await found(stage, "", HOSTILE, "files/")
    assert (status.files, status.complete) == ([], False)
    assert "simpler expression" in status.notes[0]


@with_both
async def test_more_than_a_result_holds_is_cut_and_said(stage: ToolHarness) -> None:
    for n in range(60):
        Workspace(stage.out_dir).write(PhysicalPath(f"turn_2/files/many/{n:03}.txt"), b"hay\n" * 30)
    by_content = await found(stage, "hay", "", "files/many")
    assert len(by_content.files) <= module.MAX_FILES
    assert not by_content.complete
    assert by_content.files[0].more_matches
    assert len(by_content.files[0].matches) == module.HITS_PER_FILE
    by_name = await found(stage, "", "txt", "files/many")
    assert (len(by_name.files), by_name.complete) == (module.MAX_FILES, False)


@with_both
async def test_one_line_in_each_of_many_files_stays_within_the_bound(stage: ToolHarness) -> None:
    for n in range(120):
        Workspace(stage.out_dir).write(PhysicalPath(f"turn_2/files/many/{n:03}.txt"), b"hay\n")
    status = await found(stage, "hay", "", "files/many")
    assert (len(status.files), status.complete) == (module.MAX_FILES, False)


@with_both
async def test_what_is_too_large_is_not_searched_and_that_is_said(
    stage: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 60)
    status = await found(stage, "needle", "", "turn_2")
    assert places(status) == ["turn_2/outputs/table.csv"]
    assert status.notes == ["files over 60 bytes were not searched"]
    assert (await found(stage, "", "main")).files[0].read_items == ()
    monkeypatch.setattr(module, "MAX_SEARCHED_BYTES", 5)
    assert (await found(stage, "needle", "", "turn_1")).searched_files == 0


@with_both
async def test_long_lines_are_cut(stage: ToolHarness) -> None:
    Workspace(stage.out_dir).write(PhysicalPath("turn_2/files/one.json"), b'{"needle":"' + b"x" * 200_000 + b'"}')
    (file,) = (await found(stage, "needle", "one")).files
    assert file.matches[0].text.startswith('{"needle":"xxx')
    assert len(file.matches[0].text) <= 300


@with_both
async def test_no_link_leads_out_of_the_workspace(stage: ToolHarness, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("the secret needle")
    (stage.out_dir / "turn_2/files/link.txt").symlink_to(tmp_path / "outside/secret.txt")
    (stage.out_dir / "turn_2/files/folder").symlink_to(tmp_path / "outside")
    (stage.out_dir / "turn_2/files/hard.txt").hardlink_to(tmp_path / "outside/secret.txt")
    (stage.out_dir / "turn_3").symlink_to(tmp_path / "outside")
    for roots in ((), ("files/",), ("files/folder",), ("files/link.txt",), ("turn_3",)):
        status = await found(stage, "secret", "", *roots)
        assert (status.files, "outside" in str(status)) == ([], False)
        assert (await found(stage, "", "secret|link|hard", *roots)).files == []


async def test_a_root_that_is_not_there_is_named_with_the_way_to_bring_it(stage: ToolHarness) -> None:
    status = await found(stage, "x", "", "fi:turn_1.files/none/", "../..", "tmp/x", "/etc")
    assert status.missing_roots == ["fi:turn_1.files/none/", "'..'…", "'tmp'…", "''…"]
    assert "react.pull" in status.notes[0]
    assert [note.split(": ")[1] for note in status.notes[1:]] == [
        "path_escapes_root",
        "path_malformed",
        "path_escapes_root",
    ]


async def test_a_walk_that_is_cut_says_so(stage: ToolHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeloom.tools.workspace.MAX_LISTED_FILES", 2)
    assert "smaller root" in (await found(stage, "", "nothing")).notes[0]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("", ""), ("(", ""), ("", "[z-a]"), ("x" * (MAX_PATTERN_CHARS + 1), ""), ("a\nb", ""), ("\ud800", "")],
)
async def test_what_is_no_pattern_is_refused(stage: ToolHarness, pattern: str, name: str) -> None:
    with pytest.raises(CodedError) as refused:
        await rg(stage.context(T2), pattern, name)
    assert refused.value.code == "tool_params_invalid"


@pytest.mark.parametrize(
    "pattern", ["(" * 400 + ")" * 400, "a{99999999999999999999}", "[[a]]", "((a{1,900}){1,900}){1,900}"]
)
def test_a_pattern_that_tries_the_compiler_is_accepted_or_refused(pattern: str) -> None:
    try:
        check_pattern(pattern)
    except CodedError as refused:
        assert refused.code == "tool_params_invalid"


@given(st.text("ab\n", max_size=60), st.sampled_from(["a", "^b", "b$", "a*b", "^$", "(a|b)b"]), st.integers(1, 5))
def test_lines_match_as_each_would_alone(text: str, pattern: str, most: int) -> None:
    compiled = re.compile(pattern)
    expected = [(n, line) for n, line in enumerate(text.split("\n"), 1) if compiled.search(line)]
    assert list(matching_lines(text, compiled, most)) == expected[:most]


async def test_a_cancelled_search_leaves_no_process(stage: ToolHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    Workspace(stage.out_dir).write(PhysicalPath("turn_2/files/bomb.txt"), b"a" * 5000 + b"b\n")

    async def call() -> Outcome:
        return await rg(stage.context(T2), HOSTILE, "", ("files/",))

    task = asyncio.create_task(call())
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scanners() == []


def scanners() -> list[str]:
    """The searches that run as children of this process."""
    listing = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    children = listing.read_text().split() if listing.exists() else []
    return [child for child in children if "scan.py" in command(child)]


def command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
