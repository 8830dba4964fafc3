"""The interpreter of programs works from any folder, and nothing else of that folder is visible."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.sandbox.local.interpreter import find_interpreter
from timeloom.testing.sandbox_contract.fixtures import run_program

SECRET = "canary-of-a-neighbour"
LOOK = """
import json, os, site_marker, sys
def found(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
print(json.dumps([sys.prefix, found({folder!r}), found({folder!r} + "/bin"), site_marker.said]))
"""


def environment(folder: Path) -> Path:
    """A virtual environment with a package in it; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "site_marker.py").write_text("said = 'of the environment'\n", encoding="ascii")
    return folder / "bin" / "python"


def printed(python: Path, code: str, runs: Path) -> str:
    async def once() -> str:
        sandbox = LocalSandbox(LocalSettings(folder=runs, python=python, warm=0))
        try:
            done = await run_program(sandbox, code)
        finally:
            await sandbox.close()
        assert not done.output.stderr
        return done.output.stdout

    return asyncio.run(once())


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Path:
    """A folder with an environment among a user's files."""
    project = tmp_path / "project"
    environment(project)
    (project / ".env").write_text(SECRET, encoding="ascii")
    (project / "data").mkdir()
    (project / "data" / "customers.csv").write_text(SECRET, encoding="ascii")
    return project


def test_an_environment_among_other_files_shows_programs_nothing_of_them(project: Path, tmp_path: Path) -> None:
    said = printed(project / "bin/python", LOOK.format(folder=str(project)), tmp_path / "runs")
    assert f'"{project}"' in said
    assert "of the environment" in said
    assert "site-packages" not in said
    for name in (".env", "data", ".gitignore"):
        assert f'"{name}"' not in said
    assert '"pyvenv.cfg"' in said


def test_the_folders_of_an_environment_may_be_links(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "notes.txt").write_text(SECRET, encoding="ascii")
    (project / "lib").rename(elsewhere / "lib")
    (project / "lib").symlink_to(elsewhere / "lib")
    code = LOOK.format(folder=str(project)) + f"print(os.path.exists({str(elsewhere)!r}))\n"
    said = printed(project / "bin/python", code, tmp_path / "runs")
    assert "of the environment" in said
    assert said.endswith("False\n")


def test_a_link_to_an_interpreter_shows_nothing_of_the_folder_that_it_lies_in(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "bin" / "deploy.sh").write_text(SECRET, encoding="ascii")
    (home / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    code = f"import os, sys\nprint(sys.executable, os.listdir({str(home)!r}), os.listdir({str(home / 'bin')!r}))\n"
    said = printed(home / "bin" / "python", code, tmp_path / "runs")
    assert said == f"{home}/bin/python ['bin'] ['python']\n"


def test_an_environment_whose_interpreter_is_reached_by_way_of_other_links_works(tmp_path: Path) -> None:
    """As tools have it that keep many versions: a link to a folder that is a link to the newest one."""
    versions = tmp_path / "versions"
    versions.mkdir()
    (versions / "newest").symlink_to(Path(sys.executable).resolve().parent.parent)
    (versions / "notes.txt").write_text(SECRET, encoding="ascii")
    python = environment(tmp_path / "env")
    real = python.resolve()
    python.unlink()
    python.symlink_to(versions / "newest" / "bin" / real.name)
    code = LOOK.format(folder=str(versions))
    said = printed(python, code, tmp_path / "runs")
    assert "of the environment" in said
    assert "notes.txt" not in said


def test_the_interpreter_of_the_system_needs_nothing_more(tmp_path: Path) -> None:
    for place in filter(os.path.exists, ("/usr/bin/python3", "/bin/python3")):
        found = find_interpreter(Path(place), tmp_path)
        assert (found.parts, found.links) == ((), ())
