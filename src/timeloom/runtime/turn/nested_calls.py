"""Runs the calls that a running tool call makes, such as a program; each is recorded and passes the gates."""

import asyncio
import contextlib
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
    registered_error,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, TurnId
from timeloom.core.policy.gates import Ruling
from timeloom.core.policy.read_reply import EXEC_PREFIX
from timeloom.ports.ledger import Amounts
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.session.session import Session, to_its_end
from timeloom.tools.registry import ToolRegistry

MAX_AT_ONCE: Final = 8
"""Maximum concurrent calls of one program. More lets it crowd out others; fewer makes it wait for slow services."""

Admit = Callable[[ToolCall], Awaitable[Admission]]
Run = Callable[[ToolCall], Awaitable[tuple[AnyBlock, ...]]]


class _Answer(msgspec.Struct, frozen=True):
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
    admit: Admit
    run: Run
    _entering: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._running = asyncio.Semaphore(1 if self.registry.one_at_a_time else MAX_AT_ONCE)

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools that a program may call: all tools of the conversation except those that start programs."""
        return tuple(spec for spec in self.registry.specs() if not spec.tool_id.startswith(EXEC_PREFIX))

    async def call(self, tool_id: str, params: str) -> str:
        """Make one call; it is durable before it runs, and its result is durable before it is returned."""
        if self.registry.own_id(tool_id) not in {spec.tool_id for spec in self.specs}:
            return _failed(registered_error("unknown_tool", f"no tool {tool_id[:120]!a} may be called from a program"))
        try:
            call = ToolCall(tool_id=tool_id, tool_call_id=self.session.new_call_id(), params=params, by=self.by)
        except CodedError as error:
            return _failed(registered_error("tool_params_invalid", str(error)))
        # In a separate task, so that the call gets its result even if the caller is cancelled repeatedly.
        making = asyncio.create_task(self._made(call))
        try:
            return _answer(await asyncio.shield(making), self.turn)
        except asyncio.CancelledError:
            making.cancel()
            await _ended(making)
            raise

    async def _made(self, call: ToolCall) -> Sequence[AnyBlock]:
        async with self._running:
            # Admitted one by one, because each must know what the previous one may spend.
            async with self._entering:
                admission = await self.admit(call)
                ruling = _without_asking(admission.ruling)
                refused = [] if ruling.verdict == "allow" else _refused(call.tool_call_id, ruling)
                given_up = await self._append([call, *refused])
                if given_up and not refused:
                    await self._append([interrupted(call.tool_call_id)])
            if refused or given_up:
                await self.governor.release(admission)
            if given_up:
                raise asyncio.CancelledError
            return refused or await self._carried_out(call, admission)

    async def _append(self, blocks: Sequence[AnyBlock]) -> bool:
        """Append the blocks in any case; return whether the caller was cancelled meanwhile."""
        _, cancelled = await to_its_end(self.session.append(blocks, self.turn))
        return cancelled

    async def _carried_out(self, call: ToolCall, admission: Admission) -> Sequence[AnyBlock]:
        async with self.governor.charging(admission) as bill:
            bill.cost = Amounts(tool_calls=1)
            try:
                receipt = await self.run(call)
            except asyncio.CancelledError:
                await self._append([interrupted(call.tool_call_id)])
                raise
            if await self._append(receipt):
                raise asyncio.CancelledError
        return receipt


async def _ended(task: asyncio.Task[Sequence[AnyBlock]]) -> None:
    """Wait until the cancelled task has finished, even if the caller is cancelled repeatedly."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})


def interrupted(call_id: CallId) -> ResultStatus:
    """Return the result of a nested call that was stopped together with the call that made it."""
    text = "the call was stopped together with the program that made it; whether it had an effect is not known"
    return ResultStatus(tool_call_id=call_id, text=text, error=registered_error("tool_interrupted", text))


def _without_asking(ruling: Ruling) -> Ruling:
    if ruling.verdict != "ask":
        return ruling
    said = f"a person must allow this call, and nobody can be asked while a program waits: {ruling.text}"
    return Ruling("refuse", f"{said}; call the tool itself, outside of the program", ruling.policy)


def _refused(call_id: CallId, ruling: Ruling) -> list[AnyBlock]:
    gate = Gate(policy=ruling.policy, verdict=ruling.verdict, text=ruling.text, tool_call_id=call_id)
    error = registered_error("gate_refused", ruling.text)
    return [gate, ResultStatus(tool_call_id=call_id, text=ruling.text, error=error)]


def _failed(error: ToolError) -> str:
    return _encoded(_Answer(ok=False, error=error, ret=None))


def _answer(receipt: Sequence[AnyBlock], turn: TurnId) -> str:
    """Return the result as a program receives it: the error, and one value or a list of artifacts by path."""
    error = next((found for block in receipt if (found := _error(block))), None)
    contents = [block for block in receipt if isinstance(block, ResultContent)]
    own = [block for block in contents if block.artifact_path.startswith(f"tc:{turn}.")]
    texts = [block.text for block in receipt if isinstance(block, ResultStatus) and isinstance(block.text, str)]
    ret: object = None
    if len(contents) == len(own) == 1:
        ret = _value(own[0])
    elif contents:
        ret = {"artifacts": [_listed(block) for block in contents], "status": "\n".join(texts)}
    elif texts and error is None:
        ret = _parsed("\n".join(texts))
    return _encoded(_Answer(ok=error is None, error=error, ret=ret))


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


def _listed(block: ResultContent) -> dict[str, object]:
    text = block.text if isinstance(block.text, str) else None
    return {"path": block.artifact_path, "mime": block.mime, "text": text}


def _encoded(answer: _Answer) -> str:
    return msgspec.json.encode(answer).decode()
