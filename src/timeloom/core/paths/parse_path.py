"""Parses logical paths, including older spellings, into canonical values."""

import re
from types import MappingProxyType
from typing import Final

from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.paths.errors import PathError, shown
from timeloom.core.paths.forms import (
    ArtifactPath,
    AttachmentPath,
    CallTextPath,
    CompletionPath,
    EventAttachmentPath,
    EventPath,
    FileForm,
    FilePath,
    KnowledgePath,
    LatestPlanPath,
    LogicalPath,
    MessageForm,
    PlanPath,
    RangeSummaryPath,
    RoundTextPath,
    SkillPath,
    ToolPath,
    TurnIndexPath,
    UserPromptPath,
    WorkingSummaryPath,
)
from timeloom.core.paths.selection import EntriesPath, SourcesPath, TurnIndexesPath

MAX_PATH_CHARS = 4096
"""Longest text that is parsed. A smaller limit cannot hold the longest selection; a larger one costs time on hostile
text."""

_LATEST_PLAN = "plan.latest:"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


def parse(text: str) -> LogicalPath:
    """Return the logical path that the text spells; raise `PathError` for any other text."""
    check_length(text)
    scheme, colon, rest = text.partition(":")
    form = _SCHEMES.get(scheme) if colon else None
    if form is None:
        raise PathError("path_malformed", f"a path starts with one of {_KNOWN}, got {shown(text)}")
    return form(rest)


def has_scheme(text: str) -> bool:
    """Return whether the text starts with a known scheme such as `fi:`."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and scheme in _SCHEMES


def check_length(text: str) -> None:
    """Raise if the text is longer than `MAX_PATH_CHARS`."""
    if len(text) > MAX_PATH_CHARS:
        raise PathError("path_too_long", f"a path has at most {MAX_PATH_CHARS} characters, got {len(text)}")


def _message(rest: str) -> MessageForm:
    if rest.startswith(_LATEST_PLAN):
        return LatestPlanPath(PlanId(rest.removeprefix(_LATEST_PLAN)))
    for selection in (EntriesPath, TurnIndexesPath):
        before = selection.before.removeprefix("ar:")
        if rest.startswith(before) and rest.endswith(selection.after):
            return selection.parsed(rest.removeprefix(before).removesuffix(selection.after))
    turn, parts = _turn_and_parts(rest)
    match parts:
        case ["user", "prompt"]:
            return UserPromptPath(turn)
        case ["assistant", "completion", *ordinal]:
            return CompletionPath(turn, _ordinal(ordinal))
        case ["react", *what]:
            return _react(turn, what)
        case ["artifacts", *name]:
            return ArtifactPath(turn, ".".join(name))
        case ["external", kind, message]:
            return EventPath(turn, kind, MessageId(message))
        case _:
            raise _unknown(
                "ar:<turn>. goes on with user.prompt, assistant.completion, react.…, artifacts.<name> "
                "or external.<kind>.<message_id>",
                rest,
            )


def _react(turn: TurnId, what: list[str]) -> MessageForm:
    match what:
        case [("notes" | "note" | "approval") as text, call]:
            return CallTextPath(turn, text, CallId(call))
        case [("thinking" | "model") as text, number]:
            return RoundTextPath(turn, text, _number(number))
        case ["plan", "ack", number]:
            return RoundTextPath(turn, "plan.ack", _number(number))
        case ["plan", plan]:
            return PlanPath(turn, PlanId(plan))
        case ["turn", "index"]:
            return TurnIndexPath(turn)
        case _:
            raise _unknown(
                "ar:<turn>.react. goes on with notes|note|approval.<call>, thinking|model|plan.ack.<round>, "
                "plan.<id> or turn.index",
                ".".join(what),
            )


def _tool(rest: str) -> ToolPath:
    turn, parts = _turn_and_parts(rest)
    match parts:
        case [call, ("call" | "code" | "notice" | "result") as part]:
            return ToolPath(turn, CallId(call), part)
        case ["tool_calls", call, "in", "json"]:
            return ToolPath(turn, CallId(call), "call")
        case ["tool_calls", call, "out", "json"]:
            return ToolPath(turn, CallId(call), "result")
        case _:
            raise _unknown("a tool path is tc:<turn>.<call>.call, .code, .notice or .result", rest)


def _file(rest: str) -> FileForm:
    head, _, rel = rest.partition("/")
    turn, parts = _turn_and_parts(head)
    match parts:
        case [("files" | "outputs") as area]:
            return FilePath(turn, area, rel)
        case ["user", "attachments"]:
            return AttachmentPath(turn, rel)
        case ["external", kind, "attachments"]:
            message, _, name = rel.partition("/")
            return EventAttachmentPath(turn, kind, MessageId(message), name)
        case _:
            raise _unknown(
                "fi:<turn>. goes on with files/<rel>, outputs/<rel>, user.attachments/<name> "
                "or external.<kind>.attachments/<message_id>/<name>",
                rest,
            )


def _sources(rest: str) -> SourcesPath:
    inside = rest.removeprefix("sources_pool[").removesuffix("]")
    if rest != f"sources_pool[{inside}]":
        raise _unknown("a selection of sources is so:sources_pool[1,3-5]", rest)
    return SourcesPath.parsed(inside)


def _range_summary(rest: str) -> RangeSummaryPath:
    turn, parts = _turn_and_parts(rest)
    match parts:
        case ["conv", "range", "summary", *ordinal]:
            return RangeSummaryPath(turn, _ordinal(ordinal))
        case _:
            raise _unknown("a range summary is su:<turn>.conv.range.summary[.n]", rest)


def _working_summary(rest: str) -> WorkingSummaryPath:
    turn, parts = _turn_and_parts(rest)
    match parts:
        case ["conv", "working", "summary", *ordinal]:
            return WorkingSummaryPath(turn, _ordinal(ordinal))
        case _:
            raise _unknown("a working summary is ws:<turn>.conv.working.summary[.n]", rest)


_SCHEMES: Final = MappingProxyType(
    {
        "ar": _message,
        "tc": _tool,
        "fi": _file,
        "so": _sources,
        "su": _range_summary,
        "ws": _working_summary,
        "sk": SkillPath,
        "ks": KnowledgePath,
    }
)
_KNOWN = ", ".join(f"{scheme}:" for scheme in _SCHEMES)


def _turn_and_parts(text: str) -> tuple[TurnId, list[str]]:
    """Split at dots: return the first word, which the form checks as a turn id, and the remaining words."""
    turn, *parts = text.split(".")
    return TurnId(turn), parts


def _ordinal(parts: list[str]) -> int | None:
    match parts:
        case []:
            return None
        case [number]:
            return _number(number)
        case _:
            raise _unknown("at most one number follows", ".".join(parts))


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _unknown("a number in a path has 1 to 9 digits and no leading zero", text)
    return int(text)


def _unknown(expected: str, got: str) -> PathError:
    return PathError("path_malformed", f"{expected}; got {shown(got)}")
