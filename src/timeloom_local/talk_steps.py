"""The steps of intents without files: answers, plans, recall and questions."""

import re
from typing import Final

from timeloom_local import answers, calls
from timeloom_local.file_steps import quote_answers
from timeloom_local.intents.kinds import DeclineIntent, PlanIntent, PlanStatusIntent, RecallIntent
from timeloom_local.known_files import attached_files, newest_files
from timeloom_local.plan_templates import general_steps
from timeloom_local.quoting import content_words, find_answers, split_sentences
from timeloom_local.read_prompt import PromptFile
from timeloom_local.reply import Slot
from timeloom_local.steps import PLAN, ClauseAnswer, StepContext, Steps, fail


def answer_with(*parts: str | Slot) -> Steps:
    """Return an answer that needs no calls."""
    return ClauseAnswer(parts=parts)
    yield  # a generator without calls


def decline(intent: DeclineIntent) -> Steps:
    """Return the reason for declining."""
    return fail(answers.describe_decline(intent))
    yield  # a generator without calls


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
    """Show or close the plan, or mark a step of it as done."""
    plan = context.prompt.plan
    if intent.kind == "close" and (plan or context.is_next(PLAN)):
        made = yield from context.call(PLAN, lambda: {"mode": "close"}, "The plan is closed.")
        return (
            fail(f"I could not close the plan: {made.failure}.")
            if made.failure
            else ClauseAnswer(parts=("The plan is closed.",))
        )
    if not plan:
        return fail("There is no plan in this conversation. Say for example “Make a plan for a picnic”.")
    if intent.kind == "show":
        return ClauseAnswer(parts=(f"This is the plan:\n\n{_format_plan(context)}",))
    if not 1 <= intent.step <= len(plan):
        return fail(f"The plan has no step {intent.step}; it has {len(plan)} steps.")
    return ClauseAnswer(parts=(f"Step {intent.step} of the plan is done.",), notes=f"✓ [{intent.step}]")


def recall(intent: RecallIntent, context: StepContext) -> Steps:
    """Quote what the user said earlier in the conversation; never more than that."""
    said = context.prompt.said
    match intent.kind:
        case "first" | "last":
            at = 0 if intent.kind == "first" else -1
            which = "first" if intent.kind == "first" else "last"
            return _quote_said(said[at:][:1], f"Your {which} message was:")
        case "all":
            return _quote_said(said[-10:], "You said in this conversation:")
        case "answer":
            replies = [reply for _, reply in context.prompt.exchanges[-1:] if reply]
            return ClauseAnswer(parts=(f"I said:\n\n{replies[0]}",)) if replies else fail("I have said nothing yet.")
        case "topic":
            if (
                not intent.is_explicit
                and (here := attached_files(context.prompt))
                and _is_new_attachment(here, context)
            ):
                return (yield from _ask_attachments(intent.query, here, context))
            return _recall_topic(intent.query, context)


def answer_question(question: str, context: StepContext) -> Steps:
    """Answer a question from attachments, or from files and messages in sight; otherwise decline."""
    attached = attached_files(context.prompt)
    if attached and _is_new_attachment(attached, context):
        return (yield from _ask_attachments(question, attached, context))
    texts = [(file, file.text) for file in newest_files(context.prompt) if file.text]
    for file, text in reversed(texts):
        if find_answers(question, split_sentences(text), context.router, strict=not file.attached):
            return ClauseAnswer(parts=(quote_answers(question, [(file, text)], context),))
    if attached and context.is_next("react.read"):
        return (yield from _ask_attachments(question, attached, context))
    found = _find_said(question, context)
    if found:
        return ClauseAnswer(parts=("You said:\n\n" + "\n>\n".join(map(answers.quote, found)),))
    return fail(answers.describe_decline(DeclineIntent("facts")))


def _is_new_attachment(files: list[PromptFile], context: StepContext) -> bool:
    return any(file.path.startswith(f"fi:{context.prompt.turn}.") for file in files)


def _ask_attachments(question: str, files: list[PromptFile], context: StepContext) -> Steps:
    texts: list[tuple[PromptFile, str]] = []
    for file in files:
        text = yield from context.read_text(file, always=True)
        if isinstance(text, ClauseAnswer):
            return text
        texts.append((file, text))
    return ClauseAnswer(parts=(quote_answers(question, texts, context),))


def _format_plan(context: StepContext) -> str:
    marks = {"✓": " (done)", "✗": " (failed)"}
    return "\n".join(f"{n}. {text}{marks.get(mark, '')}" for n, (text, mark) in enumerate(context.prompt.plan, 1))


def _quote_said(said: list[str], title: str) -> ClauseAnswer:
    if not said:
        return fail(_NOTHING_SAID)
    return ClauseAnswer(parts=(f"{title}\n\n" + "\n>\n".join(map(answers.quote, said)),))


def _recall_topic(question: str, context: StepContext) -> ClauseAnswer:
    found = _find_said(question, context)
    if found:
        return ClauseAnswer(parts=("You said:\n\n" + "\n>\n".join(map(answers.quote, found)),))
    for file in reversed(newest_files(context.prompt)):
        sentences = split_sentences(file.text or "")
        if find_answers(question, sentences, context.router, strict=True):
            return ClauseAnswer(parts=(quote_answers(question, [(file, file.text or "")], context),))
    return fail(_NOTHING_SAID)


def _find_said(question: str, context: StepContext) -> list[str]:
    """Return the sentences of earlier messages that answer a question, best first."""
    sentences = [text for said in context.prompt.said for text in split_sentences(said) if not text.endswith("?")]
    for asks, says in _PATTERNS:
        if asks.search(question) and len(content_words(question)) == 0:
            return [text for text in sentences if says.search(text)][-1:]
    if not content_words(question):
        return []
    found = find_answers(question, sentences, context.router, strict=True)
    # Of two sentences that fit equally well, the later one counts: people correct themselves.
    found.sort(key=lambda one: (-round(one.shared, 2), -one.place))
    return [one.text for one in found[:1]]


_PATTERNS: Final = (
    (
        re.compile(r"\bname|who am i|\bcalled\b", re.IGNORECASE),
        re.compile(
            r"\b(?:my name(?:'s| is)|call me|i am called|i'm called|[Ii](?:'m| am) (?-i:[A-Z])\w+)", re.IGNORECASE
        ),
    ),
)
_GENERAL: Final = (
    "These are general steps, because I know little about your goal. Give me your own: “Make a plan: "
    "first step, second step”."
)
_NOTHING_SAID: Final = (
    "I find nothing about that in this conversation: you have not told me, so I do not know. I remember "
    "only what was said here."
)
