"""A conversation moves to another edition at a turn boundary; the change is recorded and replayed."""

from pathlib import Path

from msgspec.structs import replace

from tests.harness.replay import run_replay
from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, blocks_of, calls, run
from timeloom.core.blocks import ModelCalled, TurnStarted, UserPrompt
from timeloom.runtime.turn.loop import TurnRunner

STEPS = (calls("t.look", notes="I look."), answers("Seen."), calls("t.look"), answers("Again."), answers("Bye."))


async def editions(turns: TurnRunner) -> tuple[list[int], list[int]]:
    """Return the editions of the turns, and the rendering numbers of the decisions."""
    blocks = await blocks_of(turns)
    calls = [one for one in blocks if isinstance(one, ModelCalled) and one.purpose == "decision"]
    return [one.edition for one in blocks if isinstance(one, TurnStarted)], [one.rendering for one in calls]


def test_a_conversation_moves_to_edition_2_at_the_next_turn_and_replays_with_both(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, *STEPS)
        turns = await stage.open()
        await turns.run("look")
        stage.setting = replace(stage.setting, edition=2)
        turns = await stage.reopen(turns.session)
        await turns.run("look again")
        # A conversation never goes back, because edition 1 has no form for later kinds of blocks.
        stage.setting = replace(stage.setting, edition=1)
        turns = await stage.reopen(turns.session)
        await turns.run("bye")
        assert await editions(turns) == ([1, 2, 2], [2, 2, 3, 3, 3])
        replayed, findings = await run_replay(stage.store, turns.session.conversation)
        assert [one.verdict for one in replayed] == ["same"] * len(replayed)
        assert findings == []

    run(check)


def test_a_turn_keeps_its_edition_when_it_is_resumed_with_another_setting(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, *STEPS)
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="look"))
        stage.setting = replace(stage.setting, edition=2)
        turns = await stage.reopen(turns.session)
        await turns.resume()
        assert await editions(turns) == ([1], [2, 2])

    run(check)
