"""The output of `timeloom chat` without a terminal."""

import pytest

from timeloom.cli.chat.plain_output import PlainOutput
from timeloom.core.blocks import Completion
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
