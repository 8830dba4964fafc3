"""Hidden content is retrieved byte for byte in at most two reads, however often it was compacted."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, calls
from timeloom.app import AgentSettings
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Completion,
    Cut,
    Digest,
    Hidden,
    Pruned,
    RangeSummary,
    ResultContent,
    Shown,
    SourcesAdded,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.caching import CacheRates
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.compaction import FIRST_SEQ, CompactSettings
from timeloom.core.policy.pruning import PruneSettings, find_prunable_rounds, find_prunable_turns
from timeloom.core.render.facts import CardLimits
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.v1.entries.cards import rounds_card
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.ports.blobs import BlobError
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.context.compact import NO_MODEL, Compactor
from timeloom.runtime.context.prune import Pruner
from timeloom.runtime.context.read_range import read_ranges
from timeloom.runtime.erase.erase import EraseRequest, erase
from timeloom.runtime.fork.fork import fork
from timeloom.runtime.governance.governor import Governor
from timeloom.runtime.replay.check_retrievable import check_retrieval
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel
from timeloom.testing.conversations import TS, conversations

CONVERSATION = ConversationId("conv_1")
TURN = TurnId("turn_1")


class Forgetful:
    """A conversation in which things are forgotten as the runtime forgets them."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def hide(self, at: int) -> None:
        """Something that is in sight as itself, under its path."""
        visible = self.session.views.visible
        paths = [
            path for path, seqs in visible.at_path.items() if any(visible.shown.get(seq, 0) is None for seq in seqs)
        ]
        if paths:
            block = Hidden(target=paths[at % len(paths)], replacement="seen")
            await self.session.append([block], self.session.views.turns.newest)

    async def prune(self, at: int) -> None:
        """Older turns as cards, whether that is worth it or not."""
        if find_prunable_turns(self.session.views, wanted := settings_of(at)):
            pruner = Pruner(session=self.session, model="m", settings=wanted, limits=limits_of(at))
            await pruner.prune(PromptView(), CacheRates())

    async def shorten(self, at: int) -> None:
        """Older rounds of newer turns as rows."""
        cuts: list[Cut] = []
        for one in find_prunable_rounds(self.session.views, settings_of(at)):
            run = (one.first_seq, one.last_seq)
            entries, known = await read_ranges(self.session, [run])
            cuts.append(Cut(*run, rounds_card((one.n, one.n), one.turn_n, entries, known, limits_of(at))))
        if cuts:
            await self.session.append([Pruned(cuts=tuple(cuts))], self.session.views.turns.newest)

    async def compact(self, at: int) -> None:
        """All up to some legal cut, in a summary that may be short."""
        views = self.session.views
        cuts = views.cuts.legal_after(max(FIRST_SEQ, views.forgetting.summed_seq))
        if cuts:
            governor = Governor(session=self.session)
            compactor = Compactor(
                session=self.session,
                governor=governor,
                model=None,
                settings=CompactSettings(),
                text_chars=20,
                effect_of=lambda _: "pure",
            )
            await compactor.extract_summary(cuts[at % len(cuts)], 150 + at * 7, NO_MODEL)

    async def say(self, at: int) -> None:
        """Another turn."""
        turn = TurnId(f"turn_more{self.session.views.tail}")
        said: list[AnyBlock] = [TurnStarted(n=len(self.session.views.turns.turns) + 1), UserPrompt(text="x" * at)]
        await self.session.append([*said, Completion(text="so it is"), TurnEnded(reason="completed")], turn)


def settings_of(at: int) -> PruneSettings:
    return PruneSettings(keep_turns=at % 2, keep_rounds=at % 3, min_saving_tokens=-(10**9))


def limits_of(at: int) -> CardLimits:
    return CardLimits(text_chars=10, result_chars=5, rows=at % 4)


async def stored(store: Store, entries: list[Entry]) -> Session:
    drafts = [Draft(entry.turn_id, entry.ts, entry.block) for entry in entries]
    await store.append(CONVERSATION, 0, drafts)
    return await Session.resume(store, CONVERSATION, SystemClock(), RandomIds())


acts = st.lists(
    st.tuples(st.sampled_from(("hide", "prune", "shorten", "compact", "say")), st.integers(0, 60)),
    min_size=10,
    max_size=10,
)


@settings(max_examples=40)
@given(conversations(forgetting=False), acts)
def test_all_is_read_again_after_ten_acts_of_forgetting_and_a_fork(
    entries: list[Entry], forgetting: list[tuple[str, int]]
) -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await stored(store, entries)
        forgetful = Forgetful(session)
        for act, at in forgetting:
            await getattr(forgetful, act)(at)
        found = await check_retrieval(store, CONVERSATION)
        assert found.lost == ()
        counts = (found.in_sight, found.one_read, found.two_reads, found.erased, found.silent)
        assert sum(counts) == found.entries == session.views.tail
        with tempfile.TemporaryDirectory() as folder:
            copy = (await fork(store, CONVERSATION, Path(folder), SystemClock(), RandomIds())).conversation
        assert (await check_retrieval(store, copy)).lost == ()

    asyncio.run(check())


async def written(*blocks: AnyBlock, store: MemoryStore | None = None) -> MemoryStore:
    store = store or MemoryStore()
    drafts = [Draft(NO_TURN, TS, HEADER), *(Draft(TURN, TS, block) for block in (TurnStarted(n=1), *blocks))]
    await store.append(CONVERSATION, 0, drafts)
    return store


def result(text: str, shown: Shown | None = None, path: str = f"tc:{TURN}.c1.result") -> list[AnyBlock]:
    content = ResultContent(tool_call_id=CallId("c1"), artifact_path=path, mime="text/plain", text=text, shown=shown)
    return [ToolCall(tool_id="some.tool", tool_call_id=CallId("c1")), content]


@pytest.mark.parametrize(
    "block",
    [
        Pruned(cuts=(Cut(2, 3),)),
        Pruned(cuts=(Cut(2, 3, "[PRUNED] a turn"),)),
        RangeSummary(covered_turn_ids=(), first_seq=2, last_seq=3, text="They spoke."),
        RangeSummary(
            covered_turn_ids=(TURN,),
            text="They spoke: ar:turn_1.user.prompt2, ar:log[99], ar:turns[7].react.turn.index",
        ),
    ],
)
def test_what_nothing_leads_to_is_lost_and_named(block: AnyBlock) -> None:
    async def check() -> None:
        found = await check_retrieval(await written(UserPrompt(text="hello there"), block), CONVERSATION)
        assert {finding.code for finding in found.lost} == {"block_lost"}
        assert [finding.seq for finding in found.lost] == [2, 3]
        assert "ar:turn_1.user.prompt" in found.lost[1].message

    asyncio.run(check())


def test_a_path_in_sight_is_one_read_and_an_index_two() -> None:
    async def check() -> None:
        prompt = UserPrompt(text="hello there")
        by_path = Pruned(cuts=(Cut(2, 2), Cut(3, 3, "[PRUNED] ar:turn_1.user.prompt and ar:log[2]")))
        found = await check_retrieval(await written(prompt, by_path), CONVERSATION)
        assert (found.one_read, found.two_reads, found.lost) == (2, 0, ())
        by_index = Pruned(cuts=(Cut(2, 3, "[PRUNED] ar:turns[1].react.turn.index"),))
        found = await check_retrieval(await written(prompt, by_index), CONVERSATION)
        assert (found.one_read, found.two_reads, found.lost) == (0, 2, ())

    asyncio.run(check())


def test_a_summary_in_sight_may_name_it_too() -> None:
    async def check() -> None:
        first = RangeSummary(covered_turn_ids=(), first_seq=2, last_seq=3, text="ar:log[2-3]")
        second = Pruned(cuts=(Cut(2, 2, "su:turn_1.conv.range.summary.1"),))
        found = await check_retrieval(await written(UserPrompt(text="hello"), first, second), CONVERSATION)
        assert (found.one_read, found.two_reads, found.lost) == (1, 2, ())

    asyncio.run(check())


def test_of_an_old_version_the_path_of_the_new_one_gives_nothing() -> None:
    async def check() -> None:
        path = f"fi:{TURN}.files/a.md"
        cut = Pruned(cuts=(Cut(2, 6, f"[PRUNED] {path} ar:log[2] ar:log[3] ar:log[5]"),))
        store = await written(*result("the first", path=path), *result("the second", path=path), cut)
        found = await check_retrieval(store, CONVERSATION)
        assert [finding.seq for finding in found.lost] == [4]

    asyncio.run(check())


@pytest.mark.parametrize("size", [100, 200_000, 11_000_000])
def test_what_is_shown_in_part_is_read_whole_by_ranges_unless_it_is_too_large(size: int) -> None:
    async def check() -> None:
        text = "line of text\n" * (size // 13)
        shown = Shown("preview", 3, f"[PREVIEW] read tc:{TURN}.c1.result")
        found = await check_retrieval(await written(*result(text, shown)), CONVERSATION)
        assert [finding.seq for finding in found.lost] == ([4] if size > 10_485_760 else [])

    asyncio.run(check())


def test_pictures_and_sources_are_read_again() -> None:
    async def check() -> None:
        path = f"fi:{TURN}.user.attachments/a b.png"
        rows = (SourceRow(sid=1, title="T", content="the body"), SourceRow(sid=2, title="U", text="a snippet"))
        blocks = [
            AttachmentMeta(digest=Digest(artifact_path=path, mime="image/png")),
            Attachment(artifact_path=path, mime="image/png", data=b"\x89PNG"),
            SourcesAdded(rows=rows),
        ]
        store = await written(*blocks, Pruned(cuts=(Cut(2, 5, f"[PRUNED] ar:log[2,3] {path}"),)))
        found = await check_retrieval(store, CONVERSATION)
        assert (found.one_read, found.lost) == (4, ())

    asyncio.run(check())


class Losing(MemoryStore):
    """A store whose payloads are gone."""

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        raise BlobError("blob_missing", "it is gone")


def test_a_payload_that_is_gone_is_lost_by_its_own_code() -> None:
    async def check() -> None:
        blocks = (UserPrompt(text="x" * 100_000), Pruned(cuts=(Cut(2, 3, "ar:log[2-3]"),)))
        found = await check_retrieval(await written(*blocks, store=Losing()), CONVERSATION)
        assert [(finding.code, finding.seq) for finding in found.lost] == [("blob_missing", 3)]

    asyncio.run(check())


@pytest.mark.parametrize("window_tokens", [20_000, 200_000])
def test_conversations_of_the_loop_lose_nothing_when_they_are_pruned_summed_up_and_erased(
    tmp_path: Path, window_tokens: int
) -> None:
    stage = TurnHarness(tmp_path)
    prune = PruneSettings(keep_turns=1, min_saving_tokens=100, patience=0.0)
    stage.setting = AgentSettings(data_dir=tmp_path, prune=prune)
    steps: list[str] = []
    for n in range(8):
        write = calls("react.write", notes="writing", path=f"files/a{n % 3}.md", content=f"content {n} " * 300)
        steps += [write, calls("t.look", size=3000), answers(f"Answer {n} " * 50)]
    stage.model = ScriptedModel(steps, window_tokens=window_tokens)

    async def check() -> None:
        turns = await stage.open()
        conversation = turns.session.conversation
        for n in range(8):
            await turns.run(f"Message {n} about things " * 10)
        assert turns.session.views.visible.gone
        assert (await check_retrieval(stage.store, conversation)).lost == ()
        await turns.session.close()
        asked = EraseRequest(conversation=conversation, paths=("ar:turns[2].react.turn.index",))
        report = await erase(stage.store, asked, stage.setting.workspaces, "ann", SystemClock())
        found = await check_retrieval(stage.store, conversation)
        assert (found.erased, found.lost) == (len(report.entries), ())

    asyncio.run(check())
