"""Plans the next action from the clauses of the user's message and the calls made so far."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from timeloom_local import calls
from timeloom_local.answers import Manner, Step, abilities, final_reply, stopped_reply, ticked
from timeloom_local.edits import edited, read_edit
from timeloom_local.read_catalogue import Offer
from timeloom_local.read_prompt import Situation
from timeloom_local.reply import Mixed, Parts, Slot, Value, call
from timeloom_local.routing.router import ANSWER, HELP, Route, Router
from timeloom_local.text_rules import begins_with_edit, begins_with_look, clauses, file_names, is_question

PLANNED_CLAUSES: Final = 3
"""Minimum number of clauses for which a plan is opened first."""

SURE: Final = 0.6
"""Minimum similarity to an example for tools that users rarely ask for; below it, another route is chosen."""

READ: Final = "react.read"
WRITE: Final = "react.write"
PATCH: Final = "react.patch"
PLAN: Final = "react.plan"
SEARCH: Final = "react.rg"

_RARE: Final = frozenset({"react.hide", "react.pull", "react.checkout", HELP})
_SPOKEN: Final = frozenset({ANSWER, HELP})


class Wanted(msgspec.Struct, frozen=True):
    """The next call with its reason."""

    tool_id: str
    params: Mapping[str, Value] | Slot
    why: str
    code: Slot | None = None


def next_reply(situation: Situation, offers: Sequence[Offer], router: Router) -> Parts:
    """Return the reply of this round: a call, or the answer once every clause is done or one has failed."""
    if situation.stop:
        return stopped_reply()
    course = _Course(situation, offers, router)
    wanted = course.wanted()
    if wanted is None or situation.last_round or _was_made(wanted, situation):
        thinking = f"{course.about()} Nothing more is to be called; answer."
        return final_reply(course.steps, situation, router, Manner(thinking, course.marks(ended=True)))
    thinking = f"{course.about()} {wanted.why}"
    return call(wanted.tool_id, wanted.params, thinking=thinking, notes=course.marks(), code=wanted.code)


class _Course:
    """Plans one round from the prompt alone; nothing is kept between rounds."""

    def __init__(self, situation: Situation, offers: Sequence[Offer], router: Router) -> None:
        self._situation = situation
        self._offers = {offer.tool_id: offer for offer in offers}
        self._router = router
        self._left = deque(situation.calls)
        self._follows_plan = False
        self.steps = self._clauses()
        self._now = self.steps[0]

    def wanted(self) -> Wanted | None:
        """Return the call that the first open clause needs; None if no clause is open or one has failed."""
        planned = len(self.steps) >= PLANNED_CLAUSES and PLAN in self._offers
        if planned and not self._left:
            steps = [step.text for step in self.steps]
            return Wanted(PLAN, calls.plan_params("", steps), "Several things are asked for, so a plan comes first.")
        if planned and self._left[0].tool_id == PLAN:
            self._left.popleft()
            self._follows_plan = True
        for step in self.steps:
            self._now = step
            if wanted := self._next_of(step):
                return wanted
            if step.problem:
                return None
        return None

    def about(self) -> str:
        """Return a sentence on how the current clause was routed."""
        route = self._now.route
        example = f", nearest to “{route.example}” ({route.likeness:.2f})" if route.example else ""
        return f"“{self._now.text[:120]}” is for {route.to}{example}."

    def marks(self, *, ended: bool = False) -> str:
        """Return the marks of the plan for the clauses: done steps, and the current one as begun, done or failed."""
        if not self._follows_plan or not self._situation.plan:
            return ""
        at = self.steps.index(self._now)
        now = "✗" if self._now.problem else "✓" if ended else "…"
        return "\n".join([*(f"✓ [{n}]" for n in range(1, at + 1)), f"{now} [{at + 1}]"])

    def _clauses(self) -> list[Step]:
        """Split the message into routed clauses; if a part needs no tool, the whole message is one clause."""
        message = self._situation.message
        parts = clauses(message)
        steps = [Step(text=text, route=self._route(text)) for text in parts]
        if len(steps) > 1 and any(step.route.to in _SPOKEN for step in steps):
            steps = [Step(text=message, route=self._route(message))]
        for step in steps:
            step.said = abilities(self._offers.values()) if step.route.to == HELP else ""
        return steps

    def _route(self, text: str) -> Route:
        if ticked(self._situation):
            return Route(ANSWER, "", 0.0)
        barred = self._barred(text)
        offers = tuple(self._offers.values())
        route = self._router.route(text, offers, barred)
        unsure = _RARE if calls.says_plan(text) else _RARE | {PLAN}
        if route.to in unsure and route.likeness < SURE:
            route = self._router.route(text, offers, barred | unsure)
        attached = self._attached_now()
        if route.to == ANSWER and attached and READ in self._offers and is_question(text):
            return Route(READ, "", 0.0)
        return route

    def _barred(self, text: str) -> frozenset[str]:
        """Return the routes that the form of the message excludes."""
        if file_names(text):
            return self._barred_of_file(text) | _SPOKEN if self._offers else frozenset()
        barred = set[str]()
        if not calls.meant_files(text, self._situation):
            barred.add(READ)
        if not self._situation.files or not calls.says_it(text):
            barred.add(PATCH)
        if not calls.says_file(text):
            barred |= {WRITE, SEARCH}
        if calls.says_plan(text) and PLAN in self._offers:
            barred.add(ANSWER)
        return frozenset(barred)

    def _barred_of_file(self, text: str) -> frozenset[str]:
        """Return the routes that the form of a message with a file name excludes."""
        if calls.meant_files(text, self._situation):
            return frozenset({WRITE, READ}) if begins_with_edit(text) else frozenset()
        # An unknown file is written, unless the message asks to read or change it.
        if calls.says_new(text):
            return frozenset({READ, PATCH})
        return frozenset() if is_question(text) or begins_with_look(text) else frozenset({READ})

    def _attached_now(self) -> bool:
        here = f"fi:{self._situation.turn}."
        return any(file.attached and file.path.startswith(here) for file in self._situation.files.values())

    def _next_of(self, step: Step) -> Wanted | None:
        """Return the call that a clause still needs; consumes the calls that were made for it."""
        tool_id = step.route.to
        if tool_id in _SPOKEN:
            return None
        step.files = calls.meant_files(step.text, self._situation)
        if tool_id == PATCH:
            return self._patch(step)
        if self._left and self._left[0].tool_id == tool_id:
            step.made = self._left.popleft()
            step.problem = step.made.failure
            return None
        if self._left:
            # Calls that this plan did not make: by another model, or before the message changed.
            step.made = self._left.pop()
            self._left.clear()
            return None
        return self._first_call(step, tool_id)

    def _first_call(self, step: Step, tool_id: str) -> Wanted:
        text = step.text
        match tool_id:
            case "react.write":
                return Wanted(tool_id, calls.write_params(text), "The name and the words are taken from the message.")
            case "react.read":
                params = calls.read_params(step.files, file_names(text), self._situation)
                return Wanted(tool_id, params, "It is read before anything is said about it.")
            case "react.plan":
                has_plan = bool(self._situation.plan)
                params = calls.close_params(text) if has_plan else None
                return Wanted(tool_id, params or calls.plan_params(text), "The steps follow.")
            case "react.rg":
                return Wanted(tool_id, calls.search_params(text), "The workspace is searched.")
            case "react.pull" | "react.checkout":
                paths = [file.path for file in step.files or self._situation.files.values()]
                return Wanted(tool_id, {"paths": paths[-10:]}, "These are the files in sight.")
            case "react.hide":
                return Wanted(tool_id, calls.hide_params(self._situation), "The newest result is hidden.")
            case _:
                params = calls.other_params(self._offers[tool_id], text)
                return Wanted(tool_id, params, "Its parameters follow its schema.", calls.code_of(tool_id, text))

    def _patch(self, step: Step) -> Wanted | None:
        was_read = bool(self._left) and self._left[0].tool_id == READ
        failed = self._left.popleft().failure if was_read else ""
        if self._left and self._left[0].tool_id == PATCH:
            step.made = self._left.popleft()
            step.edit = read_edit(step.text)
            step.problem = step.made.failure
            return None
        file = step.files[0] if step.files else None
        file = file or (calls.last_file(self._situation) if not file_names(step.text) else None)
        if file is None or file.text is None:
            if was_read:
                step.problem = failed or "its text could not be read"
                return None
            params = calls.read_params([file] if file else [], file_names(step.text), self._situation)
            return Wanted(READ, params, "Its text must be in sight before it is changed.")
        step.files, step.edit = [file], read_edit(step.text)
        after = edited(file.text, step.edit) if step.edit else None
        if after is None:
            step.problem = calls.NO_EDIT if step.edit is None else f"{file.name} does not hold what is to be changed"
            return None
        return Wanted(PATCH, calls.patch_params(file, file.text, after, self._situation), "The change is a small diff.")


def _was_made(wanted: Wanted, situation: Situation) -> bool:
    """Return whether the same call was made since the last change of a file, so that repeating it is useless."""
    changes = [n for n, made in enumerate(situation.calls) if made.tool_id in (WRITE, PATCH)]
    since = situation.calls[changes[-1] if changes else 0 :]
    if isinstance(wanted.params, Slot):
        return any(made.tool_id == wanted.tool_id for made in since)
    known = {name: value for name, value in wanted.params.items() if not isinstance(value, Slot | Mixed)}
    plain = msgspec.json.decode(msgspec.json.encode(known), type=dict[str, object])
    return any(made.tool_id == wanted.tool_id and _has(made.params, plain) for made in since)


def _has(params: str, known: Mapping[str, object]) -> bool:
    try:
        given = msgspec.json.decode(params, type=dict[str, object])
    except msgspec.MsgspecError:  # very long parameters are cut in the prompt
        return False
    return all(name in given and given[name] == value for name, value in known.items())
