"""Re-runs: another model from some entry, recorded results for equal calls, and the difference; the source stays."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.replies import answers
from tests.harness.turn import HEADER, Step, calls, script
from timeloom.app import AgentSettings, build_turn_runner, open_session
from timeloom.core.blocks import (
    ApprovalRequested,
    Attachment,
    AttachmentMeta,
    Digest,
    Followup,
    ResultContent,
    SourcesAdded,
    ToolCall,
    ToolTraits,
    Usage,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.policy.gates import Policy, irreversible_needs_approval, tainted_irreversible_needs_approval
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.ledger import scope
from timeloom.ports.model import FinishEvent, Model, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.runtime.rerun.rerun import RerunResult, RerunSettings, rerun_conversation
from timeloom.runtime.rerun.trajectory import CallTrace, RoundTrace
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

pytestmark = pytest.mark.anyio

LOOK, SEND = calls("t.look", at="ferries"), calls("t.send")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Stage:
    """A conversation and its re-runs, with tools that tell how often they ran."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.folder = folder
        self.ran: list[str] = []
        self.source = ConversationId("")
        self.policies: tuple[Policy, ...] = ()
        self.budgets = Budgets()
        self.meanwhile: Callable[[TurnRunner], Awaitable[object]] | None = None
        """An action while the first recorded call runs."""
        self.extra: tuple[FunctionTool, ...] = ()
        """Additional tools."""
        self.cites_files = True
        """Whether produced files are sources, as in logs of today."""
        self._turns: TurnRunner | None = None

    async def hold(
        self,
        *steps: str | Step,
        prompts: tuple[str, ...] = ("go",),
        model: Model | None = None,
        attachments: tuple[AttachmentMeta | Attachment, ...] = (),
        session: ConversationId | None = None,
        turn: TurnId | None = None,
        quoted_roles: tuple[str, ...] = (),
    ) -> None:
        opened = await open_session(self.store, session, HEADER)
        turns = self._turns = self._open(opened, self.folder, model or script(*steps))
        for prompt in prompts:
            await turns.run(prompt, attachments, turn, quoted_roles)
        await turns.titles.stop()
        await opened.close()
        self.source, self.meanwhile = opened.conversation, None

    async def rerun(self, seq: int, *steps: str | Step, model: Model | None = None, **how: bool | int) -> RerunResult:
        before, self.ran = await self.store.load(self.source), []
        settings = RerunSettings(
            store=self.store,
            data_dir=self.folder,
            make_turn_runner=lambda session, folder: self._open(session, folder, model or script(*steps)),
            clock=SystemClock(),
            ids=RandomIds(),
            live_tools=bool(how.get("live_tools")),
            keep=bool(how.get("keep")),
            max_turns=how.get("most_turns"),
        )
        found = await rerun_conversation(settings, self.source, seq)
        assert await self.store.load(self.source) == before
        assert (len(await self.store.conversation_ids()) > 1) == bool(found.kept)
        return found

    async def kept(self, found: RerunResult) -> list[Entry]:
        assert found.kept is not None
        return await self.store.load(found.kept)

    def _open(self, session: Session, folder: Path, model: Model) -> TurnRunner:
        setting = AgentSettings(data_dir=folder, policies=self.policies, budgets=self.budgets)
        turns = build_turn_runner(session, model, setting, lambda _: None, self._registry())
        turns.model_caller.backoff = (0.001,)
        return turns

    def _registry(self) -> ToolRegistry:
        async def look(context: ToolContext, at: str) -> str:
            """Looks."""
            self.ran.append(f"look {at}")
            if self.meanwhile and self._turns:
                done, self.meanwhile = self.meanwhile, None
                await done(self._turns)
            return f"{at} {context.tool_call_id} " * 3

        async def send(context: ToolContext, to: str = "all") -> str:
            """Sends."""
            self.ran.append(f"send {to}")
            return f"sent {context.tool_call_id}"

        async def execute(context: ToolContext) -> str:
            """Runs a program."""
            self.ran.append("execute")
            return f"ran {context.tool_call_id}"

        async def make(context: ToolContext) -> Outcome:
            """Makes a file."""
            self.ran.append("make")
            path = f"fi:{context.turn_id}.files/made.txt"
            return Outcome(artifacts=(Artifact(path=path, mime="text/plain", text="made\n", kind="file"),))

        async def search(context: ToolContext, words: str) -> Outcome:
            """Searches."""
            self.ran.append(f"search {words}")
            sid = len(context.timeline.views.sources.pool.rows) + 1
            return Outcome(sources=(SourceRow(sid=sid, url=f"https://{words}.test/"),), status=f"[{sid}]")

        own = (
            tool("t.look", effect="pure")(look),
            tool("t.send", effect="irreversible")(send),
            tool("t.make", effect="pure")(make),
            tool("exec_tools.run", effect="pure")(execute),
            tool("t.search", effect="pure")(search),
        )
        registry = ToolRegistry((*react_tools(), *own, *self.extra))
        registry.cites_files = self.cites_files
        return registry


def rounds(found: RerunResult, turn: int = 0) -> list[RoundTrace]:
    return [pair.rerun for pair in found.turns[turn].rounds if pair.rerun]


def made(found: RerunResult, turn: int = 0) -> list[CallTrace]:
    return [call for one in rounds(found, turn) for call in one.calls]


async def test_the_same_decisions_get_the_recorded_results_and_nothing_runs(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(LOOK, SEND, answers("One."), answers("Two."), prompts=("go", "and?"))
    found = await stage.rerun(1, LOOK, SEND, answers("One."), answers("Two."))
    assert stage.ran == []
    assert found.is_same
    assert [pair.verdict for turn in found.turns for pair in turn.rounds] == ["same"] * 4
    assert [call.result for call in made(found)] == ["recorded", "recorded"]
    assert found.recorded.usage == found.rerun.usage
    assert [(turn.prompt, turn.rerun_end) for turn in found.turns] == [("go", "completed"), ("and?", "completed")]


async def test_what_was_not_recorded_is_not_run_and_the_model_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(LOOK, answers("One."))
    other = calls("t.look", at="trains")
    found = await stage.rerun(4, other, LOOK, answers("Other."))
    assert stage.ran == []
    assert [(call.result, call.failed) for call in made(found)] == [("not_recorded", True), ("recorded", False)]
    assert [pair.verdict for pair in found.turns[0].rounds] == ["differs", "differs", "only_rerun"]
    assert (found.is_same, found.rerun.requests, found.recorded.requests) == (False, 3, 2)


async def test_a_recorded_result_becomes_that_of_the_call_that_asks_for_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(LOOK, answers("One."))
    found = await stage.rerun(4, LOOK, LOOK, answers("One."), keep=True)
    entries = await stage.kept(found)
    contents = [entry.block for entry in entries if isinstance(entry.block, ResultContent)]
    called = [entry.block.tool_call_id for entry in entries if isinstance(entry.block, ToolCall)]
    assert [block.tool_call_id for block in contents] == called
    assert len(set(called)) == 2
    assert all(block.artifact_path == f"tc:{entries[1].turn_id}.{block.tool_call_id}.result" for block in contents)


class Quoting:
    """A model that looks twice, the second time at the result of the first, and then answers."""

    name, window_tokens = "quoting", 100_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        prompt = "".join(segment.text for segment in request.segments if isinstance(segment, TextSegment))
        seen = list(dict.fromkeys(re.findall(r"tc:turn_\w+\.\w+\.result", prompt)))
        yield TextPiece(calls("t.look", at=seen[-1] if seen else "ferries") if len(seen) < 2 else answers("Done."))
        yield FinishEvent("end", Usage())

    async def close(self) -> None:
        pass


async def test_parameters_that_name_an_earlier_call_still_equal_the_recorded_ones(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(model=Quoting())
    found = await stage.rerun(4, model=Quoting())
    assert [call.result for call in made(found)] == ["recorded", "recorded"]


async def test_tools_of_the_conversation_itself_run_on_the_forks_own_files(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    read = calls("react.read", paths=["files/a.md"])
    await stage.hold(calls("react.write", path="files/a.md", content="old\n"), read, answers("One."))
    found = await stage.rerun(
        4, calls("react.write", path="files/a.md", content="new\n"), read, answers("X"), keep=True
    )
    assert [call.result for call in made(found)] == ["run", "run"]
    files = sorted((tmp_path / "workspaces").glob("*/*/files/a.md"))
    assert sorted(path.read_text() for path in files) == ["new\n", "old\n"]


async def test_files_of_a_recorded_result_lie_in_the_workspace(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(calls("t.make"), calls("react.rg", name="made"), answers("One."))
    found = await stage.rerun(4, calls("t.make"), calls("react.rg", name="made"), answers("One."), keep=True)
    assert (stage.ran, found.is_same) == ([], True)
    assert [path.read_text() for path in (tmp_path / "workspaces" / str(found.kept)).rglob("made.txt")] == ["made\n"]


async def test_live_tools_run_what_was_not_recorded_and_keep_the_fork(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(LOOK, answers("One."))
    found = await stage.rerun(4, LOOK, calls("t.look", at="trains"), answers("X"), live_tools=True)
    assert stage.ran == ["look trains"]
    assert [call.result for call in made(found)] == ["recorded", "live"]
    assert found.kept


async def test_gates_ask_before_a_live_call_and_not_for_a_recorded_one(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(SEND, LOOK, answers("One."))
    stage.policies = (irreversible_needs_approval,)
    found = await stage.rerun(4, SEND, calls("t.send", to="bob"), answers("X"), live_tools=True)
    assert ([call.result for call in made(found)], found.waits, stage.ran) == (["recorded", ""], True, [])
    assert isinstance((await stage.kept(found))[-1].block, ApprovalRequested)


async def test_a_rerun_keeps_the_roles_that_a_prompt_quotes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(answers("One."), quoted_roles=("tool",))
    stage.policies = (tainted_irreversible_needs_approval,)
    found = await stage.rerun(1, SEND, answers("X"), live_tools=True)
    assert (found.waits, stage.ran) == (True, [])
    assert [one.block.quoted_roles for one in await stage.kept(found) if isinstance(one.block, UserPrompt)] == [
        ("tool",)
    ]


async def test_without_live_tools_nothing_runs_and_nobody_is_asked(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(LOOK, answers("One."))
    stage.policies = (irreversible_needs_approval,)
    found = await stage.rerun(4, SEND, answers("X"))
    assert (found.waits, stage.ran, [call.result for call in made(found)]) == (False, [], ["not_recorded"])


async def test_a_program_is_recorded_with_its_code(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    one, other = (f"{calls('exec_tools.run')}\n<channel:code>print({n})</channel:code>" for n in (1, 2))
    await stage.hold(one, answers("One."))
    found = await stage.rerun(4, other, one, answers("One."))
    assert [call.result for call in made(found)] == ["not_recorded", "recorded"]
    assert (found.turns[0].rounds[0].verdict, stage.ran) == ("differs", [])


def own_tool(stage: Stage, traits: ToolTraits) -> FunctionTool:
    @tool("notes.run", effect="pure", traits=traits)
    async def run(context: ToolContext) -> str:
        """Runs."""
        stage.ran.append("notes")
        return f"ran {context.tool_call_id}"

    return run


async def test_an_own_tool_that_works_on_the_conversation_only_runs_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.extra = (own_tool(stage, ToolTraits(conversation_only=True)),)
    await stage.hold(calls("notes.run"), answers("One."))
    stage.policies = (irreversible_needs_approval,)
    found = await stage.rerun(4, calls("notes.run"), answers("One."))
    assert (stage.ran, [call.result for call in made(found)]) == (["notes"], ["run"])


async def test_calls_of_a_tool_that_is_gone_keep_their_recorded_traits(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    traits = ToolTraits(result_text="file", runs_code=True, conversation_only=True)
    stage.extra = (own_tool(stage, traits),)
    program = f"{calls('notes.run')}<channel:code>1</channel:code>"
    await stage.hold(program, answers("One."))
    stage.extra = ()
    found = await stage.rerun(4, program, answers("One."), keep=True)
    assert (stage.ran, [call.result for call in made(found)]) == ([], ["recorded"])
    kept = [entry.block for entry in await stage.kept(found) if isinstance(entry.block, ToolCall)]
    assert [call.traits for call in kept] == [traits]


async def test_large_texts_and_attachments_are_shared_with_the_store(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(calls("t.look", at="x" * 50_000), answers("One."), answers("Two."), prompts=("y" * 90_000, "and?"))
    found = await stage.rerun(1, calls("t.look", at="x" * 50_000), answers("One."), answers("Two."))
    assert (found.is_same, stage.ran) == (True, [])
    found = await stage.rerun(4, calls("t.look", at="x" * 50_000), answers("One."), answers("Two."))
    assert (found.is_same, found.forked_from.seq) == (True, 4)


@pytest.mark.parametrize("cites", [True, False])
async def test_files_are_sources_in_a_rerun_if_they_were_in_the_record(tmp_path: Path, cites: bool) -> None:
    stage = Stage(tmp_path)
    stage.cites_files = cites
    steps = (calls("react.write", path="a.md", content="# Fares of ferries"), answers("One."))
    await stage.hold(*steps)
    stage.cites_files = True
    found = await stage.rerun(1, *steps, keep=True)
    added = [entry for entry in await stage.kept(found) if isinstance(entry.block, SourcesAdded)]
    assert (found.is_same, bool(added)) == (True, cites)


async def test_attachments_are_attached_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    session = await open_session(stage.store, None, HEADER)
    path = f"fi:{(turn := session.new_turn_id())}.user.attachments/a.txt"
    digest = Digest(artifact_path=path, physical_path=f"{turn}/attachments/a.txt", mime="text/plain")
    files = (AttachmentMeta(digest=digest), Attachment(artifact_path=path, mime="text/plain", text="z" * 90_000))
    await session.close()
    await stage.hold(answers("One."), attachments=files, session=session.conversation, turn=turn)
    found = await stage.rerun(1, answers("One."), keep=True)
    before, after = await stage.store.load(stage.source), await stage.kept(found)
    (_, first), (_, again) = ([e.block for e in entries if e.path == path] for entries in (before, after))
    assert isinstance(first, Attachment)
    assert isinstance(again, Attachment)
    # A re-run is a conversation of its own, so the file is hosted there.
    assert first.hosting != again.hosting
    assert replace(first, hosting=None) == replace(again, hosting=None)
    assert found.is_same


async def test_what_a_rerun_spends_counts_in_budgets_that_are_shared(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(answers("One."))
    stage.budgets = Budgets(user=Allowance(tokens=1_000_000))
    await stage.rerun(1, {"reply": answers("One."), "usage": {"input_tokens": 7}})
    assert (await stage.store.ledger.spent(scope("user", "t", "u"))).tokens == 7


async def test_sources_whose_numbers_are_taken_are_not_cited_under_them(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(calls("t.search", words="a"), calls("t.search", words="b"), answers("One."))
    found = await stage.rerun(4, calls("t.search", words="b"), calls("t.search", words="a"), answers("X"))
    assert [call.result for call in made(found)] == ["recorded", "recorded"]
    found = await stage.rerun(
        4, calls("t.search", words="c"), calls("t.search", words="a"), answers("X"), live_tools=True
    )
    assert [call.result for call in made(found)] == ["live", "not_recorded"]


async def test_what_the_user_said_meanwhile_is_said_at_the_same_place(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.meanwhile = lambda turns: turns.inbox.follow_up("and the price?")
    await stage.hold(LOOK, LOOK, answers("One."))
    found = await stage.rerun(4, LOOK, LOOK, answers("One."), keep=True)
    assert _said(await stage.kept(found)) == _said(await stage.store.load(stage.source)) != []
    assert (found.is_same, found.unsaid) == (True, 0)


async def test_a_followup_that_comes_too_late_opens_a_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.meanwhile = lambda turns: turns.inbox.follow_up("and the price?")
    await stage.hold(LOOK, LOOK, answers("One."))
    found = await stage.rerun(4, answers("At once."), answers("The price."))
    assert [(turn.prompt, turn.verdict) for turn in found.turns] == [("", "differs"), ("and the price?", "only_rerun")]


async def test_a_steer_that_comes_too_late_is_not_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.meanwhile = lambda turns: turns.inbox.steer("only trains")
    await stage.hold(LOOK, LOOK, answers("One."))
    found = await stage.rerun(4, answers("At once."))
    assert (len(found.turns), found.unsaid) == (1, 1)


async def test_a_stop_of_the_record_stops_the_rerun(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.meanwhile = lambda turns: turns.inbox.steer("")
    await stage.hold(LOOK, LOOK, answers("One."))
    found = await stage.rerun(4, LOOK, LOOK, answers("One."))
    assert [(turn.recorded_end, turn.rerun_end) for turn in found.turns] == [("stopped", "stopped")]


def _said(entries: Sequence[Entry]) -> list[str]:
    """Return the path of each user message with the number of tool calls before it."""
    said = [entry for entry in entries if isinstance(entry.block, Followup | UserPrompt)]
    return [f"{entry.path} {sum(isinstance(e.block, ToolCall) for e in entries[: entry.seq])}" for entry in said]


async def test_a_model_that_fails_ends_the_rerun(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(answers("One."), answers("Two."), prompts=("go", "and?"))
    found = await stage.rerun(1, {"error": "context_too_long", "repeat": True})
    assert [(turn.verdict, turn.rerun_end) for turn in found.turns] == [
        ("differs", "provider_error"),
        ("only_recorded", ""),
    ]


async def test_only_so_many_turns_are_run_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold(answers("One."), answers("Two."), prompts=("go", "and?"))
    found = await stage.rerun(1, answers("One."), answers("Two."), most_turns=1)
    assert [turn.prompt for turn in found.turns] == ["go"]
    assert found.is_same


@pytest.mark.parametrize(("seq", "message"), [(0, "from 1 to"), (99, "from 1 to"), (8, "nothing to run again")])
async def test_where_nothing_can_be_run_again_that_is_said(tmp_path: Path, seq: int, message: str) -> None:
    stage = Stage(tmp_path)
    await stage.hold(answers("One."))
    with pytest.raises(CodedError, match=message):
        await stage.rerun(seq, answers("One."))


async def test_what_both_took_stands_side_by_side(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.hold({"reply": answers("One."), "usage": {"input_tokens": 9, "cost_nano_usd": 3}})
    found = await stage.rerun(1, {"reply": answers("One."), "usage": {"input_tokens": 7, "cost_nano_usd": 5}})
    assert (found.recorded.usage, found.rerun.usage) == (
        Usage(input_tokens=9, cost_nano_usd=3),
        Usage(input_tokens=7, cost_nano_usd=5),
    )
    assert (found.recorded_models, found.model) == (("script",), "script")
