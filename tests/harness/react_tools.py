"""Harness for the react tools: a conversation in a real store, its views and a workspace on disk."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    ConversationStarted,
    Digest,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    ToolCall,
)
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.sources import MergeResult, NewSource, SourceRow
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.core.view.views import Views, fold
from timeloom.ports.store import Store
from timeloom.ports.tool import Artifact, Caller, Outcome, ToolContext
from timeloom.stores.in_memory.store import MemoryStore

TS = "2026-02-09T02:14:32.676425Z"
EPOCH_US = 1_770_603_272_676_425
T1, T2 = TurnId("turn_1"), TurnId("turn_2")
CONVERSATION = ConversationId("conv_1")


class PoolSources:
    """The sources that one call adds; it implements `SourceCollector`."""

    def __init__(self, stage: "ToolHarness") -> None:
        self._stage = stage
        self._sources: list[NewSource] = []

    def add(self, source: NewSource) -> int:
        self._sources.append(source)
        return self._merged.sids[-1]

    def rows(self) -> tuple[SourceRow, ...]:
        return self._merged.added

    @property
    def _merged(self) -> MergeResult:
        return self._stage.views.sources.pool.merge(self._sources)


class ToolHarness:
    """A conversation that tools read up to its tail; it implements `TimelineReader`."""

    def __init__(self, store: Store, out_dir: Path) -> None:
        self.store = store
        self.out_dir = out_dir
        self.views = Views()
        self.calls = 0
        self.emitted: list[tuple[str, str]] = []

    async def append(self, *blocks: AnyBlock, turn: TurnId = T1) -> list[int]:
        """Append the blocks and return their sequence numbers."""
        drafts = [Draft(turn, TS, block) for block in blocks]
        if not self.views.tail:
            drafts.insert(0, Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u")))
        entries = await self.store.append(CONVERSATION, self.views.tail, drafts)
        fold(entries, self.views)
        return [entry.seq for entry in entries]

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        whole = await self.store.load(CONVERSATION)
        return [whole[seq - 1] for seq in seqs]

    async def payload(self, ref: BlobRef) -> bytes:
        return await self.store.read_blob("t", ref)

    def context(self, turn: TurnId = T1) -> ToolContext:
        """Return the context of the next call."""
        self.calls += 1
        return ToolContext(
            conversation=CONVERSATION,
            turn_id=turn,
            tool_call_id=CallId(f"call{self.calls}"),
            caller=Caller(tenant="t", project="p", user="u"),
            timeline=self,
            out_dir=self.out_dir,
            emit=lambda channel, text: self.emitted.append((channel, text)),
            epoch_us=EPOCH_US,
            new_sources=PoolSources(self),
        )

    async def record(self, tool_id: str, context: ToolContext, outcome: Outcome) -> None:
        """Append the call and its outcome in the order of a timeline."""
        call = context.tool_call_id
        blocks: list[AnyBlock] = [ToolCall(tool_id=tool_id, tool_call_id=call)]
        blocks += (Notice(code=notice.code, text=notice.text, tool_call_id=call) for notice in outcome.notices)
        if rows := (*outcome.sources, *(context.new_sources.rows() if context.new_sources else ())):
            blocks.append(SourcesAdded(rows=rows, tool_call_id=call))
        if outcome.status is not None or not (outcome.artifacts or outcome.summary):
            blocks.append(ResultStatus(tool_call_id=call, text=outcome.status or "ok", mime=outcome.status_mime))
        for artifact in outcome.artifacts:
            blocks += _result(artifact, call)
        if outcome.summary is not None:
            blocks.append(ResultStatus(tool_call_id=call, text=outcome.summary, mime="application/json"))
        blocks += outcome.blocks
        await self.append(*blocks, turn=context.turn_id)

    async def attach(self, name: str, mime: str, data: bytes, turn: TurnId = T1) -> str:
        """Add a file that the user attached to a turn and return its path."""
        path = f"fi:{turn}.user.attachments/{name}"
        digest = Digest(artifact_path=path, mime=mime, size_bytes=len(data))
        await self.append(
            AttachmentMeta(digest=digest), Attachment(artifact_path=path, mime=mime, data=data), turn=turn
        )
        return path

    async def record_file(self, path: str, text: str, turn: TurnId = T1, mime: str = "text/markdown") -> str:
        """Record a text file that a tool wrote in a turn, only on the timeline; return its path."""
        context = self.context(turn)
        artifact = Artifact(path=path, mime=mime, text=text, kind="file", visibility="external")
        await self.record("some.tool", context, Outcome(artifacts=(artifact,)))
        return path


def _result(artifact: Artifact, call: CallId) -> list[AnyBlock]:
    digest = Digest(
        artifact_path=artifact.path,
        physical_path=artifact.physical_path,
        mime=artifact.mime,
        kind=artifact.kind,
        visibility=artifact.visibility,
        channel=artifact.channel,
        tool_call_id=call,
        sources_used=artifact.sources_used,
        size_bytes=artifact.size_bytes,
        error=artifact.error,
    )
    blocks: list[AnyBlock] = [] if artifact.content_only else [ResultDigest(tool_call_id=call, digest=digest)]
    if not artifact.meta_only:
        content = ResultContent(
            tool_call_id=call,
            artifact_path=artifact.path,
            mime=artifact.mime,
            text=artifact.text,
            data=artifact.data,
            shown=artifact.shown,
        )
        blocks.append(content)
    return blocks


async def open_tool_harness(out_dir: Path) -> ToolHarness:
    """Return a harness on the memory store with an empty conversation."""
    stage = ToolHarness(await MemoryStore.open(), out_dir)
    await stage.append()
    return stage


def decode_status(outcome: Outcome) -> dict[str, object]:
    """Return the status or summary of the outcome, decoded."""
    text = outcome.summary if outcome.status is None else outcome.status
    assert text is not None
    return msgspec.json.decode(text, type=dict[str, object])
