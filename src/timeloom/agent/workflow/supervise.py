"""Runs the code of a bundle as a task: bounded in time, stopped by a steer or a cancellation, its errors named."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Final, Literal

from timeloom.agent.workflow.faults import CodeFault, fault_of_error, fault_of_hang
from timeloom.agent.workflow.steps import TurnSteps
from timeloom.platform.secrets import SECRETS, RedactingFilter
from timeloom.runtime.turn.inbox import Inbox

HOOK_S: Final = 30.0
"""Longest time of a hook. Less fails hooks that build an index; more leaves a conversation waiting for a hung one."""

IDLE_S: Final = 600.0
"""Longest time that `run` may work without the agent. Less fails slow services; more hides a hung workflow."""

GRACE_S: Final = 5.0
"""How long cancelled code may take to stop; then it is left behind, and the turn continues without it."""

_logger = logging.getLogger(__name__)
_logger.addFilter(RedactingFilter(SECRETS))

_stray_tasks: Final[set["asyncio.Task[object]"]] = set()
"""Tasks that did not stop; this reference keeps them from being garbage collected while they run."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The code returned a value."""

    value: object


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A steer or a cancellation stopped the code."""


@dataclass(frozen=True, slots=True)
class Faulty:
    """The code raised or ran too long."""

    fault: CodeFault


CodeOutcome = Returned | Interrupted | Faulty


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCode:
    """Code of a bundle that is to run: where it belongs, for the text of a fault."""

    bundle: str
    where: str
    owner: object
    """The function, whose definition is the place of a fault that has no better one."""
    limit_s: float


async def start_code(name: str, function: Callable[..., object], *args: object) -> object:
    """Call the bundle's function and await its result; one that is not async fails with the fix."""
    work = function(*args)
    if not inspect.iscoroutine(work):
        raise TypeError(f"{name} must be async; write `async def {name}`")
    return await work


async def run_hook(code: BundleCode, work: Coroutine[object, object, object]) -> CodeOutcome:
    """Run a hook within its limit; a cancellation of the caller stops it."""
    task = asyncio.ensure_future(_contain_exit(work))
    try:
        await asyncio.wait({task}, timeout=code.limit_s)
        if not task.done():
            return Faulty(fault_of_hang(code.bundle, "hook_failed", code.where, work, code.limit_s, code.owner))
        return _outcome_of(task, code, "hook_failed")
    finally:
        await stop_task(task)


async def run_workflow(
    code: BundleCode,
    work: Coroutine[object, object, object],
    steps: TurnSteps,
    inbox: Inbox,
    is_interrupted: Callable[[], bool],
) -> CodeOutcome:
    """Run a workflow's `run` until it returns, raises, idles too long, or an interrupt concerns it.

    While the agent's steps run, they handle an interrupt themselves. A cancellation of the caller stops everything.
    """
    task = asyncio.ensure_future(_contain_exit(work))
    late = asyncio.ensure_future(steps.wait_idle_for(code.limit_s))
    try:
        while True:
            interrupted = asyncio.ensure_future(steps.wait_for_interrupt(inbox))
            try:
                await asyncio.wait({task, late, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                interrupted.cancel()
            if task.done():
                return _outcome_of(task, code, "workflow_failed")
            if is_interrupted():
                return Interrupted()
            if late.done():
                return Faulty(fault_of_hang(code.bundle, "workflow_failed", code.where, work, code.limit_s, code.owner))
            # The steps have seen the message that set it.
            inbox.interrupt.clear()
    finally:
        late.cancel()
        await stop_task(task)


async def stop_task(task: "asyncio.Task[object]") -> None:
    """Cancel the task and wait a little for its end; one that does not stop is left behind."""
    if task.done():
        return
    task.cancel()
    _, left = await asyncio.wait({task}, timeout=GRACE_S)
    for stray in left:
        _logger.warning("code of a bundle does not stop after its cancellation")
        _stray_tasks.add(stray)
        stray.add_done_callback(_stray_tasks.discard)


async def _contain_exit(work: Coroutine[object, object, object]) -> object:
    try:
        return await work
    except SystemExit as error:
        # Uncaught, it would end the process with all its other conversations.
        raise RuntimeError("it tried to end the process") from error


def _outcome_of(
    task: "asyncio.Task[object]", code: BundleCode, kind: Literal["workflow_failed", "hook_failed"]
) -> CodeOutcome:
    if task.cancelled():
        error: BaseException | None = asyncio.CancelledError("it cancelled itself")
    else:
        error = task.exception()
    if error is None:
        return Returned(task.result())
    fault = fault_of_error(code.bundle, kind, code.where, error, code.owner)
    _logger.error("%s", fault.text, exc_info=error)
    return Faulty(fault)
