"""The prompt builder: a prompt kept from round to round equals a new one, and counts are the model's."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.prompt_prefix import PREFIX_CHECK
from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, blocks_of, blocks_of_type, calls, run
from timeloom.app import open_session
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Hidden,
    ModelAnswered,
    ModelCalled,
    RoundStarted,
    SourcesAdded,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.next_step import AskModel
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.model import DataSegment, ModelRequest, TextSegment
from timeloom.providers.openai.content import ContentCache, EncodedContent
from timeloom.providers.openai.request import request_body
from timeloom.runtime.prompt.builder import PromptBuilder, PromptSettings, build_system_text
from timeloom.runtime.prompt.payload_cache import PayloadCache
from timeloom.runtime.prompt.request import PromptRequest
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing.conversations import conversations

TURN = TurnId("turn_1")
ASK = AskModel(1, 1, last=False)
PICTURE = "fi:turn_1.user.attachments/map.png"


def picture(data: bytes) -> Attachment:
    return Attachment(artifact_path=PICTURE, mime="image/png", data=data)


def prompter(session: Session, model: str = "m") -> PromptBuilder:
    system = build_system_text((), PromptSettings())
    return PromptBuilder(session, system, PromptSettings(model=model), observers=[PREFIX_CHECK])


def text_of(request: ModelRequest) -> str:
    return "".join(segment.text for segment in request.segments if isinstance(segment, TextSegment))


class CountingStore(MemoryStore):
    """Counts reads of payloads, and fails or calls back as configured."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[BlobRef] = []
        self.fails = False
        self.on_load: list[str] = []
        self.session: Session | None = None

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        self.reads.append(ref)
        await asyncio.sleep(0)
        if self.fails:
            raise CodedError("blob_missing", "it is gone")
        return await super().read_blob(tenant, ref)

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        found = await super().load(conversation, after, limit)
        if self.session and self.on_load:
            await self.session.append([UserPrompt(text=self.on_load.pop())], TURN)
        return found

    async def load_snapshot(self, conversation: ConversationId, version: str) -> tuple[int, bytes] | None:
        if self.session and self.on_load:
            await self.session.append([UserPrompt(text=self.on_load.pop())], TURN)
        return await super().load_snapshot(conversation, version)


@given(conversations(), st.lists(st.integers(1, 12), max_size=8))
def test_what_is_sent_is_what_somebody_who_opens_the_conversation_would_send(
    entries: Sequence[Entry], sizes: list[int]
) -> None:
    async def check() -> None:
        session = await open_session(MemoryStore(), None, HEADER)
        kept = prompter(session)
        rest = list(entries[1:])
        for size in [*sizes, len(rest)]:
            for entry in rest[:size]:
                await session.append([entry.block], entry.turn_id)
            rest = rest[size:]
            mine, other = await kept.build_prompt(session, ASK), await prompter(session).build_prompt(session, ASK)
            assert _without_time(mine) == _without_time(other)
            assert mine.seq == session.views.tail

    run(check)


def _without_time(prompt: PromptRequest) -> tuple[object, ...]:
    return (*prompt.request.segments[:-1], re.sub(r"time: .*", "", prompt.tail), prompt.estimated_tokens)


def test_the_next_prompt_is_encoded_from_the_end_of_the_one_before(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, *(calls("t.look", size=n) for n in range(1, 9)), answers("seen"), answers("done"))
        turns = await stage.open()
        source, contents, content = turns.model_caller.prompt_source, ContentCache(), EncodedContent(official=False)
        await turns.run("look everywhere")
        before = (await source.build_prompt(turns.session, ASK)).request
        request_body("m", before, official=False, contents=contents)
        content.encode(before.segments)
        await turns.run("and now?")
        after = (await source.build_prompt(turns.session, ASK)).request
        content.encode(after.segments)
        assert contents.keeps(after.conversation, official=False)
        assert request_body("m", after, official=False, contents=contents) == request_body("m", after, official=False)
        assert content.encoded_segments - len(before.segments) < len(after.segments) / 2

    run(check)


def test_a_picture_is_read_once_and_sent_each_time(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("t.look"), calls("t.look"), answers("a map"))
        stage.store = store = CountingStore()
        turns = await stage.open()
        data = b"\x89PNG" + bytes(100_000)
        await turns.run("what is it?", (picture(data),))
        assert len(store.reads) == len(set(store.reads))
        prompt = await turns.model_caller.prompt_source.build_prompt(turns.session, ASK)
        (sent,) = [segment for segment in prompt.request.segments if isinstance(segment, DataSegment)]
        assert (sent.mime, sent.data) == ("image/png", data)

    run(check)


def test_a_picture_that_is_hidden_is_no_longer_sent() -> None:
    async def check() -> None:
        session = await open_session(MemoryStore(), None, HEADER)
        kept = prompter(session)
        pictures = [picture(b"\x89PNG" + bytes(100_000)), picture(b"small")]
        await session.append([TurnStarted(n=1), UserPrompt(text="look"), *pictures], TURN)
        before = (await kept.build_prompt(session, ASK)).request
        assert [len(one.data) for one in before.segments if isinstance(one, DataSegment)] == [100_004, 5]
        await session.append([Hidden(target=PICTURE, replacement="a map")], TURN)
        after = (await kept.build_prompt(session, ASK)).request
        assert [one for one in after.segments if isinstance(one, DataSegment)] == []
        assert "HIDDEN — a map" in text_of(after)

    run(check)


def test_a_cache_point_may_stand_on_a_picture() -> None:
    async def check() -> None:
        session = await open_session(MemoryStore(), None, HEADER)
        await session.append([TurnStarted(n=1), UserPrompt(text="look"), picture(bytes(100_000))], TURN)
        prompt = await prompter(session).build_prompt(session, ASK)
        assert [segment.cache_point for segment in prompt.request.segments] == [False, True, False]

    run(check)


@pytest.mark.parametrize(("max_bytes", "reads"), [(250_000, 2), (150_000, 4), (50_000, 4)])
def test_payloads_are_kept_within_a_bound(max_bytes: int, reads: int) -> None:
    async def check() -> None:
        store = CountingStore()
        session = await open_session(store, None, HEADER)
        refs = [await _stored(session, bytes([n]) * 100) for n in (1, 2)]
        kept = PayloadCache(session, max_bytes)
        for ref in [*refs, *refs]:
            assert len(await kept.read(ref)) == 100_000
        assert len(store.reads) == reads

    run(check)


async def _stored(session: Session, data: bytes) -> BlobRef:
    entries = await session.append([picture(data * 1_000)], TURN)
    block = entries[0].block
    assert isinstance(block, Attachment)
    assert isinstance(block.data, BlobRef)
    return block.data


def test_two_who_read_the_same_at_once_keep_it_once() -> None:
    async def check() -> None:
        store = CountingStore()
        session = await open_session(store, None, HEADER)
        ref = await _stored(session, b"x" * 100)
        kept = PayloadCache(session)
        both = await asyncio.gather(kept.read(ref), kept.read(ref))
        assert both[0] == both[1] == await kept.read(ref)
        assert len(store.reads) == 2

    run(check)


def test_what_is_said_while_a_conversation_is_opened_is_in_its_prompt() -> None:
    async def check() -> None:
        store = CountingStore()
        session = await open_session(store, None, HEADER)
        await session.append([TurnStarted(n=1), UserPrompt(text="first")], TURN)
        store.session, store.on_load = session, ["third", "second"]
        text = text_of((await prompter(session).build_prompt(session, ASK)).request)
        assert text.index("first") < text.index("second") < text.index("third")

    run(check)


def test_a_text_that_could_not_be_read_is_read_the_next_time() -> None:
    async def check() -> None:
        store = CountingStore()
        session = await open_session(store, None, HEADER)
        kept = prompter(session)
        await session.append([TurnStarted(n=1)], TURN)
        await kept.build_prompt(session, ASK)
        await session.append([UserPrompt(text="a long question " * 20_000), RoundStarted(round=1)], TURN)
        store.fails = True
        with pytest.raises(CodedError):
            await kept.build_prompt(session, ASK)
        store.fails = False
        text = text_of((await kept.build_prompt(session, ASK)).request)
        assert text.index("a long question") < text.index("[ROUND 1]")

    run(check)


def test_sources_are_shown_as_soon_as_they_are_added() -> None:
    async def check() -> None:
        session = await open_session(MemoryStore(), None, HEADER)
        kept = prompter(session)
        await session.append([TurnStarted(n=1), UserPrompt(text="go")], TURN)
        before = await kept.build_prompt(session, ASK)
        assert "SOURCES POOL" not in before.tail
        await session.append([SourcesAdded(rows=(SourceRow(sid=1, title="Fares"),))], TURN)
        after = await kept.build_prompt(session, ASK)
        assert "[S 1] Fares" in after.tail
        assert after.estimated_tokens > before.estimated_tokens

    run(check)


def asked_and_answered(estimated: int, usage: Usage) -> list[AnyBlock]:
    return [
        ModelCalled(round=1, model="m", request_sha256="0", estimated_tokens=estimated),
        ModelAnswered(round=1, model="m", stop_reason="end", usage=usage),
    ]


def _announced_tokens(tail: str) -> int:
    found = re.search(r"context tokens: \[.*\] (\d+)/", tail)
    assert found is not None
    return int(found[1])


def test_the_announced_tokens_are_those_that_the_model_would_count() -> None:
    async def check() -> None:
        session = await open_session(MemoryStore(), None, HEADER)
        await session.append([TurnStarted(n=1), UserPrompt(text="word " * 2_000)], TURN)
        plain = await prompter(session).build_prompt(session, ASK)
        await session.append(asked_and_answered(1_000, Usage(input_tokens=500, cache_read_tokens=1_500)), TURN)
        learned = await prompter(session).build_prompt(session, ASK)
        assert _announced_tokens(learned.tail) == 2 * _announced_tokens(plain.tail)
        assert abs(learned.estimated_tokens - plain.estimated_tokens) < 50
        other = await prompter(session, "another").build_prompt(session, ASK)
        assert _announced_tokens(other.tail) == _announced_tokens(plain.tail)

    run(check)


def test_a_call_records_our_own_count_of_the_whole_request(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await TurnHarness(tmp_path, answers("yes")).open()
        await turns.run("Which ferry?")
        (call,) = blocks_of_type(await blocks_of(turns), ModelCalled)
        assert isinstance(call, ModelCalled)
        system, tail = await turns.session.text(call.system), await turns.session.text(call.tail)
        assert call.estimated_tokens >= estimate_tokens(system) + estimate_tokens(tail)
        assert turns.session.views.reported.calibrations[turns.model_caller.model.name].samples == 1

    run(check)


def test_a_round_is_told_what_became_of_the_cache(tmp_path: Path) -> None:
    async def check() -> None:
        usage = {"input_tokens": 350, "cache_read_tokens": 12_000, "cache_write_tokens": 800}
        stage = TurnHarness(tmp_path, {"reply": calls("t.look"), "usage": usage}, answers("yes"), answers("no"))
        turns = await stage.open()
        await turns.run("Which ferry?")
        first, second = [await turns.session.text(call.tail) for call in await _calls(turns.session)]
        assert "[CACHE]" not in first
        line = "[CACHE] last request: 12000 tokens read, 800 written, 350 uncached; cache points now: 1\n"
        assert line in second
        await turns.run("And back?")
        *_, third = [await turns.session.text(call.tail) for call in await _calls(turns.session)]
        assert "[CACHE]" not in third

    run(check)


async def _calls(session: Session) -> list[ModelCalled]:
    entries = await session.entries(range(1, session.views.tail + 1))
    return [entry.block for entry in entries if isinstance(entry.block, ModelCalled)]
