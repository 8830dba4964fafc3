"""Processes that parse hostile bytes: a worker that hangs, crashes or takes too much memory costs one request."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, Self

from timeloom.platform.worker import LENGTH, MEMORY_VARIABLE

WorkerFailure = Literal["timeout", "crashed", "answer_too_large"]
"""Why a request has no answer. A worker that exceeds its memory crashes."""

_INHERITED: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "HOME")


class WorkerError(Exception):
    """The worker gave no answer; it is gone, and the next request starts another one."""

    def __init__(self, failure: WorkerFailure) -> None:
        super().__init__(failure)
        self.failure: WorkerFailure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """The limits of each worker."""

    request_s: float
    """Longest time for one request, enforced from outside."""
    memory_bytes: int
    """Largest address space. A request beyond it crashes its worker."""
    answer_bytes: int = 64 * 1024 * 1024
    """Largest answer."""
    requests: int = 200
    """Requests after which a worker is replaced, so that leaks of a library do not accumulate."""


class WorkerPool:
    """Keeps up to `size` processes of a worker program and gives each request to one of them."""

    def __init__(self, program: str | Path, limits: WorkerLimits, *, size: int = 2) -> None:
        """`program` is the name of an installed module, or a file."""
        self._program = program
        self._limits = limits
        self._free = asyncio.Semaphore(size)
        self._idle: list[_Worker] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, request: bytes) -> bytes:
        """Return the answer of a worker; raises `WorkerError` if there is none within the limits."""
        async with self._free:
            worker = self._idle.pop() if self._idle else _Worker(self._program, self._limits)
            try:
                # Blocking pipes in a thread: a cancellation kills the process, which ends the thread.
                answer = await asyncio.to_thread(worker.ask, request)
            except BaseException:
                worker.kill()
                raise
            if worker.requests < self._limits.requests:
                self._idle.append(worker)
            else:
                await asyncio.to_thread(worker.close)
            return answer

    async def close(self) -> None:
        """End the idle workers; call it when no request runs."""
        idle, self._idle = self._idle, []
        for worker in idle:
            await asyncio.to_thread(worker.close)


class _Worker:
    """One process; `ask` and `close` run in a thread, `kill` anywhere."""

    def __init__(self, program: str | Path, limits: WorkerLimits) -> None:
        self._program = program
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._killed = False
        self.requests = 0

    def ask(self, request: bytes) -> bytes:
        """Return the answer to the request; starts the process for the first one."""
        self.requests += 1
        timed_out = threading.Event()

        def end() -> None:
            timed_out.set()
            self.kill()

        timer = threading.Timer(self._limits.request_s, end)
        timer.daemon = True
        timer.start()
        try:
            return self._exchange(self._process or self._start(), request)
        except (OSError, EOFError) as error:
            self.close()
            raise WorkerError("timeout" if timed_out.is_set() else "crashed") from error
        except WorkerError:
            self.close()
            raise
        finally:
            timer.cancel()

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the process with an environment of its own: it needs no variable of ours, and must see no secret."""
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment[MEMORY_VARIABLE] = str(self._limits.memory_bytes)
        started = [str(self._program)] if isinstance(self._program, Path) else ["-m", self._program]
        with self._lock:
            if self._killed:
                raise EOFError
            self._process = subprocess.Popen(
                [sys.executable, "-I", *started],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def _exchange(self, process: "subprocess.Popen[bytes]", request: bytes) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(LENGTH.pack(len(request)) + request)
        process.stdin.flush()
        (length,) = LENGTH.unpack(_read_exactly(process.stdout, LENGTH.size))
        if length > self._limits.answer_bytes:
            raise WorkerError("answer_too_large")
        return _read_exactly(process.stdout, length)

    def kill(self) -> None:
        """End the process now; a thread that waits for its answer fails."""
        with self._lock:
            self._killed = True
            if self._process and self._process.poll() is None:
                self._process.kill()

    def close(self) -> None:
        """End the process and release its pipes."""
        self.kill()
        if self._process:
            with suppress(OSError):
                self._process.communicate()


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
