"""Plans the next action from the intents of the user's message and the calls made so far."""

from collections.abc import Sequence
from typing import Final

from timeloom_local import calls
from timeloom_local.intents.kinds import DeclineIntent, Intent, QuestionIntent, SmallTalkIntent
from timeloom_local.intents.parse_message import ParsedClause, parse_message
from timeloom_local.prompt_content import PromptContent
from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.reply import Parts, Slot, build_call_reply, build_complete_reply
from timeloom_local.routing.router import Route, Router
from timeloom_local.run_intent import run_intent
from timeloom_local.steps import PLAN, ClauseAnswer, PlannedCall, StepContext, Steps, fail

MIN_PLANNED_CLAUSES: Final = 3
"""Minimum number of clauses for which a plan is opened first."""

BUILT_IN: Final = ("react.", "exec_tools.")
"""Prefixes of the tools that the intents use; all others are tools of the server."""


def plan_reply(prompt: PromptContent, tools: Sequence[OfferedTool], router: Router) -> Parts:
    """Return the reply of this round: a call, or the answer once every clause is done or one has failed."""
    if prompt.stop:
        return build_complete_reply(["Stopped, as you asked."], thinking="The user said stop.", edition=prompt.edition)
    planner = _RoundPlanner(prompt, tools, router)
    planned = planner.next_call()
    if planned is None or prompt.last_round:
        thinking = f"{planner.describe_clause()} Nothing more is to be called; answer."
        return build_complete_reply(
            planner.answer(),
            thinking=thinking,
            notes=planner.notes(ended=True),
            followups=planner.followups(),
            summary=_summarize_turn(prompt),
            edition=prompt.edition,
        )
    thinking = f"{planner.describe_clause()} {planned.reason}"
    return build_call_reply(
        planned.tool_id,
        planned.params,
        thinking=thinking,
        notes=planner.notes(),
        code=planned.code,
        edition=prompt.edition,
    )


class _RoundPlanner:
    """Plans one round from the prompt alone; nothing is kept between rounds."""

    def __init__(self, prompt: PromptContent, tools: Sequence[OfferedTool], router: Router) -> None:
        self._prompt = prompt
        self._router = router
        self._context = StepContext(prompt, {offer.tool_id: offer for offer in tools}, router)
        self._clauses = parse_message(prompt.message)
        self._answers: list[ClauseAnswer] = []
        self._at = 0
        self._follows_plan = False

    def next_call(self) -> PlannedCall | None:
        """Return the call that the first open clause needs; None if no clause is open or one has failed."""
        if self._needs_plan():
            steps = [clause.text[:200] for clause in self._clauses]
            made = self._context.call(PLAN, lambda: calls.build_plan_params(steps), "A plan comes first.")
            for planned in made:
                return planned
            self._follows_plan = True
        for at, clause in enumerate(self._clauses):
            self._at = at
            try:
                return next(self._steps(clause))
            except StopIteration as ended:
                answer: ClauseAnswer = ended.value
            self._answers.append(answer)
            self._context.result = answer.result
            self._context.has_answers |= not answer.failed
            if answer.failed:
                return None
        return None

    def answer(self) -> list[str | Slot]:
        """Return the answers of all clauses, and what was left out after a failure."""
        parts: list[str | Slot] = []
        for answer in self._answers:
            parts += ["\n\n", *answer.parts] if parts else answer.parts
        left = self._clauses[len(self._answers) :]
        if left and self._answers and self._answers[-1].failed:
            parts.append(f"\n\nSo I left out the rest: “{'”, “'.join(clause.text[:120] for clause in left)}”.")
        return parts or ["I could not do this in the rounds that I have."]

    def followups(self) -> list[str]:
        """Return messages to suggest."""
        return list(dict.fromkeys(text for answer in self._answers for text in answer.followups))[:2]

    def describe_clause(self) -> str:
        """Return a sentence on how the current clause was understood."""
        clause = self._clauses[self._at]
        kind = type(clause.intent).__name__.removesuffix("Intent").lower()
        return f"“{clause.text[:120]}” reads as: {kind}."

    def notes(self, *, ended: bool = False) -> str:
        """Return the marks of the plan for the clauses, or those that an answer asks for."""
        marks = "\n".join(answer.notes for answer in self._answers if answer.notes)
        if not self._follows_plan or not self._prompt.plan:
            return marks
        done = sum(not answer.failed for answer in self._answers)
        lines = [f"✓ [{n}]" for n in range(1, done + 1)]
        if len(self._answers) > done:
            lines.append(f"✗ [{done + 1}]")
        elif not ended:
            lines.append(f"… [{done + 1}]")
        return "\n".join(lines)

    def _needs_plan(self) -> bool:
        """Return whether several requests are made, of which the first is not declined."""
        first = self._clauses[0].intent
        has_calls = not isinstance(first, DeclineIntent | SmallTalkIntent)
        return len(self._clauses) >= MIN_PLANNED_CLAUSES and PLAN in self._context.tools and has_calls

    def _steps(self, clause: ParsedClause) -> Steps:
        route = self._find_own_tool(clause)
        return self._call_own_tool(clause, route) if route else run_intent(clause.intent, clause.text, self._context)

    def _find_own_tool(self, clause: ParsedClause) -> Route | None:
        """Return the tool of the server that a clause asks for, if no rule understands the clause."""
        own = tuple(tool for name, tool in self._context.tools.items() if not name.startswith(BUILT_IN))
        return self._router.route(clause.text, own) if own and _may_need_own_tool(clause.intent) else None

    def _call_own_tool(self, clause: ParsedClause, route: Route) -> Steps:
        tool = self._context.tools[route.target]
        made = yield from self._context.call(
            route.target,
            lambda: calls.build_other_params(tool, clause.text),
            f"It is nearest to “{route.example}” ({route.similarity:.2f}).",
        )
        if made.failure:
            return fail(f"I could not do this: {' '.join(made.failure.split())[:300].rstrip('.')}.")
        text = made.text or made.status
        return ClauseAnswer(parts=(f"The tool answered:\n\n{text[:1_500]}" if text else "Done.",), result=text)


def _may_need_own_tool(intent: Intent) -> bool:
    match intent:
        case DeclineIntent(reason=reason):
            return reason in ("unsupported", "unclear", "facts", "web", "condition")
        case QuestionIntent():
            return True
        case _:
            return False


def _summarize_turn(prompt: PromptContent) -> str:
    tools = ", ".join(dict.fromkeys(call.tool_id for call in prompt.calls)) or "none"
    return f"Goal: {' '.join(prompt.message.split())[:200]}\nTools: {tools}"
