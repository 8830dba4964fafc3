"""Pruning while a conversation runs: many small calls, warm caches, cards that rounds share."""

from pathlib import Path

from tests.harness.context import ContextHarness, assert_opens_the_same, assert_replays, prunes
from tests.harness.replies import answers
from tests.harness.turn import HEADER, calls, run
from timeloom.app import AgentSettings, open_session
from timeloom.core.blocks import Pruned
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.policy.pruning import PruneSettings
from timeloom.core.render.facts import CardLimits
from timeloom.testing import CountingIds
from timeloom.tools.define import tool

MANY = TurnLimits(max_iterations=500)


def small_looks(count: int) -> list[str]:
    """Return calls of different sizes, from about 60 to 600 tokens."""
    return [calls("t.look", size=120 + 37 * n % 1_100 + n) for n in range(count)]


def rounds_in(pruned: Pruned) -> list[str]:
    return [cut.text.partition(" all of it")[0] for cut in pruned.cuts]


def test_many_small_calls_are_pruned_without_attempts_in_vain(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *small_looks(160), answers("seen"))
        stage.setting = AgentSettings(data_dir=tmp_path, limits=MANY)
        turns = await stage.open()
        await turns.run("look often")
        found = await prunes(turns)
        assert len(found) >= 3
        assert turns.context_fitter.pruner.attempts <= len(found) + 2
        await assert_replays(stage, turns)

    run(check)


def test_an_attempt_in_vain_keeps_what_waiting_has_cost(tmp_path: Path) -> None:
    async def check() -> None:
        # Calls with long parameters and hardly a result: their rows are far longer than the first guess.
        looks = [calls("t.look", notes="", size=1, why=f"{n} " + "because " * 12) for n in range(160)]
        stage = ContextHarness(tmp_path, *looks, answers("seen"))
        stage.setting = AgentSettings(data_dir=tmp_path, limits=MANY)
        turns = await stage.open()
        await turns.run("look often")
        found = await prunes(turns)
        assert found
        assert turns.context_fitter.pruner.attempts <= len(found) + 2

    run(check)


def test_the_size_of_rows_is_recorded_and_learned(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *small_looks(60), answers("seen"), answers("yes"))
        stage.setting = AgentSettings(data_dir=tmp_path, limits=MANY)
        turns = await stage.open()
        await turns.run("look often")
        found = await prunes(turns)
        assert all(0 < one.row_tokens < one.round_tokens for one in found)
        learned = turns.session.views.rows
        assert (learned.rounds > 0, learned.rows > 0) == (True, True)
        reopened = await stage.reopen(turns.session)
        assert reopened.session.views.rows == learned

    run(check)


def test_rounds_share_a_card_up_to_the_number_of_its_rows(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        stage = ContextHarness(tmp_path, *small_looks(30), answers("one"), answers("two"))
        stage.setting = AgentSettings(
            data_dir=tmp_path,
            limits=MANY,
            cards=CardLimits(rows=10),
            prune=PruneSettings(patience=10**6),
        )
        turns = await stage.open()
        await turns.run("look often")
        stage.clock.advance(4_000)
        await turns.run("and?")
        (pruned,) = await prunes(turns)
        head = {1: "[PRUNED ROUND {}] to [PRUNED ROUND {}]", 2: "[PRUNED] rounds {} to {} of this turn,"}[
            min(edition, 2)
        ]
        assert rounds_in(pruned) == [head.format(*one) for one in ((1, 10), (11, 20), (21, 27))]
        assert all("more, in the index" not in cut.text for cut in pruned.cuts)
        await assert_replays(stage, turns)
        await assert_opens_the_same(stage, turns)

    run(check)


def test_a_message_during_the_turn_begins_a_card(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        looks = small_looks(30)
        stage = ContextHarness(tmp_path, *looks[:12], calls("t.hear"), *looks[12:], answers("one"), answers("two"))
        stage.setting = AgentSettings(data_dir=tmp_path, limits=MANY, prune=PruneSettings(patience=10**6))

        async def hear() -> str:
            """Hears."""
            await turns.inbox.follow_up("hurry")
            return "heard " * 200

        stage.extra = (tool("t.hear", effect="pure")(hear),)
        turns = await stage.open()
        await turns.run("look often")
        stage.clock.advance(4_000)
        await turns.run("and?")
        (pruned,) = await prunes(turns)
        before, with_message = pruned.cuts
        assert "hurry" not in before.text
        assert with_message.text.splitlines()[1].startswith(
            {1: "[USER FOLLOWUP]", 2: "[USER FOLLOWUP ar:t1."}[min(edition, 2)]
        )
        await assert_opens_the_same(stage, turns)

    run(check)


def test_a_round_that_is_hardly_longer_than_its_row_stays(tmp_path: Path) -> None:
    async def check() -> None:
        looks = small_looks(30)
        stage = ContextHarness(tmp_path, *looks, answers("Calm seas."), answers("two"))
        stage.setting = AgentSettings(data_dir=tmp_path, limits=MANY, prune=PruneSettings(keep_rounds=0))
        # Prompts of edition 1 contain ids, and the number of tokens of an id depends on its digits.
        turns = await stage.open(await open_session(stage.store, None, HEADER, clock=stage.clock, ids=CountingIds()))
        await turns.run("look often")
        stage.clock.advance(4_000)
        await turns.run("and?")
        # The last round of the first turn has only its answer, which its card would repeat.
        assert all("Calm seas." not in cut.text for one in await prunes(turns) for cut in one.cuts)
        await assert_replays(stage, turns)

    run(check)
