"""The requests of the development sets, each in a conversation of its own with the real runtime and sandbox."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from bench.demo.conversation import DemoOutcome, MadeCall
from bench.demo.judge import find_failures
from bench.demo.requests import DEVELOPMENT, SETS, DemoRequest, OutcomeChecks, read_requests
from bench.demo.score import JudgedRequest, format_transcript, judge_requests
from tests.harness import local_model
from timeloom.core.render.editions import FIRST_EDITION, SECOND_EDITION
from timeloom.testing.conformance.cases import GROUPS, load_published_suite
from timeloom_local.routing.router import load_shipped_examples
from timeloom_local.text_rules import normalize_form

DEVELOPMENT_SETS = sorted(SETS.glob(f"{DEVELOPMENT}*.yaml"))
REQUESTS = [request for path in DEVELOPMENT_SETS for request in read_requests(path)]


@pytest.mark.parametrize(("part", "edition"), [*((part, SECOND_EDITION) for part in range(6)), (0, FIRST_EDITION)])
def test_the_requests_of_development_have_their_sensible_outcomes(part: int, edition: int) -> None:
    async def body() -> list[str]:
        judged = judge_requests(local_model.model(), REQUESTS[part::6], edition)
        return [format_transcript(one) async for one in judged if one.failures]

    failed = asyncio.run(body())
    assert not failed, "\n\n".join(failed)


def test_a_set_shares_at_most_a_tenth_of_its_messages_with_what_was_tuned() -> None:
    assert len(REQUESTS) >= 80
    seen = {normalize_form(case.say) for group in GROUPS for case in load_published_suite().cases(group)}
    seen |= {*load_shipped_examples(), *(normalize_form(request.request) for request in REQUESTS)}
    for path in SETS.glob("*.yaml"):
        messages = {normalize_form(request.request) for request in read_requests(path)}
        assert path.stem.startswith(DEVELOPMENT) or len(messages & seen) * 10 <= len(messages), path.name


def test_a_set_with_an_id_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.yaml"
    path.write_text("- {id: a, request: x, sensible: y}\n" * 2)
    with pytest.raises(ValueError, match="twice: a"):
        read_requests(path)


def test_each_check_of_an_outcome_is_made() -> None:
    checks = OutcomeChecks(
        must_call=("react.read",),
        must_not_call=("react.write",),
        file_equals={"a.txt": "one"},
        file_contains={"a.txt": "two", "b.txt": ("x", "y")},
        file_unchanged=("a.txt", "c.txt"),
        answer_contains_any=("Yes",),
        answer_excludes=("no",),
    )
    request = DemoRequest(id=1, request="?", sensible="", files={"a.txt": "one\n"}, checks=checks)
    good = DemoOutcome(
        ending="completed",
        calls=(MadeCall("react.read", "{}"),),
        answer="Yes.",
        files={"a.txt": "one\n", "b.txt": "x y"},
        earlier=(),
    )
    assert find_failures(request, good) == ["a.txt does not contain 'two': 'one\\n'"]
    bad = DemoOutcome(
        ending="failed",
        calls=(MadeCall("react.write", "{}"),),
        answer="No",
        files={"a.txt": "two", "c.txt": ""},
        earlier=(),
    )
    assert len(find_failures(request, bad)) == 10
    ticked = DemoRequest(id=2, request="?", sensible="", checks=OutcomeChecks(must_call=("react.plan",)))
    outcome = DemoOutcome(ending="completed", calls=(), answer="Yes.", files={}, earlier=(), ticks_plan=True)
    assert find_failures(ticked, outcome) == []
    assert find_failures(ticked, msgspec.structs.replace(outcome, ticks_plan=False)) == ["react.plan was not called"]
    assert "=== 1: FAILED" in format_transcript(JudgedRequest(request, bad, ["x"]))
