"""The open approval of a turn, read from the timeline."""

import pytest

from timeloom.cli.chat.terminal.approvals import find_pending_approval
from timeloom.core.blocks import (
    ApprovalDecided,
    ApprovalRequested,
    ConversationStarted,
    RoundStarted,
    Steer,
    ToolCall,
    ToolCode,
    TurnStarted,
)
from timeloom.core.ids import CallId, ConversationId, MessageId, TurnId
from timeloom.core.view.progress import MODEL_TOOL_ID
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore

pytestmark = pytest.mark.anyio
TURN, CALL = TurnId("turn_1"), CallId("0123456789ab")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def started() -> Session:
    header = ConversationStarted(tenant="t", project="p", user="u")
    conversation = ConversationId("conv_1794750199577_v0k0u9lf")
    session = await Session.start(await MemoryStore.open(), conversation, header, SystemClock(), RandomIds())
    await session.append([TurnStarted(n=1), RoundStarted(round=1)], TURN)
    return session


async def test_a_turn_that_asks_nothing_has_no_question() -> None:
    assert await find_pending_approval(await started()) is None


async def test_a_question_has_the_newest_reason_the_parameters_and_the_program() -> None:
    session = await started()
    await session.append(
        [
            ToolCode(tool_call_id=CALL, text="print(1)"),
            ToolCall(tool_id="exec_tools.run", tool_call_id=CALL, params='{"a":1}'),
            ApprovalRequested(tool_call_id=CALL, tool_id="exec_tools.run", text="first", policy="one"),
        ],
        TURN,
    )
    again = ApprovalRequested(tool_call_id=CALL, tool_id="exec_tools.run", text="x" * 100_000, policy="interrupted")
    await session.append([again], TURN)
    question = await find_pending_approval(session)
    assert question is not None
    assert (question.reason, question.policy) == ("x" * 100_000, "interrupted")
    assert question.headline == "Call exec_tools.run once more?"
    assert question.detail_lines() == ["{", '  "a": 1', "}", "", "the program:", "print(1)"]


async def test_a_model_call_can_be_asked_about() -> None:
    session = await started()
    await session.append([ApprovalRequested(tool_call_id=CALL, tool_id=MODEL_TOOL_ID, text="dear")], TURN)
    question = await find_pending_approval(session)
    assert question is not None
    assert (question.headline, question.reason, question.detail_lines()) == ("May the model be asked?", "dear", [])


@pytest.mark.parametrize(
    "block",
    [ApprovalDecided(tool_call_id=CALL, approved=True, by="ann"), Steer(message_id=MessageId(CALL), text="other way")],
)
async def test_what_was_decided_or_withdrawn_is_no_question_any_more(block: ApprovalDecided | Steer) -> None:
    session = await started()
    call = ToolCall(tool_id="mail.send", tool_call_id=CALL)
    await session.append([call, ApprovalRequested(tool_call_id=CALL, tool_id="mail.send", text="why")], TURN)
    assert await find_pending_approval(session) is not None
    await session.append([block], TURN)
    assert await find_pending_approval(session) is None
