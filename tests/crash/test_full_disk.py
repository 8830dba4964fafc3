"""A turn on a real disk that becomes full stops, and resumes by itself once there is room."""

import subprocess
from pathlib import Path

from tests.harness.repository import ROOT, program

SIZE_BYTES = 16_000_000


def test_a_turn_on_a_full_disk_stops_and_resumes_once_there_is_room(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    disk = ["bwrap", "--dev-bind", "/", "/", "--size", str(SIZE_BYTES), "--tmpfs", str(small), "--"]
    command = [*disk, *program("tests.crash.full_disk_process"), str(small)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    *states, verified = done.stdout.splitlines()
    assert "interrupted True" in states
    assert states[-1] == "idle False"
    assert verified == "0 []"
