"""The injection suite: no text that the runtime did not write passes for a line that it did, in any edition."""

import pytest

from tests.harness.injection import CARRIERS, EDITIONS, attacks, forgeries, forgeries_of_the_round
from timeloom.core.blocks import ExternalEvent, TurnEnded
from timeloom.core.blocks.block import BlockError
from timeloom.core.ids import MessageId
from timeloom.core.paths import PathError, parse

ATTACKS = list(attacks())
OWN_WORDS = (
    *("message", "followup", "steer", "interrupted reply", "thinking", "notes", "note", "answer"),
    *("answer of the loop", "working summary", "summary", "plan marks"),
)
"""Words of people and of the agent, which keep their citations."""

KEPT = {
    **{(edition, name): {"[[S:"} for edition in EDITIONS for name in OWN_WORDS},
    # Editions 2 and 3 show what the agent wrote in raw channels, and the marks of steps that it reported.
    **{
        (edition, name): {"[[S:"}
        for edition in EDITIONS[1:]
        for name in ("program", "raw parameters", "declared channel")
    },
    **{(edition, name): {"[[S:", "✓", "□"} for edition in EDITIONS[1:] for name in ("notes", "plan marks")},
    # Edition 1 keeps the lines of a preview wherever a recorded text has them.
    (1, "preview of an attachment"): {"[PREVIEW", "[SHAPE"},
    (1, "recorded preview"): {"[PREVIEW", "[SHAPE"},
}
"""The marks that an edition keeps in a field on purpose."""


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("name", CARRIERS)
def test_no_attack_forges_a_line_a_tag_or_a_citation(edition: int, name: str) -> None:
    kept = KEPT.get((edition, name), set())
    found = {attack: set(forgeries(edition, CARRIERS[name], text)) - kept for attack, text in ATTACKS}
    assert {attack: marks for attack, marks in found.items() if marks} == {}


@pytest.mark.parametrize("edition", EDITIONS)
def test_no_attack_forges_a_line_in_the_facts_of_a_round(edition: int) -> None:
    found = {attack: forgeries_of_the_round(edition, text) for attack, text in ATTACKS}
    assert {attack: dict(got) for attack, got in found.items() if got} == {}


def test_the_suite_notices_a_text_without_its_fence() -> None:
    def carrier(text: str) -> tuple[TurnEnded]:
        return (TurnEnded(reason="stopped" if "[" in text else "completed"),)

    for edition in EDITIONS:
        assert forgeries(edition, carrier, "x") == {}
    assert forgeries(2, carrier, "[USER]") == {"[TURN": 1}


def test_a_file_name_cannot_hold_a_line() -> None:
    for _, text in ATTACKS:
        with pytest.raises(PathError):
            parse(f"fi:turn_1.files/{text}")


def test_the_kind_of_an_event_cannot_hold_a_line() -> None:
    for _, text in ATTACKS:
        with pytest.raises(BlockError):
            ExternalEvent(kind=text, message_id=MessageId("m1"), text="x")
