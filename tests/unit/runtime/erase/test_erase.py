"""Erasing removes content from every file and leaves everything else unchanged."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import pytest

from tests.harness.erase import SECRET, SENTENCE, EraseHarness, find_secret, run_on_disk
from tests.harness.replies import answers
from tests.harness.turn import HEADER, calls, script
from timeloom.app import AgentSettings
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Completion,
    Digest,
    Erased,
    Note,
    PlanRecorded,
    ResultContent,
    SourcesAdded,
    ToolCall,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.reader import ConversationQuery
from timeloom.ports.store import StoreError
from timeloom.ports.tool import Artifact, Outcome
from timeloom.runtime.erase.erase import delete_conversation_data, plan_erasure
from timeloom.runtime.fork.fork import fork, fork_at
from timeloom.runtime.replay.check_retrievable import check_retrieval
from timeloom.runtime.replay.replay import rebuild_prompt
from timeloom.runtime.session.load_views import load_views
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools import FunctionTool, WritePath, tool

TS = "2026-02-09T02:14:32Z"
TURN = TurnId("turn_1")


async def written(store: SqliteStore | MemoryStore, room: EraseHarness, *blocks: AnyBlock) -> None:
    """A conversation of one turn that has ended, with these blocks."""
    room.conversation = ConversationId("conv_1")
    inner = (TurnStarted(n=1), *blocks, TurnEnded(reason="completed"))
    drafts = [Draft(NO_TURN, TS, HEADER), *(Draft(TURN, TS, block) for block in inner)]
    await store.append(room.conversation, 0, drafts)


def test_a_message_is_gone_from_every_file_and_its_place_stays(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        await room.run_turn(store, "And now?", answers("Anything else?"))
        before = await room.entries(store)
        assert find_secret(room.folder)
        report = await room.erase(store, path := await room.path_of(store, UserPrompt))
        assert find_secret(room.folder) == []
        after = await room.entries(store)
        places = [[(one.seq, one.turn_id, one.ts, type(one.block), one.path) for one in log] for log in (before, after)]
        assert places[1][:-1] == places[0]
        recorded = after[-1].block
        assert isinstance(recorded, Erased) and recorded.by == "ann"
        assert [form.seq for form in recorded.forms] == [entry.seq for entry in report.entries]
        assert [one.block for one in after if one.path == path] == [UserPrompt(text="[ERASED]", erased=True)]
        assert {place.why for place in report.entries} >= {"named", "title made from it", "request that showed it"}
        assert (await store.info(room.conversation)).title == "[ERASED]"
        assert not (await store.conversations(ConversationQuery(tenant="t", words=SECRET))).conversations

    run_on_disk(room, check)


def test_the_conversation_goes_on_and_shows_that_something_was_erased(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        await room.erase(store, path := await room.path_of(store, UserPrompt))
        await room.run_turn(store, "Go on", answers("As you say."))
        found, wrong = await room.replay_calls(store)
        assert [(call.verdict, call.erased) for call in found] == [("unchecked", True), ("same", False)]
        assert wrong == []
        shown = (await rebuild_prompt(store, room.conversation, found[1].seq)).as_text()
        assert f"[path: {path}]\n[ERASED]\n" in shown

    run_on_disk(room, check)


def test_requests_that_did_not_show_it_are_still_checked(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, "Hello", answers("Hello."))
        await room.run_turn(store, SENTENCE, answers("Noted."))
        await room.erase(store, await room.path_of(store, UserPrompt, -1))
        found, wrong = await room.replay_calls(store)
        assert ([call.verdict for call in found], wrong) == (["same", "unchecked"], [])

    run_on_disk(room, check)


def test_an_answer_is_gone_with_the_reply_that_it_came_from(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, "What was it?", answers(f"It is {SECRET}, as you said before."))
        await room.erase(store, await room.path_of(store, Completion))
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_a_file_is_gone_with_the_calls_that_wrote_and_read_it_and_from_the_workspace(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)
    text = f"# Report\n{SECRET}\n" + "line\n" * 10_000

    async def check(store: SqliteStore) -> None:
        write = calls("react.write", path="files/report.md", content=text)
        patch = calls(
            "react.patch", path="files/report.md", patch=f"@@ -1,2 +1,2 @@\n # Report\n-{SECRET}\n+{SECRET}!\n"
        )
        await room.run_turn(store, "Write it", write, patch, answers("Written."))
        path = await room.path_of(store, ResultContent)
        await room.run_turn(store, "Read it", calls("react.read", paths=[path]), answers("Read."))
        assert {name.split("/")[0] for name in find_secret(room.folder)} >= {"workspaces", "blobs", "journal.db-wal"}
        report = await room.erase(store, path)
        assert find_secret(room.folder) == []
        assert report.files[-1] == path.removeprefix("fi:").replace(".files", "/files")
        assert {"call it came from", "reply it came from"} <= {place.why for place in report.entries}
        await room.run_turn(store, "Again", calls("react.read", paths=[path]), answers("It is gone."))
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


@pytest.mark.parametrize("window_tokens", [16_000, 200_000])
def test_cards_and_summaries_of_it_go_too_and_lead_on_to_what_they_stand_for(
    tmp_path: Path, window_tokens: int
) -> None:
    room = EraseHarness(tmp_path)
    room.window_tokens = window_tokens
    summary: dict[str, object] = {"reply": f"They spoke of {SECRET}.", "when": "compaction", "repeat": 9}
    room.turns_harness.summary_model = script(summary)
    prune = PruneSettings(keep_turns=1, min_saving_tokens=100, patience=0.0)
    room.turns_harness.setting = AgentSettings(data_dir=room.folder, prune=prune)

    async def check(store: SqliteStore) -> None:
        for n in range(6):
            look = calls("t.look", size=4000)
            await room.run_turn(store, SENTENCE if n == 1 else f"Message {n} " * 30, look, answers(f"Answer {n} " * 60))
        views = await load_views(store, room.conversation)
        assert 2 in {turn.n for turn in views.turns.turns.values() if turn.spans[0][0] in views.visible.gone}
        report = await room.erase(store, await room.path_of(store, UserPrompt, 1))
        assert find_secret(room.folder) == []
        assert {place.why for place in report.entries} & {"stands in its place", "sums it up"}
        assert (await check_retrieval(store, room.conversation)).lost == ()
        await room.run_turn(store, "More", answers("As you like."))
        _, wrong = await room.replay_calls(store)
        assert wrong == []

    run_on_disk(room, check)


def test_a_title_that_a_model_gave_goes_with_what_it_was_made_from(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)
    room.turns_harness.title_model = script({"reply": f"About {SECRET}", "when": "title"})

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        await room.run_turn(store, "Hello", answers("Hello."))
        assert SECRET in (await store.info(room.conversation)).title
        await room.erase(store, await room.path_of(store, UserPrompt))
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_everything_a_conversation_said_can_be_erased_at_once(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        write = calls("react.write", notes=f"for {SECRET}", path="files/a.md", content=SECRET)
        await room.run_turn(store, SENTENCE, write, answers(f"{SECRET} is safe."))
        await room.erase(store)
        assert find_secret(room.folder) == []
        assert not (room.workspaces / room.conversation).exists()
        found, wrong = await room.replay_calls(store)
        assert ({call.erased for call in found}, wrong) == ({True}, [])
        await room.run_turn(store, "Hello again", answers("Hello."))

    run_on_disk(room, check)


def test_an_index_that_was_read_showed_it_too(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        index = calls("react.read", paths=["ar:turns[1].react.turn.index", "ar:log[3]"])
        await room.run_turn(store, "What did I say?", index, answers("I looked."))
        await room.erase(store, await room.path_of(store, UserPrompt))
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_a_payload_that_another_block_or_conversation_has_stays(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)
    data = b"\x89PNG" + SECRET.encode()

    def attached(name: str) -> list[AnyBlock]:
        path = f"fi:{TURN}.user.attachments/{name}"
        digest = Digest(artifact_path=path, mime="image/png", size_bytes=len(data))
        return [
            AttachmentMeta(digest=digest, summary=SECRET),
            Attachment(artifact_path=path, mime="image/png", data=data),
        ]

    async def check(store: SqliteStore) -> None:
        await written(store, room, *attached("a.png"), *attached("b.png"))
        other = [Draft(NO_TURN, TS, HEADER), *(Draft(TURN, TS, block) for block in attached("c.png"))]
        await store.append(ConversationId("conv_2"), 0, other)
        first = f"fi:{TURN}.user.attachments/a.png"
        report = await room.erase(store, first)
        assert [place.path for place in report.quotes] == [f"fi:{TURN}.user.attachments/b.png"]
        assert await store.read_blob("t", ref_of(data)) == data
        report = await room.erase(store, first, f"fi:{TURN}.user.attachments/b.png")
        assert (report.before, len(report.entries)) == (2, 2)
        assert await store.read_blob("t", ref_of(data)) == data
        room.conversation = ConversationId("conv_2")
        await room.erase(store, f"fi:{TURN}.user.attachments/c.png")
        with pytest.raises(CodedError, match="not in the blob folder"):
            await store.read_blob("t", ref_of(data))
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_who_says_the_same_is_told_of_and_erased_when_that_is_wanted(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers(f"You said: {SENTENCE}"))
        path = await room.path_of(store, UserPrompt)
        report = (await plan_erasure(store, room.request(path), room.workspaces)).report
        assert [place.path for place in report.quotes] == [await room.path_of(store, Completion)]
        report = await room.erase(store, path, quotes=True)
        assert report.quotes == ()
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_sources_are_erased_by_their_ids_and_others_stay(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)
    rows = (
        SourceRow(sid=1, title=f"About {SECRET}", url="https://a.example", content=SECRET * 9_000),
        SourceRow(sid=2, title="Another", url="https://b.example"),
    )

    async def check(store: SqliteStore) -> None:
        await written(store, room, SourcesAdded(rows=rows))
        await room.erase(store, "so:sources_pool[1]")
        (block,) = [one.block for one in await room.entries(store) if isinstance(one.block, SourcesAdded)]
        assert [row.title for row in block.rows] == ["[ERASED]", "Another"]
        assert find_secret(room.folder) == []
        with pytest.raises(CodedError, match="nothing in conversation"):
            await room.erase(store, "so:sources_pool[7]")

    run_on_disk(room, check)


@pytest.mark.parametrize("path", ["ar:turn_1.react.turn.index", "ar:turns[1].react.turn.index", "ar:log[2-4]"])
def test_a_turn_or_a_range_is_named_by_its_index_or_its_places(tmp_path: Path, path: str) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await written(store, room, UserPrompt(text=SENTENCE), Completion(text=SECRET))
        await room.erase(store, path)
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_a_turn_that_is_open_keeps_what_it_would_act_on(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await written(store, room, UserPrompt(text="Hello"))
        opened = [Draft(TurnId("turn_2"), TS, block) for block in (TurnStarted(n=2), UserPrompt(text=SENTENCE))]
        await store.append(room.conversation, 4, opened)
        for paths in ((), ("ar:turn_2.user.prompt",)):
            with pytest.raises(CodedError, match="still open"):
                await room.erase(store, *paths)
        await room.erase(store, "ar:turn_1.user.prompt")

    run_on_disk(room, check)


def test_what_is_held_elsewhere_or_is_not_there_is_refused(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await written(store, room, UserPrompt(text=SENTENCE))
        for path in ("ar:turn_9.user.prompt", "ar:turn_9.react.turn.index", "ar:log[99]"):
            with pytest.raises(CodedError, match="nothing in conversation conv_1 has the path"):
                await room.erase(store, path)
        lease = await store.acquire(room.conversation, "somebody")
        with pytest.raises(CodedError, match="is held by somebody"):
            await room.erase(store)
        await store.release(lease)

    run_on_disk(room, check)


def test_forks_have_copies_and_that_is_said(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await written(store, room, UserPrompt(text=SENTENCE))
        source = room.conversation
        copy = (await fork(store, source, room.workspaces, SystemClock(), RandomIds())).conversation
        assert (await room.erase(store)).copies == (copy,)
        room.conversation = copy
        assert (await room.erase(store)).copies == (source,)
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_forks_of_forks_have_copies_as_far_as_they_share_entries(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await written(store, room, UserPrompt(text=SENTENCE), TurnEnded(reason="completed"))

        async def forked(source: ConversationId, seq: int) -> ConversationId:
            return (await fork_at(store, source, seq, room.workspaces, SystemClock(), RandomIds())).conversation

        first = room.conversation
        child, early = await forked(first, 4), await forked(first, 2)
        grandchild, sibling = await forked(child, 4), await forked(child, 4)
        early_child = await forked(early, 3)
        path = await room.path_of(store, UserPrompt)
        assert (await room.erase(store, path)).copies == tuple(sorted((child, grandchild, sibling)))
        # Those that were forked from a conversation that is gone still have the same of it.
        await store.delete(child)
        room.conversation = grandchild
        assert (await room.erase(store, path)).copies == (sibling,)
        room.conversation = early_child
        assert (await room.erase(store)).copies == (early,)

    run_on_disk(room, check)


def test_a_copy_of_what_was_erased_is_erased_too(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        await room.erase(store, await room.path_of(store, UserPrompt))
        room.conversation = (
            await fork(store, room.conversation, room.workspaces, SystemClock(), RandomIds())
        ).conversation
        found, wrong = await room.replay_calls(store)
        assert ([call.erased for call in found], wrong) == ([True], [])

    run_on_disk(room, check)


def test_an_erase_that_was_cut_off_is_finished_by_asking_again(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    class Dying(SqliteStore):
        async def scrub(self) -> None:
            raise StoreError("store_locked", "died here")

    async def begin() -> None:
        async with await Dying.open(room.folder) as store:
            await room.run_turn(store, SENTENCE, answers("Noted."))
            with pytest.raises(StoreError, match="died here"):
                await room.erase(store, await room.path_of(store, UserPrompt))
            assert (await store.verify()).findings == ()
            assert find_secret(room.folder)

    async def check(store: SqliteStore) -> None:
        report = await room.erase(store, await room.path_of(store, UserPrompt))
        assert (report.entries, report.before) == ((), 1)
        assert find_secret(room.folder) == []
        assert sum(isinstance(one.block, Erased) for one in await room.entries(store)) == 1

    asyncio.run(begin())
    run_on_disk(room, check)


def test_a_deleted_conversation_leaves_no_trace(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, calls("react.write", path="files/a.md", content=SECRET), answers(SECRET))
        await delete_conversation_data(store, room.conversation, room.workspaces)
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_lines_of_a_file_that_a_search_showed_go_with_it(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)
    text = f"one\nthe number is {SECRET} here\nthree\n"

    async def check(store: SqliteStore) -> None:
        await room.run_turn(
            store,
            "write it",
            calls("react.write", path="a.md", content=text),
            calls("react.write", path="b.md", content="the number of b\n"),
            calls("react.rg", pattern="number", roots=["files/a.md"]),
            calls("react.rg", pattern="number", roots=["files/b.md"]),
            calls("react.rg", name="a.md"),
            answers("done"),
        )
        path = await room.path_of(store, ResultContent)
        assert path.endswith("files/a.md")
        await room.erase(store, path)
        assert find_secret(room.folder) == []
        # What shows other files, or only its name, stays.
        results = [entry for entry in await room.entries(store) if "searched_files" in str(entry.block)]
        assert len(results) == 2

    run_on_disk(room, check)


def test_the_source_of_a_file_goes_with_it_and_other_sources_stay(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)

    async def check(store: SqliteStore) -> None:
        secret = calls("react.write", path="a.md", content=f"{SECRET} and much more text that follows\n" * 20)
        other = calls("react.write", path="b.md", content="the fares of three ferries")
        await room.run_turn(store, "write it", secret, other, answers("done"))
        await room.erase(store, await room.path_of(store, ResultContent))
        assert find_secret(room.folder) == []
        blocks = [entry.block for entry in await room.entries(store)]
        rows = [row for block in blocks if isinstance(block, SourcesAdded) for row in block.rows]
        assert [(row.sid, row.title) for row in rows] == [(1, "[ERASED]"), (2, "b.md")]

    run_on_disk(room, check)


@pytest.mark.parametrize("quotes", [True, False])
def test_copies_of_a_file_in_other_turns_are_told_of_also_when_they_were_changed(tmp_path: Path, quotes: bool) -> None:
    room = EraseHarness(tmp_path)
    text = f"one\nthe number is {SECRET} here\nthree\n"

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, "write it", calls("react.write", path="a.md", content=text), answers("done"))
        first = await room.path_of(store, ResultContent)
        patch = "@@ -3 +3 @@\n-three\n+four\n"
        await room.run_turn(store, "go on", calls("react.patch", path=first, patch=patch), answers("done"))
        second = await room.path_of(store, ResultContent, 1)
        more = (calls("react.checkout", paths=[second]), calls("react.rg", pattern="number", roots=["files"]))
        await room.run_turn(store, "go on", *more, answers("done"))
        report = await room.erase(store, first, quotes=quotes)
        contents = [entry for entry in await room.entries(store) if isinstance(entry.block, ResultContent)]
        copies = {entry.path for entry in contents if entry.path.startswith("fi:")} - {first}
        if quotes:
            assert report.quotes == ()
            assert find_secret(room.folder) == []
        else:
            assert {place.path for place in report.quotes} == copies
            assert len(copies) == 2
        again = await room.erase(store, first, quotes=quotes)
        assert again.entries == ()

    run_on_disk(room, check)


@pytest.mark.parametrize("kind", [ToolCall, Note, ResultContent])
def test_a_call_and_what_it_wrote_are_one_text_in_several_places(tmp_path: Path, kind: type[object]) -> None:
    room = EraseHarness(tmp_path)
    note = calls("react.write", path="n.md", content=f"[D] {SECRET}", channel="internal", scratchpad=True)

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, "note it", note, answers("done"))
        report = await room.erase(store, await room.path_of(store, kind))
        assert report.quotes == ()
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_a_plan_goes_with_the_call_that_made_it(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)
    plan = calls("react.plan", mode="new", steps=[f"ask {SECRET}", "answer"])

    async def check(store: SqliteStore) -> None:
        other = calls("react.plan", mode="new", steps=["look", "tell"])
        await room.run_turn(store, "plan it", plan, other, answers("done"))
        await room.erase(store, await room.path_of(store, ToolCall))
        assert find_secret(room.folder) == []
        plans = [entry.block for entry in await room.entries(store) if isinstance(entry.block, PlanRecorded)]
        assert [plan.erased for plan in plans] == [True, False]

    run_on_disk(room, check)


def own_tools() -> tuple[FunctionTool, ...]:
    """Tools that write, search and copy files, and declare it in their traits."""

    @tool("notes.save", effect="idempotent", traits=ToolTraits(path_param="to", content_param="text"))
    async def save(to: Annotated[str, WritePath], text: str) -> Outcome:
        """Saves."""
        return Outcome(artifacts=(text_file(to, text),))

    @tool("notes.find", effect="pure", traits=ToolTraits(result_text="file", lists_matches=True))
    async def find(path: str) -> dict[str, object]:
        """Finds."""
        return {"hits": [{"logical_path": path, "matches": [{"line": 1, "text": SECRET[2:]}]}]}

    @tool("notes.copy", effect="idempotent", traits=ToolTraits(result_text="file", copies_files=True))
    async def copy(path: str, to: Annotated[str, WritePath]) -> Outcome:
        """Copies."""
        file = text_file(to, "changed")
        return Outcome(status=json.dumps({"files": [{"path": file.path, "copied_from": path}]}), artifacts=(file,))

    return save, find, copy


def text_file(place: str, text: str) -> Artifact:
    turn, _, inner = place.partition("/")
    return Artifact(path=f"fi:{turn}.{inner}", mime="text/plain", text=text, kind="file")


@pytest.mark.parametrize("kind", [ToolCall, ResultContent])
def test_a_file_and_the_call_of_an_own_tool_that_wrote_it_are_one_text(tmp_path: Path, kind: type[object]) -> None:
    room = EraseHarness(tmp_path)
    room.turns_harness.extra = own_tools()

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, "save it", calls("notes.save", to="a.md", text=SECRET), answers("done"))
        report = await room.erase(store, await room.path_of(store, kind))
        assert report.quotes == ()
        assert find_secret(room.folder) == []

    run_on_disk(room, check)


def test_lines_and_copies_of_a_file_that_own_tools_reported_are_found(tmp_path: Path) -> None:
    room = EraseHarness(tmp_path)
    room.turns_harness.extra = own_tools()

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, "save it", calls("notes.save", to="a.md", text=SECRET), answers("done"))
        first = await room.path_of(store, ResultContent)
        more = (calls("notes.find", path=first), calls("notes.copy", path=first, to="b.md"))
        await room.run_turn(store, "go on", *more, answers("done"))
        copy = await room.path_of(store, ResultContent, -1)
        report = await room.erase(store, first)
        assert find_secret(room.folder, SECRET[2:]) == []
        assert [place.path for place in report.quotes] == [copy]

    run_on_disk(room, check)
