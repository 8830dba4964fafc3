"""The bootstrap runs the program that it receives, and provides its modules and functions."""

import ast
import asyncio
import ctypes
import mmap
import sys
from pathlib import Path

import msgspec
import pytest

from tests.harness.broker_socket import TableBroker, run_guest
from timeloom.ports.sandbox import ToolStub
from timeloom.sandbox import protocol
from timeloom.sandbox.guest import BOOTSTRAP, bootstrap

pytestmark = pytest.mark.anyio
SEARCH = ToolStub(tool_id="web_tools.web_search", module="web_tools", function="web_search", params=("query", "n"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def printed(root: Path, code: str, broker: TableBroker | None = None, *stubs: ToolStub) -> object:
    """Return the output of a program that ends without an error, decoded as JSON."""
    async with run_guest(root) as here:
        ended = await here.run("import json\n" + code, broker, stubs)
    assert (ended.code, ended.err) == (0, "")
    return msgspec.json.decode(ended.out)


async def test_a_program_runs_in_its_folder_with_its_variables(tmp_path: Path) -> None:
    code = """
import os, sys
names = ("WORKDIR", "OUTPUT_DIR", "EXECUTION_ID", "AGENT_IO_CONTEXT")
print(json.dumps([os.getcwd(), [os.environ[name] for name in names], __name__, sys.argv, sys.stdin.read()]))
"""
    work, out = f"{tmp_path}/work", f"{tmp_path}/out"
    expected = [work, [work, out, "exec_1", "limited"], "__main__", [f"{work}/program.py"], ""]
    assert await printed(tmp_path, code) == expected


async def test_out_dir_is_a_text_and_a_path(tmp_path: Path) -> None:
    code = """
import os
from pathlib import Path
(OUT_DIR / "turn_1" / "files").mkdir(parents=True)
(OUT_DIR / "turn_1/files/a.txt").write_text("a")
with open(os.path.join(OUT_DIR, "turn_1/files/b.txt"), "w") as file:
    file.write("b")
found = sorted(path.name for path in OUT_DIR.glob("turn_1/files/*"))
print(json.dumps([found, OUT_DIR.exists(), f"{OUT_DIR}" == str(Path(OUT_DIR)), OUT_DIR + "/x" == OUTPUT]))
""".replace("OUTPUT", "os.environ['OUTPUT_DIR'] + '/x'")
    assert await printed(tmp_path, code) == [["a.txt", "b.txt"], True, True, True]


async def test_libraries_find_no_sendmsg_and_do_without_it(tmp_path: Path) -> None:
    """Sandboxes refuse it; asyncio of Python 3.12 and newer would mistake it for a full socket."""
    code = """
import asyncio, multiprocessing, socket
ours, theirs = socket.socketpair()
reader, answering = await asyncio.open_connection(sock=theirs)
unread, writer = await asyncio.open_connection(sock=ours)
writer.writelines([bytes(1_000_000)] * 3)
writer.close()
came = len(await reader.read())
print(json.dumps([came, hasattr(ours, "sendmsg"), "forkserver" in multiprocessing.get_all_start_methods()]))
"""
    assert await printed(tmp_path, code) == [3_000_000, False, False]


async def test_await_stands_at_the_top_level(tmp_path: Path) -> None:
    code = "import asyncio\nawait asyncio.sleep(0)\nprint(json.dumps(await asyncio.sleep(0, 'awaited')))"
    assert await printed(tmp_path, code) == "awaited"


async def test_a_tool_is_called_by_its_id_or_by_its_stub(tmp_path: Path) -> None:
    code = """
import io_tools
from web_tools import web_search
by_id = io_tools.tool_call("web_tools.web_search", {"query": "ferries"})
by_name = web_tools.web_search(n=2, query="x")
print(json.dumps([by_id["ret"], web_search("ferries", 3)["ret"], by_name["ret"]["params"]]))
"""
    broker = TableBroker()
    said = await printed(tmp_path, code, broker, SEARCH)
    assert said == [
        {"tool_id": "web_tools.web_search", "params": {"query": "ferries"}},
        {"tool_id": "web_tools.web_search", "params": {"query": "ferries", "n": 3}},
        {"query": "x", "n": 2},
    ]
    assert len(broker.calls) == 3


async def test_a_call_may_be_awaited_gathered_and_made_a_task(tmp_path: Path) -> None:
    code = """
import asyncio
call = io_tools.tool_call
first = await call("a.one")
second, third = await asyncio.gather(call("a.two"), web_tools.web_search("x"))
fourth = await asyncio.create_task(call("a.four"))
fifth = await asyncio.wait_for(call("a.five"), 20)
sixth = call("a.six")
text, rows = await asyncio.gather(context_tools.fetch_ctx("ar:x"), ctx_tools.fetch_ctx("so:x"))
answers = [first, second, third, fourth, fifth, sixth]
print(json.dumps([[answer["ret"]["tool_id"] for answer in answers], text, rows]))
"""
    broker = TableBroker(table={"ar:x": "words", "so:x": [1, 2]})
    ids = ["a.one", "a.two", "web_tools.web_search", "a.four", "a.five", "a.six"]
    assert await printed(tmp_path, code, broker, SEARCH) == [ids, "words", [1, 2]]


async def test_an_answer_that_is_on_its_way_is_a_dict_to_whoever_looks(tmp_path: Path) -> None:
    code = """
import asyncio, copy, pickle
def call():
    return io_tools.tool_call("a.tool", {"n": 1})
async def main():
    whole = {"ok": True, "error": None, "ret": {"tool_id": "a.tool", "params": {"n": 1}}}
    match call():
        case {"ok": True, "ret": {"params": {"n": n}}}:
            matched = n == 1
    looks = [json.loads(json.dumps(call())), dict(call()), {**call()}, call() | {}, {} | call(), pickle.loads(
        pickle.dumps(call())), copy.deepcopy(call()), call().copy(), eval(repr(call())), dict(call().items())]
    return [matched, len(call()) == 3, "ok" in call(), set(call()) == set(whole), call() == whole, whole == call(),
            *(look == whole for look in looks)]
print(json.dumps(asyncio.run(main())))
"""
    assert await printed(tmp_path, code) == [True] * 16


async def test_calls_of_one_program_are_in_flight_together(tmp_path: Path) -> None:
    code = """
import asyncio
await asyncio.gather(*(io_tools.tool_call("a.tool", {"n": n}) for n in range(8)))
print(1)
"""
    assert await printed(tmp_path, code, TableBroker(barrier=asyncio.Barrier(8))) == 1


async def test_what_nobody_waited_for_is_done_before_the_program_ends(tmp_path: Path) -> None:
    code = "import asyncio\nawait asyncio.sleep(0)\nio_tools.tool_call('a.tool')\nprint(1)"
    broker = TableBroker()
    assert await printed(tmp_path, code, broker) == 1
    assert broker.calls == [("a.tool", "{}")]


async def test_what_json_does_not_have_is_sent_as_what_it_does(tmp_path: Path) -> None:
    code = """
import datetime, pathlib
params = {"path": pathlib.Path("a/b"), "day": datetime.date(2026, 2, 9), "names": {"b", "a"}}
print(json.dumps(io_tools.tool_call("a.tool", params)["ret"]["params"]))
"""
    assert await printed(tmp_path, code) == {"path": "a/b", "day": "2026-02-09", "names": ["a", "b"]}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("io_tools.tool_call('a.tool', {'x': object()})", "TypeError"),
        ("io_tools.tool_call('a.tool', {'x': float('nan')})", "ValueError"),
        ("web_tools.web_search(1, 2, 3)", "TypeError"),
        ("web_tools.web_search(1, query=2)", "TypeError"),
        ("context_tools.fetch_ctx('ar:none')", "FetchError"),
    ],
)
async def test_a_call_that_cannot_be_made_raises(tmp_path: Path, call: str, error: str) -> None:
    code = f"try:\n    {call}\nexcept Exception as error:\n    print(json.dumps(type(error).__name__))"
    assert await printed(tmp_path, code, None, SEARCH) == error


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("io_tools.tool_call('no.such')", "unknown_tool"),
        ("io_tools.tool_call('bad.raises')", "tool_call_error"),
        ("io_tools.tool_call('big.answer')", "tool_result_too_large"),
        ("io_tools.tool_call('a.tool', {'x': 'x' * 9_000_000})", "tool_params_invalid"),
    ],
)
async def test_a_call_that_fails_has_an_answer_that_says_so(tmp_path: Path, call: str, error: str) -> None:
    code = f"answer = {call}\nprint(json.dumps([answer['ok'], answer['error']['code'], answer['ret']]))"
    assert await printed(tmp_path, code) == [False, error, None]


async def test_a_process_that_the_program_forks_has_a_connection_of_its_own(tmp_path: Path) -> None:
    code = """
from multiprocessing import get_context
def work(n):
    return io_tools.tool_call("a.tool", {"n": n})["ret"]["params"]["n"]
io_tools.tool_call("a.tool")
with get_context("fork").Pool(3) as pool:
    print(json.dumps([pool.map(work, range(6)), work(7)]))
"""
    assert await printed(tmp_path, code) == [[0, 1, 2, 3, 4, 5], 7]


async def test_calls_come_from_several_threads(tmp_path: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(5) as pool:
    print(json.dumps(list(pool.map(lambda n: io_tools.tool_call("a.tool", {"n": n})["ret"]["params"]["n"], range(20)))))
"""
    assert await printed(tmp_path, code) == list(range(20))


async def test_a_tool_does_not_take_the_place_of_a_library(tmp_path: Path) -> None:
    stub = ToolStub(tool_id="csv.load", module="csv", function="load")
    code = "import csv\nprint(json.dumps(hasattr(csv, 'load') or not hasattr(csv, 'DictReader')))"
    assert await printed(tmp_path, code, None, stub) is False


async def test_a_traceback_names_the_lines_of_the_program_only(tmp_path: Path) -> None:
    code = "def inner(text):\n    return json.loads(text)\nimport json\ntry:\n    1 / 0\nfinally:\n    inner('{')\n"
    async with run_guest(tmp_path) as here:
        ended = await here.run(code)
    files = [line for line in ended.err.splitlines() if line.startswith("  File")]
    place = f'  File "{tmp_path}/work/program.py", line'
    assert ended.code == 1
    assert files == [f"{place} 5, in <module>", f"{place} 7, in <module>", f"{place} 2, in inner"]
    assert "    return json.loads(text)\n" in ended.err
    assert ended.err.splitlines()[-1].startswith("json.decoder.JSONDecodeError: ")


async def test_a_program_that_is_no_python_says_where(tmp_path: Path) -> None:
    async with run_guest(tmp_path) as here:
        ended = await here.run("print(1)\nprint(2")
    assert ended.code == 1
    assert 'program.py", line 2' in ended.err
    assert "SyntaxError: '(' was never closed" in ended.err


@pytest.mark.parametrize(
    ("code", "exit_code", "err"),
    [
        ("raise SystemExit", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('no data')", 1, "no data\n"),
        ("import os; os._exit(9)", 9, ""),
        ("raise KeyboardInterrupt", 1, None),
    ],
)
async def test_a_program_ends_as_it_says(tmp_path: Path, code: str, exit_code: int, err: str | None) -> None:
    async with run_guest(tmp_path) as here:
        ended = await here.run(code)
    assert ended.code == exit_code
    assert err is None or ended.err == err


async def test_print_comes_out_line_by_line_in_utf8(tmp_path: Path) -> None:
    async with run_guest(tmp_path) as here:
        ended = await here.run("print('fähre \\ud800')\nimport os\nos._exit(0)")
    assert ended.out == "fähre \\ud800\n"


async def test_libraries_are_preloaded_where_they_are_there(tmp_path: Path) -> None:
    async with run_guest(tmp_path, "--preload", "sqlite3,no_such_library") as here:
        ended = await here.run("import sys\nprint('sqlite3' in sys.modules)")
    assert (ended.out, ended.err) == ("True\n", "")


async def test_what_was_preloaded_lies_in_large_pages_where_the_kernel_makes_some(tmp_path: Path) -> None:
    code = """
rollup = open("/proc/self/smaps_rollup").read()
print(int(rollup.partition("AnonHugePages:")[2].split()[0]) > 0)
"""
    async with run_guest(tmp_path, "--preload", "numpy,sqlite3,unittest.mock") as here:
        ended = await here.run(code)
    assert (ended.out, ended.err) == (f"{makes_large_pages()}\n", "")


def makes_large_pages() -> bool:
    """Whether the kernel puts memory into large pages that is asked for in small ones."""
    with mmap.mmap(-1, 2 * bootstrap.HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(bytes(2 * bootstrap.HUGE_PAGE_BYTES))
        first = ctypes.c_char.from_buffer(memory)
        at = -(-ctypes.addressof(first) // bootstrap.HUGE_PAGE_BYTES) * bootstrap.HUGE_PAGE_BYTES
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
        made = advise(at, bootstrap.HUGE_PAGE_BYTES, bootstrap.COLLAPSE) == 0
        del first
    return made


async def test_without_the_token_nothing_runs(tmp_path: Path) -> None:
    async with run_guest(tmp_path, token="of another execution") as here:
        await here.process.wait()
        assert here.process.returncode == 1


def test_both_sides_speak_the_same_version() -> None:
    assert (bootstrap.VERSION, bootstrap.MAX_FRAME_BYTES) == (protocol.VERSION, protocol.MAX_FRAME_BYTES)


def test_the_bootstrap_is_python_3_9_and_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(BOOTSTRAP.read_text(), feature_version=(3, 9))
    nodes = list(ast.walk(tree))
    names = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module).split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names
