"""The program of a sandbox's interpreter: waits for a program, runs it, and takes its questions to the supervisor.

    python -I bootstrap.py SOCKET [--preload numpy,pandas]      the token is the first line of standard input

It is one file that imports nothing but the standard library of Python 3.9 or newer, so that it can be copied into any
image. What is slow to import is imported where it is first needed, because most programs print something and end. It
protects nothing: whatever runs in its process can change it, so limits are set and questions are judged outside.
"""
# ruff: noqa: PLC0415, PTH103, PTH118, PTH123, T201 - for what the docstring says: late imports, and no pathlib; a program prints

from __future__ import annotations

import _socket
import _thread
import os
import sys

VERSION = 1
MAX_FRAME_BYTES = 8 * 1024 * 1024
NEEDED_LATER = "json,threading,concurrent.futures,asyncio,pathlib,traceback"
SIGNALLED = 128  # beyond which an exit code may also be that of a signal
TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80  # inspect.CO_COROUTINE
LARGE_PAGE = 2 * 1024 * 1024
COLLAPSE = 25  # MADV_COLLAPSE
FILLED = 0.9
ROOM = 36 * 1024 * 1024  # a little less than pandas and matplotlib need
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
    """Runs the one program that the supervisor sends; its exit code."""
    token = sys.stdin.readline().strip()
    # A program that asks for input gets the end of it, and nothing else that may come this way.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Before `socket` is imported, whose class is made of it.
    _socket.socket = Socket
    streams: Any = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    if arguments[1:2] == ["--preload"]:
        _preload(NEEDED_LATER.split(",") + arguments[2].split(","))
    line = Line(arguments[0], token)
    # While the supervisor looks at who has come: the first of each takes some time, and every program needs both.
    compile("", "", "exec")
    _decoded("{}")
    start = line.first()
    place = _settle_in(start["env"], start["folders"])
    namespace = _namespace(line, start["stubs"], place["OUTPUT_DIR"])
    code = _run(start["code"], os.path.join(place["WORKDIR"], _file_name(start["name"])), namespace, place)
    line.wait_for_all()
    if code > SIGNALLED:
        line.tell_exit(code)
    return code


def _preload(names: list[str]) -> None:
    import contextlib
    import gc
    import importlib

    os.environ.setdefault("MPLBACKEND", "Agg")
    if "matplotlib" in names:
        names.append("matplotlib.pyplot")
    room = _room()
    for name in filter(None, names):
        # A library that does not load here is as good as one that is not installed.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    del room
    # What was loaded is never garbage: looking through all of it again would be a program's first 50 ms.
    gc.collect()
    gc.freeze()
    with contextlib.suppress(Exception):
        _enlarge_pages()


def _room() -> list[bytes]:
    """Memory for small objects in one piece: in many, among the libraries, it would not fill large pages.

    What is given back holds it until it is used; what was not used then goes.
    """
    blocks = [b""] * (ROOM // BLOCK)
    for at in range(len(blocks)):
        blocks[at] = bytes(BLOCK - 40)
    return blocks[::BLOCKS_APART]


def _enlarge_pages() -> None:
    """Has what was loaded put into large pages, by kernels that do so (6.1): they take a process apart the sooner."""
    import ctypes

    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    for start, end in _filled_memory():
        first = -(-start // LARGE_PAGE) * LARGE_PAGE
        if first + LARGE_PAGE <= end:
            advise(first, (end - first) // LARGE_PAGE * LARGE_PAGE, COLLAPSE)


def _filled_memory() -> Generator[tuple[int, int], None, None]:
    """Where memory lies that is not of a file, and nearly all of which is used: nothing is to become larger."""
    start = end = 0
    with open("/proc/self/smaps", encoding="utf-8") as lines:
        for line in lines:
            name, *values = line.split()
            if not name.endswith(":"):
                own = values[0].startswith("rw") and values[3] == "0"
                start, end = [int(place, 16) for place in name.split("-")] if own else (0, 0)
            elif name == "Rss:" and int(values[0]) * 1024 >= (end - start) * FILLED and end:
                yield start, end


def _settle_in(env: dict[str, str], folders: list[str]) -> dict[str, str]:
    os.environ.update(env)
    for folder in folders:
        os.makedirs(os.path.join(env["OUTPUT_DIR"], folder), exist_ok=True)
    os.chdir(env["WORKDIR"])
    sys.path.insert(0, env["WORKDIR"])
    return env


# The connection to the supervisor


class NotThere:
    """What a class has in place of a method that it is not to have: whoever looks for it does not find it."""

    def __get__(self, _instance: object, _owner: object) -> object:
        raise AttributeError("programs cannot send messages with ancillary data; use send")


class Socket(_socket.socket):
    """A socket without `sendmsg`, which is refused here, so that libraries that can do without it do."""

    __slots__ = ()
    sendmsg = NotThere()  # pyright: ignore[reportAssignmentType]


class Line:
    """The connection to the supervisor; each process of the program has its own."""

    def __init__(self, path: str, token: str) -> None:
        self._path, self._token = path, token
        self._socket: _socket.socket | None = self._connected()
        self._lock = _thread.allocate_lock()
        self._asked = 0
        self._hears = False
        self._futures: dict[int, Future[Envelope]] = {}
        os.register_at_fork(after_in_child=self._forget)

    def first(self) -> dict[str, Any]:
        """The first message of the supervisor."""
        body = _received(self._socket)
        if not body:
            raise SystemExit("the supervisor is gone")
        return _decoded(body.decode())

    def ask(self, **question: str) -> Future[Envelope]:
        """Sends the question; what comes of it is an envelope, whatever happens."""
        import json
        from concurrent.futures import Future

        future: Future[Envelope] = Future()
        # A future that runs cannot be cancelled: who stops waiting for it does not take it away from others.
        future.set_running_or_notify_cancel()
        with self._lock:
            self._asked += 1
            body = json.dumps({"id": self._asked, **question}).encode()
            if len(body) > MAX_FRAME_BYTES:
                future.set_result(failed("tool_params_invalid", f"a call has at most {MAX_FRAME_BYTES} bytes"))
                return future
            self._futures[self._asked] = future
            try:
                self._send(body)
            except OSError:
                self._end()
        return future

    def wait_for_all(self) -> None:
        """Waits for the answers to questions that nobody has waited for."""
        for future in list(self._futures.values()):
            future.result()

    def tell_exit(self, code: int) -> None:
        """Says that the program ends by itself with that code, which could be taken for a signal's."""
        import contextlib

        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._send(f'{{"kind":"exit","code":{code}}}'.encode())

    def _send(self, body: bytes) -> None:
        if self._socket is None:
            self._socket, self._hears = self._connected(), False
        self._socket.sendall(len(body).to_bytes(4, "big") + body)
        if not self._hears:
            self._hears = True
            _thread.start_new_thread(self._hear, (self._socket,))

    def _connected(self) -> _socket.socket:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(self._path)
        hello = f'{{"token":"{self._token}","version":{VERSION}}}'.encode()
        connection.sendall(len(hello).to_bytes(4, "big") + hello)
        return connection

    def _hear(self, connection: _socket.socket) -> None:
        import json

        while body := _received(connection):
            message = json.loads(body)
            future = self._futures.pop(message["id"], None)
            if future is not None:
                future.set_result(json.loads(message["answer"]))
        with self._lock:
            self._end()

    def _end(self) -> None:
        """Nobody will answer any more."""
        while self._futures:
            _, future = self._futures.popitem()
            future.set_result(failed("tool_call_error", "the supervisor is gone"))

    def _forget(self) -> None:
        """In a process that was forked: the connection is the parent's."""
        self._socket, self._lock, self._futures = None, _thread.allocate_lock(), {}


def _received(connection: _socket.socket | None) -> bytes:
    """The body of the next frame; nothing where the connection has ended."""
    prefix = _exactly(connection, 4)
    return _exactly(connection, int.from_bytes(prefix, "big")) if prefix else b""


def _exactly(connection: _socket.socket | None, size: int) -> bytes:
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


def _decoded(text: str) -> dict[str, Any]:
    """The JSON object, without the `json` package where that works: it takes as long to import as Python to start."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)

    class Scanning:
        strict, parse_float, parse_int = True, float, int
        object_hook = object_pairs_hook = parse_constant = None

    scan: Any = make_scanner
    return scan(Scanning)(text, 0)[0]


def failed(code: str, message: str) -> Envelope:
    """The envelope of a call that failed on this side."""
    return {"ok": False, "error": {"code": code, "message": message}, "ret": None}


# What a program calls


class Awaited:
    """A value that may be awaited, and need not be; event loops take it for a coroutine."""

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


class Texts(Awaited, str):
    """A text that may be awaited."""


class Rows(Awaited, AnyList):
    """A list that may be awaited."""

    # Event loops keep what they wait for in sets.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


class Fields(Awaited, AnyDict):
    """An object that may be awaited."""

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


class Answer(Fields):
    """What came of a call: `ok`, `error` and `ret`. In a running event loop it is on its way until it is used."""

    def __init__(self, future: Future[Envelope]) -> None:
        # With its keys, because what looks at a dict from C takes an empty one at its word.
        super().__init__(ok=None, error=None, ret=None)
        self._future: Future[Envelope] | None = future

    def settle(self) -> Answer:
        """Waits for what came of the call, without an event loop."""
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


def _settling(name: str) -> Callable[..., object]:
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
    setattr(Answer, _name, _settling(_name))
for _name in ("copy", "get", "items", "keys", "values"):
    setattr(Answer, _name, _settling(_name))


class FetchError(LookupError):
    """Nothing that can be fetched stands at the path; the message says why."""


class OutDir(str):
    """The folder of a program's files: a text for `os.path`, and whatever a `Path` can do."""

    def __truediv__(self, other: str) -> Path:
        return self._path() / other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._path(), name)

    def _path(self) -> Path:
        from pathlib import Path

        return Path(str(self))


class Tools:
    """The functions through which a program asks the supervisor for something."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def tool_call(self, tool_id: str, params: Mapping[str, object] | str | None = None) -> Answer:
        """Calls the tool of that id; an object with `ok`, `error` and `ret`, which may be awaited.

        params: the tool's parameters by name, or the text of a JSON object
        """
        import json

        text = params if isinstance(params, str) else json.dumps(params or {}, default=_plain, allow_nan=False)
        answer = Answer(self._line.ask(kind="call", tool_id=str(tool_id), params=text))
        return answer if _in_event_loop() else answer.settle()

    def fetch_ctx(self, path: str) -> object:
        """What stands at a logical path (ar: tc: so: ws: su: fi:): a text, or for so: the list of its rows.

        It may be awaited. Raises `FetchError` where there is nothing.
        """
        # A file's name may hold what no JSON can; as a question mark it is refused as any other wrong path.
        text = str(path).encode(errors="replace").decode()
        answer = self._line.ask(kind="fetch", path=text).result()
        if not answer["ok"]:
            error: dict[str, Any] = answer["error"] or {}
            raise FetchError(f"{error.get('code')}: {error.get('message')}")
        kinds: dict[str, Any] = {"str": Texts, "list": Rows, "dict": Fields}
        found = answer["ret"]
        kind = kinds.get(type(found).__name__)
        return kind(found) if kind else found

    def stub(self, tool: dict[str, Any]) -> Callable[..., Answer]:
        """The function that calls the tool, with its parameters by place or by name."""
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


def _plain(value: Any) -> object:
    """What JSON can hold of it: arrays and numbers of numpy, frames, times, paths and sets."""
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


def _namespace(line: Line, stubs: list[dict[str, Any]], out_dir: str) -> ModuleType:
    """The module that the program becomes, with what it may use in it and importable."""
    tools = Tools(line)
    context_tools, io_tools = ModuleType("context_tools"), ModuleType("io_tools")
    context_tools.fetch_ctx, context_tools.FetchError = tools.fetch_ctx, FetchError  # type: ignore[attr-defined]
    io_tools.tool_call = tools.tool_call  # type: ignore[attr-defined]
    modules = {"context_tools": context_tools, "ctx_tools": context_tools, "io_tools": io_tools}
    taken = set(sys.modules) | set(getattr(sys, "stdlib_module_names", ()))
    for stub in stubs:
        # A tool must not take the place of a library; it can still be called by its id.
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


def _run(source: str, file: str, namespace: ModuleType, place: dict[str, str]) -> int:
    """Runs the program as the main module; its exit code."""
    try:
        # As a file, so that tracebacks and whatever else reads sources find its lines.
        with open(file, "w", encoding="utf-8", errors="surrogatepass") as written:
            written.write(source)
    except OSError as error:
        print(f"the program runs, and its lines cannot be kept for tracebacks: {error.strerror}", file=sys.stderr)
    namespace.__file__ = file
    sys.argv = [file]
    sys.modules["__main__"] = namespace
    try:
        _execute(source, file, namespace)
    except SystemExit as error:
        return _exit_code(error.code)
    except BaseException as error:  # noqa: BLE001 - whatever a program raises is its end
        _show(error, tuple(folder + "/" for folder in (place["WORKDIR"], place["OUTPUT_DIR"])))
        return 1
    return 0


def _execute(source: str, file: str, namespace: ModuleType) -> None:
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


def _show(error: BaseException, own: tuple[str, ...]) -> None:
    """Prints the traceback, with the lines of the program and of the files that it wrote itself."""
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
