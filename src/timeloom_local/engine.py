"""Runs the small model in this process with llama.cpp, one text at a time."""

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
"""Context window of the small model. A larger one needs memory that no prompt of this package uses."""

THREADS: Final = 1
"""Compute threads. Two are slightly faster on an idle machine and ten times slower on a busy one, because they wait
for each other at every layer."""

MAX_SOCKET_CHARS: Final = 100
"""Longest path of a Unix socket that all systems support."""


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One text to write: the prompt, the grammar that the text must follow, and its maximum length."""

    prompt: str
    grammar: str
    max_tokens: int


class GenerationEnd(msgspec.Struct, frozen=True):
    """The end of a text: the tokens used, and whether it is complete or was cut at its limit."""

    prompt_tokens: int
    output_tokens: int
    whole: bool


class LlamaEngine:
    """Writes texts one after another; concurrent requests wait in order."""

    def __init__(self) -> None:
        # One thread: two texts in parallel would each take twice as long, and one by one the first is ready sooner.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="timeloom-local")
        self._server: _LlamaServer | None = None
        self._stopped = threading.Event()

    async def write(self, request: GenerationRequest) -> AsyncGenerator[str | GenerationEnd]:
        """Yield the text in pieces, then its `GenerationEnd`; closing the generator stops the model."""
        loop, cancelled = asyncio.get_running_loop(), threading.Event()
        pieces: asyncio.Queue[str | GenerationEnd | Exception] = asyncio.Queue()

        def emit(piece: str | GenerationEnd | Exception) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed: no reader is left
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def stopped() -> bool:
            return cancelled.is_set() or self._stopped.is_set()

        task = self._submit(lambda: self._run(request, emit, stopped))
        try:
            while True:
                piece = await pieces.get()
                if isinstance(piece, Exception):
                    raise piece
                yield piece
                if isinstance(piece, GenerationEnd):
                    return
        finally:
            cancelled.set()
            task.cancel()

    def close(self) -> None:
        """Stop the current text and release the weights; a second call does nothing."""
        self._stopped.set()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._server = None

    def _submit(self, work: Callable[[], None]) -> Future[None]:
        if self._stopped.is_set():
            raise ModelError("invalid", "the local model was closed")
        return self._thread.submit(work)

    def _run(
        self,
        request: GenerationRequest,
        emit: Callable[[str | GenerationEnd | Exception], None],
        stopped: Callable[[], bool],
    ) -> None:
        if stopped():
            return
        try:
            self._server = self._server or _start_server()
            emit(_generate(self._server, request, emit, stopped))
        except Exception as error:  # noqa: BLE001 - raised again in `write`
            emit(error)


class _LlamaServer(Protocol):
    def handle_completions(
        self, request: Mapping[str, object], callback: Callable[[Mapping[str, Any]], bool], /
    ) -> None: ...


def _generate(
    server: _LlamaServer, generation: GenerationRequest, emit: Callable[[str], None], stopped: Callable[[], bool]
) -> GenerationEnd:
    last: Mapping[str, Any] = {}

    def on_event(event: Mapping[str, Any]) -> bool:
        nonlocal last
        last = event
        text = event["choices"][0]["text"] if "choices" in event else ""
        if text:
            emit(text)
        return stopped()

    # No prompt cache: the same request must give the same text, independent of earlier requests.
    request = {
        "prompt": generation.prompt,
        "grammar": generation.grammar,
        "n_predict": generation.max_tokens,
        "temperature": 0,
        "seed": 1,
        "repeat_penalty": 1.12,
        "repeat_last_n": 128,
        "cache_prompt": False,
        "stream": True,
    }
    server.handle_completions(request, on_event)
    if "error" in last:
        raise ModelError("invalid", f"the local model refused its prompt: {last['error']['message']}")
    usage = last.get("usage", {})
    whole = bool(last.get("choices")) and last["choices"][0]["finish_reason"] == "stop"
    return GenerationEnd(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), whole)


def _start_server() -> _LlamaServer:
    """Start the library's server, its only interface; it is called by function, and its socket is unreachable."""
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
        return cast(_LlamaServer, library.Server(params))
    except RuntimeError as error:
        raise ModelError("invalid", f"the local model could not be loaded: {error}") from error
    finally:
        # The socket's path is removed at once, so that no other process can connect and no file is left.
        shutil.rmtree(folder, ignore_errors=True)
