"""The broker socket is the only way out, and it survives input that is not a request."""

import msgspec

from tests.escape.escape_harness import EscapeHarness
from timeloom.testing.sandbox_contract.fixtures import TableBroker

FIND_CONNECTION = """
import gc
line = next(each for each in gc.get_objects() if type(each).__name__ == "SupervisorConnection")
def connected():
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(20)
    one.connect(line._path)
    return one
def framed(body): return struct.pack(">I", len(body)) + body
def hello(token): return framed(('{"token": "%s", "version": 2}' % token).encode())
def closed(one):
    try: return one.recv(1) == b""
    except ConnectionError: return True
import io_tools
"""


def test_garbage_and_frames_that_are_too_large_end_their_own_connection_only(stage: EscapeHarness) -> None:
    broker = TableBroker()
    done = stage.run(
        FIND_CONNECTION
        + """
def sent(one, body):
    try: one.sendall(body)
    except OSError: pass
for body in (b"\\0\\0\\0\\5hello", b"\\xff\\xff\\xff\\xff", b"\\0" * 4, framed(b"[" * 500), framed(b"\\xff" * 90),
             b"\\x7f" + b"A" * 100_000):
    one = connected()
    sent(one, body)
    print(closed(one))
for body in (b"\\xff\\xff\\xff\\xff" + b"x" * 65536, framed(b"[" * 1_000_000), framed(b"null"),
             framed(b'{"kind": "call"}'), framed(b'{"kind": "call", "id": 1, "tool_id": 3, "params": []}'),
             struct.pack(">I", 8 * 1024 * 1024 + 1)):
    one = connected()
    sent(one, hello(line._token) + body)
    print(closed(one))
print(io_tools.tool_call("web.search", {"query": "still there"}))
""",
        broker,
    )
    assert done.output.stdout.count("True\n") == 12, done.description
    assert (
        broker.requests == [("web.search", msgspec.json.encode({"query": "still there"}).decode())]
        or len(broker.requests) == 1
    )
    assert "still there" in done.output.stdout, done.description


def test_a_token_of_another_execution_opens_nothing(stage: EscapeHarness) -> None:
    first = stage.run(FIND_CONNECTION + "print(line._token)\n")
    token = first.output.stdout.strip()
    assert len(token) >= 16
    broker = TableBroker()
    call = msgspec.json.encode({"kind": "call", "id": 1, "tool_id": "web.search", "params": "{}"})
    done = stage.run(
        FIND_CONNECTION
        + f"""
for token in ({token!r}, "", "x" * 32, line._token[:-1], line._token + "0"):
    one = connected()
    one.sendall(hello(token) + framed({call!r}))
    print(closed(one))
""",
        broker,
    )
    assert done.output.stdout == "True\n" * 5, done.description
    assert broker.requests == []


def test_a_tool_that_is_not_allowed_is_not_called(stage: EscapeHarness) -> None:
    """The program may claim anything; the broker outside decides."""
    broker = TableBroker(allowed=frozenset())
    names = ("bank.pay", "web.search", "../web.search", "")
    done = stage.run(f"import io_tools\nfor name in {names}: print(io_tools.tool_call(name, {{}}))\n", broker)
    assert done.output.stdout.count("not allowed") == 4, done.description
    assert "'ok': True" not in done.output.stdout


def test_many_connections_do_not_keep_others_out(stage: EscapeHarness) -> None:
    other = TableBroker()
    stage.run(FIND_CONNECTION + "kept = [attempt('connect', connected) for _ in range(100)]\n")
    done = stage.run("import io_tools\nprint(io_tools.tool_call('web.search', {'query': 'later'}))\n", other)
    assert len(other.requests) == 1, done.description


def test_the_socket_of_another_execution_is_not_in_reach(stage: EscapeHarness) -> None:
    done = stage.run(
        FIND_CONNECTION
        + """
print(os.path.exists("/workspace/sock/../../sock"), [name for name in os.listdir("/workspace")])
attempt("replace", lambda: os.unlink(line._path))
attempt("rename", lambda: os.rename(line._path, line._path + "2"))
"""
    )
    assert "ESCAPED" not in done.description, done.description
