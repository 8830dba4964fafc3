"""What an agent's tools report: effects that may have happened, and sources that they add."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from timeloom import Agent, Answer, Approval, ToolCallError, ToolContext, tool
from timeloom.core.blocks import ApprovalRequested, Notice, ResultStatus, SourcesAdded
from timeloom.core.blocks.digest import is_outcome_unknown
from timeloom.core.codes import CodedError
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.ports.tool import Outcome, ToolError
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel, call, says
from timeloom.tools.define import FunctionTool


class Bank:
    """A bank whose first transfer happens, although its reply gets lost."""

    def __init__(self) -> None:
        self.transfers: list[str] = []

    @tool("bank.pay")
    async def pay(self, to: str) -> Mapping[str, object]:
        """Pay somebody."""
        self.transfers.append(to)
        if len(self.transfers) > 1:
            return {"ok": True, "ret": "paid"}
        error = {"code": "bank_timeout", "message": "the bank did not answer", "details": {"request": 7}}
        return {"ok": False, "outcome": "unknown", "error": error}


@tool("bank.raise_it")
def raise_it() -> str:
    """Raise a failure with an unknown outcome."""
    raise ToolCallError("no reply from /etc/bank/socket", code="bank_timeout", outcome="unknown", details={"n": 1})


def read_timeline(agent: Agent[str], answer: Answer[str]) -> list[Entry]:
    async def read() -> list[Entry]:
        return [entry async for entry in agent.timeline(answer.conversation)]

    return asyncio.run(read())


def pay_twice(bank: Bank, **params: str) -> Agent[str]:
    """Return an agent whose policies allow every call, and whose model pays again after the unknown outcome."""
    again = params or {"to": "ann"}
    model = ScriptedModel([call("bank.pay", to="ann"), call("bank.pay", **again), says("Done.")])
    return Agent(model, tools=[bank.pay], policies=[])


@pytest.mark.parametrize("again", ["ann", "ann "])
def test_an_effect_that_may_have_happened_is_not_repeated_without_a_person(again: str) -> None:
    bank = Bank()
    agent = pay_twice(bank, to=again)
    answer = agent.run_sync("Pay Ann.")
    assert answer.reason == "waiting"
    assert bank.transfers == ["ann"]
    blocks = [entry.block for entry in read_timeline(agent, answer)]
    [status] = [block for block in blocks if isinstance(block, ResultStatus)]
    assert status.error is not None
    assert status.error.code == "bank_timeout"
    assert status.error.details == {"outcome": "unknown", "request": 7}
    [notice] = [block for block in blocks if isinstance(block, Notice) and block.code == "outcome_unknown"]
    assert "Do not call bank.pay again" in notice.text
    [asked] = [block for block in blocks if isinstance(block, ApprovalRequested)]
    assert "may have had its effect already" in str(asked.text)

    decide = agent.decide(answer.conversation, answer.approvals[0].call_id, approved=True, by="ann")
    assert asyncio.run(decide).reason == "completed"
    assert bank.transfers == ["ann", again]


def test_the_question_names_the_unknown_outcome_also_where_every_call_is_asked_about() -> None:
    bank = Bank()
    agent = Agent(
        ScriptedModel([call("bank.pay", to="ann"), call("bank.pay", to="ann"), says("Ok.")]), tools=[bank.pay]
    )
    questions: list[str] = []

    def approve(approval: Approval) -> bool:
        questions.append(approval.question)
        return True

    assert agent.run_sync("Pay Ann.", approve=approve).reason == "completed"
    assert ["may have had its effect already" in one for one in questions] == [False, True]


def test_a_misspelled_outcome_counts_as_unknown() -> None:
    assert ToolCallError("x").outcome == "failed"
    assert ToolCallError("x", outcome=cast(Any, "maybe")).outcome == "unknown"


def test_a_person_who_approves_a_later_call_settles_the_unknown_outcome() -> None:
    bank = Bank()
    steps = [call("bank.pay", to="ann"), call("bank.pay", to="bob"), call("bank.pay", to="eve"), says("Done.")]
    agent = Agent(ScriptedModel(steps), tools=[bank.pay], policies=[])
    asked: list[str] = []

    def approve(approval: object) -> bool:
        asked.append(str(approval))
        return True

    assert agent.run_sync("Pay all.", approve=approve).reason == "completed"
    assert (bank.transfers, len(asked)) == (["ann", "bob", "eve"], 1)


def test_a_refused_repetition_stays_refused_in_the_next_turn() -> None:
    bank = Bank()
    steps = [call("bank.pay", to="ann"), call("bank.pay", to="ann"), says("No."), call("bank.pay", to="ann")]
    agent = Agent(ScriptedModel(steps), tools=[bank.pay], policies=[])
    first = agent.run_sync("Pay Ann.", approve=lambda _: False)
    assert agent.run_sync("Try it again.", conversation=first.conversation).reason == "waiting"
    assert bank.transfers == ["ann"]


def test_the_failure_that_a_tool_raises_keeps_its_code_and_details_without_host_paths() -> None:
    agent = Agent(ScriptedModel([call("bank.raise_it"), says("Unsure.")]), tools=[raise_it], policies=[])
    answer = agent.run_sync("Try.")
    [error] = [entry.block.error for entry in read_timeline(agent, answer) if isinstance(entry.block, ResultStatus)]
    assert error == ToolError(
        "bank_timeout", "no reply from <a path of this machine>", "", {"outcome": "unknown", "n": 1}
    )
    assert is_outcome_unknown(error)


def test_an_outcome_inside_the_error_of_the_envelope_counts_as_well() -> None:
    @tool("bank.ask")
    def ask() -> object:
        """Ask."""
        return {"ok": False, "error": {"message": "lost", "outcome": "unknown"}, "ret": {"partial": 1}}

    agent = Agent(ScriptedModel([call("bank.ask"), call("bank.ask"), says("x")]), tools=[ask], policies=[])
    assert agent.run_sync("Ask.").reason == "waiting"


def test_a_call_that_may_be_repeated_is_not_asked_about() -> None:
    @tool("bank.look", effect="idempotent")
    def look() -> object:
        """Look."""
        return {"ok": False, "outcome": "unknown", "error": "lost"}

    agent = Agent(ScriptedModel([call("bank.look"), call("bank.look"), says("Gone.")]), tools=[look], policies=[])
    answer = agent.run_sync("Look.")
    assert answer.reason == "completed"
    assert not [
        entry for entry in read_timeline(agent, answer) if getattr(entry.block, "code", "") == "outcome_unknown"
    ]


def test_an_irreversible_call_past_its_deadline_has_an_unknown_outcome() -> None:
    @tool("bank.hang", deadline_s=0.01)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    agent = Agent(ScriptedModel([call("bank.hang"), call("bank.hang"), says("x")]), tools=[hang], policies=[])
    assert agent.run_sync("Hang.").reason == "waiting"


def test_an_outcome_word_in_a_success_or_of_another_kind_is_data() -> None:
    @tool("bank.tell", effect="pure")
    def tell() -> object:
        """Tell."""
        return {"ok": True, "outcome": "unknown"}

    agent = Agent(ScriptedModel([call("bank.tell"), says("Told.")]), tools=[tell])
    answer = agent.run_sync("Tell.")
    assert not [entry for entry in read_timeline(agent, answer) if isinstance(entry.block, Notice)]


# --- sources ----------------------------------------------------------------------------------------------------


@tool("shop.look_up", effect="pure")
def look_up(item: str, context: ToolContext) -> dict[str, object]:
    """Look an item up."""
    sid = context.add_source(title=f"Card of {item}", text=f"{item} costs 7 euros", url="")
    again = context.add_source(title=f"Card of {item}", text=f"{item} costs 7 euros")
    page = context.add_source(
        title="The shop", url="https://shop.example/items?utm_source=x", content="All items. " * 500
    )
    assert sid == again
    return {"price": 7, "sid": sid, "page": page}


def run_shop(*tools: FunctionTool, steps: Sequence[str]) -> tuple[Answer[str], list[SourceRow]]:
    store = MemoryStore()
    agent = Agent(ScriptedModel(steps), tools=tools, store=store)
    answer = agent.run_sync("What does a lamp cost?")
    rows = [
        row
        for entry in read_timeline(agent, answer)
        if isinstance(entry.block, SourcesAdded)
        for row in entry.block.rows
    ]
    return answer, rows


def test_a_tool_adds_sources_and_the_answer_cites_them() -> None:
    answer, rows = run_shop(look_up, steps=[call("shop.look_up", item="lamp"), says("Seven euros [[S:1]].")])
    assert [(row.sid, row.source_type, row.title) for row in rows] == [
        (1, "manual", "Card of lamp"),
        (2, "manual", "The shop"),
    ]
    assert rows[1].domain == "shop.example"
    assert [row.title for row in answer.sources] == ["Card of lamp"]


def test_a_known_source_keeps_its_id_and_is_not_recorded_again() -> None:
    steps = [call("shop.look_up", item="lamp"), call("shop.look_up", item="lamp"), says("Seven.")]
    _, rows = run_shop(look_up, steps=steps)
    assert [row.sid for row in rows] == [1, 2]


def test_sources_and_files_of_one_call_have_ids_of_their_own() -> None:
    steps = [
        call("shop.look_up", item="lamp"),
        call("react.write", path="a.md", content="text"),
        call("shop.look_up", item="desk"),
        says("Done."),
    ]
    _, rows = run_shop(look_up, steps=steps)
    assert [(row.sid, row.source_type) for row in rows] == [(1, "manual"), (2, "manual"), (3, "file"), (4, "manual")]


def test_a_source_needs_content_and_a_call_adds_a_bounded_number() -> None:
    @tool("shop.flood", effect="pure")
    def flood(context: ToolContext) -> str:
        """Flood the pool."""
        with pytest.raises(CodedError, match="has a title, a text or a url"):
            context.add_source()
        for n in range(501):
            context.add_source(title=f"source {n}")
        return ""

    answer, rows = run_shop(flood, steps=[call("shop.flood"), says("Too much.")])
    assert answer.reason == "completed"
    assert len(rows) == 500


def test_text_of_a_tools_source_counts_as_text_from_outside() -> None:
    @tool("shop.pay")
    def pay() -> str:
        """Pay."""
        return "paid"

    steps = [call("shop.look_up", item="lamp"), call("shop.pay"), says("x")]
    agent = Agent(ScriptedModel(steps), tools=[look_up, pay])
    assert "text from outside (tool)" in agent.run_sync("Buy it.").approvals[0].question


def test_a_context_without_a_conversation_takes_no_source() -> None:
    seen: list[ToolContext] = []

    @tool("shop.see", effect="pure")
    def see(context: ToolContext) -> Outcome:
        """See."""
        seen.append(context)
        return Outcome()

    run_shop(see, steps=[call("shop.see"), says("x")])
    with pytest.raises(CodedError, match="no conversation"):
        replace(seen[0], new_sources=None).add_source(title="a")
