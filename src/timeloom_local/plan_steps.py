"""The steps of intents about plans: open one, show it, close it, and mark steps of it as done."""

import re
from typing import Final

from timeloom_local import answers, calls
from timeloom_local.intents.kinds import PlanIntent, PlanStatusIntent
from timeloom_local.plan_templates import general_steps
from timeloom_local.quoting import content_words
from timeloom_local.steps import PLAN, ClauseAnswer, StepContext, Steps, fail


def make_plan(intent: PlanIntent, context: StepContext) -> Steps:
    """Open a plan with the given steps, or with general steps for the goal."""
    steps = list(intent.steps) or general_steps(intent.goal)
    made = yield from context.call(PLAN, lambda: calls.build_plan_params(steps), "The steps follow.")
    if made.failure:
        return fail(f"I could not open the plan: {answers.one_line(made.failure)}.")
    note = "" if intent.steps else f"\n\n{_GENERAL}"
    return ClauseAnswer(
        parts=(f"The plan is open:\n\n{_format_plan(context)}{note}",),
        result="\n".join(steps),
        followups=("Step 1 is done",),
    )


def report_plan(intent: PlanStatusIntent, context: StepContext) -> Steps:
    """Show or close the plan, or mark steps of it as done."""
    plan = context.prompt.plan
    if intent.kind == "close" and (plan or context.is_next(PLAN)):
        made = yield from context.call(PLAN, lambda: {"mode": "close"}, "The plan is closed.")
        return (
            fail(f"I could not close the plan: {made.failure}.")
            if made.failure
            else ClauseAnswer(parts=("The plan is closed.",))
        )
    if not plan:
        return fail(_NO_PLAN) if intent.is_certain else _acknowledge()
    if intent.kind == "show":
        return ClauseAnswer(parts=(f"This is the plan:\n\n{_format_plan(context)}",))
    if intent.words:
        return _mark_named_steps(intent, plan)
    if not 1 <= intent.step <= len(plan):
        return fail(f"The plan has no step {intent.step}; it has {len(plan)} steps.")
    return _mark([intent.step], plan)


def find_named_steps(words: str, plan: list[tuple[str, str]]) -> list[int]:
    """Return the numbers of the open steps that words name, such as `the dentist one`; empty if it is not clear."""
    found: list[int] = []
    for part in _PARTS.split(words):
        wanted = {word for word in content_words(part) if len(word) >= _MIN_WORD_CHARS}
        shares = {
            n: _share(content_words(step), wanted) for n, (step, mark) in enumerate(plan, 1) if mark not in _ENDED
        }
        best = max(shares.values(), default=0.0)
        nearest = [n for n, share in shares.items() if share == best and best > 0]
        if len(nearest) > 1:
            return []
        found += [n for n in nearest if n not in found]
    return found


def _mark_named_steps(intent: PlanStatusIntent, plan: list[tuple[str, str]]) -> ClauseAnswer:
    open_steps = [n for n, (_, mark) in enumerate(plan, 1) if mark not in _ENDED]
    if _ALL.search(intent.words) and intent.is_certain:
        return _mark(open_steps, plan)
    numbers = [int(number) for number in _NUMBERS.findall(intent.words)]
    if wrong := [n for n in numbers if not 1 <= n <= len(plan)]:
        return fail(f"The plan has no step {wrong[0]}; it has {len(plan)} steps.")
    found = numbers or find_named_steps(intent.words, plan)
    if found:
        return _mark(found, plan)
    if not intent.is_certain:
        return _acknowledge()
    return fail(f"I do not see which step you mean, so I marked none. Say its number.\n\n{_format_open(plan, [])}")


def _mark(steps: list[int], plan: list[tuple[str, str]]) -> ClauseAnswer:
    named = answers.join_names([f"{n} (“{plan[n - 1][0]}”)" for n in steps])
    verb = f"Step {named} of the plan is done." if len(steps) == 1 else f"Steps {named} of the plan are done."
    return ClauseAnswer(parts=(f"{verb} {_format_open(plan, steps)}",), notes="\n".join(f"✓ [{n}]" for n in steps))


def _format_open(plan: list[tuple[str, str]], marked: list[int]) -> str:
    left = [f"{n}. {step}" for n, (step, mark) in enumerate(plan, 1) if mark not in _ENDED and n not in marked]
    return "Still open:\n\n" + "\n".join(left) if left else "No step is left open."


def _acknowledge() -> ClauseAnswer:
    return ClauseAnswer(parts=(answers.describe_small_talk("statement"),))


def _share(step: set[str], wanted: set[str]) -> float:
    """Return the share of a step's words that were said; forms of a word count as the same."""
    return sum(any(_is_same(word, said) for said in wanted) for word in step) / len(step) if step else 0.0


def _is_same(left: str, right: str) -> bool:
    short, long = sorted((left, right), key=len)
    return left == right or (
        len(short) >= _MIN_WORD_CHARS and long.startswith(short) and len(long) - len(short) <= _MAX_ENDING
    )


def _format_plan(context: StepContext) -> str:
    marks = {"✓": " (done)", "✗": " (failed)"}
    return "\n".join(f"{n}. {text}{marks.get(mark, '')}" for n, (text, mark) in enumerate(context.prompt.plan, 1))


_NUMBERS: Final = re.compile(r"#(\d+)")
_ENDED: Final = frozenset({"✓", "✗"})
_MIN_WORD_CHARS: Final = 3
_MAX_ENDING: Final = 4
_PARTS: Final = re.compile(r"\s+and\s+|[,;]\s+|[.!?]\s+", re.IGNORECASE)
_ALL: Final = re.compile(r"\b(?:all(?: of (?:them|it))?|everything|every step|the whole plan)\b", re.IGNORECASE)
_NO_PLAN: Final = "There is no plan in this conversation. Say for example “Make a plan for a picnic”."
_GENERAL: Final = (
    "These are general steps, because I know little about your goal. Give me your own: “Make a plan: "
    "first step, second step”."
)
