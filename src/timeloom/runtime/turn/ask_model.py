"""Sends the model request of a round: records the call, streams the reply and records its outcome."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    ApprovalRequested,
    ChannelText,
    Gate,
    ModelAnswered,
    ModelCalled,
    Notice,
    Thinking,
)
from timeloom.core.blocks.tool_traits import resolve_traits
from timeloom.core.payload import Text
from timeloom.core.policy.gates import ModelStep, PolicyResult
from timeloom.core.policy.model_retry import BACKOFF_S, retry_delay_s
from timeloom.core.policy.next_step import AskModel
from timeloom.core.policy.read_channels import ReadChannels, read_channels
from timeloom.core.policy.read_native import read_native_reply, read_or_repair_native
from timeloom.core.policy.read_reply import ParsedReply, plain_answer
from timeloom.core.policy.repair_reply import RepairContext, RepairedReply, read_or_repair
from timeloom.core.render.editions import SECOND_EDITION, renderer_for
from timeloom.core.render.native_tools import NativeTool
from timeloom.core.render.v2.fence import WordsStream
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.core.stream.live_reply import ANSWER, LiveDelta, LiveReply
from timeloom.core.stream.native_reply import LiveNativeReply, NativeCall, NativeReply, decode_calls, encode_calls
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import MODEL_TOOL_ID
from timeloom.platform.tasks import run_until_interrupted
from timeloom.ports.blobs import BlobError
from timeloom.ports.model import MAX_CALL_S, FinishEvent, Model, ModelError, TextSegment, ToolCallPiece
from timeloom.runtime.governance.costs import (
    cut_call_cost,
    has_known_cost,
    max_model_cost,
    model_cost,
    model_reservation_key,
    with_estimated_usage,
)
from timeloom.runtime.governance.governor import Admission, Governor
from timeloom.runtime.model_calls.stream_reply import build_outcome, stream_reply
from timeloom.runtime.prompt.request import PromptRequest, PromptSource
from timeloom.runtime.session.session import Session


@dataclass(slots=True, kw_only=True)
class ModelCaller:
    """The model, its prompt source and settings, and the reply of the current round."""

    session: Session
    model: Model
    prompt_source: PromptSource
    on_delta: Callable[[LiveDelta], None]
    governor: Governor
    repair_context: RepairContext
    """The tools by which replies are read and repaired."""
    backoff: tuple[float, ...] = BACKOFF_S
    call_s: float = MAX_CALL_S
    """Seconds after which a call ends as a timeout."""
    retry_after_s: float | None = None
    """Seconds that the provider asked to wait before the next request."""
    stored_systems: dict[str, tuple[str, Text]] = field(default_factory=dict[str, tuple[str, Text]])
    """By tenant, the system text of the last call and its stored form; conversations may share it."""
    _stored_tools: tuple[str, Text] = ("", "")
    """The tools of the last call and their stored form."""
    _parsed_reply: tuple[int, ParsedReply] = field(default=(0, ParsedReply()))

    async def load_reply(self) -> ParsedReply | None:
        """Return the parsed reply of the current round; after a restart it is read from the timeline."""
        progress = self.session.views.progress
        if progress.asked != "answered":
            return None
        if self._parsed_reply[0] != progress.answer_seq:
            (entry,) = await self.session.entries([progress.answer_seq])
            assert isinstance(entry.block, ModelAnswered)
            reply = await self._read_recorded(entry.block)
            self.cache_reply(progress.answer_seq, replace(reply, repairs=entry.block.repairs))
        return self._parsed_reply[1]

    async def _read_recorded(self, block: ModelAnswered) -> ParsedReply:
        """Read a recorded reply, which depends on no repair rule: a repaired reply is recorded in channels."""
        text = await self.session.text(block.repaired or block.text)
        if block.protocol == "channels" or block.repaired:
            return self.reply_context.read(self._read_channels(text).rest)
        calls = decode_calls(await self.session.text(block.tool_calls))
        is_cut = block.stop_reason == "max_tokens"
        return read_native_reply(NativeReply(text, calls), self.repair_context.custom, is_cut=is_cut)

    @property
    def reply_context(self) -> RepairContext:
        """The tools and the edition by which replies of the current turn are read."""
        return replace(self.repair_context, edition=self.session.views.turns.edition)

    def _read_channels(self, text: str) -> ReadChannels:
        turns = self.session.views.turns
        return read_channels(text, turns.channels, turns.edition)

    def read_reply(
        self, prompt: PromptRequest, buffer: "_ReplyBuffer", *, is_cut: bool
    ) -> tuple[ParsedReply, RepairedReply | None, ReadChannels]:
        """Return the parts of a complete reply, its repair if it needed one, and its declared channels."""
        context = self.reply_context
        if prompt.tools:
            # A native tool call cannot be a quotation, so the prompt does not matter.
            native = NativeReply(buffer.text, buffer.calls)
            return *read_or_repair_native(native, context, is_cut=is_cut), ReadChannels(buffer.text)
        channels = self._read_channels(buffer.text)
        reply, repaired = read_or_repair(channels.rest, context, lambda: _prompt_texts(prompt), is_cut=is_cut)
        return replace(reply, remarks=(*channels.remarks, *reply.remarks)), repaired, channels

    def cache_reply(self, seq: int, reply: ParsedReply) -> None:
        """Cache the parsed reply of the entry at that seq."""
        self._parsed_reply = (seq, reply)

    def stored_system(self, text: str) -> Text:
        """Return the stored form of the system text if the last call had the same text, else the text itself."""
        known, stored = self.stored_systems.get(self.session.caller.tenant, ("", ""))
        return stored if known == text else text

    def stored_tools(self, text: str) -> Text:
        """Return the stored form of the tools if the last call had the same, else the text itself."""
        known, stored = self._stored_tools
        return stored if known == text else text

    def cache_system(self, prompt: PromptRequest, call: AnyBlock) -> None:
        """Cache the stored forms of the system text and the tools from the appended call."""
        if isinstance(call, ModelCalled):
            self.stored_systems[self.session.caller.tenant] = (prompt.system, call.system)
            self._stored_tools = (prompt.tools, call.tools)


async def ask_model(caller: ModelCaller, step: AskModel, interrupt: asyncio.Event) -> None:
    """Send the request of the round and append its outcome; an interrupt cancels the request."""
    session = caller.session
    progress = session.views.progress
    turn = progress.turn_id
    if wait_s := retry_delay_s(progress.failures, caller.retry_after_s, caller.backoff):
        await session.flush()
        await run_until_interrupted(interrupt, asyncio.sleep(wait_s))
        # Messages that arrived during the pause are in the prompt that is built now.
        interrupt.clear()
    recorded = await _record_call(caller, step, interrupt)
    if recorded is None:
        return
    prompt, call, admission = recorded
    buffer = _ReplyBuffer(caller.on_delta, prompt.request.tools, caller.reply_context, session.views.turns.channels)
    prompt_tokens = session.views.reported.to_model_tokens(call.model, call.estimated_tokens)
    async with caller.governor.charge_on_exit(admission) as charge:
        charge.cut_cost = lambda most: cut_call_cost(most, prompt_tokens, buffer.received, caller.model)
        ending = await stream_reply(caller.model, prompt.request, buffer, interrupt, caller.call_s)
        if isinstance(ending, FinishEvent):
            buffer.finish()
        # Lets the last deltas reach the readers before the reply is processed.
        await asyncio.sleep(0)
        outcome = build_outcome(call, buffer.text, ending, encode_calls(buffer.calls))
        outcome = with_estimated_usage(outcome, call, caller.model)
        charge.cost = model_cost(outcome.usage, rounds=_counted_rounds(step))
        caller.retry_after_s = ending.retry_after_s if isinstance(ending, ModelError) else None
        if isinstance(ending, FinishEvent):
            is_cut = ending.stop_reason == "max_tokens"
            reply, repaired, channels = caller.read_reply(prompt, buffer, is_cut=is_cut)
            if repaired:
                outcome = replace(outcome, repairs=repaired.repairs, repaired=repaired.text)
            blocks = _answer_blocks(outcome, reply, "".join(buffer.thinking))
            blocks += _channel_blocks(session, reply, channels, step.round)
            for entry in await session.append_deferred(blocks, turn):
                if isinstance(entry.block, ModelAnswered):
                    caller.cache_reply(entry.seq, reply)
        else:
            await session.append([outcome], turn)


async def _record_call(
    caller: ModelCaller, step: AskModel, interrupt: asyncio.Event
) -> tuple[PromptRequest, ModelCalled, Admission] | None:
    """Build the prompt and append its call; None if the call is refused, needs approval or was interrupted."""
    session = caller.session
    progress = session.views.progress
    while not progress.is_called_off:
        prompt = await caller.prompt_source.build_prompt(session, step)
        admission = await _admit(caller, step, prompt, interrupt)
        if admission is None:
            return None
        if admission.ruling.verdict != "allow":
            if await session.append(_gate_blocks(session, admission.ruling), progress.turn_id, after=prompt.seq):
                return None
            continue
        call = ModelCalled(
            round=step.round,
            model=caller.model.name,
            request_sha256=prompt.sha256,
            attempt=step.attempt,
            system=caller.stored_system(prompt.system),
            tail=prompt.tail,
            estimated_tokens=prompt.estimated_tokens,
            rendering=renderer_for(session.views.turns.edition).number,
            seen=prompt.seq,
            cache=prompt.cache,
            sections=prompt.sections,
            protocol="native" if prompt.tools else "channels",
            tools=caller.stored_tools(prompt.tools),
        )
        # If a message arrived in between, the append fails and a prompt that contains the message is built.
        if stored := await _append_call(caller, call, prompt):
            caller.cache_system(prompt, stored[-1].block)
            return prompt, call, admission
        await caller.governor.release(admission)
    return None


async def _append_call(caller: ModelCaller, call: ModelCalled, prompt: PromptRequest) -> tuple[Entry, ...]:
    session = caller.session
    turn = session.views.progress.turn_id
    try:
        return await session.append([call], turn, after=prompt.seq)
    except BlobError:
        if (call.system, call.tools) == (prompt.system, prompt.tools):
            raise
        # Another conversation had stored the system text and was deleted.
        whole = replace(call, system=prompt.system, tools=prompt.tools)
        return await session.append([whole], turn, after=prompt.seq)


async def _admit(
    caller: ModelCaller, step: AskModel, prompt: PromptRequest, interrupt: asyncio.Event
) -> Admission | None:
    """Check the call against policies and budgets; None if an interrupt came first."""
    if interrupt.is_set():
        return None
    turn, model = caller.session.views.progress.turn_id, caller.model
    request, prompt_tokens = (
        prompt.request,
        caller.session.views.reported.to_model_tokens(model.name, prompt.estimated_tokens),
    )
    most = max_model_cost(model, prompt_tokens, request.max_output_tokens, _counted_rounds(step))
    model_step = ModelStep(
        model=model.name, round=step.round, prompt_tokens=prompt_tokens, priced=has_known_cost(model, most)
    )
    admission = caller.governor.admit(
        model_step, model_reservation_key(turn, step.round, step.attempt), most, begun=step.approved
    )
    # Only budgets shared with other conversations can make this wait, so only then an interrupt matters.
    return await (run_until_interrupted(interrupt, admission) if caller.governor.is_shared else admission)


def _gate_blocks(session: Session, ruling: PolicyResult) -> list[AnyBlock]:
    gate = Gate(policy=ruling.policy, verdict=ruling.verdict, text=ruling.text)
    if ruling.verdict == "refuse":
        return [gate]
    call_id = session.new_call_id()
    question = ApprovalRequested(tool_call_id=call_id, tool_id=MODEL_TOOL_ID, text=ruling.text, policy=ruling.policy)
    return [replace(gate, tool_call_id=call_id), question]


def _channel_blocks(session: Session, reply: ParsedReply, channels: ReadChannels, number: int) -> list[AnyBlock]:
    """Return the blocks of the declared channels; none for a reply that the model is asked to write again."""
    if reply.faults and not plain_answer(reply):
        return []
    turn = session.views.turns.turns.get(session.views.progress.turn_id)
    counts = Counter(turn.channel_texts if turn else {})
    blocks: list[AnyBlock] = []
    for one in channels.written:
        channel = one.channel
        counts[channel.name] += 1
        blocks.append(
            ChannelText(
                channel=channel.name,
                mime=channel.mime,
                text=one.text,
                round=number,
                n=counts[channel.name],
                widget=channel.widget,
                cut=one.is_cut,
            )
        )
    return blocks


def _prompt_texts(prompt: PromptRequest) -> list[str]:
    """Return the text of the prompt after the system text, in which a model may find text to quote."""
    return [segment.text for segment in prompt.request.segments if isinstance(segment, TextSegment)]


def _counted_rounds(step: AskModel) -> int:
    return 1 if step.attempt == 1 else 0


class _ReplyBuffer:
    """Collects a reply while it streams and forwards it to clients."""

    def __init__(
        self,
        on_delta: Callable[[LiveDelta], None],
        tools: Sequence[NativeTool],
        context: RepairContext,
        channels: Sequence[DeclaredChannel],
    ) -> None:
        self._send = on_delta
        self._unfenced = (ANSWER, *(one.name for one in channels)) if context.edition >= SECOND_EDITION else ()
        self._words: dict[str, tuple[int, WordsStream]] = {}
        self._tool_ids = {one.name: one.tool_id for one in tools}
        self._custom = context.custom
        self._live = LiveReply(context.edition, declared=channels)
        self._live_native = LiveNativeReply()
        self._pieces: list[str] = []
        self._calls: dict[int, tuple[str, list[str]]] = {}
        self.thinking: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def calls(self) -> tuple[NativeCall, ...]:
        """The native tool calls, as far as they have arrived."""
        return tuple(
            NativeCall(name, "".join(pieces), self._tool_ids.get(name, "")) for name, pieces in self._calls.values()
        )

    @property
    def received(self) -> str:
        """All that the model has written: thinking, text and tool calls."""
        return "".join((*self.thinking, *self._pieces, *(one.name + one.arguments for one in self.calls)))

    def on_text(self, text: str) -> None:
        self._pieces.append(text)
        for delta in self._live_native.feed_text(text) if self._tool_ids else self._live.feed(text):
            self._on_delta(delta)

    def on_thinking(self, text: str) -> None:
        self.thinking.append(text)
        self._on_delta(LiveDelta("thinking", 0, text))

    def finish(self) -> None:
        """Forward what waited for the end of a complete reply."""
        for delta in self._live_native.close():
            self._on_delta(delta)
        for channel in self._words.copy():
            self._flush(channel)

    def _on_delta(self, delta: LiveDelta) -> None:
        """Forward the delta; of text that stays visible, without the escapes that the model copied from the prompt."""
        if delta.channel in self._unfenced:
            delta = self._unfence(delta)
        if delta.text:
            self._send(delta)

    def _unfence(self, delta: LiveDelta) -> LiveDelta:
        index, words = self._words.get(delta.channel, (-1, None))
        if words is None or index != delta.index:
            if delta.channel != ANSWER:
                self._flush(delta.channel)
            # All decisions of a reply together have one answer.
            words = words if words and delta.channel == ANSWER else WordsStream()
            self._words[delta.channel] = delta.index, words
        return replace(delta, text=words.feed(delta.text))

    def _flush(self, channel: str) -> None:
        index, words = self._words.pop(channel, (0, None))
        if words and (rest := words.close()):
            self._send(LiveDelta(channel, index, rest))

    def on_tool_call(self, piece: ToolCallPiece) -> None:
        if piece.index not in self._calls:
            self._calls[piece.index] = piece.name, []
            tool_id = self._tool_ids.get(piece.name, "")
            runs_code = resolve_traits(tool_id, self._custom.get(tool_id)).runs_code
            for delta in self._live_native.begin_call(piece.index, piece.name, runs_code=runs_code):
                self._on_delta(delta)
        self._calls[piece.index][1].append(piece.text)
        for delta in self._live_native.feed_call(piece.index, piece.text):
            self._on_delta(delta)


def _answer_blocks(outcome: ModelAnswered, reply: ParsedReply, thought: str) -> list[AnyBlock]:
    # Remarks before the answer are informational; after it they would mean that it cannot be executed.
    remarks = [] if reply.faults else [Notice(code=one.code, text=one.text) for one in reply.remarks]
    thinking = "\n\n".join(part for part in (thought, reply.thinking) if part)
    return [*remarks, outcome, *([Thinking(round=outcome.round, text=thinking)] if thinking else [])]
