"""Renders ANNOUNCE, the operational facts of a round, in the uncached tail of the prompt."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from timeloom.core.blocks import Usage
from timeloom.core.ids import PlanId, TurnId
from timeloom.core.plans.marks import marker
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.render.facts import AnnouncedBudget, RoundFacts
from timeloom.core.render.foreign_text.fence import fence, one_line
from timeloom.core.render.v1.entries.plan_text import step_line
from timeloom.core.view.artifacts import ArtifactsView
from timeloom.core.view.feedback import FeedbackItem, FeedbackView
from timeloom.core.view.live_events import LiveEventsView
from timeloom.core.view.plans import plans_to_announce
from timeloom.core.view.views import Views

BAR_CELLS: Final = 20
"""Width of a budget bar in characters."""

MAX_STEP_CHARS: Final = 160
"""Maximum length of a plan step in ANNOUNCE; the timeline contains the complete plan."""

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


def announce_section(this: RoundFacts, views: Views) -> str:
    """Return the ANNOUNCE section of a round; its length is bounded."""
    turn = views.turns.newest
    groups = [
        [f"time: {this.now}", f"iteration: {this.iteration}/{this.max_iterations}", *_budget_lines(this)],
        _plan_lines(plans_to_announce(views.plans), views.plans.current),
        _event_lines(views.live) if views.live.turn_id == turn else [],
        _workspace_lines(this.workspace, views.artifacts, turn),
        [f"[CACHE] {one_line(this.cache)}"] if this.cache else [],
        _feedback_lines(views.feedback),
        _refused_lines(this.refused),
        _last_round_lines(this),
    ]
    body = "\n".join("\n".join(lines) for lines in groups if lines)
    return f"ANNOUNCE\n{body}\n"


def cache_line(last: Usage | None, points: int) -> str:
    """Return a line on the cache use of the last request and the number of current cache points.

    It is empty if the provider neither read nor wrote a cache: it has none, or does not report it.
    """
    if last is None or not (last.cache_read_tokens or last.cache_write_tokens):
        return ""
    read, written, plain = last.cache_read_tokens, last.cache_write_tokens, last.input_tokens
    return f"last request: {read} tokens read, {written} written, {plain} uncached; cache points now: {points}"


def _budget_lines(this: RoundFacts) -> Iterable[str]:
    window = (AnnouncedBudget("context tokens", this.prompt_tokens, this.window_tokens),) if this.window_tokens else ()
    rounds = AnnouncedBudget("rounds", this.iteration, this.max_iterations)
    for budget in (rounds, *window, *this.budgets):
        yield f"{one_line(budget.name)}: {_bar(budget)} {budget.text or f'{budget.used}/{budget.limit}'}"


def _bar(budget: AnnouncedBudget) -> str:
    share = min(1.0, max(0.0, budget.used / budget.limit)) if budget.limit > 0 else 1.0
    full = round(share * BAR_CELLS)
    return f"[{'#' * full}{'.' * (BAR_CELLS - full)}]"


def _plan_lines(plans: Sequence[PlanSnapshot], current: PlanId | None) -> list[str]:
    if not plans:
        return []
    lines = ["[OPEN PLANS]"]
    for plan in plans:
        lines.append(f"  plan_id={plan.plan_id}{' (current)' if plan.plan_id == current else ''}")
        lines += _step_lines(plan)
    return lines


def _step_lines(plan: PlanSnapshot) -> list[str]:
    rows = [
        f"    {marker(status)} [{n}] {step_line(plan, step, MAX_STEP_CHARS)}"
        for n, (step, status) in enumerate(zip(plan.steps, plan.statuses, strict=True), 1)
    ]
    if len(rows) <= MAX_STEPS:
        return rows
    first_open = next(n for n, status in enumerate(plan.statuses) if status not in ("done", "failed"))
    start = min(max(0, first_open - MAX_STEPS // 2), len(rows) - MAX_STEPS)
    note = (
        f"    ({len(rows)} steps, {start + 1} to {start + MAX_STEPS} shown; react.read: ar:plan.latest:{plan.plan_id})"
    )
    return [*rows[start : start + MAX_STEPS], note]


def _event_lines(live: LiveEventsView) -> list[str]:
    if not live.events:
        return []
    more = [f"  ({live.earlier} earlier ones stand in the turn)"] if live.earlier else []
    rows = [f"  {event.kind} ts={event.ts} {event.path}: {one_line(event.hint)}" for event in live.events]
    return ["[LIVE TURN EVENTS]", *more, *rows]


def _workspace_lines(given: Sequence[str], artifacts: ArtifactsView, turn: TurnId) -> list[str]:
    newest, own = islice(reversed(artifacts.artifacts), MAX_SCANNED_ARTIFACTS), f"fi:{turn}."
    mine = (path for path in newest if path.startswith(own))
    files = [f"  {one_line(path)}" for path in islice(mine, MAX_FILES)]
    rows = [f"  {one_line(line)}" for line in given[:MAX_FILES]] + files[::-1]
    return ["[WORKSPACE]", *rows] if rows else []


def _feedback_lines(feedback: FeedbackView) -> list[str]:
    every = ((turn, one) for turn in reversed(feedback.turns) for one in reversed(feedback.turns[turn]))
    said = (_feedback_line(turn, one) for turn, one in every if not one.is_empty)
    newest = list(islice(said, MAX_FEEDBACK))[::-1]
    return ["[FEEDBACK]", *newest] if newest else []


def _feedback_line(turn: TurnId, given: FeedbackItem) -> str:
    by = f" by {one_line(given.author, MAX_AUTHOR_CHARS)}" if given.origin == "machine" else ""
    sure = "" if given.confidence is None else f", confidence {given.confidence:.2f}"
    said = f": {one_line(given.hint)}" if given.hint else ""
    return f"  {turn}: {given.reaction or 'remark'}{by}{sure}{said}"


def _refused_lines(reply: str) -> list[str]:
    if not reply:
        return []
    left_out = len(reply) - MAX_REFUSED_CHARS
    if left_out > 0:
        head = MAX_REFUSED_CHARS * 2 // 3
        tail = reply[head - MAX_REFUSED_CHARS :]
        reply = f"{reply[:head]}\n[{left_out} characters left out]\n{tail}"
    return ["[REFUSED REPLY] Your last reply, which was not executed; the notice above says why.", fence(reply)]


def _last_round_lines(this: RoundFacts) -> list[str]:
    if this.iteration < this.max_iterations:
        return []
    return ['[LAST ROUND] No tool is run after this. Answer now with action "complete", from what is known.']
