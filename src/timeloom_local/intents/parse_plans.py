"""Parses requests for a plan and about the open plan."""

import re
from typing import Final

from timeloom_local.intents.kinds import DeclineIntent, Intent, PlanIntent, PlanStatusIntent
from timeloom_local.text_rules import find_file_names, find_list_items, restore_quotations


def parse_plan(text: str, held: list[str]) -> Intent | None:
    """Parse a request for a new plan."""
    if not (_PLAN.match(text) or _STEPS_QUESTION.match(text)) or find_file_names(text):
        return None
    plain = restore_quotations(text, held)
    steps = tuple(step[:_MAX_STEP_CHARS] for step in find_list_items(plain)[:_MAX_STEPS])
    goal = _PLAN_WORDS.sub("", _STEPS_QUESTION.sub("", plain)).strip(" .?!:")
    count = _STEP_COUNT.search(plain)
    goal += f" in {count[1]} steps" if count and goal and "step" not in goal else ""
    if not steps and not goal:
        return DeclineIntent("what", "plan")
    return PlanIntent(goal=goal, steps=steps)


def parse_tick(message: str) -> Intent | None:
    """Parse a message that says in any words that steps of the plan are done; the steps are found by their words."""
    if len(message) > _MAX_TICK_CHARS or find_file_names(message):
        return None
    numbers = _find_step_numbers(message)
    if len(numbers) == 1:
        return PlanStatusIntent("done", numbers[0])
    if numbers:
        return PlanStatusIntent("done", words=" ".join(f"#{n}" for n in numbers))
    if _STEP_NUMBER.search(message):
        return None
    if _TICKS.search(message):
        return PlanStatusIntent("done", words=_TICK_WORDS.sub(" ", message))
    if (done := _IS_DONE.fullmatch(message.strip(" .!"))) and not message.rstrip().endswith("?"):
        return PlanStatusIntent("done", words=done[0], is_certain=False)
    return None


def parse_listed_plan(text: str, held: list[str]) -> Intent | None:
    """Parse a list of steps with a request such as `make that into a plan` after it."""
    found = _INTO_PLAN.search(text)
    if not found or find_file_names(text):
        return None
    items = find_list_items(restore_quotations(text[: found.start()].rstrip(" .?!"), held))
    return PlanIntent(goal="", steps=tuple(items[:_MAX_STEPS])) if items else None


def _find_step_numbers(message: str) -> list[int]:
    """Return the numbers of the steps that a message says are done; empty if it names none by number."""
    found = _NUMBERED.fullmatch(message.strip(" .!"))
    words = _DIGIT_OR_ORDINAL.findall(found["steps"]) if found else []
    return [int(word) if word.isdigit() else _ORDINALS.index(word.lower()) + 1 for word in words]


def parse_plan_status(text: str) -> Intent | None:
    """Parse a request about the open plan."""
    if first := _NAMED_STEP_DONE.search(text):
        return PlanStatusIntent("done", _ORDINALS.index((first[1] or first[2]).lower()) + 1)
    if done := _STEP_DONE.search(text):
        return PlanStatusIntent("done", int(done[1] or done[2]))
    if _CLOSES.fullmatch(text):
        return PlanStatusIntent("close")
    return PlanStatusIntent("show") if _SHOWS_PLAN.fullmatch(text) else None


_MAX_STEPS: Final = 20


_MAX_STEP_CHARS: Final = 200


_PLAN: Final = re.compile(
    r"(?:(?:i|we)(?: (?:need|want|would like|'d like))|give me|make|create|set up|draw up|open|write"
    r"|start|prepare|come up with|draft|produce|build|develop|outline|new|show me|get me"
    r"|what would be|put together|work out|sketch)?"
    r"\s?(?:me |us )?(?:a |an |the |my |our |some )?(?:new |short |simple |quick |small |detailed "
    r"|step[- ]by[- ]step |\w+[- ]step |\w+ )?(?:plan|check-?list|to-?\s?do list|action plan"
    r"|schedule of steps|list of steps)\b(?! (?:is|was)\b)"
    r"|plan\b|(?:break|split|divide|turn)\b.{1,200}\binto (?:\w+ )?(?:steps|tasks|parts)\b|(?:outline"
    r"|list|give me|what are|what would be)\s(?:the |some )?steps (?:to|for|of)\b.{1,200}",
    re.IGNORECASE,
)


_STEPS_QUESTION: Final = re.compile(
    r"^(?:what|which) steps (?:should|do|must|would) (?:i|we) (?:take|need|follow|do)(?: to take)?(?: to| for)? ",
    re.IGNORECASE,
)
_STEP_COUNT: Final = re.compile(r"\b(two|three|four|five|six|[2-6])[ -]steps?\b", re.IGNORECASE)
_PLAN_WORDS: Final = re.compile(
    r"^(?:(?:i|we|need|want|would|like|give|me|us|make|create|set up|draw up|open|write|start|prepare"
    r"|come up with|draft|produce|build|develop|outline|new|put together|work out|sketch|show|get"
    r"|what|would be|are"
    r"|a|an|the|my|our|some|short|simple|quick|small|detailed|step[- ]by[- ]step|action|plan|planning"
    r"|check-?list|to-?\s?do list|list|schedule|of|steps|step|with|these|following|three|four|five"
    r"|six|\d{1,2}"
    r"|for|to|how|that|helps?|on|out|break|split|divide|the task of|down|please|track|them"
    r"|as)\b[\s:,-]*)+|\b(?:down )?into (?:\w+ )?(?:steps|tasks|parts)\b.*$|[?.]\s*(?:track|keep|save"
    r"|put) (?:it|them) as a plan",
    re.IGNORECASE,
)


_STEP_DONE: Final = re.compile(
    r"^(?:(?:i|we)(?:'ve| have)? )?(?:\w+ ){0,3}?step\s(?:number )?(\d{1,2})\b.{0,30}\b(?:done"
    r"|finished|complete|completed|ready|off)\b"
    r"|^(?:mark|tick|check|cross|complete|finish)(?:ed)?(?: off)? step\s(?:number )?(\d{1,2})\b",
    re.IGNORECASE,
)
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")
_NAMED_STEP_DONE: Final = re.compile(
    r"^(?:i|we)(?:'ve| have|'m| am)? (?:finished|completed|done(?: with)?|did) (?:the )?(first|second"
    r"|third|fourth|fifth) step\b"
    r"|^(?:the )?(?=(?:first|second|third|fourth|fifth) step is done)(\w+)",
    re.IGNORECASE,
)
_CLOSES: Final = re.compile(
    r"(?:close|end|cancel|drop|abandon|finish|delete|remove|discard|forget)\s(?:the|my|this|our"
    r"|that)\s(?:current )?plan[\s.!]*",
    re.IGNORECASE,
)
_SHOWS_PLAN: Final = re.compile(
    r"(?:(?:so |and |ok )*(?:tell me |show me )?)?(?:what(?:'s|s| is| are)?(?: still| the)?(?: steps?"
    r"| things?)?(?: is| are)?"
    r"(?: still)? (?:left|remaining|open|outstanding|next)(?: to do)?|what (?:do|must) (?:i"
    r"|we) (?:still )?(?:have|need) to do"
    r"(?: next| still)?|what (?:else )?(?:remains|is there left to do|have i (?:still )?got (?:left )?to do)"
    r"|how (?:far|much) (?:am i|are we|of (?:it|the plan)).{0,30})(?: (?:on|in|of|from) (?:the|my|our) (?:plan"
    r"|list))?[\s?.!]*|"
    r"what(?:'s| is| was)(?: the)? step (?:number )?\d{1,2}[\s?.!]*|"
    r"(?:(?:show|display|read|print|list|see|view|give|tell|repeat)(?: me| us)?(?: again)?|what's"
    r"|what is|what was|how is|how's|where are we (?:in|with|on)|what are)?\s?"
    r"(?:next |left |the next step |the next |the state |the status |the progress |the (?:open "
    r"|remaining )?steps )?(?:(?:on|in|of|with|for) )?(?:the|my|our|this|current|that)(?: current"
    r"| open)? plan(?: so far| again| look like| now)?[\s?.!]*"
    r"|what(?:'s| is)(?: the)? next(?: step)?(?: (?:on|in|of) (?:the|my|our) plan)?[\s?.!]*"
    r"|which steps? (?:is|are) (?:next|left|open|done|still open).{0,30}",
    re.IGNORECASE,
)

_MAX_TICK_CHARS: Final = 300
_STEP_NUMBER: Final = re.compile(r"\bsteps? (?:number )?\d|\b(?:first|second|third|fourth|fifth) step\b", re.IGNORECASE)
_TICKS: Final = re.compile(
    r"\b(?:tick|check|cross|mark|strike|scratch)(?:ed|ing)?\b(?:[^.!?:]{0,60}?)\b(?:off|done|complete|completed"
    r"|finished)\b"
    r"|\b(?:tick|check) (?:it|that|this|them|those|both|these)\b(?! (?:in|on|for)\b)"
    r"|[✓✔☑]|\bdone\b.{0,30}\bwhat(?:'s|s| is)(?: still)? left\b"
    r"|\b(?:off|from) (?:the|my|our) (?:plan|check-?list)\b",
    re.IGNORECASE,
)
_TICK_WORDS: Final = re.compile(
    r"\b(?:(?:and )?(?:tell|show|let) me (?:know )?.{0,60}$|what(?:'s| is|s)? (?:still )?(?:left|next|open"
    r"|remaining).{0,30}$"
    r"|tick|check|cross|mark|strike|scratch|off|done|complete|completed|finished|plan|check-?list|step|steps|one|item"
    r"|task|can|could|you|please|pls)\b",
    re.IGNORECASE,
)
_IS_DONE: Final = re.compile(
    r"(?:ok(?:ay)?[,.]? |so |just |hey[,]? |yay[,!]? |also |and |now )*(?:(?:i|we)(?:'ve|'m| have| am| are"
    r"| did)?(?: just| now| already)? "
    r"(?:finished|done|completed|did|finally|got|managed to) .{3,120}|(?:i'm |i am |we're )?(?:done"
    r"|finished) with .{3,100}"
    r"|.{3,100} (?:is|are|was|got) (?:now |all |already |finally )?(?:done|finished|complete|completed|sorted"
    r"|taken care of)"
    r"(?: now| too| already| as well)?)",
    re.IGNORECASE,
)
_ORDINAL: Final = r"(?:\d{1,2}|first|second|third|fourth|fifth)"
_DIGIT_OR_ORDINAL: Final = re.compile(rf"\b{_ORDINAL}\b", re.IGNORECASE)
_STEP_LIST: Final = (
    rf"(?P<steps>(?:the )?(?:(?:steps?|numbers?|items?) )?(?:number )?{_ORDINAL}"
    rf"(?:(?:,| and|, and| &) (?:the )?(?:step )?{_ORDINAL}){{0,8}}(?: (?:steps?|ones?|items?))?)"
)
_NUMBERED: Final = re.compile(
    r"(?:(?:ok|okay|great|so|now|and|also|please|pls|can you|could you|you can)[,.]? )*"
    rf"(?:(?:mark|tick|check|cross|set)(?: off)? (?={_STEP_LIST.replace('?P<steps>', '?:')})"
    rf"|(?:(?:i'm |i am )?(?:done|finished) with|(?:i|we)(?:'ve| have)? (?:finished|completed|done|did)) |)"
    rf"{_STEP_LIST}(?: (?:of|in|on) (?:the|my|our) plan)?(?: (?:is|are)(?: now| both| all)?)?"
    r"(?: (?:off|(?:as )?(?:done|finished|complete|completed)))(?: now| too| already| please| pls)*",
    re.IGNORECASE,
)
_INTO_PLAN: Final = re.compile(
    r"(?:(?:can|could|would) (?:you|u) )?(?:please )?(?:make|turn|put|set up) (?:that|this|these|those|them"
    r"|it)(?: \w+)?"
    r" (?:up )?(?:as|into|in|to) (?:a|my|the) (?:plan|check-?list)\b",
    re.IGNORECASE,
)
