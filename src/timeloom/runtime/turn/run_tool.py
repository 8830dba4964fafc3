"""Runs one tool call within its deadline and returns its result blocks, also if the tool fails or hangs."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, assert_never, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import AnyBlock, Shown, ToolCall, registered_error
from timeloom.core.codes import CodedError
from timeloom.core.paths import ToolPath
from timeloom.core.payload import BlobRef
from timeloom.ports.tool import Artifact, Emit, Known, Outcome, Reconciling, Tool, ToolContext, ToolNotice, ToolSpec
from timeloom.runtime.turn.tool_result import CallPlace, Show, result_blocks
from timeloom.tools.binding import bind
from timeloom.tools.errors import failure
from timeloom.tools.registry import UnknownTool

GRACE_S: Final = 5.0
"""How long a cancelled tool may take to release its resources. Smaller leaves processes and files behind; larger
keeps the turn waiting for a tool that will not stop."""

MAX_LOADED_BYTES: Final = 1024 * 1024
"""Largest stored text that is read to decide how it is shown; the prompt has a stub for a larger one."""

KEPT_CHARS: Final = 8_000
"""Characters kept from the end of a tool's output per channel, for the result of a call that is stopped. Smaller
loses information about finished work; larger costs memory in every call that emits output."""

MAX_KEPT_CHANNELS: Final = 8
"""Maximum number of channels whose output is kept. A program has two."""

_CANCELS: Final = 2
_CHANNEL_CHARS: Final = 40

_logger = logging.getLogger(__name__)

_Running = asyncio.Task[Outcome]
_Ending = Literal["done", "late", "interrupted"]
_strays: Final[set[_Running]] = set()
"""Tasks that did not stop; this reference keeps them from being garbage collected while they run."""


class KnownOutcome(Outcome, frozen=True, kw_only=True):
    """An outcome with ready blocks, such as those of a recorded call; they are appended unchanged."""

    known: tuple[AnyBlock, ...] = ()


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How texts of a result are shown, and how a running call is interrupted."""

    show: Show
    interrupt: asyncio.Event | None = None
    """Once it is set, the running call is cancelled and its result says so; the turn decides how to continue."""
    grace_s: float = GRACE_S


async def run_call(
    tool: Tool | None, call: ToolCall, context: ToolContext, settings: RunSettings
) -> tuple[AnyBlock, ...]:
    """Run the call and return the blocks that close it, notices first; failures are in the blocks, not raised.

    If the awaiting task is cancelled, the tool is stopped and no result is written. The call stays open on the
    timeline for the process that resumes the turn.
    """
    tool = tool or UnknownTool(call.tool_id)
    emit = _Emitting(context.emit)
    inner = replace(context, tool_call_id=call.tool_call_id, emit=emit)
    notices: list[ToolNotice] = []
    try:
        outcome = await _supervised(tool.spec, _called(tool, call, inner, notices), inner, settings, emit.said)
    finally:
        emit.close()
    return await _closing(tool, replace(outcome, notices=(*notices, *outcome.notices)), inner, settings)


async def reconcile_call(
    tool: Tool, call: ToolCall, context: ToolContext, settings: RunSettings
) -> tuple[AnyBlock, ...] | Literal["not_done", "unknown"]:
    """Ask the tool about a call that was begun and has no result; return the blocks that close it, or its answer.

    The answer is "unknown" if the tool cannot reconcile calls, fails, or takes too long.
    """
    if not isinstance(tool, Reconciling):
        return "unknown"
    reconciling: Reconciling = tool
    known: list[Known] = []

    async def ask() -> Outcome:
        bound = await bind(await _params(call, context), tool.spec.write_params, context)
        known.append(await reconciling.reconcile(bound.params, context))
        return Outcome()

    outcome = await _supervised(tool.spec, ask(), context, settings)
    match known:
        case [Outcome() as found]:
            return await _closing(tool, found, context, settings)
        case ["not_done"]:
            return "not_done"
        case _:
            _logger.warning("%s cannot reconcile the call %s: %s", call.tool_id, call.tool_call_id, outcome.error)
            return "unknown"


async def _closing(tool: Tool, outcome: Outcome, context: ToolContext, settings: RunSettings) -> tuple[AnyBlock, ...]:
    if isinstance(outcome, KnownOutcome):
        return outcome.known
    place = CallPlace(spec=tool.spec, turn_id=context.turn_id, tool_call_id=context.tool_call_id)
    try:
        return result_blocks(outcome, place, context.timeline.views, settings.show, await _texts(outcome, context))
    except Exception:
        _logger.exception("the result of %s cannot be stored on the timeline", tool.spec.tool_id)
        error = registered_error("tool_result_error", "the tool ran, and what it left cannot be put on the timeline")
        return result_blocks(Outcome(error=error), place, context.timeline.views, _whole)


def stray_calls() -> int:
    """Return the number of cancelled calls of this process that are still running."""
    return len(_strays)


class _Emitting:
    """Forwards a tool's output while its call runs, and keeps the end of it; later output is dropped."""

    def __init__(self, emit: Emit) -> None:
        self._emit: Emit | None = emit
        self._tails: dict[str, str] = {}
        self._chars = Counter[str]()

    def __call__(self, channel: str, text: str, /) -> None:
        if self._emit is not None:
            self._keep(channel, text)
            self._emit(channel, text)

    def _keep(self, channel: str, text: str) -> None:
        if channel in self._tails or len(self._tails) < MAX_KEPT_CHANNELS:
            self._tails[channel] = (self._tails.get(channel, "") + text[-KEPT_CHARS:])[-KEPT_CHARS:]
            self._chars[channel] += len(text)

    def said(self) -> str:
        """Return the end of the output so far, channel by channel; it is not stored elsewhere."""
        return "".join(self._told(channel, tail) for channel, tail in self._tails.items() if tail.strip())

    def _told(self, channel: str, tail: str) -> str:
        chars = self._chars[channel]
        part = f" (the last {len(tail)} of {chars} characters)" if len(tail) < chars else ""
        return f"{channel[:_CHANNEL_CHARS]}{part}:\n{tail.rstrip()}\n"

    def close(self) -> None:
        self._emit = None


async def _called(tool: Tool, call: ToolCall, context: ToolContext, notices: list[ToolNotice]) -> Outcome:
    bound = await bind(await _params(call, context), tool.spec.write_params, context)
    notices.extend(bound.notices)
    try:
        return await tool.call(bound.params, context)
    except SystemExit:
        # Uncaught, it would end the process with all its other conversations.
        return Outcome(error=registered_error("tool_call_error", "the tool tried to end the process"))


async def _params(call: ToolCall, context: ToolContext) -> str:
    if isinstance(call.params, BlobRef):
        return (await context.timeline.payload(call.params)).decode()
    return call.params


async def _supervised(
    spec: ToolSpec,
    work: Coroutine[Any, Any, Outcome],
    context: ToolContext,
    settings: RunSettings,
    said_until: Callable[[], str] = str,
) -> Outcome:
    """Run the work within its deadline; return its outcome, or a timeout or interrupt error with its output."""
    if settings.interrupt and settings.interrupt.is_set():
        work.close()
        return Outcome(error=registered_error("tool_interrupted", f"{spec.tool_id} was stopped before it began"))
    running = asyncio.create_task(work, name=f"{spec.tool_id} {context.tool_call_id}")
    try:
        ending = await _ending(running, spec.deadline_s, settings.interrupt)
    except asyncio.CancelledError:
        await _stopped(running, settings.grace_s)
        raise
    match ending:
        case "done":
            return _outcome(running, spec, context)
        case "late":
            said = f"{spec.tool_id} did not finish within {spec.deadline_s:g} s and was cancelled"
            code = "tool_timeout"
        case "interrupted":
            said, code = f"{spec.tool_id} was stopped before it had finished", "tool_interrupted"
        case _:
            assert_never(ending)
    if spec.effect != "pure":
        said += "; what it had done until then stays done"
    if not await _stopped(running, settings.grace_s):
        said += "; it did not stop when it was cancelled and may be running still"
    artifacts = (_said_at(context, text),) if (text := said_until()) else ()
    return Outcome(error=registered_error(code, said), artifacts=artifacts)


def _said_at(context: ToolContext, text: str) -> Artifact:
    path = ToolPath(context.turn_id, context.tool_call_id, "result")
    return Artifact(path=str(path), mime="text/plain", text=text, content_only=True)


async def _ending(running: _Running, deadline_s: float, interrupt: asyncio.Event | None) -> _Ending:
    waiting = asyncio.create_task(interrupt.wait()) if interrupt else None
    tasks: set[_Running | asyncio.Task[Literal[True]]] = {running, waiting} if waiting else {running}
    try:
        done, _ = await asyncio.wait(tasks, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if waiting:
            waiting.cancel()
    if running in done:
        return "done"
    return "interrupted" if done else "late"


def _outcome(done: _Running, spec: ToolSpec, context: ToolContext) -> Outcome:
    if done.cancelled():
        return Outcome(error=registered_error("tool_call_error", "the tool cancelled its own call"))
    if error := done.exception():
        if not isinstance(error, CodedError):
            _logger.error("%s failed", spec.tool_id, exc_info=error)
        return Outcome(error=failure(error, context.out_dir))
    outcome = cast(object, done.result())
    if isinstance(outcome, Outcome):
        return outcome
    said = f"the tool returned a {type(outcome).__name__}; expected an Outcome"
    return Outcome(error=registered_error("tool_result_error", said))


async def _stopped(running: _Running, grace_s: float) -> bool:
    """Cancel the task and wait up to `grace_s` for its end; return whether it ended."""
    for _ in range(_CANCELS):
        running.cancel()
        await asyncio.wait({running}, timeout=grace_s / _CANCELS)
        if running.done():
            _put_away(running)
            return True
    _logger.error("%s did not stop when it was cancelled", running.get_name())
    _strays.add(running)
    running.add_done_callback(_put_away)
    return False


def _put_away(running: _Running) -> None:
    """Log the failure of a cancelled task that no code awaits."""
    _strays.discard(running)
    if not running.cancelled() and (error := running.exception()):
        _logger.info("%s ended after it was cancelled", running.get_name(), exc_info=error)


async def _texts(outcome: Outcome, context: ToolContext) -> dict[BlobRef, str]:
    """Return the stored texts of the artifacts that can be read and are not too large to be shown."""
    texts: dict[BlobRef, str] = {}
    for artifact in outcome.artifacts:
        ref = artifact.text
        if isinstance(ref, BlobRef) and ref not in texts and ref.size_bytes <= MAX_LOADED_BYTES:
            try:
                texts[ref] = (await context.timeline.payload(ref)).decode("utf-8", "replace")
            except CodedError:
                _logger.warning("a stored text in a tool's result cannot be read", exc_info=True)
    return texts


def _whole(_text: str, _mime: str, _path: str) -> Shown:
    return Shown("whole")
