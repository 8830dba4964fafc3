"""The input files of a program, and the output files that are kept."""

from pathlib import Path

import pytest

from tests.harness.exec import PlainSandbox, run_exec
from tests.harness.react_tools import T1, ToolHarness, open_tool_harness
from timeloom.core.blocks import (
    Digest,
    Hosting,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    ToolCall,
    UserPrompt,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import FilePath
from timeloom.core.sources import SourceRow
from timeloom.ports.tool import Outcome
from timeloom.tools.artifacts import find_stored_file
from timeloom.tools.exec import conversation_files
from timeloom.tools.exec.inputs import find_named_paths
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.react.pull import pull
from timeloom.tools.react.write import Channel, write

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path / "out")


def printed(outcome: Outcome) -> str:
    assert outcome.status is not None
    return outcome.status.rpartition("Printed:\n")[2]


def report(outcome: Outcome) -> str:
    assert outcome.status is not None
    return outcome.status


def listing(outcome: Outcome) -> list[str]:
    return [line.removeprefix("| ") for line in printed(outcome).splitlines()]


LIST = "for path in sorted(OUT_DIR.rglob('*')):\n    if path.is_file():\n        print(path.relative_to(OUT_DIR))\n"


# --- what it finds ---------------------------------------------------------------------------------------------


async def test_files_that_the_code_names_are_there(stage: ToolHarness) -> None:
    await stage.attach("my data.csv", "text/csv", b"a,b\n1,2\n", turn=T1)
    await stage.record_file("fi:turn_0.files/old.md", "# Old")
    await stage.record_file("fi:turn_0.files/other.md", "# Other")
    code = "first = OUT_DIR / 'turn_1/attachments/my data.csv'\nsecond = 'fi:turn_0.files/old.md'\n" + LIST
    outcome = await run_exec(stage, code)
    assert listing(outcome) == ["turn_0/files/old.md", "turn_1/attachments/my data.csv"]


@pytest.mark.parametrize(
    "code",
    ["OUT_DIR.glob('turn_0/files/*.md')", "f'{OUT_DIR}/turn_0/files/{1}.md'", "'turn_0/files'", "'turn_0/files/'"],
)
async def test_of_a_pattern_or_folder_all_files_are_there(stage: ToolHarness, code: str) -> None:
    await stage.record_file("fi:turn_0.files/1.md", "# 1")
    await stage.record_file("fi:turn_0.files/deep/2.md", "# 2")
    outcome = await run_exec(stage, f"{code}\n{LIST}")
    assert listing(outcome) == ["turn_0/files/1.md", "turn_0/files/deep/2.md"]


async def test_files_of_the_current_turn_are_there_unasked(stage: ToolHarness) -> None:
    await run_exec(stage, "(OUT_DIR / 'turn_1/files/first.md').write_text('# 1')", {"filename": "first.md"})
    outcome = await run_exec(stage, LIST)
    assert listing(outcome) == ["turn_1/files/first.md"]
    assert outcome.artifacts == ()


async def test_what_is_named_and_not_found_is_told(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "print('turn_0/files/none.md', 'turn_1/files/new.md')")
    assert "Named in the code and not found:\n- fi:turn_0.files/none.md\nPrinted:" in report(outcome)


async def test_what_is_too_much_to_bring_is_told(stage: ToolHarness) -> None:
    for n in range(3):
        await stage.record_file(f"fi:turn_0.files/{n}.md", "x" * 400)
    sandbox = PlainSandbox()
    settings = ExecSettings(input_files=2)
    outcome = await run_exec(stage, "'turn_0/files/'", sandbox=sandbox, settings=settings)
    assert len(sandbox.programs[0].inputs) == 2
    assert "Not given to the program, because the input files exceed the limit:\n- turn_0/files/2.md" in report(outcome)
    outcome = await run_exec(stage, "'turn_0/files/'", sandbox=sandbox, settings=ExecSettings(input_bytes=500))
    assert len(sandbox.programs[1].inputs) == 1


async def test_a_folder_of_very_many_files_is_named_and_not_brought(stage: ToolHarness) -> None:
    for n in range(101):
        await stage.record_file(f"fi:turn_0.files/{n}.md", "x")
    outcome = await run_exec(stage, "'turn_0/files/'")
    assert "- fi:turn_0.files/ holds 101 files" in report(outcome)


def test_names_in_code_are_read_in_every_way_they_may_be_meant() -> None:
    code = """
# see turn_0/files/a.md, and (turn_0/files/b.md).
x = "turn_0/files/c d.md"
y = f"{OUT_DIR}/turn_0/files/{name}.csv"
return_1/files/no.md
"""
    assert list(find_named_paths(code)) == [
        ("turn_0/files/a.md, and (turn_0/files/b.md).", "turn_0/files/a.md"),
        ("turn_0/files/c d.md", "turn_0/files/c"),
        ("turn_0/files/",),
    ]


def test_only_so_many_names_are_looked_up() -> None:
    code = "\n".join(f"'turn_0/files/{n}.md'" for n in range(1000))
    assert len(list(find_named_paths(code))) == 500


async def test_pulled_files_are_there_without_being_named(stage: ToolHarness) -> None:
    for name in ("a.md", "b.md", "c.md"):
        await stage.record_file(f"fi:turn_0.files/{name}", f"# {name}", turn=TurnId("turn_0"))
    context = stage.context()
    await stage.record("react.pull", context, await pull(context, ("fi:turn_0.files/a.md", "fi:turn_0.files/b.md")))
    assert listing(await run_exec(stage, LIST)) == ["turn_0/files/a.md", "turn_0/files/b.md"]
    again = await run_exec(stage, LIST)
    assert again.artifacts == ()


async def test_pulled_files_are_read_only(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_0.files/a.md", "# a", turn=TurnId("turn_0"))
    context = stage.context()
    await stage.record("react.pull", context, await pull(context, ("fi:turn_0.files/a.md",)))
    code = 'print(oct((OUT_DIR / "turn_0/files/a.md").stat().st_mode & 0o777))'
    assert "0o444" in printed(await run_exec(stage, code))


async def test_what_was_pulled_in_another_turn_or_cannot_be_read_is_not_there(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_0.files/a.md", "# a", turn=TurnId("turn_0"))
    old = stage.context(TurnId("turn_0"))
    await stage.record("react.pull", old, await pull(old, ("fi:turn_0.files/a.md",)))
    context = stage.context()
    await stage.append(
        ToolCall(tool_id="react.pull", tool_call_id=context.tool_call_id),
        ResultStatus(tool_call_id=context.tool_call_id, text="[ERASED]"),
        ResultDigest(tool_call_id=context.tool_call_id, digest=Digest(artifact_path="fi:turn_0.files/a.md")),
    )
    assert "turn_0" not in report(await run_exec(stage, LIST))


async def test_a_program_that_names_the_timeline_and_the_pool_finds_them(stage: ToolHarness) -> None:
    await stage.append(UserPrompt(text="hello there"))
    hosted = Hosting(hosted_uri="/secret", rn="rn", key="k")
    content = ResultContent(
        tool_call_id=CallId("c1"), artifact_path="fi:turn_1.files/a.md", mime="text/plain", text="a", hosting=hosted
    )
    await stage.append(SourcesAdded(rows=(SourceRow(sid=1, title="page", url="https://a.example", rn="rn"),)), content)
    code = """
import json
timeline = json.loads((OUT_DIR / "timeline.json").read_text())
print(timeline["type"], [b["text"] for b in timeline["blocks"] if b["type"] == "user.prompt"])
files = [b["meta"] for b in timeline["blocks"] if b.get("path", "").startswith("fi:")]
print([row["title"] for row in timeline["sources_pool"]], "hosted_uri" in files[0])
print(json.loads((OUT_DIR / "sources_pool.json").read_text())["rows"])
"""
    outcome = await run_exec(stage, code)
    assert outcome.artifacts == ()
    assert listing(outcome) == [
        "conv.timeline.v1 ['hello there']",
        "['page'] False",
        "[{'sid': 1, 'source_type': 'web', 'title': 'page', 'url': 'https://a.example'}]",
    ]


async def test_of_a_long_conversation_the_newest_blocks_and_rows_are_there(
    stage: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_files, "MAX_BYTES", 2_000)
    for n in range(30):
        await stage.append(UserPrompt(text=f"number {n} " + "x" * 200))
        await stage.append(SourcesAdded(rows=(SourceRow(sid=n + 1, title="x" * 200, url=f"https://{n}.example"),)))
    code = """
import json
blocks = json.loads((OUT_DIR / "timeline.json").read_text())["blocks"]
rows = json.loads((OUT_DIR / "sources_pool.json").read_text())["rows"]
print(0 < len(blocks) < 30, 0 < len(rows) < 30, rows[-1]["sid"])
"""
    outcome = await run_exec(stage, code)
    assert listing(outcome) == ["True True 30"]
    assert "timeline.json: its" in report(outcome)
    assert "sources_pool.json: its" in report(outcome)


# --- what is kept ----------------------------------------------------------------------------------------------


async def test_kept_files_are_plain_files_of_the_workspace(stage: ToolHarness) -> None:
    code = "import os\npath = OUT_DIR / 'turn_1/files/a.sh'\npath.write_text('echo')\nos.chmod(path, 0o4755)"
    outcome = await run_exec(stage, code, {"filename": "a.sh"})
    kept = stage.out_dir / "turn_1/files/a.sh"
    assert kept.read_text() == "echo"
    assert kept.stat().st_mode & 0o7777 == 0o644
    assert [(one.path, one.text, one.mime, one.kind, one.visibility, one.size_bytes) for one in outcome.artifacts] == [
        ("fi:turn_1.files/a.sh", "echo", "text/x-shellscript", "file", "external", 4)
    ]


async def test_files_beside_the_contract_are_internal(stage: ToolHarness) -> None:
    code = "for name in 'ba':\n    (OUT_DIR / f'turn_1/files/{name}.md').write_text('# ' + name)"
    outcome = await run_exec(stage, code, {"filename": "b.md"})
    assert [(one.path, one.visibility) for one in outcome.artifacts] == [
        ("fi:turn_1.files/b.md", "external"),
        ("fi:turn_1.files/a.md", "internal"),
    ]
    assert report(outcome) == (
        "Succeeded:\n- turn_1/files/b.md\n"
        "Kept as internal files, because the contract does not name them:\n- turn_1/files/a.md"
    )


WRITE = "(OUT_DIR / '{}').write_text('# New')"


@pytest.mark.parametrize(
    ("channel", "visibility", "listed"),
    [
        ("canvas", "external", "Changed files, which the user still sees:\n- turn_1/files/a.md"),
        ("internal", "internal", "Kept as internal files, because the contract does not name them:"),
    ],
)
async def test_a_file_that_a_program_changes_stays_as_visible_as_it_was(
    stage: ToolHarness, channel: Channel, visibility: str, listed: str
) -> None:
    context = stage.context()
    wrote = await write(context, "a.md", channel=channel, content="# Old", kind="display")
    await stage.record("react.write", context, wrote)
    outcome = await run_exec(stage, WRITE.format("turn_1/files/a.md"))
    assert [(one.text, one.visibility, one.kind, one.channel) for one in outcome.artifacts] == [
        ("# New", visibility, "display", channel)
    ]
    assert listed in report(outcome)


async def test_a_changed_file_of_another_turn_stays_as_visible_as_it_was(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_0.files/old.md", "# Old")
    outcome = await run_exec(stage, WRITE.format("turn_0/files/old.md"))
    assert [(one.path, one.visibility) for one in outcome.artifacts] == [("fi:turn_1.files/old.md", "external")]


async def test_a_failed_write_does_not_decide_who_sees_a_file(stage: ToolHarness) -> None:
    versions: tuple[tuple[Channel, str], ...] = (("canvas", "# Old"), ("internal", ""))
    for channel, content in versions:
        context = stage.context()
        await stage.record("react.write", context, await write(context, "a.md", channel=channel, content=content))
    outcome = await run_exec(stage, WRITE.format("turn_1/files/a.md"))
    assert [one.visibility for one in outcome.artifacts] == ["external"]


async def test_a_file_that_was_never_written_and_then_made_is_internal(stage: ToolHarness) -> None:
    context = stage.context()
    await stage.record("react.write", context, await write(context, "a.md", content=""))
    outcome = await run_exec(stage, WRITE.format("turn_1/files/a.md"))
    assert [one.visibility for one in outcome.artifacts] == ["internal"]


async def test_the_contract_decides_about_the_files_that_it_names(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_1.files/a.md", "# Old")
    outcome = await run_exec(stage, WRITE.format("turn_1/files/a.md"), {"filename": "a.md", "visibility": "internal"})
    assert [one.visibility for one in outcome.artifacts] == ["internal"]


async def test_an_unchanged_input_of_another_turn_is_no_output(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_0.files/a.md", "# Old")
    outcome = await run_exec(stage, "'turn_0/files/a.md'", {"filename": "a.md"})
    assert (outcome.artifacts, outcome.error and outcome.error.code) == ((), "missing_artifact")
    code = "'turn_0/files/a.md'\n" + WRITE.format("turn_1/files/a.md")
    assert report(await run_exec(stage, code, {"filename": "a.md"})) == "Succeeded:\n- turn_1/files/a.md"


async def test_a_file_in_the_wrong_place_is_moved_to_the_right_one(stage: ToolHarness) -> None:
    code = (
        "(OUT_DIR / 'outputs').mkdir()\nfor name in ('a', 'outputs/b'):\n    (OUT_DIR / f'{name}.md').write_text('# x')"
    )
    outcome = await run_exec(stage, code, {"filename": "a.md"})
    assert [one.path for one in outcome.artifacts] == ["fi:turn_1.files/a.md", "fi:turn_1.outputs/b.md"]
    assert "- a.md is now turn_1/files/a.md" in report(outcome)


async def test_of_two_files_of_one_name_that_in_the_right_place_counts(stage: ToolHarness) -> None:
    code = "(OUT_DIR / 'a.md').write_text('# wrong')\n(OUT_DIR / 'turn_1/files/a.md').write_text('# right')"
    outcome = await run_exec(stage, code, {"filename": "a.md"})
    assert [one.text for one in outcome.artifacts] == ["# right"]
    assert "Not kept:\n- a.md: another file is kept as turn_1/files/a.md" in report(outcome)


async def test_a_file_that_was_there_before_gives_way_to_a_new_one(stage: ToolHarness) -> None:
    await run_exec(stage, "(OUT_DIR / 'turn_1/files/a.md').write_text('# old')", {"filename": "a.md"})
    outcome = await run_exec(stage, "(OUT_DIR / 'a.md').write_text('# new')", {"filename": "a.md"})
    assert [one.text for one in outcome.artifacts] == ["# new"]
    assert (stage.out_dir / "turn_1/files/a.md").read_text() == "# new"


async def test_a_changed_file_of_another_turn_is_a_new_file_of_the_current_one(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_0.files/old.md", "# Old")
    outcome = await run_exec(stage, "(OUT_DIR / 'turn_0/files/old.md').write_text('# New')")
    assert [(one.path, one.text) for one in outcome.artifacts] == [("fi:turn_1.files/old.md", "# New")]
    assert (stage.out_dir / "turn_0/files/old.md").read_text() == "# Old"


async def test_what_a_tool_changes_while_the_program_runs_is_not_taken_back(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_1.files/a.md", "# Old")
    file = stage.out_dir / "turn_1/files/a.md"
    outcome = await run_exec(stage, f"open({str(file)!r}, 'w').write('# New, by a tool that it called')")
    assert outcome.artifacts == ()
    assert file.read_text() == "# New, by a tool that it called"


async def test_files_that_take_no_room_are_not_read_beyond_what_is_kept(stage: ToolHarness) -> None:
    code = "for n in range(9):\n    with open(OUT_DIR / f'{n}.bin', 'wb') as file:\n        file.truncate(1_000_000)"
    outcome = await run_exec(stage, code, settings=ExecSettings(kept_bytes=3_500_000))
    assert len(outcome.artifacts) == 3
    assert report(outcome).count("at most 100 files and 3500000 bytes are kept") == 6


async def test_a_changed_attachment_is_not_kept(stage: ToolHarness) -> None:
    await stage.attach("a.csv", "text/csv", b"a,b\n", turn=T1)
    outcome = await run_exec(stage, "(OUT_DIR / 'turn_1/attachments/a.csv').write_text('x')")
    assert "- turn_1/attachments/a.csv: an attachment cannot be changed" in report(outcome)
    assert (stage.out_dir / "turn_1/attachments/a.csv").read_bytes() == b"a,b\n"


async def test_an_attachment_that_is_as_it_was_is_not_mentioned(stage: ToolHarness) -> None:
    await stage.attach("a.csv", "text/csv", b"a,b\n", turn=T1)
    outcome = await run_exec(stage, "print(open(OUT_DIR / 'turn_1/attachments/a.csv').read())")
    assert report(outcome).startswith("The program ended without an error.\nPrinted:")


HOSTILE = {
    "a link": ("os.symlink('/etc/passwd', path)", "is a symbolic link"),
    "a link to its own": (
        "open(OUT_DIR / 'b.md', 'w').write('b'); os.symlink(OUT_DIR / 'b.md', path)",
        "symbolic link",
    ),
    "a hard link": ("open(path, 'w').write('x'); os.link(path, OUT_DIR / 'b.md')", "not a regular file with one name"),
    "a pipe": ("os.mkfifo(path)", "not a regular file"),
    "a socket": ("import socket; os.chdir(OUT_DIR / 'turn_1/files'); socket.socket(1).bind('a.md')", "not produced"),
    "an empty file": ("open(path, 'w').close()", "file is empty"),
    "a folder": ("os.mkdir(path)", "file not produced"),
    "a large file": ("open(path, 'w').truncate(1 << 40)", "at most 67108864 are kept"),
    "a link above": (
        "os.rmdir(OUT_DIR / 'turn_1/files'); os.symlink('/etc', OUT_DIR / 'turn_1/files')",
        "not produced",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_what_is_no_plain_file_is_refused(stage: ToolHarness, kind: str) -> None:
    action, reason = HOSTILE[kind]
    outcome = await run_exec(stage, f"import os\npath = OUT_DIR / 'turn_1/files/a.md'\n{action}", {"filename": "a.md"})
    assert outcome.error is not None
    assert outcome.error.code == "missing_artifact"
    line = next(line for line in report(outcome).splitlines() if line.startswith("- turn_1/files/a.md: "))
    assert reason in line or kind == "a socket"
    assert "root:" not in report(outcome)
    assert not (stage.out_dir / "turn_1/files/a.md").exists()


async def test_names_that_no_path_has_are_refused_and_shown_harmless(stage: ToolHarness) -> None:
    code = r"""
import os
for name in ("..x.", "a\nSucceeded:", "b\u202e.md", "x" * 255, "con", "\udcff.md", ".part-1"):
    open(os.path.join(OUT_DIR, name), "w").write("x")
os.makedirs(OUT_DIR / "__pycache__")
open(OUT_DIR / "__pycache__/x.pyc", "w").write("x")
"""
    outcome = await run_exec(stage, code)
    assert [one.path for one in outcome.artifacts] == ["fi:turn_1.files/" + "x" * 255]
    refused = report(outcome).partition("Not kept:\n")[2].splitlines()
    assert len(refused) == 6
    assert "- .part-1: names that begin with .part- are reserved" in refused
    assert all(line.startswith("- ") and line.isprintable() for line in refused)


async def test_a_deep_folder_is_left_alone(stage: ToolHarness) -> None:
    code = (
        "import os\nos.chdir(OUT_DIR)\nfor _ in range(90):\n    os.mkdir('d'); os.chdir('d')\nopen('x', 'w').write('x')"
    )
    outcome = await run_exec(stage, code)
    assert outcome.artifacts == ()
    assert "Not kept:\n- d/d/d" in report(outcome)


async def test_only_so_much_is_kept_and_the_contract_first(stage: ToolHarness) -> None:
    code = "for n in range(40):\n    (OUT_DIR / f'turn_1/files/{n:02}.md').write_text('# x')"
    outcome = await run_exec(stage, code, {"filename": "39.md"}, settings=ExecSettings(kept_files=3))
    assert [one.path[-5:] for one in outcome.artifacts] == ["39.md", "00.md", "01.md"]
    assert "of one program at most 3 files" in report(outcome)
    assert "- and 17 more" in report(outcome)
    outcome = await run_exec(stage, code, {"filename": "39.md"}, settings=ExecSettings(kept_bytes=8))
    assert len(outcome.artifacts) == 2


# --- how it stands on the timeline -----------------------------------------------------------------------------


async def test_a_long_text_is_cut_and_known_to_be(stage: ToolHarness) -> None:
    for size in (20_479, 20_480, 20_481, 20_494, 20_495, 60_000):
        code = f"open(OUT_DIR / 'turn_1/files/a.md', 'w').write('x' * {size - 2} + 'é')"
        context = stage.context()
        outcome = await run_exec(stage, code, {"filename": "a.md"})
        (artifact,) = outcome.artifacts
        assert isinstance(artifact.text, str)
        assert artifact.size_bytes == size
        assert artifact.text.endswith("...[truncated]") == (size > 20_480)
        assert len(artifact.text.encode()) <= 20_480
        await stage.record("exec_tools.execute_code_python", context, outcome)
        stored = await find_stored_file(FilePath(T1, "files", "a.md"), stage)
        assert stored is not None
        assert stored.complete == (size <= 20_480)


async def test_a_text_that_is_not_utf8_is_left_on_the_disk(stage: ToolHarness) -> None:
    code = "open(OUT_DIR / 'turn_1/files/a.csv', 'wb').write('Fähre'.encode('latin-1'))"
    (artifact,) = (await run_exec(stage, code, {"filename": "a.csv"})).artifacts
    assert (artifact.text, artifact.data, artifact.size_bytes) == (None, None, 5)
    assert (stage.out_dir / "turn_1/files/a.csv").read_bytes() == "Fähre".encode("latin-1")


@pytest.mark.parametrize(
    ("name", "data", "attached", "warned"),
    [
        ("a.png", PNG, True, False),
        ("a.png", b"no picture", False, True),
        ("a.pdf", b"%PDF-1.7 ...", True, False),
        ("a.pdf", b"<html>", False, True),
        ("a.pdf", b"%PDF-" + b"x" * 2000, False, False),
        ("a.xlsx", b"PK\3\4", False, False),
        ("a.tif", b"II*\0", True, False),
    ],
)
async def test_bytes_go_on_the_timeline_for_pdf_and_images(
    stage: ToolHarness, name: str, data: bytes, attached: bool, warned: bool
) -> None:
    code = f"open(OUT_DIR / 'turn_1/files/{name}', 'wb').write({data!r})"
    settings = ExecSettings(pdf_bytes=1000)
    (artifact,) = (await run_exec(stage, code, {"filename": name}, settings=settings)).artifacts
    assert artifact.data == (data if attached else None)
    assert artifact.text is None
    assert bool(artifact.write_warning) == warned


async def test_texts_beyond_what_a_prompt_has_room_for_are_named(stage: ToolHarness) -> None:
    code = "for n in range(3):\n    (OUT_DIR / f'turn_1/files/{n}.md').write_text('x' * 400)"
    outcome = await run_exec(stage, code, settings=ExecSettings(shown_bytes=900))
    assert [one.shown and one.shown.how for one in outcome.artifacts] == [None, None, "stub"]
    assert all(one.text == "x" * 400 for one in outcome.artifacts)


async def test_sources_that_a_text_cites_are_those_it_uses(stage: ToolHarness) -> None:
    await stage.append(SourcesAdded(rows=(SourceRow(sid=1, title="t", url="https://a.example/"),)))
    code = "(OUT_DIR / 'turn_1/files/a.md').write_text('Cheap [[' + 'S:1]] and [[' + 'S:9]]')"
    (artifact,) = (await run_exec(stage, code, {"filename": "a.md"})).artifacts
    assert artifact.sources_used == (1,)
