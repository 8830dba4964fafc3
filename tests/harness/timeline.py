"""Harness for tool calls: a timeline of given blocks and a tool context over it."""

from collections.abc import Sequence
from pathlib import Path

from timeloom.core.blocks import AnyBlock, ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.ports.tool import Caller, Emit, ToolContext

TS = "2026-02-09T02:14:32.676425Z"
TURN, OLD_TURN = TurnId("turn_2"), TurnId("turn_1")
CALL = CallId("c9")
RESULT = f"tc:{TURN}.{CALL}.result"


class BlockTimeline:
    """The timeline port over blocks in memory."""

    def __init__(self, *blocks: AnyBlock, turn: TurnId = OLD_TURN) -> None:
        self._entries: list[Entry] = []
        self._payloads: dict[BlobRef, bytes] = {}
        self._views = Views()
        self.append(ConversationStarted(tenant="t", project="p", user="u"), turn=NO_TURN)
        self.append(*blocks, turn=turn)

    def append(self, *blocks: AnyBlock, turn: TurnId = OLD_TURN) -> None:
        added = [to_entry(Draft(turn, TS, block), seq) for seq, block in enumerate(blocks, len(self._entries) + 1)]
        fold(added, self._views)
        self._entries += added

    def store(self, data: bytes) -> BlobRef:
        ref = ref_of(data)
        self._payloads[ref] = data
        return ref

    @property
    def views(self) -> Views:
        return self._views

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        return [self._entries[seq - 1] for seq in seqs]

    async def payload(self, ref: BlobRef) -> bytes:
        if ref not in self._payloads:
            raise CodedError("blob_missing", f"there is no payload {ref.sha256[:8]}")
        return self._payloads[ref]


def discard_output(_channel: str, _text: str, /) -> None:
    """Discard the text."""


def make_context(timeline: BlockTimeline, emit: Emit = discard_output, out_dir: Path = Path("/srv/out")) -> ToolContext:
    return ToolContext(
        conversation=ConversationId("conv_1"),
        turn_id=TURN,
        tool_call_id=CALL,
        caller=Caller(tenant="t", project="p", user="u"),
        timeline=timeline,
        out_dir=out_dir,
        emit=emit,
        epoch_us=0,
    )
