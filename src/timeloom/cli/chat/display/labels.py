"""Wording: calls, results, plans and ends of turns in a few words each."""

import json
from contextlib import suppress
from typing import Final, cast

import msgspec

from timeloom.cli.chat.display.format import size
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import AnyBlock, EndReason, ResultDigest, ResultStatus, ToolError, TurnEnded
from timeloom.core.payload import Text
from timeloom.core.plans.marks import marker
from timeloom.core.plans.snapshot import PlanSnapshot

MAX_SHORT_BYTES: Final = 65_536
"""Largest parameters that are read to be shown in short."""

MAX_PLAN_LINES: Final = 20
"""Most steps of a new plan that are printed; `/plan` shows all."""

_VALUE_CHARS: Final = 40
_LEAST_LINES: Final = 2
_RESULT_CHARS: Final = 160

ENDS: Final[dict[EndReason, str]] = {
    "completed": "done",
    "exited": "the agent left the turn",
    "stopped": "stopped",
    "cancelled": "cancelled",
    "max_iterations": "no answer within the rounds it may have",
    "budget_exhausted": "the budget is used up",
    "refused": "refused",
    "protocol_failure": "the model's answers could not be carried out",
    "provider_error": "the model did not answer",
    "runtime_error": "something went wrong in timeloom itself",
}


def short_params(params: Text) -> str:
    """The parameters of a call as `name=value`, each cut short."""
    if not isinstance(params, str) or len(params) > MAX_SHORT_BYTES:
        return "(long)"
    try:
        values = msgspec.json.decode(params)
    except (msgspec.MsgspecError, RecursionError):
        return one_line(params)
    if not isinstance(values, dict):
        return one_line(params)
    return " ".join(f"{one_line(name, 40)}={_short(value)}" for name, value in cast(dict[str, object], values).items())


def full_params(params: str) -> str:
    """The parameters of a call as JSON on lines of their own, each character as itself if it can be seen."""
    try:
        # Read and written anew: an escape could hide what the tool will read.
        text = json.dumps(json.loads(params), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        text = params
    return _with_signs(text)


def line_params(params: Text, most: int) -> str:
    """The start of a call's parameters as JSON on one line, each character as itself if it can be seen."""
    if not isinstance(params, str):
        return ""
    text = params
    if len(params) <= MAX_SHORT_BYTES:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(params), ensure_ascii=False, separators=(",", ":"))
    return _with_signs(text[:most])


def result_words(results: list[AnyBlock]) -> str:
    """What a call came to, on one line."""
    words: list[str] = []
    for block in results:
        match block:
            case ResultDigest(digest=digest) if not digest.error:
                name = digest.artifact_path.rpartition(":")[2]
                bytes_ = "" if digest.size_bytes is None else f" ({size(digest.size_bytes)})"
                if digest.artifact_path.startswith("fi:"):
                    words.append(name.partition(".")[2] + bytes_)
                elif bytes_:
                    words.append(bytes_.strip(" ()"))
            case ResultStatus(text=str() as text, error=None, mime="text/markdown"):
                words.append(text.strip().split("\n", 1)[0])
            case _:
                pass
    return one_line(", ".join(dict.fromkeys(words)), _RESULT_CHARS)


def error_in(block: AnyBlock) -> ToolError | None:
    """Why the call failed, if this is what says so."""
    match block:
        case ResultDigest(digest=digest):
            return digest.error
        case ResultStatus(error=error):
            return error
        case _:
            return None


def plan_lines(plan: PlanSnapshot, most: int = 50) -> list[str]:
    """The plan as a checklist of at most so many lines, around the step that is under way."""
    steps = [f"{marker(status)} {one_line(step)}" for step, status in zip(plan.steps, plan.statuses, strict=True)]
    if len(steps) <= most:
        return steps
    done = [status in ("done", "failed") for status in plan.statuses]
    current = done.index(False) if False in done else len(done) - 1
    if most <= _LEAST_LINES:
        return [f"{steps[current]} ({current + 1}/{len(steps)})"][: max(most, 1)]
    first = max(0, min(current - 1, len(steps) - (most - 1)))
    shown = steps[first : first + most - 1]
    return [*shown, f"  ({sum(done)} of {len(steps)} done)"]


def plan_changes(before: PlanSnapshot | None, plan: PlanSnapshot) -> list[str]:
    """What is new since the plan was last shown: all of it, or the steps that have moved."""
    if before is None or before.plan_id != plan.plan_id or before.steps != plan.steps:
        return plan_lines(plan, MAX_PLAN_LINES)
    steps = zip(before.statuses, plan.statuses, plan.steps, strict=True)
    return [f"{marker(now)} {one_line(step)}" for was, now, step in steps if was != now]


def ending(block: TurnEnded) -> str:
    """Why a turn ended without an answer, in plain words."""
    said = one_line(block.text, 300) if block.text else ""
    return f"{ENDS[block.reason]}: {said}" if said else ENDS[block.reason]


def _with_signs(text: str) -> str:
    """The text with an escape for whatever cannot be seen, or would begin a line of its own."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    short = one_line(text, _VALUE_CHARS)
    return short if short and " " not in short else f'"{short}"' if isinstance(value, str) else short
