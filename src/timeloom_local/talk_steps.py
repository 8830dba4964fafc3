"""The steps of intents without files: answers, recall and questions."""

import re
from typing import Final

from timeloom_local import answers
from timeloom_local.file_steps import quote_answers
from timeloom_local.intents.kinds import DeclineIntent, RecallIntent
from timeloom_local.known_files import attached_files, newest_files
from timeloom_local.prompt_content import PromptFile
from timeloom_local.quoting import content_words, find_answers, split_sentences
from timeloom_local.reply import Slot
from timeloom_local.steps import ClauseAnswer, StepContext, Steps, fail


def answer_with(*parts: str | Slot) -> Steps:
    """Return an answer that needs no calls."""
    return ClauseAnswer(parts=parts)
    yield  # a generator without calls


def decline(intent: DeclineIntent, context: StepContext) -> Steps:
    """Return the reason for declining: in full once in a conversation, and shorter beside another answer."""
    return fail(answers.describe_decline(intent, is_short=_is_short(context)))
    yield  # a generator without calls


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
            return quote_answers(question, [(file, text)], context)
    if attached and context.is_next("react.read"):
        return (yield from _ask_attachments(question, attached, context))
    found = _find_said(question, context)
    if found:
        return _quote_said(found, _title_of(found[0], question))
    return fail(answers.describe_decline(DeclineIntent("facts"), is_short=_is_short(context)))


def _is_short(context: StepContext) -> bool:
    said = (reply for _, reply in context.prompt.exchanges)
    return context.has_answers or any(answers.SHORT_ABILITIES in reply for reply in said)


def has_new_attachment(context: StepContext) -> bool:
    """Return whether the current message has an attachment."""
    return _is_new_attachment(attached_files(context.prompt), context)


def _is_new_attachment(files: list[PromptFile], context: StepContext) -> bool:
    return any(file.is_of(context.prompt.turn) for file in files)


def _ask_attachments(question: str, files: list[PromptFile], context: StepContext) -> Steps:
    texts: list[tuple[PromptFile, str]] = []
    for file in files:
        text = yield from context.read_text(file, always=True)
        if isinstance(text, ClauseAnswer):
            return text
        texts.append((file, text))
    found = quote_answers(question, texts, context)
    # What the question is about may stand in the sentence before it.
    return found if found.result else quote_answers(context.prompt.message[:_MAX_QUESTION_CHARS], texts, context)


def _quote_said(said: list[str], title: str) -> ClauseAnswer:
    if not said:
        return fail(_NOTHING_SAID)
    return ClauseAnswer(parts=(f"{title}\n\n" + "\n>\n".join(map(answers.quote, said)),), result="\n".join(said))


def _recall_topic(question: str, context: StepContext) -> ClauseAnswer:
    found = _find_said(question, context)
    if found:
        return _quote_said(found, _title_of(found[0], question))
    for file in reversed(newest_files(context.prompt)):
        sentences = split_sentences(file.text or "")
        if find_answers(question, sentences, context.router, strict=True):
            return quote_answers(question, [(file, file.text or "")], context)
    return fail(_NOTHING_SAID)


def _title_of(said: str, question: str) -> str:
    """Return the title of a quotation; it says so if the quotation does not name whom the question is about."""
    missing = [name for name in _NAME.findall(question) if name.lower() not in said.lower()]
    named = answers.join_names(missing)
    return (
        f"You have not told me that about {named}, as far as I see. The nearest that you said is:"
        if named
        else "You said:"
    )


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


_NAME: Final = re.compile(r"(?<=[a-z,] )(?!I\b)[A-Z][a-z]+\b(?!['’])")
_MAX_QUESTION_CHARS: Final = 600
_PATTERNS: Final = (
    (
        re.compile(r"\bname|who am i|\bcalled\b", re.IGNORECASE),
        re.compile(
            r"\b(?:my name(?:'s| is)|call me|i am called|i'm called|[Ii](?:'m| am) (?-i:[A-Z])\w+)", re.IGNORECASE
        ),
    ),
)
_NOTHING_SAID: Final = (
    "I find nothing about that in this conversation: you have not told me, so I do not know. I remember "
    "only what was said here."
)
