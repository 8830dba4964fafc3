"""Checks the environment, streamed output, exit status and output files of a program."""

import asyncio
import os
import pwd
import tempfile
from pathlib import Path

import msgspec

from timeloom.core.codes import CodedError
from timeloom.ports.sandbox import ExecutionLimits
from timeloom.testing.sandbox_contract.fixtures import (
    Open,
    TableBroker,
    program,
    run_program,
    scoped_sandbox,
    start_program,
)


async def a_sandbox_that_can_isolate_says_so(open_sandbox: Open) -> None:
    """`check` passes and the sandbox has a name."""
    async with scoped_sandbox(open_sandbox) as sandbox:
        await sandbox.check()
        assert sandbox.name


async def what_is_printed_is_heard_and_its_end_is_kept(open_sandbox: Open) -> None:
    """Holds for both streams, also if a character is split between two chunks."""
    code = "import sys\nfor n in range(20000): print('ä', n)\nprint('bad', file=sys.stderr)\n"
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, code)
        assert (done.ran.ending, done.ran.exit_code) == ("exited", 0), done.description
        assert done.output.stdout == "".join(f"ä {n}\n" for n in range(20000))
        assert done.ran.stdout_tail.endswith("ä 19998\nä 19999\n")
        assert len(done.ran.stdout_tail) < len(done.output.stdout)
        assert done.output.stderr == done.ran.stderr_tail == "bad\n"


async def what_is_printed_is_heard_while_the_program_runs(open_sandbox: Open) -> None:
    """Output is streamed before the program ends."""
    code = "import os, time\nprint('begun')\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    async with scoped_sandbox(open_sandbox) as sandbox:
        task, _ = await start_program(sandbox, program(code, limits=ExecutionLimits(wall_s=2)), "begun")
        assert (await task).ran.ending == "timeout"


async def a_program_ends_with_its_exit_code(open_sandbox: Open) -> None:
    """The exit code is that of the interpreter, also if the number could be that of a signal."""
    async with scoped_sandbox(open_sandbox) as sandbox:
        ends = (("pass", 0), ("exit(7)", 7), ("exit('no')", 1), ("1 / 0", 1), ("exit(137)", 137), ("exit(200)", 200))
        for code, expected in ends:
            done = await run_program(sandbox, code)
            assert (done.ran.ending, done.ran.exit_code) == ("exited", expected), done.description


async def an_exception_is_shown_by_the_lines_of_the_program(open_sandbox: Open) -> None:
    """The traceback names lines of the program and no lines of the sandbox."""
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, "def f():\n    return 1 / 0\nf()\n")
        assert "ZeroDivisionError" in done.ran.stderr_tail, done.description
        assert "line 2, in f" in done.ran.stderr_tail
        assert "bootstrap" not in done.ran.stderr_tail


async def a_signal_counts_as_shells_count_it(open_sandbox: Open) -> None:
    """The exit code is 128 plus the number of the signal."""
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
        assert (done.ran.ending, done.ran.exit_code) == ("killed", 137), done.description


async def a_program_knows_its_folders_and_little_else(open_sandbox: Open) -> None:
    """It has the documented environment variables and may write to both folders."""
    code = """
import os
print(os.environ["EXECUTION_ID"], os.environ["AGENT_IO_CONTEXT"], os.getuid(), os.getgid())
assert os.path.samefile(os.getcwd(), os.environ["WORKDIR"]) and str(OUT_DIR) == os.environ["OUTPUT_DIR"]
open(os.path.join(os.environ["WORKDIR"], "note"), "w").write("work")
open(os.path.join(OUT_DIR, "note"), "w").write("out")
"""
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, code)
        name, context, uid, gid = done.output.stdout.split()
        assert (name, context, uid) == ("exec_contract", "limited", gid), done.description
        # A user namespace maps 1001 to another number. Where nothing is mapped, no other account may have the number.
        assert int(uid) in (1001, os.geteuid()) or not _has_account(int(uid)), done.description
        assert done.files == {"note": b"out"}


async def files_that_it_leaves_are_there_until_the_run_is_left(open_sandbox: Open) -> None:
    """Output files are readable inside the run and removed after it, also from folders without permissions."""
    code = """
import os
os.makedirs(os.path.join(OUT_DIR, "a/b"))
open(os.path.join(OUT_DIR, "a/b/c.txt"), "w").write("kept")
os.makedirs(os.path.join(OUT_DIR, "shut/inner"))
os.chmod(os.path.join(OUT_DIR, "shut"), 0)
"""
    async with scoped_sandbox(open_sandbox) as sandbox:
        async with sandbox.run(program(code), TableBroker(), lambda _stream, _text: None) as ran:
            assert ran.exit_code == 0, ran.stderr_tail
            assert (ran.out_dir / "a/b/c.txt").read_bytes() == b"kept"
        assert not await asyncio.to_thread(ran.out_dir.exists)


async def inputs_are_copies(open_sandbox: Open) -> None:
    """The program may change its inputs without changing the originals."""
    code = """
import os
path = os.path.join(OUT_DIR, "turn/files/in.txt")
print(open(path).read())
open(path, "a").write(" and more")
open(os.path.join(OUT_DIR, "turn/files/beside.txt"), "w").write("x")
"""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.write_text("given", encoding="utf-8")
        async with scoped_sandbox(open_sandbox) as sandbox:
            done = await run_program(sandbox, program(code, inputs={"turn/files/in.txt": source}))
            assert done.output.stdout == "given\n", done.description
            assert done.files["turn/files/in.txt"] == b"given and more"
            assert source.read_text(encoding="utf-8") == "given"


async def a_read_only_input_cannot_be_opened_for_writing(open_sandbox: Open) -> None:
    """The program can read the input; writing to it raises `PermissionError`."""
    code = """
path = OUT_DIR / "turn/files/in.txt"
print(path.read_text())
try:
    path.write_text("changed")
except PermissionError:
    print("refused")
"""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.write_text("given", encoding="utf-8")
        async with scoped_sandbox(open_sandbox) as sandbox:
            name = "turn/files/in.txt"
            given = program(code, inputs={name: source})
            done = await run_program(sandbox, msgspec.structs.replace(given, read_only=(name,)))
            assert done.output.stdout == "given\nrefused\n", done.description


async def links_lead_to_folders_beside_them(open_sandbox: Open) -> None:
    """Files have the same content under the link, and a file written through it lies in the folder."""
    code = """
import os
print(os.readlink(OUT_DIR / "t1"), (OUT_DIR / "t1/files/in.txt").read_text())
(OUT_DIR / "t2/files/new.txt").write_text("made")
"""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.write_text("given", encoding="utf-8")
        async with scoped_sandbox(open_sandbox) as sandbox:
            given = msgspec.structs.replace(
                program(code, inputs={"turn_a/files/in.txt": source}),
                folders=("turn_b/files",),
                links={"t1": "turn_a", "t2": "turn_b"},
            )
            done = await run_program(sandbox, given)
            assert (done.output.stdout, done.ran.detail) == ("turn_a given\n", ""), done.description
            assert done.files == {"turn_a/files/in.txt": b"given", "turn_b/files/new.txt": b"made"}


async def an_input_outside_its_folder_is_refused(open_sandbox: Open) -> None:
    """An input path outside the output folder raises an error before the program starts."""
    async with scoped_sandbox(open_sandbox) as sandbox:
        for place in ("../work/x", "/etc/x", "a//b"):
            try:
                await run_program(sandbox, program("print('ran')", inputs={place: Path(__file__)}))
            except CodedError:
                continue
            raise AssertionError(f"an input at {place} was taken")


async def tools_are_called_and_awaited(open_sandbox: Open) -> None:
    """Tools can be called by stub and by id; a refused call returns an error result."""
    code = """
import json, web_tools, io_tools
print(json.dumps(web_tools.search("tides", 3)))
print(json.dumps(await web_tools.search(query="moons")))
print(json.dumps(io_tools.tool_call("bank.pay", {"to": "me"})))
"""
    broker = TableBroker()
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, program(code), broker)
        assert done.ran.exit_code == 0, done.description
        assert [tool_id for tool_id, _ in broker.requests] == ["web.search", "web.search", "bank.pay"]
        assert '"limit": 3' in done.output.stdout
        assert "moons" in done.output.stdout
        assert "not allowed" in done.output.stdout


async def paths_are_fetched(open_sandbox: Open) -> None:
    """`fetch_ctx` reads paths through the broker."""
    broker = TableBroker(table={"so:sources_pool[1]": "a row"})
    code = "import ctx_tools\nprint(await ctx_tools.fetch_ctx('so:sources_pool[1]'))\n"
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, program(code), broker)
        assert "a row" in done.output.stdout, done.description
        assert broker.requests == [("fetch", "so:sources_pool[1]")]


async def an_interpreter_serves_one_program(open_sandbox: Open) -> None:
    """The next program finds no module, file or process of the previous one."""
    code = """
import os, sys, tempfile
print(hasattr(sys, "left_here"), os.listdir(), os.listdir(OUT_DIR), os.listdir(tempfile.gettempdir()) == seen)
"""
    async with scoped_sandbox(open_sandbox) as sandbox:
        first = await run_program(sandbox, "import os, tempfile\nprint(os.listdir(tempfile.gettempdir()))\n")
        spoil = "import sys, tempfile\nsys.left_here = 1\nopen('w', 'w')\ntempfile.mkstemp()\n"
        assert (await run_program(sandbox, spoil)).ran.exit_code == 0
        done = await run_program(sandbox, f"seen = {first.output.stdout}{code}")
        assert done.output.stdout == "False ['program.py'] [] True\n", done.description


async def programs_at_the_same_time_do_not_meet(open_sandbox: Open) -> None:
    """Each program has separate folders and sees only its own processes."""
    code = """
import os, time
open(os.path.join(OUT_DIR, "mine"), "w").write("{0}")
open("/dev/shm/mine", "w").write("{0}") if os.path.isdir("/dev/shm") else None
time.sleep(0.3)
print(os.listdir(OUT_DIR), len([name for name in os.listdir("/proc") if name.isdigit()]) <= 3)
"""
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await asyncio.gather(*(run_program(sandbox, code.format(n)) for n in range(3)))
        for n, each in enumerate(done):
            assert each.output.stdout == "['mine'] True\n", each.description
            assert each.files == {"mine": str(n).encode()}


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
