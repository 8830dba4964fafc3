"""The repository's own habits: locks without addresses, no traces of one machine, a subject in every file."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".venv", "__pycache__", "node_modules", "data", "build", "dist"}
LOCKS = sorted(ROOT.glob("requirements*.lock"))

ADDRESS = re.compile(r"\w+://|--(extra-)?index-url|--find-links|--trusted-host")
PINNED = re.compile(r"^[a-z0-9._-]+(\[[a-z,]+\])?==\S+( ; .+)? \\$")
MACHINE = re.compile(r"/work/(?:main|shared)\b|\bshared/(?:seeds|data|hooks|DESIGN|STYLE|FACTS)\b")


def files() -> list[Path]:
    """Everything that is, or would be, under version control."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return walked()
    return [ROOT / os.fsdecode(name) for name in names.split(b"\0") if name and (ROOT / os.fsdecode(name)).is_file()]


def walked() -> list[Path]:
    """The same without git, as near as it gets."""
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in NOT_OURS and not name.startswith((".venv", ".hypothesis", "."))
        ]
        found += [Path(folder) / name for name in names if not name.startswith(".")]
    return found


def text_of(file: Path) -> str:
    """The file's text, or nothing if it is not text."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


FILES = files()
PYTHON = [file for file in FILES if file.suffix == ".py"]


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("lock", LOCKS, ids=name_of)
def test_a_lock_names_no_address(lock: Path) -> None:
    assert [line for line in text_of(lock).splitlines() if ADDRESS.search(line)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=name_of)
def test_a_lock_pins_every_package_with_a_hash(lock: Path) -> None:
    lines = [line for line in text_of(lock).splitlines() if line and not line.lstrip().startswith("#")]
    pins = [index for index, line in enumerate(lines) if not line.startswith(" ")]
    assert pins
    assert [lines[index] for index in pins if not PINNED.match(lines[index])] == []
    assert [lines[index] for index in pins if not lines[index + 1].startswith("    --hash=sha256:")] == []


def test_the_locks_agree() -> None:
    versions = {lock.name: dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text_of(lock), re.MULTILINE)) for lock in LOCKS}
    development = versions["requirements-dev.lock"]
    for name in ("requirements.lock", "requirements-build.lock"):
        assert versions[name].items() <= development.items()


def test_running_from_the_repository_includes_socketio_and_prices() -> None:
    (run_lock,) = [lock for lock in LOCKS if lock.name == "requirements.lock"]
    pinned = set(re.findall(r"^([a-z0-9._-]+)==", text_of(run_lock), re.MULTILINE))
    assert {"python-socketio", "genai-prices"} <= pinned


@pytest.mark.parametrize("file", PYTHON, ids=name_of)
def test_a_source_file_says_its_subject_in_one_line(file: Path) -> None:
    docstring = ast.get_docstring(ast.parse(text_of(file)), clean=False)
    assert docstring, "the first statement is a docstring"
    subject = docstring.splitlines()[0]
    assert subject.strip() == subject != "", "the subject stands on the docstring's first line"
    assert subject.endswith((".", "!", "?")), "the subject is a sentence"


def test_no_file_mentions_one_machine() -> None:
    here = Path(__file__)
    places = [
        f"{name_of(file)}:{number}: {line.strip()[:120]}"
        for file in FILES
        if file != here and "golden" not in file.parts
        for number, line in enumerate(text_of(file).splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert places == []


def test_every_script_can_be_executed() -> None:
    scripts = [file for file in FILES if text_of(file).startswith("#!")]
    assert scripts
    assert [name_of(file) for file in scripts if not os.access(file, os.X_OK)] == []


def test_no_file_has_a_conflict_mark_or_a_stray_end_of_line() -> None:
    marks = re.compile(r"^(<{7} |>{7} )|\r$", re.MULTILINE)
    assert [name_of(file) for file in PYTHON if marks.search(text_of(file))] == []
