"""Closing a hub: running turns get their grace period. `test_hub` has those that do not end in it."""

import asyncio
from pathlib import Path

from tests.harness.hub import HubHarness, wait_until_idle
from tests.harness.replies import answers
from tests.harness.turn import HEADER, calls, run
from timeloom.core.blocks import TurnEnded
from timeloom.runtime.hub.hub import HubSettings
from timeloom.tools.define import tool

NEVER_S = 600
"""A grace period that no test waits for."""


def test_a_turn_that_ends_in_the_grace_period_is_not_left_open(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, calls("t.hold"), answers())
        held, released = asyncio.Event(), asyncio.Event()

        async def hold() -> str:
            """Holds."""
            held.set()
            await released.wait()
            return "released"

        stage.extra = (tool("t.hold", effect="pure")(hold),)
        hub = stage.hub(HubSettings(grace_s=NEVER_S))
        sent = await hub.start_conversation(HEADER, "go")
        await held.wait()
        closing = asyncio.create_task(hub.close())
        await asyncio.sleep(0)
        assert hub.is_closing
        released.set()
        await closing
        (end,) = [block for block in await stage.blocks(sent.conversation_id) if isinstance(block, TurnEnded)]
        assert end.reason == "completed"
        assert await stage.store.open_turns() == []

    run(check)


def test_a_hub_without_running_turns_closes_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        stage = HubHarness(tmp_path, answers())
        hub = stage.hub(HubSettings(grace_s=NEVER_S))
        sent = await hub.start_conversation(HEADER, "go")
        await wait_until_idle(hub, stage, sent.conversation_id)
        await hub.close()
        assert hub.conversations == ()

    run(check)
