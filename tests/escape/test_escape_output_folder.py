"""Hostile output folders: links, devices and names that a program leaves for the host to read."""

import os
from pathlib import Path

import pytest

from tests.escape.escape_harness import SECRET, EscapeHarness
from timeloom.core.codes import CodedError
from timeloom.core.paths import PhysicalPath
from timeloom.platform.open_beneath import open_beneath
from timeloom.testing.sandbox_contract.fixtures import OutputRecorder, TableBroker, program

TURN = "turn_1770603271112_2yz1lp"


def read(root: Path, name: str) -> bytes:
    """Read the output folder like the exec tool."""
    descriptor = open_beneath(root, PhysicalPath(f"{TURN}/files/{name}"))
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def refused(root: Path, name: str) -> bool:
    try:
        read(root, name)
    except (CodedError, OSError):
        return True
    return False


def test_links_pipes_and_devices_lead_nowhere(stage: EscapeHarness) -> None:
    """A program can create them, collecting refuses them, and their targets survive their removal."""
    secret = stage.outside / "secret.txt"
    code = f"""
import os, socket
folder = os.path.join(OUT_DIR, "{TURN}/files")
os.makedirs(folder)
os.chdir(folder)
os.symlink({str(secret)!r}, "link")
os.symlink({str(stage.outside)!r}, "folder")
os.symlink("/proc/self/environ", "magic")
os.symlink("link", "twice")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("one", "w").write("x")
os.link("one", "two")
open("plain", "w").write("good")
os.chmod("plain", 0o6777)
for source in ("/etc/passwd", "/usr/bin/env", {str(secret)!r}):
    try: os.link(source, "hard-" + os.path.basename(source)); print("ESCAPED", source)
    except OSError as error: print(error)
print("left")
"""

    async def collected() -> None:
        heard = OutputRecorder()
        async with stage.sandbox.run(program(code), TableBroker(), heard) as ran:
            assert heard.stdout.endswith("left\n"), heard.stderr
            assert "ESCAPED" not in heard.stdout
            assert read(ran.out_dir, "plain") == b"good"
            for name in ("link", "folder/secret.txt", "magic", "twice", "pipe", "socket", "one", "two"):
                assert refused(ran.out_dir, name), name
        assert not ran.out_dir.exists()

    stage.runner.run(collected())
    assert secret.read_text(encoding="ascii") == SECRET


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o500])
def test_folders_that_are_shut_are_removed(stage: EscapeHarness, mode: int) -> None:
    done = stage.run(f"""
os.makedirs(os.path.join(OUT_DIR, "a/b/c"))
open(os.path.join(OUT_DIR, "a/b/file"), "w").write("x")
for path in ("a/b/c", "a/b", "a"): os.chmod(os.path.join(OUT_DIR, path), {mode})
os.chmod(os.environ["WORKDIR"], {mode})
""")
    assert done.ran.exit_code == 0, done.description


def test_folders_that_are_too_deep_for_a_path_are_removed(stage: EscapeHarness) -> None:
    """Deeper than a path can say, and than a recursion goes; the program is ended for it sooner or later."""
    done = stage.run("for n in range(3000):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n")
    assert done.ran.ending in {"exited", "growth"}, done.description


def test_names_of_any_kind_are_removed(stage: EscapeHarness) -> None:
    done = stage.run("""
for name in (b"\\xff\\xfe", b"-rf", b"*", b" ", b"\\n", b"a" * 255, b".going", b"0"):
    os.mkdir(os.path.join(os.fsencode(OUT_DIR), name))
    open(os.path.join(os.fsencode(OUT_DIR), name, name), "w").close()
""")
    assert done.ran.exit_code == 0, done.description
