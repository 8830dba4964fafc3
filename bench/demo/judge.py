"""Judges the outcome of a request by its checks."""

from collections.abc import Iterator

from bench.demo.conversation import DemoOutcome
from bench.demo.requests import DemoRequest


def find_failures(request: DemoRequest, outcome: DemoOutcome) -> list[str]:
    """Return a sentence for each check that does not hold; a turn that did not end with an answer is one, too."""
    ended = [] if outcome.ending == "completed" and outcome.answer else [f"the turn ended as {outcome.ending}"]
    return [*ended, *_check_calls(request, outcome), *_check_files(request, outcome), *_check_answer(request, outcome)]


def _check_calls(request: DemoRequest, outcome: DemoOutcome) -> Iterator[str]:
    made = {call.tool_id for call in outcome.calls}
    changed = made | ({"react.plan"} if outcome.ticks_plan else set[str]())
    for tool_id in request.checks.must_call:
        if tool_id not in changed:
            yield f"{tool_id} was not called"
    for tool_id in request.checks.must_not_call:
        if tool_id in made:
            yield f"{tool_id} was called"


def _check_files(request: DemoRequest, outcome: DemoOutcome) -> Iterator[str]:
    checks, files = request.checks, outcome.files
    for name, text in checks.file_equals.items():
        if files.get(name, "").rstrip("\n") != text.rstrip("\n"):
            yield f"{name} has other content: {files.get(name)!r}"
    for name, parts in checks.file_contains.items():
        for part in (parts,) if isinstance(parts, str) else parts:
            if part.lower() not in files.get(name, "").lower():
                yield f"{name} does not contain {part!r}: {files.get(name)!r}"
    for name in checks.file_unchanged:
        if files.get(name) != request.files.get(name):
            yield f"{name} was changed: {files.get(name)!r}"


def _check_answer(request: DemoRequest, outcome: DemoOutcome) -> Iterator[str]:
    answer, checks = _fold(outcome.answer), request.checks
    if checks.answer_contains_any and not any(_fold(text) in answer for text in checks.answer_contains_any):
        yield f"the answer contains none of {', '.join(checks.answer_contains_any)}"
    for text in checks.answer_excludes:
        if _fold(text) in answer:
            yield f"the answer contains {text!r}"


def _fold(text: str) -> str:
    return text.lower().replace("’", "'")
