"""Frozen values for each family of logical paths; their `str()` is the canonical text."""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from timeloom.core.ids import (
    CallId,
    IdError,
    MessageId,
    PlanId,
    TurnId,
    parse_call_id,
    parse_message_id,
    parse_plan_id,
    parse_turn_id,
)
from timeloom.core.paths.errors import PathError, quote_prefix
from timeloom.core.paths.names import check_name, check_names, check_relative
from timeloom.core.paths.selection import EntriesPath, SourcesPath, TurnIndexesPath

MAX_NUMBER = 999_999_999
"""Largest round or ordinal in a path. A smaller limit could refuse real ones; a larger one allows endless digits."""

CallText = Literal["notes", "note", "approval"]
RoundText = Literal["thinking", "plan.ack", "model"]
ToolPart = Literal["call", "code", "notice", "result"]
FileArea = Literal["files", "outputs"]

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_CHANNEL = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_CALL_TEXTS = frozenset({"notes", "note", "approval"})
_ROUND_TEXTS = frozenset({"thinking", "plan.ack", "model"})
_TOOL_PARTS = frozenset({"call", "code", "notice", "result"})
_FILE_AREAS = frozenset({"files", "outputs"})


class _PathForm(msgspec.Struct, frozen=True, tag=True, tag_field="form"):
    """Base of all path forms: immutable, compared by value, and encoded with the class name in `form`."""


class UserPromptPath(_PathForm, frozen=True):
    """`ar:<turn>.user.prompt`: the message that opened a turn; later messages are events (`EventPath`)."""

    turn: TurnId

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")

    def __str__(self) -> str:
        return f"ar:{self.turn}.user.prompt"


class CompletionPath(_PathForm, frozen=True):
    """`ar:<turn>.assistant.completion[.n]`: an answer; without a number the turn's latest."""

    turn: TurnId
    number: int | None = None

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_ordinal(self.number)

    def __str__(self) -> str:
        return f"ar:{self.turn}.assistant.completion{_format_ordinal(self.number)}"


class ChannelPath(_PathForm, frozen=True):
    """`ar:<turn>.channel.<name>[.n]`: a text on a declared channel; without a number the turn's latest."""

    turn: TurnId
    channel: str
    number: int | None = None

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        if not _CHANNEL.fullmatch(self.channel):
            raise PathError("path_malformed", f"a channel is a word like 'chart', got {quote_prefix(self.channel)}")
        _check_ordinal(self.number)

    def __str__(self) -> str:
        return f"ar:{self.turn}.channel.{self.channel}{_format_ordinal(self.number)}"


class CallTextPath(_PathForm, frozen=True):
    """`ar:<turn>.react.notes|note|approval.<call>`: a text that belongs to one tool call."""

    turn: TurnId
    what: CallText
    call: CallId

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_choice(self.what, _CALL_TEXTS)
        _check_id(parse_call_id, self.call, "call")

    def __str__(self) -> str:
        return f"ar:{self.turn}.react.{self.what}.{self.call}"


class RoundTextPath(_PathForm, frozen=True):
    """`ar:<turn>.react.thinking|plan.ack|model.<round>`: a text that belongs to one round."""

    turn: TurnId
    what: RoundText
    round: int

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_choice(self.what, _ROUND_TEXTS)
        _check_number(self.round, least=0)

    def __str__(self) -> str:
        return f"ar:{self.turn}.react.{self.what}.{self.round:d}"


class PlanPath(_PathForm, frozen=True):
    """`ar:<turn>.react.plan.<id>`: a plan at its last change in that turn."""

    turn: TurnId
    plan: PlanId

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_id(parse_plan_id, self.plan, "plan")

    def __str__(self) -> str:
        return f"ar:{self.turn}.react.plan.{self.plan}"


class LatestPlanPath(_PathForm, frozen=True):
    """`ar:plan.latest:<id>`: a plan's newest snapshot from any turn."""

    plan: PlanId

    def __post_init__(self) -> None:
        _check_id(parse_plan_id, self.plan, "plan")

    def __str__(self) -> str:
        return f"ar:plan.latest:{self.plan}"


class TurnIndexPath(_PathForm, frozen=True):
    """`ar:<turn>.react.turn.index`: a generated list of a turn's contents."""

    turn: TurnId

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")

    def __str__(self) -> str:
        return f"ar:{self.turn}.react.turn.index"


class ArtifactPath(_PathForm, frozen=True):
    """`ar:<turn>.artifacts.<name>`: an artifact by name; the name may contain dots but no separators."""

    turn: TurnId
    name: str

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        check_name(self.name)

    def __str__(self) -> str:
        return f"ar:{self.turn}.artifacts.{self.name}"


class EventPath(_PathForm, frozen=True):
    """`ar:<turn>.external.<kind>.<message_id>`: a followup, steer, form, alert or other event that reached a turn."""

    turn: TurnId
    kind: str
    message: MessageId

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_kind(self.kind)
        _check_id(parse_message_id, self.message, "message")

    def __str__(self) -> str:
        return f"ar:{self.turn}.external.{self.kind}.{self.message}"


class ToolPath(_PathForm, frozen=True):
    """`tc:<turn>.<call>.call|code|notice|result`: one part of a tool call."""

    turn: TurnId
    call: CallId
    part: ToolPart

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_id(parse_call_id, self.call, "call")
        _check_choice(self.part, _TOOL_PARTS)

    def __str__(self) -> str:
        return f"tc:{self.turn}.{self.call}.{self.part}"


class FilePath(_PathForm, frozen=True):
    """`fi:<turn>.files/<rel>` in the durable workspace, or `fi:<turn>.outputs/<rel>` among a turn's output files."""

    turn: TurnId
    area: FileArea
    rel: str

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_choice(self.area, _FILE_AREAS)
        check_relative(self.rel)

    def __str__(self) -> str:
        return f"fi:{self.turn}.{self.area}/{self.rel}"


class AttachmentPath(_PathForm, frozen=True):
    """`fi:<turn>.user.attachments/<name>`: a file sent with the turn's first message."""

    turn: TurnId
    name: str

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        check_name(self.name)

    def __str__(self) -> str:
        return f"fi:{self.turn}.user.attachments/{self.name}"


class EventAttachmentPath(_PathForm, frozen=True):
    """`fi:<turn>.external.<kind>.attachments/<message_id>/<name>`: a file sent with a later event."""

    turn: TurnId
    kind: str
    message: MessageId
    name: str

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_kind(self.kind)
        _check_id(parse_message_id, self.message, "message")
        # The kind and the id become folder names, so they must be safe too.
        check_names(f"{self.kind}/{self.message}")
        check_name(self.name)

    def __str__(self) -> str:
        return f"fi:{self.turn}.external.{self.kind}.attachments/{self.message}/{self.name}"


class RangeSummaryPath(_PathForm, frozen=True):
    """`su:<turn>.conv.range.summary[.n]`: a compacted range; without a number the latest made in the turn."""

    turn: TurnId
    number: int | None = None

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_ordinal(self.number)

    def __str__(self) -> str:
        return f"su:{self.turn}.conv.range.summary{_format_ordinal(self.number)}"


class WorkingSummaryPath(_PathForm, frozen=True):
    """`ws:<turn>.conv.working.summary[.n]`: a summary of the turn; without a number its latest."""

    turn: TurnId
    number: int | None = None

    def __post_init__(self) -> None:
        _check_id(parse_turn_id, self.turn, "turn")
        _check_ordinal(self.number)

    def __str__(self) -> str:
        return f"ws:{self.turn}.conv.working.summary{_format_ordinal(self.number)}"


class SkillPath(_PathForm, frozen=True):
    """`sk:<ref>`: a skill."""

    ref: str

    def __post_init__(self) -> None:
        check_relative(self.ref)

    def __str__(self) -> str:
        return f"sk:{self.ref}"


class KnowledgePath(_PathForm, frozen=True):
    """`ks:<rel>`: a document of the bundle's knowledge space."""

    rel: str

    def __post_init__(self) -> None:
        check_relative(self.rel)

    def __str__(self) -> str:
        return f"ks:{self.rel}"


MessageForm = (
    UserPromptPath
    | CompletionPath
    | ChannelPath
    | CallTextPath
    | RoundTextPath
    | PlanPath
    | LatestPlanPath
    | TurnIndexPath
    | TurnIndexesPath
    | EntriesPath
    | ArtifactPath
    | EventPath
)
"""The `ar:` forms."""

FileForm = FilePath | AttachmentPath | EventAttachmentPath
"""The `fi:` forms, which are the only ones with a physical path."""

TurnForm = (
    UserPromptPath
    | CompletionPath
    | ChannelPath
    | CallTextPath
    | RoundTextPath
    | PlanPath
    | TurnIndexPath
    | ArtifactPath
    | EventPath
    | ToolPath
    | FileForm
    | RangeSummaryPath
    | WorkingSummaryPath
)
"""The forms that name a turn."""

LogicalPath = (
    MessageForm | ToolPath | FileForm | SourcesPath | RangeSummaryPath | WorkingSummaryPath | SkillPath | KnowledgePath
)
"""Union of all logical path forms."""


def _check_id(shape: Callable[[str], str], text: str, what: str) -> None:
    try:
        shape(text)
    except IdError:
        raise PathError("path_malformed", f"expected a {what} id, got {quote_prefix(text)}") from None


def _check_kind(kind: str) -> None:
    if not _KIND.fullmatch(kind):
        raise PathError("path_malformed", f"an event kind is a word like 'followup', got {quote_prefix(kind)}")


def _check_choice(word: str, choices: frozenset[str]) -> None:
    if word not in choices:
        raise PathError("path_malformed", f"expected one of {', '.join(sorted(choices))}, got {quote_prefix(word)}")


def _check_ordinal(number: int | None) -> None:
    if number is not None:
        _check_number(number, least=1)


def _check_number(number: int, least: int) -> None:
    if not least <= number <= MAX_NUMBER:
        raise PathError("path_malformed", f"a number in a path is from {least} to {MAX_NUMBER}")


def _format_ordinal(number: int | None) -> str:
    return "" if number is None else f".{number:d}"
