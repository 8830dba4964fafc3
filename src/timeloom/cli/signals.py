"""Cancels a command on SIGTERM or SIGHUP, so that it cleans up and exits with 128 plus the signal."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""SIGINT is missing because `asyncio.Runner` handles it."""

_SIGNAL_EXIT_BASE: Final = 128
_received_signals: Final[list[signal.Signals]] = []
"""The signals that this process received; the first one gives the exit code."""


def run_until_signalled(
    body: "Coroutine[Any, Any, int]", new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> int:
    """Run the coroutine and return its exit code, or 128 plus the number of the signal that cancelled it.

    A second signal of the same kind ends the process at once.
    """
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            code = runner.run(_run_cancellable(body))
    except (asyncio.CancelledError, OSError):
        # OSError too: after SIGHUP, writes to the terminal fail.
        if not _received_signals:
            raise
        code = 0
    return _SIGNAL_EXIT_BASE + _received_signals[0] if _received_signals else code


@contextmanager
def interrupt_blocking_calls() -> Generator[None]:
    """Make the signals raise `CancelledError` inside code that blocks the event loop, for example a read."""

    def end(number: int, _frame: FrameType | None) -> None:
        _received_signals.append(signal.Signals(number))
        raise asyncio.CancelledError

    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number in (number for number, now in before.items() if now != signal.SIG_IGN):
            signal.signal(number, end)
        if _received_signals:
            # The signal arrived just before, and nothing was awaited since to deliver the cancellation.
            raise asyncio.CancelledError
        yield
    finally:
        for number, then in before.items():
            signal.signal(number, then)


async def _run_cancellable(body: "Coroutine[Any, Any, int]") -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        _received_signals.append(signal.Signals(number))
        task.cancel()
        # Wakes the event loop, which otherwise keeps waiting for input.
        loop.call_soon_threadsafe(lambda: None)

    for number in SIGNALS:
        # The parent process may have set the signal to be ignored, as `nohup` does.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)
    return await body
