"""Plans the next action from the clauses of the user's message and the calls made so far."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from timeloom_local import calls
from timeloom_local.answers import (
    AnswerTexts,
    Clause,
    build_final_reply,
    build_stopped_reply,
    describe_abilities,
    find_completed_step,
)
from timeloom_local.edits import apply_edit, parse_edit
from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.read_prompt import PromptContent
from timeloom_local.reply import Parts, Slot, TextTemplate, Value, build_call_reply
from timeloom_local.routing.router import ANSWER, HELP, Route, Router
from timeloom_local.text_rules import find_file_names, is_edit_request, is_question, is_read_request, split_clauses

MIN_PLANNED_CLAUSES: Final = 3
"""Minimum number of clauses for which a plan is opened first."""

MIN_RARE_SIMILARITY: Final = 0.6
"""Minimum similarity to an example for tools that users rarely ask for; below it, another route is chosen."""

READ: Final = "react.read"
WRITE: Final = "react.write"
PATCH: Final = "react.patch"
PLAN: Final = "react.plan"
SEARCH: Final = "react.rg"

_RARE_ROUTES: Final = frozenset({"react.hide", "react.pull", "react.checkout", HELP})
_ROUTES_WITHOUT_TOOL: Final = frozenset({ANSWER, HELP})


class PlannedCall(msgspec.Struct, frozen=True):
    """The next call with its reason."""

    tool_id: str
    params: Mapping[str, Value] | Slot
    reason: str
    code: Slot | None = None


def plan_reply(prompt: PromptContent, tools: Sequence[OfferedTool], router: Router) -> Parts:
    """Return the reply of this round: a call, or the answer once every clause is done or one has failed."""
    if prompt.stop:
        return build_stopped_reply()
    planner = _RoundPlanner(prompt, tools, router)
    planned = planner.next_call()
    if planned is None or prompt.last_round or _is_repeated(planned, prompt):
        thinking = f"{planner.describe_route()} Nothing more is to be called; answer."
        return build_final_reply(planner.steps, prompt, router, AnswerTexts(thinking, planner.plan_marks(ended=True)))
    thinking = f"{planner.describe_route()} {planned.reason}"
    return build_call_reply(
        planned.tool_id, planned.params, thinking=thinking, notes=planner.plan_marks(), code=planned.code
    )


class _RoundPlanner:
    """Plans one round from the prompt alone; nothing is kept between rounds."""

    def __init__(self, prompt: PromptContent, tools: Sequence[OfferedTool], router: Router) -> None:
        self._prompt = prompt
        self._tools = {offer.tool_id: offer for offer in tools}
        self._router = router
        self._remaining_calls = deque(prompt.calls)
        self._follows_plan = False
        self.steps = self._route_clauses()
        self._current = self.steps[0]

    def next_call(self) -> PlannedCall | None:
        """Return the call that the first open clause needs; None if no clause is open or one has failed."""
        needs_plan = len(self.steps) >= MIN_PLANNED_CLAUSES and PLAN in self._tools
        if needs_plan and not self._remaining_calls:
            steps = [step.text for step in self.steps]
            return PlannedCall(
                PLAN, calls.build_plan_params("", steps), "Several things are asked for, so a plan comes first."
            )
        if needs_plan and self._remaining_calls[0].tool_id == PLAN:
            self._remaining_calls.popleft()
            self._follows_plan = True
        for step in self.steps:
            self._current = step
            if planned := self._next_call_of(step):
                return planned
            if step.problem:
                return None
        return None

    def describe_route(self) -> str:
        """Return a sentence on how the current clause was routed."""
        route = self._current.route
        example = f", nearest to “{route.example}” ({route.similarity:.2f})" if route.example else ""
        return f"“{self._current.text[:120]}” is for {route.target}{example}."

    def plan_marks(self, *, ended: bool = False) -> str:
        """Return the marks of the plan for the clauses: done steps, and the current one as begun, done or failed."""
        if not self._follows_plan or not self._prompt.plan:
            return ""
        at = self.steps.index(self._current)
        now = "✗" if self._current.problem else "✓" if ended else "…"
        return "\n".join([*(f"✓ [{n}]" for n in range(1, at + 1)), f"{now} [{at + 1}]"])

    def _route_clauses(self) -> list[Clause]:
        """Split the message into routed clauses; if a part needs no tool, the whole message is one clause."""
        message = self._prompt.message
        parts = split_clauses(message)
        steps = [Clause(text=text, route=self._route(text)) for text in parts]
        if len(steps) > 1 and any(step.route.target in _ROUTES_WITHOUT_TOOL for step in steps):
            steps = [Clause(text=message, route=self._route(message))]
        for step in steps:
            step.answer = describe_abilities(self._tools.values()) if step.route.target == HELP else ""
        return steps

    def _route(self, text: str) -> Route:
        if find_completed_step(self._prompt):
            return Route(ANSWER, "", 0.0)
        excluded = self._excluded_routes(text)
        tools = tuple(self._tools.values())
        route = self._router.route(text, tools, excluded)
        unsure = _RARE_ROUTES if calls.mentions_plan(text) else _RARE_ROUTES | {PLAN}
        if route.target in unsure and route.similarity < MIN_RARE_SIMILARITY:
            route = self._router.route(text, tools, excluded | unsure)
        attached = self._has_new_attachment()
        if route.target == ANSWER and attached and READ in self._tools and is_question(text):
            return Route(READ, "", 0.0)
        return route

    def _excluded_routes(self, text: str) -> frozenset[str]:
        """Return the routes that the form of the message excludes."""
        if find_file_names(text):
            return self._excluded_file_routes(text) | _ROUTES_WITHOUT_TOOL if self._tools else frozenset()
        excluded = set[str]()
        if not calls.find_meant_files(text, self._prompt):
            excluded.add(READ)
        if not self._prompt.files or not calls.mentions_it(text):
            excluded.add(PATCH)
        if not calls.mentions_file(text):
            excluded |= {WRITE, SEARCH}
        if calls.mentions_plan(text) and PLAN in self._tools:
            excluded.add(ANSWER)
        return frozenset(excluded)

    def _excluded_file_routes(self, text: str) -> frozenset[str]:
        """Return the routes that the form of a message with a file name excludes."""
        if calls.find_meant_files(text, self._prompt):
            return frozenset({WRITE, READ}) if is_edit_request(text) else frozenset()
        # An unknown file is written, unless the message asks to read or change it.
        if calls.mentions_new_file(text):
            return frozenset({READ, PATCH})
        return frozenset() if is_question(text) or is_read_request(text) else frozenset({READ})

    def _has_new_attachment(self) -> bool:
        here = f"fi:{self._prompt.turn}."
        return any(file.attached and file.path.startswith(here) for file in self._prompt.files.values())

    def _next_call_of(self, step: Clause) -> PlannedCall | None:
        """Return the call that a clause still needs; consumes the calls that were made for it."""
        tool_id = step.route.target
        if tool_id in _ROUTES_WITHOUT_TOOL:
            return None
        step.files = calls.find_meant_files(step.text, self._prompt)
        if tool_id == PATCH:
            return self._next_patch_call(step)
        if self._remaining_calls and self._remaining_calls[0].tool_id == tool_id:
            step.call = self._remaining_calls.popleft()
            step.problem = step.call.failure
            return None
        if self._remaining_calls:
            # Calls that this plan did not make: by another model, or before the message changed.
            step.call = self._remaining_calls.pop()
            self._remaining_calls.clear()
            return None
        return self._first_call(step, tool_id)

    def _first_call(self, step: Clause, tool_id: str) -> PlannedCall:
        text = step.text
        match tool_id:
            case "react.write":
                return PlannedCall(
                    tool_id, calls.build_write_params(text), "The name and the words are taken from the message."
                )
            case "react.read":
                params = calls.build_read_params(step.files, find_file_names(text), self._prompt)
                return PlannedCall(tool_id, params, "It is read before anything is said about it.")
            case "react.plan":
                has_plan = bool(self._prompt.plan)
                params = calls.build_close_params(text) if has_plan else None
                return PlannedCall(tool_id, params or calls.build_plan_params(text), "The steps follow.")
            case "react.rg":
                return PlannedCall(tool_id, calls.build_search_params(text), "The workspace is searched.")
            case "react.pull" | "react.checkout":
                paths = [file.path for file in step.files or self._prompt.files.values()]
                return PlannedCall(tool_id, {"paths": paths[-10:]}, "These are the files in sight.")
            case "react.hide":
                return PlannedCall(tool_id, calls.build_hide_params(self._prompt), "The newest result is hidden.")
            case _:
                params = calls.build_other_params(self._tools[tool_id], text)
                return PlannedCall(
                    tool_id, params, "Its parameters follow its schema.", calls.build_program_slot(tool_id, text)
                )

    def _next_patch_call(self, step: Clause) -> PlannedCall | None:
        was_read = bool(self._remaining_calls) and self._remaining_calls[0].tool_id == READ
        failed = self._remaining_calls.popleft().failure if was_read else ""
        if self._remaining_calls and self._remaining_calls[0].tool_id == PATCH:
            step.call = self._remaining_calls.popleft()
            step.edit = parse_edit(step.text)
            step.problem = step.call.failure
            return None
        file = step.files[0] if step.files else None
        file = file or (calls.find_last_file(self._prompt) if not find_file_names(step.text) else None)
        if file is None or file.text is None:
            if was_read:
                step.problem = failed or "its text could not be read"
                return None
            params = calls.build_read_params([file] if file else [], find_file_names(step.text), self._prompt)
            return PlannedCall(READ, params, "Its text must be in sight before it is changed.")
        step.files, step.edit = [file], parse_edit(step.text)
        after = apply_edit(file.text, step.edit) if step.edit else None
        if after is None:
            step.problem = (
                calls.UNKNOWN_EDIT if step.edit is None else f"{file.name} does not hold what is to be changed"
            )
            return None
        return PlannedCall(
            PATCH, calls.build_patch_params(file, file.text, after, self._prompt), "The change is a small diff."
        )


def _is_repeated(planned: PlannedCall, prompt: PromptContent) -> bool:
    """Return whether the same call was made since the last change of a file, so that repeating it is useless."""
    changes = [n for n, made in enumerate(prompt.calls) if made.tool_id in (WRITE, PATCH)]
    since = prompt.calls[changes[-1] if changes else 0 :]
    if isinstance(planned.params, Slot):
        return any(made.tool_id == planned.tool_id for made in since)
    known = {name: value for name, value in planned.params.items() if not isinstance(value, Slot | TextTemplate)}
    plain = msgspec.json.decode(msgspec.json.encode(known), type=dict[str, object])
    return any(made.tool_id == planned.tool_id and _has_params(made.params, plain) for made in since)


def _has_params(params: str, known: Mapping[str, object]) -> bool:
    try:
        given = msgspec.json.decode(params, type=dict[str, object])
    except msgspec.MsgspecError:  # very long parameters are cut in the prompt
        return False
    return all(name in given and given[name] == value for name, value in known.items())
