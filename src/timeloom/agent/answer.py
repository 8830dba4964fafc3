"""The result of a turn: text, calls, approvals, usage, sources and files, read from its entries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeVar, cast

import msgspec

from timeloom.core.blocks import AnyBlock, Completion, ModelAnswered, ResultDigest, ToolCall, TurnEnded, Usage
from timeloom.core.blocks.turn import EndReason
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.payload import Text
from timeloom.core.policy.budget import NANO_USD
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import PendingApproval

T = TypeVar("T")

AnswerReason = EndReason | Literal["waiting"]
"""Why a turn ended; `waiting` if a call waits for a person's decision."""


class RecordedCall(NamedTuple):
    """A tool call of a turn: the id of the tool and its parameters."""

    tool_id: str
    params: Mapping[str, object]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person: pass `call_id` to `Agent.decide`."""

    call_id: CallId
    tool_id: str
    params: Mapping[str, object]
    question: str


class AnswerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the turn produced; `path` is its logical path."""

    path: str
    mime: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """The result of a turn. `reason` is `completed` if the agent answered, and `waiting` if a person has to decide."""

    conversation: ConversationId
    turn: TurnId
    reason: AnswerReason
    text: str
    """The answer as the user reads it; empty if there is none."""
    detail: str = ""
    """For a turn that did not complete: what happened."""
    approvals: tuple[Approval, ...] = ()
    """The calls that wait for a decision."""
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    """The tool calls that the model made, in order."""
    usage: Usage = field(default_factory=Usage)
    sources: tuple[SourceRow, ...] = ()
    """The sources that the answer cites."""
    files: tuple[AnswerFile, ...] = ()
    """The files that the turn produced for the user."""
    decode: Callable[[str], T] = field(repr=False, compare=False)
    """Makes the typed output from the text."""

    @property
    def cost_usd(self) -> float:
        """The price of the turn's model calls in dollars; 0 for models without a known price."""
        return self.usage.cost_nano_usd / NANO_USD

    @property
    def output(self) -> T:
        """The answer as the agent's output type, by default the text; raises `answer_missing` if there is none."""
        if self.reason != "completed":
            detail = f": {self.detail}" if self.detail else ""
            raise CodedError("answer_missing", f"the turn has no answer, its reason is {self.reason}{detail}")
        return self.decode(self.text)


def make_decoder(output: object) -> Callable[[str], object]:
    """Return the function that makes a value of this type from an answer's text."""
    if output is str:
        return lambda text: text
    validate = getattr(output, "model_validate_json", None)
    if callable(validate):
        return cast(Callable[[str], object], validate)
    return msgspec.json.Decoder(cast(type[object], output)).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTurn:
    """A turn that ended or waits: its entries, the conversation's views, and the approvals it waits for."""

    conversation: ConversationId
    tenant: str
    entries: Sequence[Entry]
    views: Views
    pending: Sequence[PendingApproval] = ()


async def read_answer(store: Store, turn: FinishedTurn, decode: Callable[[str], T]) -> Answer[T]:
    """Return the answer of the turn."""
    blocks = [entry.block for entry in turn.entries]
    completion = next((block for block in reversed(blocks) if isinstance(block, Completion)), None)
    end = next((block for block in reversed(blocks) if isinstance(block, TurnEnded)), None)
    calls = {
        block.tool_call_id: RecordedCall(block.tool_id, await _read_params(store, turn.tenant, block.params))
        for block in blocks
        if isinstance(block, ToolCall) and block.by is None
    }
    return Answer(
        conversation=turn.conversation,
        turn=turn.entries[-1].turn_id,
        reason=end.reason if end else "waiting",
        text=await _read_text(store, turn.tenant, completion.text) if completion else "",
        detail=end.text if end else "",
        approvals=() if end else tuple(_to_approval(one, calls) for one in turn.pending),
        calls=list(calls.values()),
        usage=_sum_usage(blocks),
        sources=turn.views.sources.pool.select(completion.sources_used) if completion else (),
        files=_list_files(blocks),
        decode=decode,
    )


def _to_approval(pending: PendingApproval, calls: Mapping[CallId, RecordedCall]) -> Approval:
    call = calls.get(pending.tool_call_id)
    params: Mapping[str, object] = call.params if call else {}
    return Approval(call_id=pending.tool_call_id, tool_id=pending.tool_id, params=params, question=pending.text)


def _sum_usage(blocks: Iterable[AnyBlock]) -> Usage:
    used = [block.usage for block in blocks if isinstance(block, ModelAnswered)]
    return Usage(**{name: sum(getattr(one, name) for one in used) for name in Usage.__struct_fields__})


def _list_files(blocks: Iterable[AnyBlock]) -> tuple[AnswerFile, ...]:
    """Return the newest version of each file that users see."""
    digests = [block.digest for block in blocks if isinstance(block, ResultDigest)]
    files = {
        digest.artifact_path: AnswerFile(path=digest.artifact_path, mime=digest.mime, size_bytes=digest.size_bytes)
        for digest in digests
        if digest.visibility == "external" and digest.error is None and digest.artifact_path.startswith("fi:")
    }
    return tuple(files.values())


async def _read_params(store: Store, tenant: str, params: Text) -> Mapping[str, object]:
    return msgspec.json.decode(await _read_text(store, tenant, params), type=dict[str, object])


async def _read_text(store: Store, tenant: str, text: Text) -> str:
    return text if isinstance(text, str) else (await store.read_blob(tenant, text)).decode("utf-8", "surrogatepass")
