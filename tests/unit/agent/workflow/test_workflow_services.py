"""The services of a workflow: records, stored conversations, addresses of files, reads and searches."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from tests.harness.turn import run
from tests.harness.workflow import WorkflowHarness
from timeloom import BaseWorkflow, Payload
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.records import RecordScope
from timeloom.ports.store import Store
from timeloom.ports.typed_records import bundle_records
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing import call, says

Work = Callable[["Probe"], Coroutine[object, object, object]]


class Probe(BaseWorkflow):
    """Runs the work of a test inside a turn, and keeps what it raised."""

    work: ClassVar[list[Work]]
    payload: Payload

    async def run(self, payload: Payload) -> str:
        self.payload = payload
        return str(await self.work.pop(0)(self))


class Visits(msgspec.Struct, frozen=True):
    n: int = 0


class Town(msgspec.Struct, frozen=True):
    name: str


async def open_store(kind: str, folder: Path) -> Store:
    return await (SqliteStore.open(folder) if kind == "sqlite" else MemoryStore.open())


@pytest.fixture(params=["memory", "sqlite"])
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def probe(tmp_path: Path, store_kind: str, check: Callable[[WorkflowHarness], Coroutine[object, object, None]]) -> None:
    """Run the check with a stage in that kind of store."""

    async def main() -> None:
        stage = WorkflowHarness(tmp_path, Probe, base_url="https://loom.example/")
        store = await open_store(store_kind, tmp_path / "store")
        stage.use_store(store)
        await check(stage)
        await store.close()

    run(main)


async def say(stage: WorkflowHarness, *works: Work, text: str = "hello", name: ConversationId | None = None) -> str:
    """Say something in a new or in that conversation; return its last answer."""
    Probe.work = list(works)
    async with stage.hub() as hub:
        if name is None:
            name = await stage.say(hub, text)
        else:
            await hub.send_message(name, text)
            await stage.settle(hub, name)
    end = await stage.end(name)
    assert end.reason == "completed", end.text
    stage.last = name
    return (await stage.answers(name))[-1]


def test_records_belong_to_the_user_and_the_bundle(tmp_path: Path, store_kind: str) -> None:
    async def count(workflow: Probe) -> object:
        visits = workflow.store.records(Visits)
        found = await visits.update(workflow.payload.user, lambda known: Visits((known or Visits()).n + 1))
        await workflow.store.records(Town, name="town", shared=True).put("home", Town("Oslo"))
        return found.n

    async def check(stage: WorkflowHarness) -> None:
        assert [await say(stage, count), await say(stage, count)] == ["1", "2"]
        stage.header = msgspec.structs.replace(stage.header, user="other")
        assert await say(stage, count) == "1"
        records = stage.store.records
        own = bundle_records(records, "shop", Visits, RecordScope("t", "p", "u"))
        shared = bundle_records(records, "shop", Town, RecordScope("t", "p"), name="town")
        assert [one.value async for one in own.iterate()] == [Visits(2)]
        assert [one.value async for one in shared.iterate()] == [Town("Oslo")]

    probe(tmp_path, store_kind, check)


def test_stored_conversations_of_the_user_can_be_read(tmp_path: Path, store_kind: str) -> None:
    async def hello(_: Probe) -> object:
        return "hi"

    async def read(workflow: Probe) -> object:
        store = workflow.store
        (other,) = (await store.conversations("sales")).conversations
        here, there = await store.turns(), await store.turns(other.id)
        texts = [[message.text for message in turn.messages] for turn in (*there, *here)]
        entries = [entry.block.type_name async for entry in store.entries(other.id)]
        timeline = msgspec.json.decode(b"".join([piece async for piece in store.timeline(other.id)]))
        assert entries[0] == "conv.header"
        assert [block["type"] for block in timeline["blocks"]] == entries
        assert await store.files() == ()
        return texts

    async def check(stage: WorkflowHarness) -> None:
        await say(stage, hello, text="sales of May")
        assert await say(stage, read, text="what did I ask?") == str([["sales of May", "hi"], ["what did I ask?"]])

    probe(tmp_path, store_kind, check)


@pytest.mark.parametrize("other", [{"user": "eve"}, {"project": "q"}, {"bundle": "bank"}, {"tenant": "z"}])
def test_conversations_of_others_are_unknown(tmp_path: Path, other: dict[str, str]) -> None:
    async def hello(_: Probe) -> object:
        return "secret"

    async def check(stage: WorkflowHarness) -> None:
        header = stage.header
        stage.header = msgspec.structs.replace(header, **other)
        await say(stage, hello, text="the secret plan")
        foreign, stage.header = stage.last, header

        async def read(workflow: Probe) -> object:
            with pytest.raises(CodedError) as caught:
                await workflow.store.turns(foreign)
            assert caught.value.code == "conversation_unknown"
            hits = await workflow.ctx_client.search("secret", scope="user")
            return [
                (await workflow.store.conversations()).conversations[0].id == workflow.payload.conversation,
                len(hits),
            ]

        assert await say(stage, read, text="hello") == "[True, 0]"

    probe(tmp_path, "memory", check)


def test_a_wrong_limit_is_refused(tmp_path: Path) -> None:
    async def read(workflow: Probe) -> object:
        for work in (workflow.store.turns(limit=0), workflow.ctx_client.search("a", limit=0)):
            with pytest.raises(CodedError, match="limit must be at least 1, got 0"):
                await work
        return "refused"

    probe(tmp_path, "memory", lambda stage: _expect(say(stage, read), "refused"))


def test_files_have_addresses(tmp_path: Path, store_kind: str) -> None:
    async def address(workflow: Probe) -> object:
        react = await workflow.build_react()
        await react.run(workflow.payload)
        hosting = workflow.hosting_service
        file = await hosting.find_file("fi:t1.files/report.md")
        assert (file.name, file.mime, file.size_bytes) == ("report.md", "text/markdown", 8)
        assert file.rn.startswith("ef:t:p:")
        assert [one.path for one in await workflow.store.files()] == [file.path]
        with pytest.raises(CodedError) as caught:
            await hosting.find_file("fi:t1.files/gone.md")
        assert caught.value.code == "path_not_found"
        with pytest.raises(CodedError, match="only fi: paths name files"):
            hosting.get_artifact_url("ar:t1.user.prompt")
        url = hosting.get_artifact_url("fi:t1.files/report.md")
        assert url == f"https://loom.example{file.url}"
        return url.replace(workflow.payload.turn, "TURN").replace(workflow.payload.conversation, "CONV")

    async def check(stage: WorkflowHarness) -> None:
        step = call("react.write", path="report.md", content="# Report")
        stage.model = stage.recorder = type(stage.recorder)([step, says("Written.")])
        expected = "https://loom.example/conversations/t/p/CONV/file?path=fi:TURN.files/report.md"
        assert await say(stage, address) == expected

    probe(tmp_path, store_kind, check)


def test_what_the_conversation_contains_can_be_fetched(tmp_path: Path, store_kind: str) -> None:
    async def fetch(workflow: Probe) -> object:
        react = await workflow.build_react()
        await react.run(workflow.payload)
        items = await workflow.ctx_client.fetch_ctx(["ar:t1.user.prompt", "fi:t1.files/report.md"])
        for path, code in (("ar:t9.user.prompt", "path_not_found"), ("fi:../x", "path_malformed"), ("sk:a", "path_")):
            with pytest.raises(CodedError) as caught:
                await workflow.ctx_client.fetch_ctx([path])
            assert caught.value.code.startswith(code[:5]), caught.value.code
        with pytest.raises(CodedError, match="paths must be a list of at most 100 texts"):
            await workflow.ctx_client.fetch_ctx("ar:t1.user.prompt")
        return [(one.mime, one.text, one.data, one.size_bytes) for one in items]

    async def check(stage: WorkflowHarness) -> None:
        step = call("react.write", path="report.md", content="# Report")
        stage.model = stage.recorder = type(stage.recorder)([step, says("Written.")])
        expected = [("text/markdown", "hello", None, 5), ("text/markdown", "# Report", None, 8)]
        assert await say(stage, fetch) == str(expected)

    probe(tmp_path, store_kind, check)


def test_messages_and_attachments_can_be_searched(tmp_path: Path, store_kind: str) -> None:
    async def answer(_: Probe) -> object:
        return "The sales rose."

    async def search(workflow: Probe) -> object:
        found = workflow.ctx_client.search
        everything = await found("sales")
        assert [one.kind for one in everything] == ["attachment", "user", "assistant", "user"]
        assert all(one.conversation == workflow.payload.conversation for one in everything)
        assert [one.snippet for one in await found("SALES rose", "assistant")] == ["The sales rose."]
        assert [one.snippet for one in await found("sales", "user", limit=1)] == ["more sales"]
        assert [one.snippet for one in await found("csv", "attachment")] == ["sales.csv"]
        assert await found("zebra") == []
        wide = await found("sales", "assistant", scope="user")
        return [len({one.conversation for one in wide}), len(wide)]

    async def check(stage: WorkflowHarness) -> None:
        await say(stage, answer, text="sales elsewhere")
        Probe.work = [answer]
        file = IncomingFile(name="sales.csv", mime="text/csv", text="a,b")
        async with stage.hub() as hub:
            receipt = await hub.start_conversation(stage.header, "sales of May", (file,))
            await stage.settle(hub, receipt.conversation_id)
        assert await say(stage, search, text="more sales", name=receipt.conversation_id) == "[2, 2]"

    probe(tmp_path, store_kind, check)


async def _expect(work: Coroutine[object, object, str], expected: str) -> None:
    assert await work == expected
