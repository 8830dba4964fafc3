"""The engine: the model that writes, run in this process by llama.cpp, one text at a time."""

import asyncio
import contextlib
import importlib
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec

from timeloom.ports.ids import RandomIds
from timeloom.ports.model import ModelError
from timeloom_local.weights import writer_weights

CONTEXT_TOKENS: Final = 2_048
"""Window of the model. Larger takes memory that no prompt of ours uses."""

THREADS: Final = 1
"""Threads that compute. Two are somewhat faster on a machine that does nothing else, and ten times slower on a busy
one, for they wait for each other at every layer."""

MAX_SOCKET_CHARS: Final = 100
"""Longest name of a Unix socket that all systems take."""


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """One text to write: what the model sees, the grammar that the text keeps, and how long it may become."""

    prompt: str
    grammar: str
    max_tokens: int


class Written(msgspec.Struct, frozen=True):
    """The end of a text: what it took, and whether it is whole or was stopped at its limit."""

    prompt_tokens: int
    output_tokens: int
    whole: bool


class Engine:
    """Writes texts; several that are asked for at once wait for one another, first come first served."""

    def __init__(self) -> None:
        # One thread: two texts at once on two cores are each half as fast, and one is answered sooner.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="timeloom-local")
        self._server: _Server | None = None
        self._stopped = threading.Event()

    async def write(self, writing: Writing) -> AsyncGenerator[str | Written]:
        """The text in pieces, then `Written`; closing the generator stops the model at its next token."""
        loop, given_up = asyncio.get_running_loop(), threading.Event()
        pieces: asyncio.Queue[str | Written | Exception] = asyncio.Queue()

        def give(piece: str | Written | Exception) -> None:
            with contextlib.suppress(RuntimeError):  # nobody waits on a loop that is closed
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def stopped() -> bool:
            return given_up.is_set() or self._stopped.is_set()

        task = self._submit(lambda: self._run(writing, give, stopped))
        try:
            while True:
                piece = await pieces.get()
                if isinstance(piece, Exception):
                    raise piece
                yield piece
                if isinstance(piece, Written):
                    return
        finally:
            given_up.set()
            task.cancel()

    def close(self) -> None:
        """Stops what is being written and lets go of the weights; a second close does nothing."""
        self._stopped.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._server = None

    def _submit(self, work: Callable[[], None]) -> Future[None]:
        if self._stopped.is_set():
            raise ModelError("invalid", "the local model was closed")
        return self._thread.submit(work)

    def _run(
        self, writing: Writing, give: Callable[[str | Written | Exception], None], stopped: Callable[[], bool]
    ) -> None:
        if stopped():
            return
        try:
            self._server = self._server or _opened()
            give(_written(self._server, writing, give, stopped))
        except Exception as error:  # noqa: BLE001 - it is raised again where the text is waited for
            give(error)


class _Server(Protocol):
    def handle_completions(
        self, request: Mapping[str, object], callback: Callable[[Mapping[str, Any]], bool], /
    ) -> None: ...


def _written(server: _Server, writing: Writing, give: Callable[[str], None], stopped: Callable[[], bool]) -> Written:
    last: Mapping[str, Any] = {}

    def heard(event: Mapping[str, Any]) -> bool:
        nonlocal last
        last = event
        text = event["choices"][0]["text"] if "choices" in event else ""
        if text:
            give(text)
        return stopped()

    # Without the cache of prompts the same request gives the same numbers, whatever was asked before it.
    request = {
        "prompt": writing.prompt,
        "grammar": writing.grammar,
        "n_predict": writing.max_tokens,
        "temperature": 0,
        "seed": 1,
        "repeat_penalty": 1.12,
        "repeat_last_n": 128,
        "cache_prompt": False,
        "stream": True,
    }
    server.handle_completions(request, heard)
    if "error" in last:
        raise ModelError("invalid", f"the local model refused its prompt: {last['error']['message']}")
    usage = last.get("usage", {})
    whole = bool(last.get("choices")) and last["choices"][0]["finish_reason"] == "stop"
    return Written(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), whole)


def _opened() -> _Server:
    """The library's server: its only way in. It is called by function; where it listens, nobody can reach it."""
    library = cast(Any, importlib.import_module("xllamacpp"))
    params = library.CommonParams()
    params.model.path = str(writer_weights())
    params.n_ctx, params.n_parallel, params.warmup, params.verbosity = CONTEXT_TOKENS, 1, False, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_threads_http, params.ui, params.endpoint_slots, params.cache_ram_mib = 1, False, False, 0
    ids = RandomIds()
    params.api_keys = [f"{ids.bits():x}{ids.bits():x}"]
    folder = Path(tempfile.mkdtemp(prefix="timeloom-"))
    socket = folder / "s.sock"
    try:
        if os.name == "posix" and len(str(socket)) <= MAX_SOCKET_CHARS:
            params.hostnames = [str(socket)]
        return cast(_Server, library.Server(params))
    except RuntimeError as error:
        raise ModelError("invalid", f"the local model could not be loaded: {error}") from error
    finally:
        # The name is taken away at once: no other process can reach the socket, and nothing is left behind.
        shutil.rmtree(folder, ignore_errors=True)
