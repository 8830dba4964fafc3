"""Texts on declared channels in the views: they are counted by turn and channel, and found by their paths."""

from timeloom.core.blocks import ChannelText, TurnStarted
from timeloom.core.ids import TurnId
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.core.timeline import NO_TURN, Draft, to_entry
from timeloom.core.view.views import fold

TS, ONE, TWO = "2026-02-09T02:14:32Z", TurnId("turn_1"), TurnId("turn_2")
CHART = DeclaredChannel(name="chart", mime="text/plain")


def text(name: str, n: int = 1) -> ChannelText:
    return ChannelText(channel=name, mime="text/plain", text="x", round=1, n=n)


def test_texts_are_counted_by_turn_and_channel() -> None:
    blocks = (
        (ONE, TurnStarted(n=1, channels=(CHART,))),
        (ONE, text("chart")),
        (ONE, text("log")),
        (ONE, text("chart", 2)),
        (TWO, TurnStarted(n=2)),
        (TWO, text("chart")),
        (NO_TURN, text("chart")),
    )
    views = fold(to_entry(Draft(turn, TS, block), seq) for seq, (turn, block) in enumerate(blocks, 1))
    assert [views.turns.turns[turn].channel_texts for turn in (ONE, TWO)] == [{"chart": 2, "log": 1}, {"chart": 1}]
    assert views.turns.channels == ()
    assert list(views.paths.find(f"ar:{ONE}.channel.chart")) == [4]
    assert list(views.paths.find(f"ar:{ONE}.channel.chart.1")) == [2]
