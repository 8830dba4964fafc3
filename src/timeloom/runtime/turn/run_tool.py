"""Runs one tool call within its deadline and returns its result blocks, also if the tool fails or hangs."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, assert_never, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import AnyBlock, Shown, ToolCall, make_tool_error
from timeloom.core.blocks.digest import with_unknown_outcome
from timeloom.core.codes import CodedError
from timeloom.core.paths import ToolPath
from timeloom.core.payload import BlobRef
from timeloom.platform.secrets import SECRETS, RedactingFilter
from timeloom.platform.tasks import finishes_before
from timeloom.ports.tool import (
    Artifact,
    Emit,
    Outcome,
    ReconcilableTool,
    ReconcileResult,
    Tool,
    ToolCallError,
    ToolContext,
    ToolNotice,
    ToolSpec,
)
from timeloom.runtime.read.files import locate_file
from timeloom.runtime.turn.tool_result import CallRef, Show, build_result_blocks
from timeloom.tools.binding import bind_parameters
from timeloom.tools.errors import to_tool_error
from timeloom.tools.react.pin import check_pins
from timeloom.tools.registry import UnknownTool

GRACE_S: Final = 5.0
"""How long a cancelled tool may take to release its resources. Smaller leaves processes and files behind; larger
keeps the turn waiting for a tool that will not stop."""

MAX_LOADED_BYTES: Final = 1024 * 1024
"""Largest stored text that is read to decide how it is shown; the prompt has a stub for a larger one."""

KEPT_OUTPUT_CHARS: Final = 8_000
"""Characters kept from the end of a tool's output per channel, for the result of a call that is stopped. Smaller
loses information about finished work; larger costs memory in every call that emits output."""

MAX_KEPT_CHANNELS: Final = 8
"""Maximum number of channels whose output is kept. A program has two."""

_CANCELS: Final = 2
_CHANNEL_CHARS: Final = 40

_logger = logging.getLogger(__name__)
_logger.addFilter(RedactingFilter(SECRETS))

_ToolTask = asyncio.Task[Outcome]
_CallEnd = Literal["done", "late", "interrupted"]
_stray_tasks: Final[set[_ToolTask]] = set()
"""Tasks that did not stop; this reference keeps them from being garbage collected while they run."""


class RecordedOutcome(Outcome, frozen=True, kw_only=True):
    """An outcome with ready blocks, such as those of a recorded call; they are appended unchanged."""

    recorded_blocks: tuple[AnyBlock, ...] = ()


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How texts of a result are shown, and how a running call is interrupted."""

    show: Show
    interrupt: asyncio.Event | None = None
    """Once it is set, the running call is cancelled and its result says so; the turn decides how to continue."""
    grace_s: float = GRACE_S
    window_tokens: int = 200_000
    """The model's window; pins may have a tenth of it."""


async def run_call(
    tool: Tool | None, call: ToolCall, context: ToolContext, settings: RunSettings
) -> tuple[AnyBlock, ...]:
    """Run the call and return the blocks that close it, notices first; failures are in the blocks, not raised.

    If the awaiting task is cancelled, the tool is stopped and no result is written. The call stays open on the
    timeline for the process that resumes the turn.
    """
    tool = tool or UnknownTool(call.tool_id)
    emit = _ProgressEmitter(context.emit)
    inner = replace(context, tool_call_id=call.tool_call_id, emit=emit)
    notices: list[ToolNotice] = []
    try:
        outcome = await _supervise(tool.spec, _call_tool(tool, call, inner, notices), inner, settings, emit.kept_output)
    finally:
        emit.close()
    added = inner.new_sources.rows() if inner.new_sources else ()
    whole = replace(outcome, notices=(*notices, *outcome.notices), sources=(*outcome.sources, *added))
    return await _to_result_blocks(tool, whole, inner, settings)


async def reconcile_call(
    tool: Tool, call: ToolCall, context: ToolContext, settings: RunSettings
) -> tuple[AnyBlock, ...] | Literal["not_done", "unknown"]:
    """Ask the tool about a call that was begun and has no result; return the blocks that close it, or its answer.

    The answer is "unknown" if the tool cannot reconcile calls, fails, or takes too long.
    """
    if not isinstance(tool, ReconcilableTool):
        return "unknown"
    reconciling: ReconcilableTool = tool
    known: list[ReconcileResult] = []

    async def ask() -> Outcome:
        bound = await bind_parameters(await _params(call, context), tool.spec.write_params, context)
        known.append(await reconciling.reconcile(bound.params, context))
        return Outcome()

    outcome = await _supervise(tool.spec, ask(), context, settings)
    match known:
        case [Outcome() as found]:
            return await _to_result_blocks(tool, found, context, settings)
        case ["not_done"]:
            return "not_done"
        case _:
            _logger.warning("%s cannot reconcile the call %s: %s", call.tool_id, call.tool_call_id, outcome.error)
            return "unknown"


async def _to_result_blocks(
    tool: Tool, outcome: Outcome, context: ToolContext, settings: RunSettings
) -> tuple[AnyBlock, ...]:
    if isinstance(outcome, RecordedOutcome):
        return outcome.recorded_blocks
    # Before anything is stored or shown: tools are trusted with secrets, the model and the log are not.
    outcome = SECRETS.redact_value(outcome)
    call_ref = CallRef(
        spec=tool.spec,
        turn_id=context.turn_id,
        tool_call_id=context.tool_call_id,
        locate=lambda path: locate_file(path, context.caller, context.conversation),
    )
    try:
        blocks = build_result_blocks(
            outcome, call_ref, context.timeline.views, settings.show, await _load_texts(outcome, context)
        )
        return await check_pins(context, blocks, settings.window_tokens)
    except Exception:
        _logger.exception("the result of %s cannot be stored on the timeline", tool.spec.tool_id)
        error = make_tool_error("tool_result_error", "the tool ran, but its result cannot be stored on the timeline")
        return build_result_blocks(Outcome(error=error), call_ref, context.timeline.views, _show_whole)


def count_stray_calls() -> int:
    """Return the number of cancelled calls of this process that are still running."""
    return len(_stray_tasks)


class _ProgressEmitter:
    """Forwards a tool's output while its call runs, and keeps the end of it; later output is dropped."""

    def __init__(self, emit: Emit) -> None:
        self._emit: Emit | None = emit
        self._tails: dict[str, str] = {}
        self._chars = Counter[str]()

    def __call__(self, channel: str, text: str, /) -> None:
        if self._emit is not None:
            text = SECRETS.redact(text)
            self._keep(channel, text)
            self._emit(channel, text)

    def _keep(self, channel: str, text: str) -> None:
        if channel in self._tails or len(self._tails) < MAX_KEPT_CHANNELS:
            self._tails[channel] = (self._tails.get(channel, "") + text[-KEPT_OUTPUT_CHARS:])[-KEPT_OUTPUT_CHARS:]
            self._chars[channel] += len(text)

    def kept_output(self) -> str:
        """Return the end of the output so far, channel by channel; it is not stored elsewhere."""
        return "".join(self._format_channel(channel, tail) for channel, tail in self._tails.items() if tail.strip())

    def _format_channel(self, channel: str, tail: str) -> str:
        chars = self._chars[channel]
        part = f" (the last {len(tail)} of {chars} characters)" if len(tail) < chars else ""
        return f"{channel[:_CHANNEL_CHARS]}{part}:\n{tail.rstrip()}\n"

    def close(self) -> None:
        self._emit = None


async def _call_tool(tool: Tool, call: ToolCall, context: ToolContext, notices: list[ToolNotice]) -> Outcome:
    bound = await bind_parameters(await _params(call, context), tool.spec.write_params, context)
    notices.extend(bound.notices)
    try:
        return await tool.call(bound.params, context)
    except SystemExit:
        # Uncaught, it would end the process with all its other conversations.
        return Outcome(error=make_tool_error("tool_call_error", "the tool tried to end the process"))


async def _params(call: ToolCall, context: ToolContext) -> str:
    if isinstance(call.params, BlobRef):
        return (await context.timeline.payload(call.params)).decode()
    return call.params


async def _supervise(
    spec: ToolSpec,
    work: Coroutine[Any, Any, Outcome],
    context: ToolContext,
    settings: RunSettings,
    kept_output: Callable[[], str] = str,
) -> Outcome:
    """Run the work within its deadline; return its outcome, or a timeout or interrupt error with its output."""
    if settings.interrupt and settings.interrupt.is_set():
        work.close()
        return Outcome(error=make_tool_error("tool_interrupted", f"{spec.tool_id} was stopped before it began"))
    running = asyncio.create_task(work, name=f"{spec.tool_id} {context.tool_call_id}")
    try:
        ending = await _wait_for_end(running, spec.deadline_s, settings.interrupt)
    except asyncio.CancelledError:
        await _stop(running, settings.grace_s)
        raise
    match ending:
        case "done":
            return _to_outcome(running, spec, context)
        case "late":
            message = f"{spec.tool_id} did not finish within {spec.deadline_s:g} s and was cancelled"
            code = "tool_timeout"
        case "interrupted":
            message, code = f"{spec.tool_id} was stopped before it had finished", "tool_interrupted"
        case _:
            assert_never(ending)
    if spec.effect != "pure":
        message += "; what it had done until then stays done"
    if not await _stop(running, settings.grace_s):
        message += "; it did not stop when it was cancelled and may be running still"
    artifacts = (_output_artifact(context, text),) if (text := kept_output()) else ()
    error = make_tool_error(code, message)
    if spec.effect == "irreversible":
        error = with_unknown_outcome(error)
    return Outcome(error=error, artifacts=artifacts)


def _output_artifact(context: ToolContext, text: str) -> Artifact:
    path = ToolPath(context.turn_id, context.tool_call_id, "result")
    return Artifact(path=str(path), mime="text/plain", text=text, content_only=True)


async def _wait_for_end(running: _ToolTask, deadline_s: float, interrupt: asyncio.Event | None) -> _CallEnd:
    interrupted = False
    if interrupt:
        interrupted = await finishes_before(interrupt.wait(), running, deadline_s)
    else:
        await asyncio.wait({running}, timeout=deadline_s)
    if running.done():
        return "done"
    return "interrupted" if interrupted else "late"


def _to_outcome(done: _ToolTask, spec: ToolSpec, context: ToolContext) -> Outcome:
    if done.cancelled():
        return Outcome(error=make_tool_error("tool_call_error", "the tool cancelled its own call"))
    if error := done.exception():
        if not isinstance(error, CodedError | ToolCallError):
            _logger.error("%s failed", spec.tool_id, exc_info=error)
        return Outcome(error=to_tool_error(error, context.out_dir))
    outcome = cast(object, done.result())
    if isinstance(outcome, Outcome):
        return outcome
    message = f"the tool returned a {type(outcome).__name__}; expected an Outcome"
    return Outcome(error=make_tool_error("tool_result_error", message))


async def _stop(running: _ToolTask, grace_s: float) -> bool:
    """Cancel the task and wait up to `grace_s` for its end; return whether it ended."""
    for _ in range(_CANCELS):
        running.cancel()
        await asyncio.wait({running}, timeout=grace_s / _CANCELS)
        if running.done():
            _discard_finished(running)
            return True
    _logger.error("%s did not stop when it was cancelled", running.get_name())
    _stray_tasks.add(running)
    running.add_done_callback(_discard_finished)
    return False


def _discard_finished(running: _ToolTask) -> None:
    """Log the failure of a cancelled task that no code awaits."""
    _stray_tasks.discard(running)
    if not running.cancelled() and (error := running.exception()):
        _logger.info("%s ended after it was cancelled", running.get_name(), exc_info=error)


async def _load_texts(outcome: Outcome, context: ToolContext) -> dict[BlobRef, str]:
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


def _show_whole(_text: str, _mime: str, _path: str) -> Shown:
    return Shown("whole")
