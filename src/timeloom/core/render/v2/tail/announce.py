"""Renders the operational facts of a round, in the uncached tail of the prompt."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from timeloom.core.ids import PlanId, TurnId
from timeloom.core.plans.marks import marker
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.render.facts import AnnouncedBudget, RoundFacts
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries.plan_text import step_line
from timeloom.core.render.v2.fence import end_with_break, fence_text
from timeloom.core.timeline import is_timestamp
from timeloom.core.view.artifacts import ArtifactsView
from timeloom.core.view.feedback import FeedbackItem, FeedbackView
from timeloom.core.view.live_events import LiveEventsView
from timeloom.core.view.plans import plans_to_announce
from timeloom.core.view.views import Views

MAX_STEP_CHARS: Final = 160
"""Maximum length of a plan step here; the timeline contains the complete plan."""

MAX_STEPS: Final = 20
"""Maximum number of steps per plan. Of a longer plan, the steps around the first open one are shown."""

MAX_FILES: Final = 10
"""Maximum number of files, the newest; the others can be found with react.rg."""

MAX_SCANNED_ARTIFACTS: Final = 200
"""Maximum number of artifacts searched for these files. Long conversations have many, and every round runs the
search."""

MAX_AUTHOR_CHARS: Final = 60
"""Maximum length of the name of a feedback author; the block contains the full name."""

MAX_REFUSED_CHARS: Final = 3_000
"""Maximum length of a refused reply in the next request. A longer one lets a broken reply fill the window."""

MAX_FEEDBACK: Final = 4
"""Maximum number of reactions and remarks, the newest."""


def announce_section(this: RoundFacts, views: Views, names: Names) -> str:
    """Return the section with the facts of a round; its length is bounded, and every line begins with a mark."""
    turn = views.turns.newest
    lines = [
        f"[ANNOUNCE] {_utc_time(this.now)}, round {this.iteration} of {this.max_iterations}",
        *_budget_lines(this),
        *_plan_lines(plans_to_announce(views.plans), views.plans.current),
        *(_event_lines(views.live, names) if views.live.turn_id == turn else ()),
        *_workspace_lines(this.workspace, views.artifacts, turn, names),
        *([f"[CACHE] {one_line(this.cache)}"] if this.cache else []),
        *_feedback_lines(views.feedback, names),
        *_refused_lines(this.refused),
        *_last_round_lines(this),
    ]
    return "\n".join(lines) + "\n"


def _utc_time(ts: str) -> str:
    """Return a timestamp in the form of the turns, with its time zone; any other text as one line."""
    return f"{ts[:10]} {ts[11:19]} UTC" if is_timestamp(ts) else one_line(ts)


def _budget_lines(this: RoundFacts) -> Iterable[str]:
    window = (AnnouncedBudget("context tokens", this.prompt_tokens, this.window_tokens),) if this.window_tokens else ()
    for budget in (*window, *this.budgets):
        yield f"[BUDGET] {one_line(budget.name)}: {one_line(budget.text) or f'{budget.used}/{budget.limit}'}"


def _plan_lines(plans: Sequence[PlanSnapshot], current: PlanId | None) -> Iterable[str]:
    for plan in plans:
        yield f"[OPEN PLAN {plan.plan_id}]{' current' if plan.plan_id == current else ''}"
        yield from _step_lines(plan)


def _step_lines(plan: PlanSnapshot) -> list[str]:
    rows = [
        f"{marker(status)} {n}) {step_line(plan, step, MAX_STEP_CHARS)}"
        for n, (step, status) in enumerate(zip(plan.steps, plan.statuses, strict=True), 1)
    ]
    if len(rows) <= MAX_STEPS:
        return rows
    first_open = next(n for n, status in enumerate(plan.statuses) if status not in ("done", "failed"))
    start = min(max(0, first_open - MAX_STEPS // 2), len(rows) - MAX_STEPS)
    shown = f"steps {start + 1} to {start + MAX_STEPS} of {len(rows)}"
    read = f"react.read({json_line([f'ar:plan.latest:{plan.plan_id}'])})"
    return [*rows[start : start + MAX_STEPS], f"[OPEN PLAN {plan.plan_id}] {shown}; read all with {read}"]


def _event_lines(live: LiveEventsView, names: Names) -> Iterable[str]:
    if live.events and live.earlier:
        yield f"[LIVE EVENT] {live.earlier} earlier ones stand in the turn"
    for event in live.events:
        path = one_line(names.path(event.path), 1_200)
        yield f"[LIVE EVENT] {one_line(event.kind)} {_utc_time(event.ts)} {path}: {one_line(event.hint)}"


def _workspace_lines(given: Sequence[str], artifacts: ArtifactsView, turn: TurnId, names: Names) -> Iterable[str]:
    for line in given[:MAX_FILES]:
        yield f"[WORKSPACE] {one_line(line)}"
    newest, own = islice(reversed(artifacts.artifacts), MAX_SCANNED_ARTIFACTS), f"fi:{turn}."
    mine = (path for path in newest if path.startswith(own))
    if files := [names.path(path) for path in islice(mine, MAX_FILES)]:
        yield f"[WORKSPACE] {json_line(files[::-1])}"


def _feedback_lines(feedback: FeedbackView, names: Names) -> list[str]:
    every = ((turn, one) for turn in reversed(feedback.turns) for one in reversed(feedback.turns[turn]))
    said = (_feedback_line(names.turn(turn), one) for turn, one in every if not one.is_empty)
    return list(islice(said, MAX_FEEDBACK))[::-1]


def _feedback_line(turn: str, given: FeedbackItem) -> str:
    by = f" by {one_line(given.author, MAX_AUTHOR_CHARS)}" if given.origin == "machine" else ""
    sure = "" if given.confidence is None else f", confidence {given.confidence:.2f}"
    said = f": {one_line(given.hint)}" if given.hint else ""
    return f"[FEEDBACK] {turn}: {given.reaction or 'remark'}{by}{sure}{said}"


def _refused_lines(reply: str) -> list[str]:
    if not reply:
        return []
    head = MAX_REFUSED_CHARS * 2 // 3
    left_out = len(reply) - MAX_REFUSED_CHARS
    if left_out > 0:
        middle = f"[REFUSED REPLY] {left_out} characters are left out here.\n"
        body = f"{end_with_break(fence_text(reply[:head]))}{middle}{fence_text(reply[head - MAX_REFUSED_CHARS :])}"
    else:
        body = fence_text(reply)
    begin = "[REFUSED REPLY] Your last reply was not executed. The notice above says why. It was:"
    return [begin, body.removesuffix("\n"), "[/REFUSED REPLY]"]


def _last_round_lines(this: RoundFacts) -> list[str]:
    if this.iteration < this.max_iterations:
        return []
    return ["[LAST ROUND] No tool runs any more. Answer now with what you have, and say what is missing."]
