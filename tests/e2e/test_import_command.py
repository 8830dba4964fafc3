"""`timeloom export --archive` and `timeloom import` from outside."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls

SECRET = "xq7zkw9v"


@pytest.fixture
def stage(tmp_path: Path) -> ChatHarness:
    stage = ChatHarness(tmp_path)
    stage.script(calls("react.write", path="files/a.md", content="# A note"), answers("Noted."), answers("So it is."))
    stage.run("chat", typed=f"My number is {SECRET}\nAnd now?\n")
    return stage


def timeloom(*arguments: str, data: Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "timeloom", *arguments, "--data-dir", str(data)]
    return subprocess.run(command, input=given, capture_output=True, check=False)


def test_an_archive_brings_everything_to_another_folder(stage: ChatHarness, tmp_path: Path) -> None:
    archive, other = tmp_path / "a.tar", tmp_path / "other"
    assert stage.run("export", "--archive", str(archive)).returncode == 0
    assert archive.stat().st_mode & 0o777 == 0o600
    checked = timeloom("import", str(archive), "--dry-run", "--json", data=other)
    assert (json.loads(checked.stdout)["outcome"], other.exists()) == ("checked", False)
    imported = timeloom("import", str(archive), data=other)
    assert (imported.returncode, imported.stdout.startswith(b"Imported conv_")) == (0, True)
    assert timeloom("verify", "--against", str(stage.data / "heads"), data=other).returncode == 0
    assert timeloom("replay", "--verify", data=other).returncode == 0
    assert timeloom("export", "--json", data=other).stdout.decode() == stage.run("export", "--json").stdout
    assert timeloom("export", "--archive", "-", data=other).stdout == archive.read_bytes()
    assert [path.read_text() for path in (other / "workspaces").rglob("a.md")] == ["# A note"]
    again = timeloom("import", str(archive), data=other)
    assert (again.returncode, b"[conversation_exists]" in again.stderr) == (1, True)
    assert timeloom("import", str(archive), "--skip-existing", data=other).stdout.startswith(b"Skipped")


def test_an_archive_and_exports_come_from_a_pipe_a_file_or_a_folder(stage: ChatHarness, tmp_path: Path) -> None:
    archive = timeloom("export", "--archive", "-", data=stage.data).stdout
    exported = stage.run("export", "--json").stdout
    (tmp_path / "all.jsonl").write_text(exported)
    stage.run("export", "--out", str(tmp_path / "export"))
    for number, (source, given) in enumerate(
        (("-", archive), ("-", exported.encode()), (str(tmp_path / "all.jsonl"), b""), (str(tmp_path / "export"), b""))
    ):
        data = tmp_path / f"data{number}"
        imported = timeloom("import", source, data=data, given=given)
        assert imported.returncode == 0, imported.stderr
        assert timeloom("verify", data=data).returncode == 0
        assert timeloom("replay", "--verify", data=data).returncode == 0
        assert timeloom("export", "--json", data=data).stdout.decode() == exported


def test_erased_entries_stay_erased(stage: ChatHarness, tmp_path: Path) -> None:
    conversation = stage.run("list").stdout.split()[0]
    assert stage.run("erase", conversation, "--all", "--yes").returncode == 0
    archive = timeloom("export", "--archive", "-", data=stage.data).stdout
    assert SECRET.encode() not in archive
    assert timeloom("import", "-", data=tmp_path / "other", given=archive).returncode == 0
    report = json.loads(timeloom("verify", "--json", data=tmp_path / "other").stdout)
    assert (report["findings"], report["erased"] > 0) == ([], True)
    timelines = [timeloom("export", "--json", data=data).stdout for data in (stage.data, tmp_path / "other")]
    assert timelines[0] == timelines[1]


def test_a_file_that_is_no_archive_is_refused_with_the_fix(stage: ChatHarness, tmp_path: Path) -> None:
    archive = timeloom("export", "--archive", "-", data=stage.data).stdout
    other = tmp_path / "other"
    for given, words in (
        (b"", b"ends too early"),
        (b"{}", b"conv.timeline.v1"),
        (b"hello" * 1000, b"timeloom export --archive"),
        (archive[:-3000], b"copy it again"),
        (gzip.compress(archive), b"gunzip -c"),
    ):
        refused = timeloom("import", "-", data=other, given=given)
        assert (refused.returncode, words in refused.stderr) == (1, True), refused.stderr
        assert not other.exists()
    assert timeloom("import", str(tmp_path / "none"), data=other).returncode == 2
    assert timeloom("import", str(tmp_path), data=other).returncode == 2


def test_nothing_is_imported_if_a_later_conversation_is_damaged(stage: ChatHarness, tmp_path: Path) -> None:
    stage.run("chat", typed="Another one\n")
    archive = timeloom("export", "--archive", "-", data=stage.data).stdout
    where = archive.rindex(b"Another one")
    broken = archive[:where] + b"Anothes one" + archive[where + 11 :]
    refused = timeloom("import", "-", data=stage.data.parent / "other", given=broken)
    assert (refused.returncode, b"[chain_broken]" in refused.stderr) == (1, True)
    assert not (tmp_path / "other").exists()


def test_an_archive_to_a_full_disk_leaves_no_file(stage: ChatHarness, tmp_path: Path) -> None:
    (tmp_path / "full.tar.partial").symlink_to("/dev/full")
    refused = timeloom("export", "--archive", str(tmp_path / "full.tar"), data=stage.data)
    assert refused.returncode == 1
    assert not (tmp_path / "full.tar").exists()
