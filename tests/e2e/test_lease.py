"""Two programs open one conversation: one holds its lease, the other gets its name, and a dead one holds nothing."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = """
- reply: |
    <channel:ReactDecisionOutV2>{"action":"complete","final_answer":"First."}</channel:ReactDecisionOutV2>
- reply: |
    <channel:ReactDecisionOutV2>{"action":"complete","final_answer":"Second."}</channel:ReactDecisionOutV2>
"""


def command(folder: Path, *more: str) -> list[str]:
    script = folder / "script.yaml"
    script.write_text(SCRIPT)
    run = [sys.executable, "-m", "timeloom", "chat", "--data-dir", str(folder / "data"), "--model", f"script:{script}"]
    return [*run, *more]


@contextmanager
def chatting(folder: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A chat that has answered once and waits for more, and its conversation."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command(folder), stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == "First.\n"
        conversation = process.stderr.readline().split()[1]
        try:
            yield process, conversation
        finally:
            process.kill()


def go_on(folder: Path, conversation: str) -> subprocess.CompletedProcess[str]:
    more = command(folder, "--conversation", conversation)
    return subprocess.run(more, input="and?\n", capture_output=True, text=True, check=False)


def test_a_conversation_that_is_open_elsewhere_is_refused_with_who_holds_it(tmp_path: Path) -> None:
    with chatting(tmp_path) as (process, conversation):
        refused = go_on(tmp_path, conversation)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "conversation_held" in refused.stderr
        assert f"process {process.pid} on " in refused.stderr
        assert "Traceback" not in refused.stderr
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0
    assert go_on(tmp_path, conversation).stdout == "Second.\n"


def test_a_conversation_whose_program_was_killed_is_free_at_once(tmp_path: Path) -> None:
    with chatting(tmp_path) as (process, conversation):
        process.kill()
        process.wait()
        done = go_on(tmp_path, conversation)
        assert (done.returncode, done.stdout) == (0, "Second.\n")
