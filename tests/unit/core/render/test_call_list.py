"""Lists of calls: a line for each, or groups of ids, and always the calls with effects."""

from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.v1.call_list import (
    IDS_PER_LINE,
    MAX_EFFECT_GROUPS,
    CallFact,
    CallOutcome,
    call_lines,
    effects_line,
)

TURN = TurnId("turn_1")


def call(n: int, tool: str = "t.look", outcome: CallOutcome = "ok", *, has_effects: bool = False) -> CallFact:
    return CallFact(TURN, CallId(f"c{n}"), tool, outcome, has_effects)


def test_calls_with_effects_come_last_with_their_outcome_and_path() -> None:
    calls = [call(1, "bank.transfer", has_effects=True), call(2), call(3, "mail.send", "failed", has_effects=True)]
    assert call_lines(calls, 1_000) == [
        "- t.look ok tc:turn_1.c2.result",
        "- bank.transfer ok, had effects tc:turn_1.c1.result",
        "- mail.send failed, may have had effects tc:turn_1.c3.result",
        "- all 3: 1 x bank.transfer ok, 1 x t.look ok, 1 x mail.send failed",
    ]
    assert call_lines([], 1_000) == []


def test_too_many_calls_are_named_by_their_ids() -> None:
    calls = [call(n) for n in range(IDS_PER_LINE + 1)]
    first, second, total = call_lines(calls, 10)
    assert first.startswith("- t.look ok tc:turn_1.ID.result with each ID of c0, c1, ")
    assert second == f"- t.look ok tc:turn_1.ID.result with each ID of c{IDS_PER_LINE}"
    assert total == f"- all {IDS_PER_LINE + 1}: {IDS_PER_LINE + 1} x t.look ok"


def test_the_line_of_effects_counts_what_was_executed() -> None:
    sent = [call(n, "mail.send", has_effects=True) for n in range(3)]
    open_calls = [
        call(5, "bank.transfer", "no result", has_effects=True),
        call(6, "x", "not approved", has_effects=True),
    ]
    assert effects_line([*sent, *open_calls, call(9)]) == (
        "Executed in the running turn: 3 x mail.send ok, had effects; "
        "1 x bank.transfer no result, may have had effects."
    )
    assert effects_line([call(1)]) == ""


def test_the_line_of_effects_is_bounded() -> None:
    calls = [call(n, f"t.send{n}", has_effects=True) for n in range(MAX_EFFECT_GROUPS + 5)]
    assert effects_line(calls).endswith("; 5 other calls.")
