"""Runs in the guest interpreter: waits for a program, runs it, and sends its requests to the supervisor.

    python -I bootstrap.py SOCKET [--preload numpy,pandas]      the token is the first line of standard input

This single file imports only the standard library of Python 3.9 or newer, so it can be copied into any image. Modules
that are slow to import are imported at first use, because most programs print something and end. It enforces nothing:
the program can change anything in its process, so limits and permissions are checked outside.
"""
# ruff: noqa: PLC0415, PTH101, PTH103, PTH118, PTH123, PTH211, T201 - late imports and no pathlib (see the docstring); a program prints

from __future__ import annotations

import _socket
import _thread
import os
import sys

VERSION = 2
MAX_FRAME_BYTES = 8 * 1024 * 1024
NEEDED_LATER = "json,threading,concurrent.futures,asyncio,pathlib,traceback"
SIGNAL_OFFSET = 128  # a higher exit code may also mean a signal
TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80  # inspect.CO_COROUTINE
HUGE_PAGE_BYTES = 2 * 1024 * 1024
COLLAPSE = 25  # MADV_COLLAPSE
FILLED = 0.9
RESERVED_BYTES = 36 * 1024 * 1024  # a little less than pandas and matplotlib need
BLOCK = 512  # the largest of the small objects
BLOCKS_APART = 400  # one or more in each arena, which has 256 KiB before Python 3.10

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from concurrent.futures import Future
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    Envelope = dict[str, Any]
    AnyList = list[Any]
    AnyDict = dict[str, Any]
else:
    AnyList, AnyDict = list, dict
    ModuleType = type(sys)


def main(arguments: list[str]) -> int:
    """Run the one program that the supervisor sends and return its exit code."""
    token = sys.stdin.readline().strip()
    # A program that reads its input gets end-of-file, and never the rest of this stream.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Before `socket` is imported, whose class derives from this one.
    _socket.socket = Socket
    streams: Any = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    if arguments[1:2] == ["--preload"]:
        _preload(NEEDED_LATER.split(",") + arguments[2].split(","))
    connection = SupervisorConnection(arguments[0], token)
    # Warm up both while the supervisor checks the connection: the first use is slow, and every program needs them.
    compile("", "", "exec")
    _decode_json("{}")
    start = connection.receive_start()
    folders = _enter_folders(start["env"], start["folders"], start["links"])
    for name in start["read_only"]:
        os.chmod(os.path.join(folders["OUTPUT_DIR"], name), 0o444)
    namespace = _namespace(connection, start["stubs"], folders["OUTPUT_DIR"])
    code = _run(start["code"], os.path.join(folders["WORKDIR"], _file_name(start["name"])), namespace, folders)
    connection.wait_for_answers()
    if code > SIGNAL_OFFSET:
        connection.announce_exit(code)
    return code


def _preload(names: list[str]) -> None:
    import contextlib
    import gc
    import importlib

    os.environ.setdefault("MPLBACKEND", "Agg")
    if "matplotlib" in names:
        names.append("matplotlib.pyplot")
    room = _reserve_memory()
    for name in filter(None, names):
        # A library that fails to load here is treated as not installed.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    del room
    # Loaded modules are never garbage; scanning them again would cost a program its first 50 ms.
    gc.collect()
    gc.freeze()
    with contextlib.suppress(Exception):
        _use_huge_pages()


def _reserve_memory() -> list[bytes]:
    """Reserve memory for small objects in one piece; scattered among the libraries, it would not fill large pages.

    The returned list holds the memory until the libraries use it. Freeing the list releases the unused rest.
    """
    blocks = [b""] * (RESERVED_BYTES // BLOCK)
    for at in range(len(blocks)):
        blocks[at] = bytes(BLOCK - 40)
    return blocks[::BLOCKS_APART]


def _use_huge_pages() -> None:
    """Move loaded modules into huge pages (Linux 6.1), which makes the process exit sooner."""
    import ctypes

    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    for start, end in _full_memory_ranges():
        first = -(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        if first + HUGE_PAGE_BYTES <= end:
            advise(first, (end - first) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, COLLAPSE)


def _full_memory_ranges() -> Generator[tuple[int, int], None, None]:
    """Yield the anonymous memory ranges that are nearly full, so that huge pages add no memory."""
    start = end = 0
    with open("/proc/self/smaps", encoding="utf-8") as lines:
        for line in lines:
            name, *values = line.split()
            if not name.endswith(":"):
                own = values[0].startswith("rw") and values[3] == "0"
                start, end = [int(place, 16) for place in name.split("-")] if own else (0, 0)
            elif name == "Rss:" and int(values[0]) * 1024 >= (end - start) * FILLED and end:
                yield start, end


def _enter_folders(env: dict[str, str], folders: list[str], links: dict[str, str]) -> dict[str, str]:
    os.environ.update(env)
    for folder in folders:
        os.makedirs(os.path.join(env["OUTPUT_DIR"], folder), exist_ok=True)
    for name, target in links.items():
        os.symlink(target, os.path.join(env["OUTPUT_DIR"], name))
    os.chdir(env["WORKDIR"])
    sys.path.insert(0, env["WORKDIR"])
    return env


# The connection to the supervisor


class HiddenMethod:
    """Descriptor that hides an inherited method: looking it up raises `AttributeError`."""

    def __get__(self, _instance: object, _owner: object) -> object:
        raise AttributeError("programs cannot send messages with ancillary data; use send")


class Socket(_socket.socket):
    """A socket without `sendmsg`, which seccomp denies, so that libraries use their fallback."""

    __slots__ = ()
    sendmsg = HiddenMethod()  # pyright: ignore[reportAssignmentType]


class SupervisorConnection:
    """The connection to the supervisor; each of the program's processes has a separate one."""

    def __init__(self, path: str, token: str) -> None:
        self._path, self._token = path, token
        self._socket: _socket.socket | None = self._connect()
        self._lock = _thread.allocate_lock()
        self._asked = 0
        self._is_receiving = False
        self._futures: dict[int, Future[Envelope]] = {}
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def receive_start(self) -> dict[str, Any]:
        """Return the supervisor's first message."""
        body = _receive_frame(self._socket)
        if not body:
            raise SystemExit("the supervisor is gone")
        return _decode_json(body.decode())

    def send_request(self, **question: str) -> Future[Envelope]:
        """Send the request; the future always resolves to an envelope, also on failure."""
        import json
        from concurrent.futures import Future

        future: Future[Envelope] = Future()
        # A running future cannot be cancelled, so one waiter that gives up does not affect the others.
        future.set_running_or_notify_cancel()
        with self._lock:
            self._asked += 1
            body = json.dumps({"id": self._asked, **question}).encode()
            if len(body) > MAX_FRAME_BYTES:
                future.set_result(error_envelope("tool_params_invalid", f"a call has at most {MAX_FRAME_BYTES} bytes"))
                return future
            self._futures[self._asked] = future
            try:
                self._send(body)
            except OSError:
                self._fail_pending()
        return future

    def wait_for_answers(self) -> None:
        """Wait for the answers to all pending requests."""
        for future in list(self._futures.values()):
            future.result()

    def announce_exit(self, code: int) -> None:
        """Announce that the program exits by itself with that code, which could be mistaken for a signal's."""
        import contextlib

        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._send(f'{{"kind":"exit","code":{code}}}'.encode())

    def _send(self, body: bytes) -> None:
        if self._socket is None:
            self._socket, self._is_receiving = self._connect(), False
        self._socket.sendall(len(body).to_bytes(4, "big") + body)
        if not self._is_receiving:
            self._is_receiving = True
            _thread.start_new_thread(self._receive_answers, (self._socket,))

    def _connect(self) -> _socket.socket:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(self._path)
        hello = f'{{"token":"{self._token}","version":{VERSION}}}'.encode()
        connection.sendall(len(hello).to_bytes(4, "big") + hello)
        return connection

    def _receive_answers(self, connection: _socket.socket) -> None:
        import json

        while body := _receive_frame(connection):
            message = json.loads(body)
            future = self._futures.pop(message["id"], None)
            if future is not None:
                future.set_result(json.loads(message["answer"]))
        with self._lock:
            self._fail_pending()

    def _fail_pending(self) -> None:
        """Fail all pending requests, because no more answers will come."""
        while self._futures:
            _, future = self._futures.popitem()
            future.set_result(error_envelope("tool_call_error", "the supervisor is gone"))

    def _reset_after_fork(self) -> None:
        """Drop the connection in a forked child: it belongs to the parent."""
        self._socket, self._lock, self._futures = None, _thread.allocate_lock(), {}


def _receive_frame(connection: _socket.socket | None) -> bytes:
    """Return the body of the next frame; empty if the connection has ended."""
    prefix = _receive_exactly(connection, 4)
    return _receive_exactly(connection, int.from_bytes(prefix, "big")) if prefix else b""


def _receive_exactly(connection: _socket.socket | None, size: int) -> bytes:
    data = bytearray()
    while connection is not None and len(data) < size:
        try:
            piece = connection.recv(min(size - len(data), 1 << 20))
        except OSError:
            piece = b""
        if not piece:
            return b""
        data += piece
    return bytes(data)


def _decode_json(text: str) -> dict[str, Any]:
    """Decode a JSON object without importing `json`, if possible: the import takes as long as starting Python."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)

    class ScannerOptions:
        strict, parse_float, parse_int = True, float, int
        object_hook = object_pairs_hook = parse_constant = None

    scan: Any = make_scanner
    return scan(ScannerOptions)(text, 0)[0]


def error_envelope(code: str, message: str) -> Envelope:
    """Return the envelope of a call that failed on the guest side."""
    return {"ok": False, "error": {"code": code, "message": message}, "ret": None}


# What a program calls


class AwaitableMixin:
    """Mixin for a value that may be awaited but need not be; event loops treat it as a coroutine."""

    _waiting: Any = None

    async def _value(self) -> Any:
        return self

    def __await__(self) -> Generator[Any, None, Any]:
        return self._value().__await__()

    def send(self, value: object) -> object:
        self._waiting = self._waiting or self._value()
        return self._waiting.send(value)

    def throw(self, *error: Any) -> object:
        self._waiting = self._waiting or self._value()
        return self._waiting.throw(*error)

    def close(self) -> None:
        if self._waiting:
            self._waiting.close()


class Texts(AwaitableMixin, str):
    """A text that may be awaited."""


class Rows(AwaitableMixin, AnyList):
    """A list that may be awaited."""

    # Event loops keep awaited objects in sets, so they must be hashable.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


class Fields(AwaitableMixin, AnyDict):
    """An object that may be awaited."""

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


class Answer(Fields):
    """The result of a call: `ok`, `error` and `ret`. In a running event loop it is pending until first used."""

    def __init__(self, future: Future[Envelope]) -> None:
        # With its keys, because C code reads the dict directly and would see an empty one.
        super().__init__(ok=None, error=None, ret=None)
        self._future: Future[Envelope] | None = future

    def settle(self) -> Answer:
        """Wait for the result of the call, without an event loop."""
        future, self._future = self._future, None
        if future is not None:
            self.update(future.result())
        return self

    async def _value(self) -> Answer:
        if self._future is not None:
            import asyncio

            await asyncio.wrap_future(self._future)
        return self.settle()

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self),)


def _wait_before(name: str) -> Callable[..., object]:
    method = getattr(dict, name)

    def settling(self: Answer, *arguments: object) -> object:
        return method(self.settle(), *arguments)

    return settling


for _name in (
    "__contains__",
    "__eq__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__ne__",
    "__or__",
    "__repr__",
    "__ror__",
):
    setattr(Answer, _name, _wait_before(_name))
for _name in ("copy", "get", "items", "keys", "values"):
    setattr(Answer, _name, _wait_before(_name))


class FetchError(LookupError):
    """Nothing that can be fetched stands at the path; the message says why."""


class OutDir(str):
    """The program's output folder: a string for `os.path` with the methods of a `Path`."""

    def __truediv__(self, other: str) -> Path:
        return self._path() / other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._path(), name)

    def _path(self) -> Path:
        from pathlib import Path

        return Path(str(self))


class Tools:
    """The functions through which a program sends requests to the supervisor."""

    def __init__(self, connection: SupervisorConnection) -> None:
        self._connection = connection

    def tool_call(self, tool_id: str, params: Mapping[str, object] | str | None = None) -> Answer:
        """Calls the tool of that id; an object with `ok`, `error` and `ret`, which may be awaited.

        params: the tool's parameters by name, or the text of a JSON object
        """
        import json

        text = params if isinstance(params, str) else json.dumps(params or {}, default=_to_json_value, allow_nan=False)
        answer = Answer(self._connection.send_request(kind="call", tool_id=str(tool_id), params=text))
        return answer if _in_event_loop() else answer.settle()

    def fetch_ctx(self, path: str) -> object:
        """What stands at a logical path (ar: tc: so: ws: su: fi:): a text, or for so: the list of its rows.

        It may be awaited. Raises `FetchError` where there is nothing.
        """
        # A file name may contain characters that JSON cannot; with a question mark it is refused like any wrong path.
        text = str(path).encode(errors="replace").decode()
        answer = self._connection.send_request(kind="fetch", path=text).result()
        if not answer["ok"]:
            error: dict[str, Any] = answer["error"] or {}
            raise FetchError(f"{error.get('code')}: {error.get('message')}")
        kinds: dict[str, Any] = {"str": Texts, "list": Rows, "dict": Fields}
        found = answer["ret"]
        kind = kinds.get(type(found).__name__)
        return kind(found) if kind else found

    def stub(self, tool: dict[str, Any]) -> Callable[..., Answer]:
        """Return the function that calls the tool, with positional or keyword arguments."""
        names: list[str] = tool["params"]

        def function(*arguments: object, **named: object) -> Answer:
            if len(arguments) > len(names):
                raise TypeError(f"{tool['tool_id']} takes {len(names)} arguments, got {len(arguments)}")
            placed = dict(zip(names, arguments))  # noqa: B905 - Python 3.9 has no `strict`
            if twice := placed.keys() & named.keys():
                raise TypeError(f"{tool['tool_id']} got {', '.join(sorted(twice))} by place and by name")
            return self.tool_call(tool["tool_id"], {**placed, **named})

        function.__name__ = function.__qualname__ = tool["function"]
        function.__doc__ = tool["doc"]
        return function


def _to_json_value(value: Any) -> object:
    """Convert a value to what JSON supports: numpy arrays and numbers, frames, times, paths and sets."""
    for method in ("tolist", "to_dict", "isoformat", "__fspath__"):
        if hasattr(value, method):
            return getattr(value, method)()
    if type(value) in (set, frozenset):
        return sorted(value, key=str)
    raise TypeError(f"a parameter of a tool is of type {type(value).__name__}, which JSON does not have")


def _in_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio.events")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - public to event loops


# The program


def _namespace(connection: SupervisorConnection, stubs: list[dict[str, Any]], out_dir: str) -> ModuleType:
    """Create the program's main module, with the tool modules in it and importable."""
    tools = Tools(connection)
    context_tools, io_tools = ModuleType("context_tools"), ModuleType("io_tools")
    context_tools.fetch_ctx, context_tools.FetchError = tools.fetch_ctx, FetchError  # type: ignore[attr-defined]
    io_tools.tool_call = tools.tool_call  # type: ignore[attr-defined]
    modules = {"context_tools": context_tools, "ctx_tools": context_tools, "io_tools": io_tools}
    taken = set(sys.modules) | set(getattr(sys, "stdlib_module_names", ()))
    for stub in stubs:
        # A tool must not shadow a library; it can still be called by its id.
        if stub["module"] not in taken:
            module = modules.setdefault(stub["module"], ModuleType(stub["module"]))
            setattr(module, stub["function"], tools.stub(stub))
    sys.modules.update(modules)
    namespace = ModuleType("__main__")
    namespace.__dict__.update(modules, OUT_DIR=OutDir(out_dir))
    return namespace


def _file_name(name: str) -> str:
    stem = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)[:80]
    return (stem.strip("-_") or "program") + ".py"


def _run(source: str, file: str, namespace: ModuleType, folders: dict[str, str]) -> int:
    """Run the program as the main module and return its exit code."""
    try:
        # As a file, so that tracebacks and `inspect` find its lines.
        with open(file, "w", encoding="utf-8", errors="surrogatepass") as written:
            written.write(source)
    except OSError as error:
        print(f"the program runs, and its lines cannot be kept for tracebacks: {error.strerror}", file=sys.stderr)
    namespace.__file__ = file
    sys.argv = [file]
    sys.modules["__main__"] = namespace
    try:
        _exec_source(source, file, namespace)
    except SystemExit as error:
        return _exit_code(error.code)
    except BaseException as error:  # noqa: BLE001 - any exception ends the program
        _print_traceback(error, tuple(folder + "/" for folder in (folders["WORKDIR"], folders["OUTPUT_DIR"])))
        return 1
    return 0


def _exec_source(source: str, file: str, namespace: ModuleType) -> None:
    code = compile(source, file, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)
    if not code.co_flags & COROUTINE:
        exec(code, namespace.__dict__)  # noqa: S102 - what this file is for
        return
    import asyncio

    asyncio.run(eval(code, namespace.__dict__))  # noqa: S307 - the same


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException, own: tuple[str, ...]) -> None:
    """Print the traceback, only with frames of the program and of files that it wrote."""
    import traceback

    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    todo, done = [shown], set[int]()
    while todo:
        one = todo.pop()
        if id(one) not in done:
            done.add(id(one))
            one.stack = traceback.StackSummary.from_list([line for line in one.stack if line.filename.startswith(own)])
            todo += [other for other in (one.__cause__, one.__context__) if other]
            todo += getattr(one, "exceptions", None) or []
    print("".join(shown.format()), file=sys.stderr, end="")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
