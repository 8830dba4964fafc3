"""Partial text: a late subscriber receives it complete, once, and like earlier subscribers."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.hub import DelayedStore
from tests.harness.turn import HEADER, run
from timeloom.app import open_session
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    Followup,
    ModelCalled,
    Notes,
    ResultStatus,
    RoundStarted,
    Thinking,
    ToolCall,
    ToolCode,
    TurnEnded,
)
from timeloom.core.ids import CallId, ConversationId, MessageId, TurnId
from timeloom.core.timeline import NO_TURN
from timeloom.runtime.hub.events import ChatBlock, ChatDelta, ConvStatus, Event
from timeloom.runtime.hub.partial_text import (
    MAX_KEPT_BYTES,
    RUN_COST_BYTES,
    TOOL_OUTPUT,
    PartialText,
    kinds_ended_by,
    text_kind,
)
from timeloom.runtime.hub.subscription import Broadcaster, StoreTail, Subscription
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.wire.block_json import decode_block

CALL = CallId("tc_1")
EPOCH = "1970-01-01T00:00:00.000000Z"
ALL = {"thinking", "timeline_text", "code", "canvas", "answer", TOOL_OUTPUT}

ENDS: list[tuple[AnyBlock, set[str]]] = [
    (Thinking(round=1, text="t"), {"thinking"}),
    (Notes(tool_call_id=CALL, text="t"), {"timeline_text"}),
    (ToolCode(tool_call_id=CALL, text="t"), {"code"}),
    (ToolCall(tool_id="t.look", tool_call_id=CALL, params="{}"), {TOOL_OUTPUT}),
    (ToolCall(tool_id="t.look", tool_call_id=CallId("tc_2"), params="{}", by=CALL), set()),
    (ResultStatus(tool_call_id=CALL, text="done"), {"canvas"}),
    (Completion(text="t"), {"answer"}),
    (Followup(text="more", message_id=MessageId("m_1")), set()),
    (RoundStarted(round=1), ALL),
    (ModelCalled(round=1, model="m", request_sha256="0"), ALL),
    (TurnEnded(reason="completed"), ALL),
]


def delta(text: str, channel: str = "answer", index: int = 0, *, cut: bool = False) -> ChatDelta:
    return ChatDelta(turn_id=TurnId("turn_1"), channel=channel, index=index, text=text, cut=cut)


def told(text: PartialText) -> list[ChatDelta]:
    return [one for one, _ in text.snapshot()]


@pytest.mark.parametrize(("block", "kinds"), ENDS, ids=lambda one: type(one).__name__)
def test_a_block_ends_the_text_that_it_has_and_no_other(block: AnyBlock, kinds: set[str]) -> None:
    text = PartialText()
    for channel in sorted(ALL - {TOOL_OUTPUT} | {"stdout"}):
        text.add(delta("x", channel), 1)
    text.end(block)
    assert {text_kind(one) for one in told(text)} == ALL - kinds == ALL - set(kinds_ended_by(block))


def test_the_text_of_a_file_in_the_chat_outlives_the_notes_and_ends_with_its_result() -> None:
    text = PartialText()
    text.add(delta("a note", "timeline_text"), 1)
    file = ChatDelta(
        turn_id=TurnId("turn_1"),
        channel="timeline_text",
        index=0,
        text="| a |",
        path="fi:turn_1.files/a.md",
        mime="text/markdown",
    )
    text.add(file, 1)
    assert [one.text for one in told(text)] == ["a note", "| a |"]
    text.end(Notes(tool_call_id=CALL, text="a note"))
    assert told(text) == [file]
    text.end(ResultStatus(tool_call_id=CALL, text="done"))
    assert told(text) == []


def test_text_is_told_in_the_order_in_which_it_was_written() -> None:
    text = PartialText()
    for channel, index, piece in [("stdout", 0, "a"), ("stdout", 0, "b"), ("stderr", 0, "c"), ("stdout", 0, "d")]:
        text.add(delta(piece, channel, index), 1)
    text.add(delta("e", "stdout", 1), 2)
    assert text.snapshot() == [
        (delta("ab", "stdout"), 1),
        (delta("c", "stderr"), 1),
        (delta("d", "stdout"), 1),
        (delta("e", "stdout", 1), 2),
    ]


def test_half_a_character_is_kept_as_it_came() -> None:
    text = PartialText()
    text.add(delta("\ud83d"), 1)
    assert told(text) == [delta("\ud83d")]


def test_of_too_much_the_end_is_kept_and_said_to_be_cut() -> None:
    text = PartialText(3000)
    text.add(delta("first", "thinking"), 1)
    for number in range(1000):
        text.add(delta(f"{number:04}", ("stdout", "stderr")[number % 2]), 1)
    thinking, *runs = told(text)
    assert thinking == delta("", "thinking", cut=True)
    assert [one.cut for one in runs] == [True, True, *([False] * (len(runs) - 2))]
    assert "".join(one.text for one in runs) == "".join(f"{number:04}" for number in range(1000 - len(runs), 1000))
    assert 3000 - 2 * RUN_COST_BYTES < len(runs) * (RUN_COST_BYTES + 4) <= 3000
    text.end(TurnEnded(reason="completed"))
    assert told(text) == []


def test_what_is_too_much_at_once_is_only_said_to_be_cut() -> None:
    text = PartialText(3000)
    text.add(delta("x" * 4000), 1)
    assert told(text) == [delta("", cut=True)]
    text.add(delta("y"), 1)
    assert told(text) == [delta("y", cut=True)]
    text.clear()
    text.add(delta("z"), 1)
    assert told(text) == [delta("z")]


def test_a_long_text_in_small_pieces_is_kept_up_to_the_bound() -> None:
    text = PartialText()
    for _ in range(MAX_KEPT_BYTES // 1010):
        text.add(delta("x" * 1000), 1)
    kept = told(text)
    assert not any(one.cut for one in kept)
    text.add(delta("x" * 10_000), 1)
    kept = told(text)
    assert kept[0].cut
    assert MAX_KEPT_BYTES * 0.9 < sum(len(one.text) for one in kept) <= MAX_KEPT_BYTES


class Listener:
    """A reader that assembles the received text as documented."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.open: dict[str, str] = {}
        self.ended: dict[tuple[int, str], str] = {}
        """By block and kind, the text that was on its way when the block came."""

    def hear(self, event: Event) -> None:
        if isinstance(event, ChatDelta):
            kind = text_kind(event)
            self.open[kind] = self.open.get(kind, "") + event.text
        elif isinstance(event, ChatBlock):
            self.seqs.append(event.seq)
            for kind in kinds_ended_by(decode_block(bytes(event.block), EPOCH).block):
                self.ended[event.seq, kind] = self.open.pop(kind, "")


class Talk:
    """A conversation in which things are said and stored, and its readers."""

    def __init__(self, session: Session, store: DelayedStore) -> None:
        self._session = session
        self._store = store
        self._channel = Broadcaster()
        self.readers: list[asyncio.Task[Listener]] = []
        session.listen(self._channel.publish_entry)

    def join(self, brought: int) -> None:
        after = max(1, self._session.views.tail - brought)
        self.readers.append(asyncio.create_task(self._listen(after)))

    async def do(self, deed: AnyBlock | str, text: str) -> None:
        match deed:
            case "join":
                self.join(len(text))
            case "pause":
                await asyncio.sleep(0)
            case str():
                self._channel.publish_delta(delta(text, deed))
            case _:
                await self._session.append([deed], NO_TURN)

    async def _listen(self, after: int) -> Listener:
        reader = Listener()
        mailbox = self._channel.join(1_000_000)
        stream = Subscription(self._store, "t", self._session.conversation, mailbox, after)
        async with aclosing(stream.events(status, 60)) as events:
            async for event in events:
                if isinstance(event, ChatDelta) and event.channel == LAST:
                    break
                reader.hear(event)
        return reader


LAST = "last"
SAID = ("answer", "thinking", "timeline_text", "canvas", "code", "stdout", "stderr")
DEEDS = st.one_of(
    st.sampled_from(SAID),
    st.sampled_from([block for block, _ in ENDS]),
    st.sampled_from(["join", "join", "pause", "pause"]),
)


@given(st.lists(st.tuples(DEEDS, st.sampled_from(["a", "bb", "ccc"])), min_size=6, max_size=40))
def test_wherever_readers_join_they_have_the_open_text_as_who_was_always_there(
    deeds: list[tuple[AnyBlock | str, str]],
) -> None:
    async def check() -> None:
        store = DelayedStore()
        async with await open_session(store, None, HEADER) as session:
            talk = Talk(session, store)
            talk.join(0)
            for deed, text in [*[("pause", "")] * 10, *deeds, (LAST, "")]:
                await talk.do(deed, text)
            first, *others = await asyncio.gather(*talk.readers)
            for other in others:
                assert other.open == first.open
                assert other.seqs == first.seqs[len(first.seqs) - len(other.seqs) :]
                # Of what had ended when it came it heard nothing, of all else everything.
                assert all(text in ("", first.ended[place]) for place, text in other.ended.items())

    run(check)


async def status() -> ConvStatus:
    return ConvStatus(conversation_id=ConversationId("conv_1"), state="running", tail=0)


def test_a_reader_that_brings_a_block_before_others_are_told_is_not_told_its_text() -> None:
    async def check() -> None:
        store, channel = MemoryStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            channel.publish(StoreTail(1))
            channel.publish_delta(delta("the answer"))
            channel.publish_delta(delta("a thought", "thinking"))
            await session.append([Completion(text="the answer")], NO_TURN)
            stream = Subscription(store, "t", session.conversation, channel.join(1000), 2)
            async with aclosing(stream.events(status, 60)) as events:
                heard = [await anext(events) for _ in range(3)]
            assert heard[2] == delta("a thought", "thinking")

    run(check)


def test_text_that_no_block_will_have_is_told_to_nobody_any_more() -> None:
    async def check() -> None:
        store, channel = MemoryStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            channel.publish_delta(delta("given up"))
            waiting = channel.join(1000)
            waiting.open()
            channel.publish_delta(delta("and this"))
            channel.drop_text()
            channel.publish_delta(delta("anew"))
            assert waiting.partial == []
            assert await waiting.take(1) == (delta("anew"), 0)
            stream = Subscription(store, "t", session.conversation, channel.join(1000), 1)
            async with aclosing(stream.events(status, 60)) as events:
                heard = [await anext(events) for _ in range(3)]
            assert heard[2] == delta("anew")

    run(check)
