"""Programs in `timeloom chat`, as a person has them run: a real sandbox, real processes, a real folder."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.harness.replies import answers, decision_reply

CHECKS = (
    "import os, pathlib, socket",
    "print('user', os.getuid(), sorted(os.environ))",
    "note = io_tools.tool_call('react.write', {'path': 'files/note.md', 'content': 'said by a program'})",
    "print('called', note['ok'])",
    "read = await react.read(paths=['fi:' + note['ret']['artifacts'][0]['path'][3:]])",
    "print('read', read['ok'])",
    "print('secret', os.path.exists('/etc/shadow'), os.path.exists(SECRET))",
    "try:",
    "    socket.create_connection(('127.0.0.1', 80))",
    "except OSError as error:",
    "    print('net', type(error).__name__)",
    "(OUT_DIR / 'squares.csv').write_text('1,1\\n2,4\\n')",
)


def executes(lines: Sequence[str], **params: object) -> str:
    call: dict[str, object] = {"tool_id": "exec_tools.execute_code_python", "params": {"contract": (), **params}}
    program = "\n".join(lines)
    return f"{decision_reply({'action': 'call_tool', 'tool_call': call})}\n<channel:code>\n{program}\n</channel:code>"


def scripted(folder: Path, *replies: str) -> list[str]:
    """The command that chats with these replies, and then says that it is done."""
    steps = [*replies, answers("Done.")]
    script = folder / "script.json"
    script.write_text(json.dumps([{"reply": step} for step in steps]))
    return [*timeloom(folder, "chat"), "--model", f"script:{script}", "--title-model", "none"]


def timeloom(folder: Path, command: str) -> list[str]:
    return [sys.executable, "-m", "timeloom", command, "--data-dir", str(folder / "data")]


def ran(command: list[str], typed: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=False, env=env)


def exported(folder: Path) -> str:
    return ran([*timeloom(folder, "export"), "--json"]).stdout


def test_a_program_runs_isolated_calls_tools_and_leaves_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    lines = [f"SECRET = {str(secret)!r}", *CHECKS]
    done = ran(scripted(tmp_path, executes(lines, contract=[{"filename": "squares.csv"}])), "go\n", MY_API_KEY="s3cret")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "    ↳ react.write" in done.stderr
    (made,) = (tmp_path / "data" / "workspaces").glob("*/*/files/squares.csv")
    assert made.read_text() == "1,1\n2,4\n"
    report = exported(tmp_path)
    for said in ("user 1001", "called True", "read True", "secret False False", "net "):
        assert said in report
    assert "MY_API_KEY" not in report
    assert "s3cret" not in report
    assert ran([*timeloom(tmp_path, "verify"), "--recovery"]).returncode == 0


def test_a_program_that_calls_tools_without_end_is_refused_more_and_goes_on(tmp_path: Path) -> None:
    lines = [
        "codes = [(react.write(path=f'files/{n}.md', content='x')['error'] or {}).get('code') for n in range(5)]",
        "print('came to', codes)",
    ]
    done = ran(scripted(tmp_path, executes(lines)), "go\n", TIMELOOM_EXECUTION_LIMITS_TOOL_CALLS="3")
    assert done.returncode == 0, done.stderr
    report = exported(tmp_path)
    assert "came to [None, None, None, 'call_limit', 'call_limit']" in report
    assert "react.write: 5 calls, 3 ok; failed: call_limit 2" in report
    assert len(list((tmp_path / "data" / "workspaces").glob("*/*/files/*.md"))) == 3


def test_a_machine_that_cannot_isolate_runs_nothing_and_says_what_to_install(tmp_path: Path) -> None:
    done = ran(scripted(tmp_path, executes(["open('/tmp/ran', 'w')"])), "go\n", PATH="/nowhere")
    assert done.returncode == 0
    assert "apt-get install bubblewrap" in done.stderr


def test_programs_can_be_switched_off(tmp_path: Path) -> None:
    command = scripted(tmp_path, executes(["print(1)"]))
    done = ran(command, "go\n", TIMELOOM_EXECUTION_RUNTIME_ENABLED="false")
    assert "no tool 'exec_tools.execute_code_python'" in done.stderr


def test_a_program_dies_with_the_process_that_runs_it_and_is_run_again_by_the_next(tmp_path: Path) -> None:
    command = scripted(
        tmp_path,
        executes(
            [
                "import time",
                "first = not list(OUT_DIR.rglob('mark.md'))",
                "react.write(path='files/mark.md', content='was here')['ok']",
                "print('for the', 'first time' if first else 'second time')",
                "time.sleep(1000 if first else 0)",
            ]
        ),
    )
    chat = subprocess.Popen([*command, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert chat.stdin
    assert chat.stdout
    chat.stdin.write("go\n")
    chat.stdin.close()
    assert any("for the first time" in line for line in chat.stdout)
    inside = children_of(chat.pid)
    assert inside
    chat.send_signal(signal.SIGKILL)
    chat.wait()
    chat.stdout.close()
    while any(Path(f"/proc/{pid}").exists() for pid in inside):
        time.sleep(0.05)
    done = ran([*timeloom(tmp_path, "worker"), *command[-4:]])
    assert "ended, completed" in done.stdout
    assert "for the second time" in exported(tmp_path)


def children_of(pid: int) -> list[int]:
    """All processes below that one."""
    found: list[int] = []
    todo = [pid]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            below = [int(one) for one in task.read_text().split()]
            found += below
            todo += below
    return found
