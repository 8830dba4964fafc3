"""The output of `timeloom chat` without a terminal."""

import click
import pytest

from timeloom.cli.chat.plain_output import PlainOutput
from timeloom.core.blocks import ChannelText, Completion
from timeloom.core.ids import TurnId
from timeloom.core.sources import SourceRow, SourcesPool
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


def test_the_cited_sources_follow_the_answer_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    output, pool = PlainOutput(), SourcesPool()
    fares = SourceRow(source_type="web", sid=1, title="Fares \x1b[2J", url="https://ferry.example/fares")
    pool.add_rows([fares, SourceRow(source_type="web", sid=2, title="Not cited", url="https://other.example/")])
    answer = Completion(text="28 euros [[S:1]].", sources_used=(1,))
    output.on_block(Entry(turn_id=TurnId("turn_1"), ts="2026-02-09T02:14:32Z", block=answer, seq=1))
    output.on_pause("completed", pool)
    output.on_pause("completed", pool)  # an answer's sources are printed once
    written = capsys.readouterr()
    assert written.out == "28 euros [[S:1]].\n"
    assert written.err == "  [1] Fares ␛[2J https://ferry.example/fares\n"
