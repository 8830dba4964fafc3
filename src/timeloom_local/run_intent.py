"""Carries out an intent: chooses its steps by its kind."""

from typing import Final, assert_never

from timeloom_local import answers, calls, file_steps, plan_steps, talk_steps
from timeloom_local.intents.file_mentions import mentions_file_kind
from timeloom_local.intents.kinds import (
    CalculateIntent,
    ChangeIntent,
    ComposeIntent,
    DeclineIntent,
    HelpIntent,
    Intent,
    PlanIntent,
    PlanStatusIntent,
    QuestionIntent,
    ReadIntent,
    RecallIntent,
    SearchIntent,
    SmallTalkIntent,
    TalkIntent,
    WriteIntent,
)
from timeloom_local.known_files import choose_files
from timeloom_local.steps import StepContext, Steps
from timeloom_local.text_rules import is_question


def run_intent(intent: Intent, text: str, context: StepContext) -> Steps:
    """Return the steps of an intent; `text` is its clause."""
    match intent:
        case WriteIntent():
            return file_steps.write_file(intent, context)
        case ChangeIntent():
            return file_steps.change_file(intent, context)
        case ReadIntent():
            if not _means_no_file(intent, context):
                return file_steps.read_file(intent, context)
            return (
                talk_steps.answer_question(text, context)
                if is_question(text)
                else talk_steps.decline(_UNSUPPORTED, context)
            )
        case SearchIntent():
            return file_steps.search_files(intent, context)
        case CalculateIntent():
            return file_steps.calculate(intent, context)
        case _:
            if _asks_new_attachment(intent, context):
                return talk_steps.answer_question(text, context)
            return _run_talk(intent, context)


def _run_talk(intent: TalkIntent, context: StepContext) -> Steps:
    match intent:
        case HelpIntent():
            return talk_steps.answer_with(answers.describe_abilities(context.tools.values()))
        case SmallTalkIntent(kind):
            return talk_steps.answer_with(answers.describe_small_talk(kind))
        case ComposeIntent(subject):
            return talk_steps.answer_with(calls.compose(subject), f"\n\n{answers.MADE_UP}")
        case DeclineIntent():
            return talk_steps.decline(intent, context)
        case PlanIntent():
            return plan_steps.make_plan(intent, context)
        case PlanStatusIntent():
            return plan_steps.report_plan(intent, context)
        case RecallIntent():
            return talk_steps.recall(intent, context)
        case QuestionIntent(question):
            return talk_steps.answer_question(question, context)
        case _:
            assert_never(intent)


def _asks_new_attachment(intent: Intent, context: StepContext) -> bool:
    """Return whether words that no rule understands came with an attachment, so that they are about it."""
    match intent:
        case SmallTalkIntent(kind=kind):
            asks = kind == "statement"
        case DeclineIntent(reason=reason):
            asks = reason in ("unclear", "facts", "what", "condition")
        case _:
            asks = False
    return asks and talk_steps.has_new_attachment(context)


_UNSUPPORTED: Final = DeclineIntent("unsupported")


def _means_no_file(intent: ReadIntent, context: StepContext) -> bool:
    """Return whether words such as `my mind` only look like the mention of a file."""
    words = intent.file.words
    return bool(words) and not mentions_file_kind(words) and not choose_files(intent.file, context.prompt).files
