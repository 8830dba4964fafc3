"""Runs the calls that a running tool call makes, such as a program; each is recorded and passes the gates."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    Gate,
    ResultContent,
    ResultDigest,
    ResultStatus,
    ToolCall,
    ToolError,
    make_tool_error,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, TurnId
from timeloom.core.policy.gates import PolicyResult
from timeloom.platform.tasks import run_despite_cancellation, wait_until_done
from timeloom.ports.ledger import Amounts
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.file_sources import AppendSettings, append_result
from timeloom.tools.registry import ToolRegistry

MAX_CONCURRENT_CALLS: Final = 8
"""Maximum concurrent calls of one program. More lets it crowd out others; fewer makes it wait for slow services."""

CallAdmitter = Callable[[ToolCall], Awaitable[Admission]]
CallRunner = Callable[[ToolCall], Awaitable[tuple[AnyBlock, ...]]]


class _NestedResult(msgspec.Struct, frozen=True):
    ok: bool
    error: ToolError | None
    ret: object


@dataclass(slots=True, kw_only=True)
class NestedCalls:
    """Makes the nested calls of the call `by`; they cannot request approval, because a program waits for them."""

    session: Session
    registry: ToolRegistry
    governor: Governor
    turn: TurnId
    by: CallId
    admit: CallAdmitter
    run: CallRunner
    _entering: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._running = asyncio.Semaphore(1 if self.registry.one_at_a_time else MAX_CONCURRENT_CALLS)

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools that a program may call: all tools of the conversation except those that start programs."""
        return tuple(spec for spec in self.registry.specs() if not self.registry.traits_of(spec.tool_id).runs_code)

    async def call(self, tool_id: str, params: str) -> str:
        """Make one call; it is durable before it runs, and its result is durable before it is returned."""
        if self.registry.canonical_id(tool_id) not in {spec.tool_id for spec in self.specs}:
            return _encode_error(
                make_tool_error("unknown_tool", f"no tool {tool_id[:120]!a} may be called from a program")
            )
        try:
            call = ToolCall(
                tool_id=tool_id,
                tool_call_id=self.session.new_call_id(),
                params=params,
                by=self.by,
                traits=self.registry.custom_traits.get(tool_id),
            )
        except CodedError as error:
            return _encode_error(make_tool_error("tool_params_invalid", str(error)))
        # In a separate task, so that the call gets its result even if the caller is cancelled repeatedly.
        task = asyncio.create_task(self._make_call(call))
        try:
            return _encode_result(await asyncio.shield(task), self.turn)
        except asyncio.CancelledError:
            task.cancel()
            await wait_until_done(task)
            raise

    async def _make_call(self, call: ToolCall) -> Sequence[AnyBlock]:
        async with self._running:
            # Admitted one by one, because each must know what the previous one may spend.
            async with self._entering:
                admission = await self.admit(call)
                ruling = _refuse_approval(admission.ruling)
                refused = [] if ruling.verdict == "allow" else _refusal_blocks(call.tool_call_id, ruling)
                given_up = await self._append([call, *refused])
                if given_up and not refused:
                    await self._append([interrupted_result(call.tool_call_id)])
            if refused or given_up:
                await self.governor.release(admission)
            if given_up:
                raise asyncio.CancelledError
            return refused or await self._run_admitted(call, admission)

    async def _append(self, blocks: Sequence[AnyBlock]) -> bool:
        """Append the blocks in any case; return whether the caller was cancelled meanwhile."""
        settings = AppendSettings(cites_files=self.registry.cites_files)
        _, cancelled = await run_despite_cancellation(append_result(self.session, blocks, self.turn, settings))
        return cancelled

    async def _run_admitted(self, call: ToolCall, admission: Admission) -> Sequence[AnyBlock]:
        async with self.governor.charge_on_exit(admission) as charge:
            charge.cost = Amounts(tool_calls=1)
            try:
                receipt = await self.run(call)
            except asyncio.CancelledError:
                await self._append([interrupted_result(call.tool_call_id)])
                raise
            if await self._append(receipt):
                raise asyncio.CancelledError
        return receipt


def interrupted_result(call_id: CallId) -> ResultStatus:
    """Return the result of a nested call that was stopped together with the call that made it."""
    text = "the call was stopped with its program; it is unknown whether it had an effect"
    return ResultStatus(tool_call_id=call_id, text=text, error=make_tool_error("tool_interrupted", text))


def _refuse_approval(ruling: PolicyResult) -> PolicyResult:
    if ruling.verdict != "ask":
        return ruling
    message = f"this call needs a person's approval, and a program cannot wait for one: {ruling.text}"
    return PolicyResult("refuse", f"{message}; call the tool directly, outside of the program", ruling.policy)


def _refusal_blocks(call_id: CallId, ruling: PolicyResult) -> list[AnyBlock]:
    gate = Gate(policy=ruling.policy, verdict=ruling.verdict, text=ruling.text, tool_call_id=call_id)
    error = make_tool_error("gate_refused", ruling.text)
    return [gate, ResultStatus(tool_call_id=call_id, text=ruling.text, error=error)]


def _encode_error(error: ToolError) -> str:
    return _encode(_NestedResult(ok=False, error=error, ret=None))


def _encode_result(receipt: Sequence[AnyBlock], turn: TurnId) -> str:
    """Return the result as a program receives it: the error, and one value or a list of artifacts by path."""
    error = next((found for block in receipt if (found := _error(block))), None)
    contents = [block for block in receipt if isinstance(block, ResultContent)]
    own = [block for block in contents if block.artifact_path.startswith(f"tc:{turn}.")]
    texts = [block.text for block in receipt if isinstance(block, ResultStatus) and isinstance(block.text, str)]
    ret: object = None
    if len(contents) == len(own) == 1:
        ret = _value(own[0])
    elif contents:
        ret = {"artifacts": [_to_artifact_row(block) for block in contents], "status": "\n".join(texts)}
    elif texts and error is None:
        ret = _parsed("\n".join(texts))
    return _encode(_NestedResult(ok=error is None, error=error, ret=ret))


def _error(block: AnyBlock) -> ToolError | None:
    match block:
        case ResultStatus(error=error):
            return error
        case ResultDigest(digest=digest):
            return digest.error
        case _:
            return None


def _value(block: ResultContent) -> object:
    text = block.text if isinstance(block.text, str) else ""
    return _parsed(text) if "json" in block.mime else text


def _parsed(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _to_artifact_row(block: ResultContent) -> dict[str, object]:
    text = block.text if isinstance(block.text, str) else None
    return {"path": block.artifact_path, "mime": block.mime, "text": text}


def _encode(answer: _NestedResult) -> str:
    return msgspec.json.encode(answer).decode()
