"""Random inputs in any order over restarts: accepted inputs are stored once and reach the model, and every turn ends.

`TIMELOOM_FUZZ_RUNS` is the number of random sequences; `make fuzz` tries 2,000.
"""

import asyncio
import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.hub import HubHarness
from tests.harness.replay import run_replay
from tests.harness.replies import answers
from tests.harness.turn import HEADER, Step, calls, run
from timeloom.core.blocks import (
    ApprovalDecided,
    CompactionEnded,
    ExternalEvent,
    Followup,
    ModelCalled,
    Steer,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, MessageId
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.timeline import Entry
from timeloom.runtime.hub.events import ConvStatus
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.runtime.hub.state import COMPACT_EVENT, IncomingMessage, SendReceipt

RUNS = int(os.environ.get("TIMELOOM_FUZZ_RUNS", "200"))
BATCHES = 10

LOOK: Step = {"reply": calls("t.look"), "chunk": 40, "delay_ms": 1}
SEND: Step = {"reply": calls("t.send"), "chunk": 60, "delay_ms": 1}
ANSWER: Step = {"reply": answers("Done."), "chunk": 30, "delay_ms": 1}
SCRIPT = (*([LOOK, ANSWER, LOOK, SEND, LOOK, ANSWER, SEND, ANSWER] * 6), {**ANSWER, "repeat": True})

KINDS = ("message", "followup", "steer", "steer", "alert", "form", "cancel", "stop", "decide", "decide", "compact")
REFUSALS = {"turn_not_running", "server_closing", "approval_unknown"}
BEGIN = "begin"

AMPLE = Allowance(tokens=10**12)
SHARED = (
    Budgets(),
    Budgets(user=AMPLE),
    Budgets(project=AMPLE),
    Budgets(tree=AMPLE),
    Budgets(user=AMPLE, project=AMPLE, tree=AMPLE),
)
"""Budgets that are read and reserved from while messages arrive, and that no course spends."""


class Course:
    """One conversation with random things sent to it, by several at once."""

    def __init__(self, stage: HubHarness, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance
        stage.setting = replace(stage.setting, budgets=chance.choice(SHARED))
        self._settings = HubSettings(grace_s=0, rest_s=0.02)
        self._hub: Hub = stage.hub(self._settings)
        self._accepted: dict[str, SendReceipt] = {}
        self._compactions: list[MessageId] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    async def play(self) -> None:
        first = await self._hub.start_conversation(HEADER, BEGIN)
        self._accepted[BEGIN], name = first, first.conversation_id
        self._read(name)
        for number in range(self._chance.randrange(1, 14)):
            match self._chance.randrange(8):
                case 0:
                    await self._restart()
                    self._read(name)
                case 1 | 2:
                    await asyncio.sleep(self._chance.random() * 0.02)
                case _:
                    kind = self._chance.choice(KINDS)
                    self._tasks.append(asyncio.create_task(self._send(self._hub, name, kind, f"said {number}")))
                    await asyncio.sleep(0)
        await asyncio.gather(*self._tasks)
        await self._settle(name)
        for request_id in self._compactions:
            assert (await self._hub.compact(name, request_id=request_id)).message_id == request_id
        await self._hub.close()
        await asyncio.gather(*self._readers)
        self._check(await self._stage.store.load(name))
        assert await self._stage.store.open_turns() == []
        calls, findings = await run_replay(self._stage.store, name)
        assert [one for one in calls if one.verdict != "same"] == []
        assert findings == []

    async def _restart(self) -> None:
        await self._hub.close()
        self._hub = self._stage.hub(self._settings)
        self._hub.resume_open_turns()

    def _read(self, name: ConversationId) -> None:
        self._readers.append(asyncio.create_task(self._check_statuses(self._hub, name)))

    async def _check_statuses(self, hub: Hub, name: ConversationId) -> None:
        """Read until the hub closes; the tails of the statuses are stored and never fall."""
        tail = 0
        with suppress(CodedError):
            async with hub.stream(await self._stage.store.info(name), 0) as (_, events):
                async for event in events:
                    if isinstance(event, ConvStatus):
                        assert tail <= event.tail <= (await self._stage.store.info(name)).tail
                        tail = event.tail

    async def _send(self, hub: Hub, name: ConversationId, kind: str, text: str) -> None:
        try:
            match kind:
                case "message":
                    self._accepted[text] = await hub.send_message(name, text)
                case "stop":
                    await hub.send_event(name, IncomingMessage(kind="steer"))
                case "decide":
                    await self._decide(hub, name, text)
                case "compact":
                    request_id = MessageId(text.replace(" ", "-"))
                    await hub.send_event(name, IncomingMessage(kind=COMPACT_EVENT, keep=1, request_id=request_id))
                    self._compactions.append(request_id)
                case _:
                    self._accepted[text] = await hub.send_event(name, IncomingMessage(kind=kind, text=text))
        except CodedError as error:
            assert error.code in REFUSALS, error

    async def _decide(self, hub: Hub, name: ConversationId, text: str) -> None:
        for approval in (await hub.status(name)).approvals:
            self._accepted[text] = await hub.decide(
                name, approval.tool_call_id, self._chance.random() < 0.5, "ann", text
            )

    async def _settle(self, name: ConversationId) -> None:
        """Decide all open approvals until the conversation is idle."""
        number = 0
        while (status := await self._hub.status(name)).state != "idle":
            if status.approvals:
                number += 1
                await self._send(self._hub, name, "decide", f"settled {number}")
            await asyncio.sleep(0.002)

    def _check(self, entries: list[Entry]) -> None:
        said: dict[str, list[int]] = {}
        for entry in entries:
            block = entry.block
            if isinstance(block, UserPrompt | Followup | Steer | ExternalEvent | ApprovalDecided) and block.text:
                said.setdefault(str(block.text), []).append(entry.seq)
        assert said == {text: [one.seq] for text, one in self._accepted.items()}
        begun = [entry.turn_id for entry in entries if isinstance(entry.block, TurnStarted)]
        ended = [entry.turn_id for entry in entries if isinstance(entry.block, TurnEnded)]
        assert begun == ended
        outcomes = Counter(one.block.message_id for one in entries if isinstance(one.block, CompactionEnded))
        assert set(outcomes.values()) <= {1}
        assert set(outcomes) >= set(self._compactions)
        self._check_effects([entry.block for entry in entries])
        self._check_seen(entries)

    def _check_seen(self, entries: list[Entry]) -> None:
        """Every call contains all entries before it, and no turn is completed before the model got its messages."""
        shown: dict[str, int] = {}
        for entry in entries:
            if isinstance(entry.block, ModelCalled):
                assert entry.block.seen == entry.seq - 1
                shown[entry.turn_id] = entry.block.seen
        for ended in entries:
            if isinstance(ended.block, TurnEnded) and ended.block.reason == "completed":
                said = [entry.seq for entry in entries if entry.turn_id == ended.turn_id and _is_message(entry)]
                assert max(said) <= shown[ended.turn_id]

    def _check_effects(self, blocks: list[object]) -> None:
        """Irreversible calls run at most as often as they were approved."""
        sends = {one.tool_call_id for one in blocks if isinstance(one, ToolCall) and one.tool_id == "t.send"}
        approved = Counter(one.tool_call_id for one in blocks if isinstance(one, ApprovalDecided) and one.approved)
        done = Counter(call for call in self._stage.effects if call in sends)
        assert done <= approved


def _is_message(entry: Entry) -> bool:
    return isinstance(entry.block, UserPrompt | Followup | Steer | ExternalEvent)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_accepted_is_stored_once_and_every_turn_ends(tmp_path: Path, batch: int) -> None:
    async def check() -> None:
        for number in range(batch, RUNS, BATCHES):
            async with asyncio.timeout(60):
                await Course(HubHarness(tmp_path, *SCRIPT), random.Random(number)).play()

    run(check)
