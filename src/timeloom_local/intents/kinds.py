"""The intents of a message: what the demo model can do, and the reasons for which it declines."""

from typing import Literal

import msgspec

from timeloom_local.intents.edits import Edit


class FileMention(msgspec.Struct, frozen=True, kw_only=True):
    """How a message refers to files: by names, by words such as `packing list`, by `it`, or as an attachment."""

    names: tuple[str, ...] = ()
    words: str = ""
    is_pronoun: bool = False
    is_attachment: bool = False


class HelpIntent(msgspec.Struct, frozen=True):
    """Asks what the model can do, or how to get a better one."""


SmallTalkKind = Literal["hello", "thanks", "bye", "self", "statement", "nothing", "yes"]


class SmallTalkIntent(msgspec.Struct, frozen=True):
    """A greeting, a thanks, a question about the model, or a statement that needs no action."""

    kind: SmallTalkKind


DeclineReason = Literal[
    "facts", "delete", "unsupported", "unclear", "language", "condition", "edit", "program", "too_large", "what",
    "which_file", "web", "outside",
]  # fmt: skip


class DeclineIntent(msgspec.Struct, frozen=True):
    """A request that is not carried out, with the reason."""

    reason: DeclineReason
    detail: str = ""


class PlanIntent(msgspec.Struct, frozen=True, kw_only=True):
    """Opens a plan with the listed steps, or with steps that the model writes for a goal."""

    goal: str = ""
    steps: tuple[str, ...] = ()


class PlanStatusIntent(msgspec.Struct, frozen=True):
    """Shows the plan, closes it, or marks a step of it as done."""

    kind: Literal["show", "close", "done"]
    step: int = 0
    words: str = ""
    """The words that name the steps, if no number does."""
    is_certain: bool = True
    """Whether the message says that a step is marked; otherwise it may only tell something."""


class WriteIntent(msgspec.Struct, frozen=True, kw_only=True):
    """Writes a file: given text, a text that the model writes about a subject, or the result of the clause before."""

    file: FileMention
    content: str = ""
    subject: str = ""
    uses_result: bool = False
    replaces: bool = False
    appends: bool = False
    """Whether the text is added if the file exists."""
    reference: str = ""
    """Words that only refer to the text, such as `those opening hours`; they are resolved and never written."""


class ComposeIntent(msgspec.Struct, frozen=True):
    """Asks for a short text in the answer."""

    subject: str


class ChangeIntent(msgspec.Struct, frozen=True):
    """Changes a file by an edit."""

    file: FileMention
    edit: Edit
    creates: bool = False
    """Whether a missing file is written; otherwise the answer says that it is missing."""
    reference: str = ""
    """Words that only refer to the text to add, such as `the same two`; they are resolved and never written."""


class ReadIntent(msgspec.Struct, frozen=True, kw_only=True):
    """Shows a file or a line of it, quotes sentences of it, or looks for words in it."""

    file: FileMention
    kind: Literal["show", "summary", "question", "contains", "line"] = "show"
    words: str = ""


class SearchIntent(msgspec.Struct, frozen=True, kw_only=True):
    """Searches the files for words, or lists those whose names match a pattern."""

    words: str = ""
    name_pattern: str = ""


class CalculateIntent(msgspec.Struct, frozen=True, kw_only=True):
    """Runs a program; `FILE_TEXT` in it stands for the text of the mentioned file."""

    program: str
    file: FileMention | None = None


RecallKind = Literal["topic", "first", "last", "all", "answer"]


class RecallIntent(msgspec.Struct, frozen=True):
    """Looks for what was said earlier in the conversation."""

    kind: RecallKind
    query: str = ""
    is_explicit: bool = False
    """Whether the question is about what was said, and not only about the user."""


class QuestionIntent(msgspec.Struct, frozen=True):
    """A question that only an attachment, a file or an earlier message can answer."""

    question: str


TalkIntent = (
    HelpIntent
    | SmallTalkIntent
    | DeclineIntent
    | PlanIntent
    | PlanStatusIntent
    | ComposeIntent
    | RecallIntent
    | QuestionIntent
)
"""Intents that need no file."""

Intent = WriteIntent | ChangeIntent | ReadIntent | SearchIntent | CalculateIntent | TalkIntent
