"""Turns with declared channels: their text goes out live, is stored once, and stays part of the conversation."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.harness.replies import answers, calls
from tests.harness.turn import TurnHarness, blocks_of
from timeloom.core.blocks import (
    ChannelText,
    Completion,
    ModelAnswered,
    ModelCalled,
    Notice,
    ResultContent,
    RoundStarted,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.policy.erase.spread import EraseTargets, find_entries_to_erase
from timeloom.core.policy.next_step import AskModel
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.facts import EMPTY_CONTEXT, CardLimits
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.runtime.replay.replay import ReplayedCall, replay
from timeloom.runtime.turn.ask_model import ask_model

CHART = DeclaredChannel(name="chart", mime="application/json", purpose="the numbers | as bars", widget="bars")
LOG = DeclaredChannel(name="log", mime="text/plain", purpose="what you did")


def harness(tmp_path: Path, *steps: str, channels: tuple[DeclaredChannel, ...] = (CHART, LOG)) -> TurnHarness:
    made = TurnHarness(tmp_path, *steps)
    made.setting = msgspec.structs.replace(made.setting, edition=2, channels=channels)
    return made


def chart(text: str) -> str:
    return f"<channel:chart>\n{text}\n</channel:chart>\n"


def test_a_channel_goes_out_live_and_is_stored(tmp_path: Path) -> None:
    async def check() -> None:
        first = chart('{"a":1}') + "<channel:log>looking</channel:log>" + calls("t.look")
        stage = harness(tmp_path, first, chart("[1]") + answers("Done."))
        turns = await stage.open()
        assert await turns.run("draw") == "completed"
        assert stage.channel_text("chart") == '{"a":1}[1]'
        assert stage.channel_text("log") == "looking"
        blocks = await blocks_of(turns)
        stored = [one for one in blocks if isinstance(one, ChannelText)]
        assert [(one.channel, one.text, one.n, one.round, one.widget) for one in stored] == [
            ("chart", '{"a":1}', 1, 1, "bars"),
            ("log", "looking", 1, 1, ""),
            ("chart", "[1]", 2, 2, "bars"),
        ]
        assert [one.text for one in blocks if isinstance(one, Completion)] == ["Done."]
        assert [one.channels for one in blocks if isinstance(one, TurnStarted)] == [(CHART, LOG)]
        assert not [one for one in blocks if isinstance(one, Notice)]

    asyncio.run(check())


def test_the_system_text_names_the_channels_only_if_there_are_any(tmp_path: Path) -> None:
    async def check() -> None:
        for channels in ((CHART, LOG), ()):
            turns = await harness(tmp_path, answers("Hi."), channels=channels).open()
            await turns.run("hi")
            (call,) = (one for one in await blocks_of(turns) if isinstance(one, ModelCalled))
            system = await turns.session.text(call.system)
            assert ("| `chart` | application/json | the numbers \\| as bars |" in system) == bool(channels)
            assert ("channels.1" in call.sections.split()) == bool(channels)

    asyncio.run(check())


def test_the_model_sees_its_channels_and_reads_them_by_path(tmp_path: Path) -> None:
    async def check() -> None:
        read = calls("react.read", paths=["ar:t1.channel.chart.1", "ar:t1.channel.chart", "ar:t1.channel.log"])
        stage = harness(tmp_path, chart("[1]") + chart("[2]") + answers("Drawn."), read, answers("Read."))
        turns = await stage.open()
        await turns.run("draw")
        await turns.run("read it")
        views = turns.session.views
        entries = await turns.session.entries(range(1, views.tail + 1))
        shown = "".join(renderer_for(2).entry_text(entry, views, {}).text for entry in entries)
        assert "<channel:chart>\n~[1]\n</channel:chart>\n" in shown
        found = [one.block for one in entries if isinstance(one.block, ResultContent)]
        assert [one.text for one in found] == ["[1]", "[2]"]
        turn = views.turns.by_number[0]
        assert [one.artifact_path for one in found] == [f"ar:{turn}.channel.chart.{n}" for n in (1, 2)]

    asyncio.run(check())


def test_a_rejected_reply_leaves_no_channel(tmp_path: Path) -> None:
    async def check() -> None:
        stage = harness(tmp_path, chart("[1]"), chart("[1]") + answers("Done."))
        turns = await stage.open()
        assert await turns.run("draw") == "completed"
        blocks = await blocks_of(turns)
        assert [(one.text, one.n) for one in blocks if isinstance(one, ChannelText)] == [("[1]", 1)]
        assert [one.code for one in blocks if isinstance(one, Notice)] == ["protocol_violation.decision_missing"]

    asyncio.run(check())


def test_text_that_is_not_json_is_stored_with_a_notice(tmp_path: Path) -> None:
    async def check() -> None:
        turns = await harness(tmp_path, chart("{broken") + answers("Done.")).open()
        assert await turns.run("draw") == "completed"
        blocks = await blocks_of(turns)
        assert [one.text for one in blocks if isinstance(one, ChannelText)] == ["{broken"]
        assert [one.code for one in blocks if isinstance(one, Notice)] == ["channel_not_json"]

    asyncio.run(check())


def test_a_reply_with_channels_is_repaired_like_any_other(tmp_path: Path) -> None:
    async def check() -> None:
        stage = harness(tmp_path, chart("[1]") + '<channel:action>{"action": "complete", "final_answer": "Hi.",}')
        turns = await stage.open()
        assert await turns.run("draw") == "completed"
        blocks = await blocks_of(turns)
        assert [one.text for one in blocks if isinstance(one, ChannelText | Completion)] == ["[1]", "Hi."]

    asyncio.run(check())


def test_another_process_reads_the_recorded_reply_without_its_channels(tmp_path: Path) -> None:
    async def check() -> None:
        stage = harness(tmp_path, chart("[1]") + answers("Done."))
        turns = await stage.open()
        await turns.open_turn(UserPrompt(text="draw"))
        await turns.session.append([RoundStarted(round=1)], turns.session.views.progress.turn_id)
        await ask_model(turns.model_caller, AskModel(round=1, attempt=1, last=False), asyncio.Event())
        await turns.session.flush()
        # The channels of the turn are those of its header, not those of the new process.
        stage.setting = msgspec.structs.replace(stage.setting, channels=())
        again = await stage.reopen(turns.session)
        assert await again.resume() == "completed"
        blocks = await blocks_of(again)
        assert [one.text for one in blocks if isinstance(one, ChannelText | Completion)] == ["[1]", "Done."]

    asyncio.run(check())


def test_a_replay_builds_the_same_requests(tmp_path: Path) -> None:
    async def check() -> None:
        stage = harness(tmp_path, chart("[1]") + calls("t.look"), answers("Done."))
        turns = await stage.open()
        await turns.run("draw")
        await turns.session.flush()
        checked = [one async for one in replay(stage.store, turns.session.conversation)]
        hashes = [(one.stored_sha256, one.rebuilt_sha256) for one in checked if isinstance(one, ReplayedCall)]
        assert len(hashes) == 2
        assert all(stored == rebuilt for stored, rebuilt in hashes)

    asyncio.run(check())


@pytest.mark.parametrize(("protocol", "edition", "fix"), [("native", 2, "models.protocol"), ("channels", 1, "edition")])
def test_channels_need_the_channel_protocol_and_edition_2(
    tmp_path: Path, protocol: str, edition: int, fix: str
) -> None:
    async def check() -> None:
        stage = harness(tmp_path, answers("Hi."))
        stage.setting = msgspec.structs.replace(stage.setting, protocol=protocol, edition=edition)
        with pytest.raises(CodedError, match=fix):
            await stage.open()

    asyncio.run(check())


def test_a_channel_is_hidden_listed_in_the_card_of_its_turn_and_erased_with_its_reply(tmp_path: Path) -> None:
    async def check() -> None:
        hide = calls("react.hide", path="ar:t1.channel.chart", replacement="a chart of one bar")
        stage = harness(tmp_path, chart("[12345]") + hide, answers("Done."))
        turns = await stage.open()
        assert await turns.run("draw") == "completed"
        views = turns.session.views
        entries = await turns.session.entries(range(1, views.tail + 1))
        (written,) = (entry for entry in entries if isinstance(entry.block, ChannelText))
        stub = views.visible.shown[written.seq]
        assert stub is not None
        assert stub.text == "a chart of one bar"
        card = renderer_for(2).turn_card(written.turn_id, entries, views, EMPTY_CONTEXT, CardLimits())
        assert "[ar:t1.channel.chart.1] [12345]" in card
        erased = find_entries_to_erase(entries, EraseTargets(seqs=frozenset({written.seq})))
        (reply,) = (one.seq for one in entries if isinstance(one.block, ModelAnswered) and one.seq < written.seq)
        assert erased[reply] == "reply it came from"

    asyncio.run(check())
