"""Gates and budgets in the loop: every step is ruled on before it is taken, and a person's answer is waited for."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.hub import DelayedStore
from tests.harness.replies import answers
from tests.harness.turn import HEADER, Step, TurnHarness, blocks_of, blocks_of_type, calls, run, script
from timeloom.app import open_session
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
    Gate,
    ModelAnswered,
    ModelCalled,
    ResultStatus,
    RoundStarted,
    Titled,
    ToolCall,
    TurnEnded,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, TurnId
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.policy.gates import (
    DEFAULT_POLICIES,
    ModelStep,
    Policy,
    PolicyResult,
    Proposal,
    ToolStep,
    ask,
    calls_per_turn,
    only_tools,
    refuse,
    tainted_irreversible_needs_approval,
)
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.progress import MODEL_TOOL_ID
from timeloom.ports.ledger import Amounts, MaxAmounts, scope
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece, ThinkingPiece
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.runtime.governance.costs import model_cost
from timeloom.runtime.model_calls.side_call import SideCall, make_side_call
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.define import FunctionTool, tool

TURN = TurnId("turn_1")
CALL = CallId("c1")
ONE_CALL = Allowance(tool_calls=1)


def staged(
    tmp_path: Path, *steps: str, policies: tuple[Policy, ...] = DEFAULT_POLICIES, budgets: Budgets | None = None
) -> TurnHarness:
    stage = TurnHarness(tmp_path, *steps)
    stage.setting = replace(stage.setting, budgets=budgets or Budgets(), policies=policies)
    return stage


def errors_of(blocks: list[AnyBlock]) -> list[str]:
    return [block.error.code for block in blocks if isinstance(block, ResultStatus) and block.error]


def texts_of(blocks: list[AnyBlock]) -> list[str]:
    return [str(block.text) for block in blocks if isinstance(block, ResultStatus)]


def end_of(blocks: list[AnyBlock]) -> tuple[str, str]:
    (ended,) = [block for block in blocks if isinstance(block, TurnEnded)]
    return ended.reason, ended.text


async def asked(turns: TurnRunner) -> ApprovalRequested:
    return [block for block in await blocks_of(turns) if isinstance(block, ApprovalRequested)][-1]


async def decided(turns: TurnRunner, approved: bool, text: str = "") -> None:
    assert await turns.inbox.decide((await asked(turns)).tool_call_id, approved, "ann", text)


# --- approvals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_an_irreversible_call_waits_for_a_person_and_runs_once_allowed(tmp_path: Path, restarted: bool) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("sent"))
        turns = await stage.open()
        assert await turns.run("send it") == "waiting"
        assert stage.effects == []
        if restarted:
            turns = await stage.reopen(turns.session)
        assert await turns.resume() == "waiting"
        question = await asked(turns)
        assert (question.tool_id, question.policy) == ("t.send", "irreversible_needs_approval")
        await decided(turns, True)
        if restarted:
            turns = await stage.reopen(turns.session)
        assert await turns.resume() == "completed"
        assert stage.effects == [question.tool_call_id]
        blocks = await blocks_of(turns)
        verdicts = [(block.policy, block.verdict) for block in blocks if isinstance(block, Gate)]
        assert verdicts == [("irreversible_needs_approval", "ask"), ("approval", "allow")]

    run(check)


def test_a_refused_call_is_a_result_that_says_who_refused_it_and_why(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("not sent"))
        turns = await stage.open()
        await turns.run("send it")
        await decided(turns, False, "not today")
        assert await turns.resume() == "completed"
        blocks = await blocks_of(turns)
        assert stage.effects == []
        assert errors_of(blocks) == ["call_not_approved"]
        assert texts_of(blocks) == ["the call was not run: refused by ann: not today"]

    run(check)


def test_a_decision_counts_once_and_only_where_it_was_asked_for(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("done"))
        turns = await stage.open()
        assert await turns.inbox.decide(CALL, True, "ann") is None
        await turns.run("send it")
        assert await turns.inbox.decide(CALL, True, "mallory") is None
        await decided(turns, False)
        assert await turns.inbox.decide((await asked(turns)).tool_call_id, True, "ann") is None
        await turns.resume()
        assert stage.effects == []
        assert len(blocks_of_type(await blocks_of(turns), ApprovalDecided)) == 1

    run(check)


@pytest.mark.parametrize(
    ("text", "ending", "said"),
    [
        ("do not send it", "completed", "the user changed course before anybody decided"),
        ("", "stopped", "the turn was ended before anybody decided"),
    ],
)
def test_who_steers_takes_the_question_back(tmp_path: Path, text: str, ending: str, said: str) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("left it"))
        turns = await stage.open()
        await turns.run("send it")
        question = await asked(turns)
        await turns.inbox.steer(text)
        assert await turns.inbox.decide(question.tool_call_id, True, "ann") is None
        assert await turns.resume() == ending
        blocks = await blocks_of(turns)
        assert stage.effects == []
        assert texts_of(blocks) == [f"the call was not run: {said}"]

    run(check)


def test_a_cancelled_turn_waits_for_nobody(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"))
        turns = await stage.open()
        await turns.run("send it")
        await turns.inbox.cancel("operator", "maintenance")
        assert await turns.resume() == "cancelled"
        assert turns.session.views.calls.open == {}
        assert stage.effects == []

    run(check)


def test_a_follow_up_does_not_take_the_question_back(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("sent"))
        turns = await stage.open()
        await turns.run("send it")
        await turns.inbox.follow_up("and tell me when")
        assert await turns.resume() == "waiting"
        await decided(turns, True)
        assert await turns.resume() == "completed"
        assert len(stage.effects) == 1

    run(check)


def test_a_steer_after_the_leave_was_given_does_not_take_it_back(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("sent"))
        turns = await stage.open()
        await turns.run("send it")
        await decided(turns, True)
        await turns.inbox.steer("and be brief")
        assert await turns.resume() == "completed"
        assert len(stage.effects) == 1

    run(check)


# --- policies --------------------------------------------------------------------------------------------------


def test_a_refusal_is_told_to_the_model_as_a_result_and_the_turn_goes_on(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("could not look"), policies=(only_tools(["react.*"]),))
        turns = await stage.open()
        assert await turns.run("look") == "completed"
        blocks = await blocks_of(turns)
        assert stage.effects == []
        assert errors_of(blocks) == ["gate_refused"]
        (gate,) = [block for block in blocks if isinstance(block, Gate)]
        assert (gate.policy, gate.verdict) == ("only_allowed_tools", "refuse")
        assert turns.session.views.calls.open == {}

    run(check)


def test_a_tool_may_be_called_so_often_by_whatever_name(tmp_path: Path) -> None:
    async def check() -> None:
        again = calls("t.peek")
        stage = staged(tmp_path, calls("t.look"), again, again, answers("x"), policies=(calls_per_turn({"t.look": 2}),))
        stage.extra = (looking(stage),)
        turns = await stage.open()
        assert await turns.run("look") == "completed"
        assert len(stage.effects) == 2
        assert errors_of(await blocks_of(turns)) == ["gate_refused"]

    run(check)


def test_what_came_from_outside_makes_the_difference(tmp_path: Path) -> None:
    async def check() -> None:
        policies = (tainted_irreversible_needs_approval,)
        stage = staged(tmp_path, calls("t.send"), calls("t.look"), calls("t.send"), policies=policies)
        turns = await stage.open()
        assert await turns.run("send, look, send") == "waiting"
        assert len(stage.effects) == 3 - 1
        assert "text from outside (tool)" in str((await asked(turns)).text)

    run(check)


def test_a_policy_that_fails_allows_nothing(tmp_path: Path) -> None:
    def broken(proposal: Proposal) -> PolicyResult | None:
        if isinstance(proposal.step, ToolStep):
            raise ValueError("no table")
        return None

    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("x"), policies=(broken,))
        turns = await stage.open()
        assert await turns.run("look") == "completed"
        assert stage.effects == []
        assert texts_of(await blocks_of(turns)) == [
            "the policy broken failed, so that nothing is allowed until it is mended"
        ]

    run(check)


def test_a_gate_sees_the_step_who_wants_it_and_what_was_spent(tmp_path: Path) -> None:
    seen: list[Proposal] = []

    async def check() -> None:
        stage = staged(tmp_path, calls("t.look", size=3), answers("x"), policies=(seen.append,))
        turns = await stage.open()
        await turns.run("look")
        first, tool_step, second = seen
        assert isinstance(first.step, ModelStep)
        assert (first.step.round, first.turn.rounds, first.origins) == (1, 1, {"user"})
        assert tool_step.step == ToolStep(tool_id="t.look", params='{"size": 3}', effect="pure")
        assert (tool_step.caller.tenant, tool_step.caller.project, tool_step.caller.user) == ("t", "p", "u")
        assert (second.turn.tool_calls, second.origins) == (1, {"user", "tool"})

    run(check)


# --- model calls -----------------------------------------------------------------------------------------------


def second_round(proposal: Proposal) -> PolicyResult | None:
    return ask("one more?") if isinstance(proposal.step, ModelStep) and proposal.step.round == 2 else None


def no_second_round(proposal: Proposal) -> PolicyResult | None:
    return refuse("enough") if second_round(proposal) else None


def test_a_model_call_can_wait_for_a_person_too(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("seen"), policies=(second_round,))
        turns = await stage.open()
        assert await turns.run("look") == "waiting"
        assert (await asked(turns)).tool_id == MODEL_TOOL_ID
        turns = await stage.reopen(turns.session)
        assert await turns.resume() == "waiting"
        await turns.inbox.steer("be brief")
        assert await turns.resume() == "waiting"
        await decided(turns, True)
        assert await turns.resume() == "completed"
        assert len(blocks_of_type(await blocks_of(turns), ModelCalled)) == 2

    run(check)


@pytest.mark.parametrize(
    ("policy", "ending"),
    [
        (second_round, ("refused", "the model was not asked: refused by ann")),
        (no_second_round, ("refused", "enough")),
    ],
    ids=["by a person", "by a policy"],
)
def test_a_model_call_that_is_refused_ends_the_turn(tmp_path: Path, policy: Policy, ending: tuple[str, str]) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("seen"), policies=(policy,))
        turns = await stage.open()
        if await turns.run("look") == "waiting":
            await decided(turns, False)
            await turns.resume()
        assert end_of(await blocks_of(turns)) == ending

    run(check)


# --- calls that a crash cut off --------------------------------------------------------------------------------


async def cut_off(stage: TurnHarness, tool_id: str) -> TurnRunner:
    """A conversation whose call has an intent and no receipt, as another process finds it."""
    turns = await stage.open()
    reply = ModelAnswered(round=1, model="m", stop_reason="end", text=calls(tool_id))
    begun = [TurnStarted(n=1), UserPrompt(text="go"), RoundStarted(round=1), reply]
    await turns.session.append([*begun, ToolCall(tool_id=tool_id, tool_call_id=CALL)], TURN)
    return await stage.reopen(turns.session)


def test_a_call_that_does_no_harm_is_made_again_and_that_is_recorded(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("ok"), budgets=Budgets(turn=ONE_CALL))
        turns = await cut_off(stage, "t.look")
        assert await turns.resume() == "completed"
        assert stage.effects == [CALL]
        (gate,) = [block for block in await blocks_of(turns) if isinstance(block, Gate)]
        assert (gate.policy, gate.verdict, gate.tool_call_id) == ("interrupted", "allow", CALL)

    run(check)


@pytest.mark.parametrize(
    ("approved", "effects", "errors"), [(True, [CALL], []), (False, [], ["tool_interrupted"])], ids=["yes", "no"]
)
def test_a_person_decides_about_a_call_of_which_nobody_knows(
    tmp_path: Path, approved: bool, effects: list[str], errors: list[str]
) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("ok"), policies=())
        turns = await cut_off(stage, "t.send")
        assert await turns.resume() == "waiting"
        assert (await asked(turns)).policy == "interrupted"
        await decided(turns, approved)
        turns = await stage.reopen(turns.session)
        assert await turns.resume() == "completed"
        assert stage.effects == effects
        assert errors_of(await blocks_of(turns)) == errors
        # The refused call may have had its effect before the crash, so the next one needs a person, too.
        assert list(turns.session.views.calls.unknown_outcomes) == ([] if approved else ["t.send"])

    run(check)


def test_a_lost_call_of_a_turn_that_was_stopped_is_closed_without_running(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("ok"))
        turns = await cut_off(stage, "t.look")
        await turns.inbox.steer()
        assert await turns.resume() == "stopped"
        assert stage.effects == []
        assert errors_of(await blocks_of(turns)) == ["tool_interrupted"]
        assert turns.session.views.calls.unknown_outcomes == {}

    run(check)


@dataclass
class Outbox:
    """An external service that records the sent messages."""

    sent: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    known: Outcome | Exception | None = None

    def tool(self) -> FunctionTool:
        async def send(context: ToolContext) -> str:
            """Sends."""
            self.sent.append(context.tool_call_id)
            return "sent"

        sending = tool("mail.send", effect="irreversible")(send)

        @sending.reconciled_by
        async def look_up(context: ToolContext) -> Outcome | None:
            """Looks up what was sent."""
            self.asked.append(context.tool_call_id)
            if isinstance(self.known, Exception):
                raise self.known
            return self.known

        assert look_up
        return sending


@pytest.mark.parametrize(
    ("known", "ending", "sent"),
    [(Outcome(status="sent at 9"), "completed", []), (None, "completed", [CALL]), (OSError("away"), "waiting", [])],
    ids=["done", "not done", "unknown"],
)
def test_a_tool_that_knows_what_became_of_its_call_is_asked_first(
    tmp_path: Path, known: Outcome | Exception | None, ending: str, sent: list[str]
) -> None:
    async def check() -> None:
        outbox = Outbox(known=known)
        stage = staged(tmp_path, calls("mail.send"), answers("ok"))
        stage.extra = (outbox.tool(),)
        turns = await cut_off(stage, "mail.send")
        assert await turns.resume() == ending
        assert (outbox.asked, outbox.sent) == ([CALL], sent)
        if isinstance(known, Outcome):
            assert texts_of(await blocks_of(turns)) == ["sent at 9"]

    run(check)


# --- budgets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["turn", "conversation", "tree", "user", "project"])
def test_tool_calls_beyond_a_budget_are_refused_in_every_scope(tmp_path: Path, name: str) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), calls("t.look"), answers("one"), budgets=Budgets(**{name: ONE_CALL}))
        turns = await stage.open()
        assert await turns.run("look twice") == "completed"
        blocks = await blocks_of(turns)
        assert len(stage.effects) == 1
        assert errors_of(blocks) == ["gate_refused"]
        assert [block.policy for block in blocks if isinstance(block, Gate)] == ["budget"]

    run(check)


@pytest.mark.parametrize(
    "allowance", [Allowance(rounds=1), Allowance(tokens=1), Allowance(wall_ms=0)], ids=["rounds", "tokens", "time"]
)
@pytest.mark.parametrize("name", ["turn", "conversation", "tree", "user", "project"])
def test_a_turn_whose_budget_is_used_up_ends_and_says_so(tmp_path: Path, name: str, allowance: Allowance) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("never"), policies=(), budgets=Budgets(**{name: allowance}))
        turns = await stage.open()
        assert await turns.run("look") == "budget_exhausted"
        blocks = await blocks_of(turns)
        assert len(blocks_of_type(blocks, ModelCalled)) == (0 if allowance.wall_ms == 0 else 1)
        assert end_of(blocks)[0] == "budget_exhausted"

    run(check)


def test_a_call_that_waited_for_leave_takes_of_the_budget_when_it_runs(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("sent"), budgets=Budgets(turn=ONE_CALL, user=ONE_CALL))
        turns = await stage.open()
        await turns.run("send it")
        ledger, user = turns.session.ledger, scope("user", "t", "u")
        assert (await ledger.spent(user)).tool_calls == 0
        await decided(turns, True)
        assert await turns.resume() == "completed"
        assert len(stage.effects) == (await ledger.spent(user)).tool_calls == 1

    run(check)


def test_a_call_that_was_allowed_is_still_bound_by_what_others_spent_meanwhile(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.send"), answers("not sent"), budgets=Budgets(user=ONE_CALL))
        turns = await stage.open()
        await turns.run("send it")
        other = TurnHarness(tmp_path, calls("t.look"), answers("looked"))
        other.store, other.setting = stage.store, stage.setting
        assert await (await other.open()).run("look") == "completed"
        await decided(turns, True)
        assert await turns.resume() == "completed"
        assert stage.effects == []
        assert errors_of(await blocks_of(turns)) == ["gate_refused"]

    run(check)


def test_conversations_that_were_begun_from_another_spend_from_one_budget(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("t.look"), answers("x"), budgets=Budgets(tree=ONE_CALL))
        turns = await stage.open()
        await turns.run("look")
        first = turns.session.conversation
        child = await open_session(stage.store, None, replace(HEADER, parent=first))
        grandchild = await open_session(stage.store, None, replace(HEADER, parent=child.conversation))
        assert (child.root, grandchild.root) == (first, first)
        below = TurnHarness(tmp_path, calls("t.look"), answers("x"))
        below.setting = stage.setting
        lower = await below.open(grandchild)
        await lower.run("look")
        assert below.effects == []
        assert errors_of(await blocks_of(lower)) == ["gate_refused"]
        await child.close()
        below.store = stage.store
        again = await below.reopen(grandchild)
        assert again.session.root == first

    run(check)


def test_the_model_sees_what_is_left(tmp_path: Path) -> None:
    async def check() -> None:
        limits = Allowance(tokens=1_000_000, cost_nano_usd=500_000_000, wall_ms=60_000)
        budgets = Budgets(turn=limits, project=Allowance(tool_calls=5))
        stage = staged(tmp_path, calls("t.look"), answers("x"), budgets=budgets)
        turns = await stage.open()
        await turns.run("look")
        tails = [str(block.tail) for block in await blocks_of(turns) if isinstance(block, ModelCalled)]
        for line in ("turn budget: [", "of 1000000 tokens", "of $0.5000", "of 60.0 s"):
            assert line in tails[0]
        assert "0 tool calls of 5 tool calls" in tails[0]
        assert "1 tool calls of 5 tool calls" in tails[1]

    run(check)


def test_a_title_is_governed_too(tmp_path: Path) -> None:
    def no_titles(proposal: Proposal) -> PolicyResult | None:
        step = proposal.step
        return refuse("no titles") if isinstance(step, ModelStep) and proposal.turn.model_calls else None

    async def check() -> None:
        stage = staged(tmp_path, answers("hello"), policies=(no_titles,))
        stage.title_model = script("A model's title")
        turns = await stage.open()
        await turns.run("good morning to you")
        await turns.ensure_title()
        blocks = await blocks_of(turns)
        assert [block.text for block in blocks if isinstance(block, Titled)] == ["good morning to you"]
        assert [(block.policy, block.text) for block in blocks if isinstance(block, Gate)] == [
            ("no_titles", "no titles")
        ]
        assert len(blocks_of_type(blocks, ModelCalled)) == 1

    run(check)


def looking(stage: TurnHarness) -> FunctionTool:
    async def look(context: ToolContext) -> str:
        """Looks."""
        stage.effects.append(context.tool_call_id)
        return "seen"

    return tool("t.look", effect="pure", aliases=("t.peek",))(look)


# --- what calls cost -------------------------------------------------------------------------------------------


class DearModel:
    """A scripted model with a known or an unknown price."""

    def __init__(self, stage: TurnHarness, nano_usd: int | None) -> None:
        self._model = stage.model
        self._nano_usd = nano_usd
        self.name = "dear"
        self.window_tokens = self._model.window_tokens
        self.is_silent = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        async for event in self._model.stream(request):
            yield self._finished(event) if isinstance(event, FinishEvent) else event

    def _finished(self, event: FinishEvent) -> FinishEvent:
        if self.is_silent:
            return FinishEvent(event.stop_reason, Usage(), usage_reported=False)
        return replace(event, usage=Usage(input_tokens=10, cost_nano_usd=10))

    def price_nano_usd(self, usage: Usage) -> int | None:
        tokens = usage.input_tokens + usage.cache_write_tokens + usage.output_tokens
        return None if self._nano_usd is None else self._nano_usd * tokens

    async def close(self) -> None:
        pass


class EndlessModel:
    """A model that thinks, writes a text and never ends."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.name = "endless"
        self.window_tokens = 200_000
        self.wrote = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ThinkingPiece("hm")
        yield TextPiece(self._text)
        self.wrote.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("name", ["turn", "user"])
def test_money_is_counted_before_and_after_each_call(tmp_path: Path, name: str) -> None:
    async def check() -> None:
        budgets = Budgets(**{name: Allowance(cost_nano_usd=15)})
        stage = staged(tmp_path, *[calls("t.look")] * 3, budgets=budgets)
        turns = await stage.open()
        turns.model_caller.model = DearModel(stage, 1)
        assert await turns.run("look") == "budget_exhausted"
        assert len(stage.effects) == 2
        reason, text = end_of(await blocks_of(turns))
        assert (reason, text) == ("budget_exhausted", f"the {name}'s budget is used up: $0.0000 of $0.0000")

    run(check)


def test_a_model_whose_price_nobody_knows_is_not_asked_where_money_is_limited(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, answers("x"), budgets=Budgets(project=Allowance(cost_nano_usd=15)))
        turns = await stage.open()
        turns.model_caller.model = DearModel(stage, None)
        assert await turns.run("hello") == "budget_exhausted"
        assert "the price of dear is unknown" in end_of(await blocks_of(turns))[1]

    run(check)


def test_what_a_provider_does_not_report_is_guessed_and_counts(tmp_path: Path) -> None:
    async def check() -> None:
        budgets = Budgets(turn=Allowance(tokens=1), user=Allowance(tokens=10**6))
        stage = staged(tmp_path, calls("t.look"), answers("x"), budgets=budgets)
        turns = await stage.open()
        turns.model_caller.model = model = DearModel(stage, 2)
        model.is_silent = True
        assert await turns.run("hello") == "budget_exhausted"
        (outcome,) = [block for block in await blocks_of(turns) if isinstance(block, ModelAnswered)]
        usage = outcome.usage
        assert not outcome.usage_reported
        assert usage.input_tokens > 1_000
        assert usage.cost_nano_usd == 2 * (usage.input_tokens + usage.output_tokens)
        spent = await turns.session.ledger.spent(scope("user", "t", "u"))
        assert spent.tokens == usage.input_tokens + usage.output_tokens

    run(check)


def test_a_call_whose_task_was_cancelled_holds_nobody_up(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(
            tmp_path, calls("t.wait"), answers("x"), budgets=Budgets(user=Allowance(tool_calls=9, tokens=10**6))
        )
        turns = await stage.open()
        running = asyncio.create_task(turns.run("wait"))
        await stage.waiting.wait()
        running.cancel()
        await asyncio.wait({running})
        assert await turns.session.ledger.unsettled(turns.session.conversation) == ()

    run(check)


def test_what_a_process_that_died_had_reserved_is_settled_by_the_next(tmp_path: Path) -> None:
    async def check() -> None:
        budgets = Budgets(user=Allowance(tokens=10**6))
        stage = staged(tmp_path, calls("t.look"), answers("x"), answers("y"), budgets=budgets)
        turns = await stage.open()
        await turns.run("look")
        governor, session = turns.action_context.governor, turns.session
        turn, user = session.views.progress.turn_id, scope("user", "t", "u")
        before = await session.ledger.spent(user)
        step = ModelStep(model="m", round=1, prompt_tokens=10)
        done = next(one.tool_call_id for one in await blocks_of(turns) if isinstance(one, ToolCall))
        made = (f"model/{turn}/1/1", f"tool/{turn}/{done}", "unknown")
        never_made = (f"model/{turn}/1/2", f"model/{turn}/9/1", f"title/{turn}", f"tool/{turn}/c9")
        for key in (*made, *never_made):
            await governor.admit(step, key, MaxAmounts(tokens=1_000, tool_calls=1))
        again = await stage.reopen(session)
        assert await again.run("look again") == "completed"
        assert await session.ledger.unsettled(session.conversation) == ()
        first = next(one for one in await blocks_of(again) if isinstance(one, ModelAnswered))
        third = again.session.views.spend.by_turn[again.session.views.progress.turn_id]
        known = model_cost(first.usage, rounds=0).tokens + 2 * 1_000 + third.input_tokens + third.output_tokens
        assert (await session.ledger.spent(user)).tokens - before.tokens == known

    run(check)


MOST = MaxAmounts(rounds=1, tokens=9_000, cost_nano_usd=27_000)


@pytest.mark.parametrize(
    ("purpose", "key"), [("decision", "model/{}/1/1"), ("title", "title/{}"), ("compaction", "compaction/{}/1")]
)
@pytest.mark.parametrize(("model", "nano_usd"), [("dear", 2_000), ("another", 3_000), ("script", 0)])
def test_a_model_call_that_a_crash_cut_costs_its_prompt(
    tmp_path: Path, purpose: CallPurpose, key: str, model: str, nano_usd: int
) -> None:
    async def check() -> None:
        stage = staged(tmp_path, answers("x"), budgets=Budgets(user=Allowance(tokens=10**6)))
        turns = await stage.open()
        session, user = turns.session, scope("user", "t", "u")
        turn = (await turns.open_turn(UserPrompt(text="hello"))).turn_id
        await turns.action_context.governor.admit(
            ModelStep(model=model, round=1, prompt_tokens=1_000), key.format(turn), MOST
        )
        call = ModelCalled(
            round=1, model=model, request_sha256="0", purpose=purpose, tail="hello", estimated_tokens=1_000
        )
        await session.append([RoundStarted(round=1), call], turn)
        again = await stage.reopen(session)
        again.action_context.governor.models = (DearModel(stage, 2), stage.model)
        before = await session.ledger.spent(user)
        assert await again.resume() == "completed"
        spent, own = await session.ledger.spent(user), again.session.views.spend.total
        assert before.tokens == 0
        assert spent.tokens - own.input_tokens - own.output_tokens == 1_000
        assert spent.cost_nano_usd == nano_usd

    run(check)


def test_a_model_call_that_was_cancelled_costs_its_prompt_and_what_was_written(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, budgets=Budgets(user=Allowance(tokens=10**6)))
        turns = await stage.open()
        turns.model_caller.model = model = EndlessModel("word " * 100)
        running = asyncio.create_task(turns.run("hello"))
        await model.wrote.wait()
        running.cancel()
        await asyncio.wait({running})
        (call,) = [block for block in await blocks_of(turns) if isinstance(block, ModelCalled)]
        spent = await turns.session.ledger.spent(scope("user", "t", "u"))
        assert spent.tokens == call.estimated_tokens + estimate_tokens("word " * 100) + estimate_tokens("hm")

    run(check)


def test_a_side_call_that_cannot_be_stored_costs_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, budgets=Budgets(user=Allowance(tokens=10**6)))
        stage.store = store = DelayedStore()
        turns = await stage.open()
        session, model = turns.session, EndlessModel("")
        store.is_full = True
        side = SideCall(
            purpose="title",
            result_name="title",
            turn=TURN,
            key=f"title/{TURN}",
            system="s",
            tail="t",
            max_output_tokens=100,
            max_reply_chars=100,
            deadline_s=60.0,
            interrupted_reason="",
        )
        with pytest.raises(CodedError, match="full"):
            await make_side_call(session, turns.action_context.governor, model, side, asyncio.Event())
        assert await session.ledger.spent(scope("user", "t", "u")) == Amounts()

    run(check)


def test_a_policy_sees_the_parameters_as_the_tool_does(tmp_path: Path) -> None:
    seen: list[str] = []

    def look(proposal: Proposal) -> None:
        if isinstance(proposal.step, ToolStep):
            seen.append(proposal.step.params)

    async def check() -> None:
        copied = calls("react.write", path="files/a.md", content="<~channel:code>")
        stage = staged(tmp_path, copied, answers("x"), policies=(look,))
        await (await stage.open()).run("write")
        assert '"<channel:code>"' in seen[0]

    run(check)


def test_what_a_script_says_it_costs_counts_in_shared_budgets_too(tmp_path: Path) -> None:
    async def check() -> None:
        usage = {"input_tokens": 10, "cost_nano_usd": 10}
        stage = staged(tmp_path, budgets=Budgets(user=Allowance(cost_nano_usd=15)))
        step: Step = {"reply": calls("t.look"), "usage": usage}
        stage.model = script(*[step] * 4)
        turns = await stage.open()
        assert await turns.run("look") == "budget_exhausted"
        assert len(stage.effects) == 2

    run(check)


def test_a_lost_call_of_a_tool_that_is_not_here_is_left_to_a_person(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, calls("mail.send"), answers("ok"), policies=())
        turns = await cut_off(stage, "mail.send")
        assert await turns.resume() == "waiting"
        await decided(turns, True)
        with pytest.raises(CodedError, match="which is not available here"):
            await turns.resume()
        outbox = Outbox()
        stage.extra = (outbox.tool(),)
        again = await stage.reopen(turns.session)
        assert await again.resume() == "completed"
        assert outbox.sent == [CALL]

    run(check)
