"""The output of `timeloom chat` without a terminal."""

import click
import pytest

from timeloom.cli.chat.plain_output import PlainOutput
from timeloom.core.blocks import ChannelText, Completion
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry


@pytest.mark.parametrize("unformatted", [False, True])
def test_only_an_answer_outside_the_reply_format_has_a_note_beside_it(
    capsys: pytest.CaptureFixture[str], unformatted: bool
) -> None:
    answer = Completion(text="It will rain.", unformatted=unformatted)
    PlainOutput().on_block(Entry(turn_id=TurnId("turn_1"), ts="2026-02-09T02:14:32Z", block=answer, seq=1))
    written = capsys.readouterr()
    assert written.out == "It will rain.\n"
    assert ("the model did not keep to the reply format; this is its plain text" in written.err) is unformatted


def test_a_channel_is_printed_with_its_name_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    text = '{\n  "a": "\x1b[31m1"\n}'
    block = ChannelText(channel="chart", mime="application/json", text=text, round=1)
    PlainOutput().on_block(Entry(turn_id=TurnId("turn_1"), ts="2026-02-09T02:14:32Z", block=block, seq=1))
    written = capsys.readouterr()
    assert written.out == ""
    assert click.unstyle(written.err).splitlines()[:2] == ["  chart:", "    {"]
    assert '"a"' in written.err
    assert "\x1b[31m" not in written.err
