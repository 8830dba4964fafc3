"""Parses logical and aliased paths, including older spellings, into canonical values."""

import re
from types import MappingProxyType
from typing import Final

from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.paths.aliases import AliasedPath, make_alias, parse_call_number, parse_turn_alias
from timeloom.core.paths.errors import PathError, quote_prefix
from timeloom.core.paths.forms import (
    ArtifactPath,
    AttachmentPath,
    CallTextPath,
    ChannelPath,
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
    TurnForm,
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
_TURN_WORD = re.compile(r"[^./]*")
_TURN_SCHEMES = frozenset({"ar", "tc", "fi", "su", "ws"})


def parse(text: str) -> LogicalPath | AliasedPath:
    """Return the logical or aliased path that the text spells; raise `PathError` for any other text.

    The views of a conversation turn an aliased path into a logical one: see `core/view/aliases.py`.
    """
    check_length(text)
    return _parse_alias(text) or parse_long(text)


def parse_long(text: str) -> LogicalPath:
    """Return the logical path that the text spells with the ids of its turn and call; raise `PathError` otherwise.

    Recorded paths and those of other conversations are always long.
    """
    check_length(text)
    scheme, colon, rest = text.partition(":")
    form = _SCHEMES.get(scheme) if colon else None
    if form is None:
        raise PathError("path_malformed", f"a path starts with one of {_KNOWN_SCHEMES}, got {quote_prefix(text)}")
    return form(rest)


def has_scheme(text: str) -> bool:
    """Return whether the text starts with a known scheme such as `fi:`."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and scheme in _SCHEMES


def check_length(text: str) -> None:
    """Raise if the text is longer than `MAX_PATH_CHARS`."""
    if len(text) > MAX_PATH_CHARS:
        raise PathError("path_too_long", f"a path has at most {MAX_PATH_CHARS} characters, got {len(text)}")


def _parse_alias(text: str) -> AliasedPath | None:
    """Return the aliased path that the text spells; None if it names its turn by id, or no turn."""
    scheme, _, rest = text.partition(":")
    found = _TURN_WORD.match(rest)
    number = parse_turn_alias(found[0]) if found else None
    if found is None or number is None or scheme not in _TURN_SCHEMES:
        return None
    after = rest[found.end() :]
    if scheme == "fi" and after.startswith("/"):
        after = f".files{after}"
    # Any turn id takes the place of the alias while the other parts are checked.
    try:
        form = parse_long(f"{scheme}:turn_0{after}")
    except PathError as error:
        raise PathError(error.code, str(error).replace("turn_0", found[0])) from None
    assert isinstance(form, TurnForm)
    call = parse_call_number(form.call) if isinstance(form, ToolPath | CallTextPath) else None
    return make_alias(form, number, call)


def _parse_message(rest: str) -> MessageForm:
    if rest.startswith(_LATEST_PLAN):
        return LatestPlanPath(PlanId(rest.removeprefix(_LATEST_PLAN)))
    for selection in (EntriesPath, TurnIndexesPath):
        before = selection.before.removeprefix("ar:")
        if rest.startswith(before) and rest.endswith(selection.after):
            return selection.parse_ranges(rest.removeprefix(before).removesuffix(selection.after))
    turn, parts = _split_turn(rest)
    match parts:
        case ["user", "prompt"]:
            return UserPromptPath(turn)
        case ["assistant", "completion", *ordinal]:
            return CompletionPath(turn, _parse_ordinal(ordinal))
        case ["channel", name, *ordinal]:
            return ChannelPath(turn, name, _parse_ordinal(ordinal))
        case ["react", *what]:
            return _parse_react(turn, what)
        case ["artifacts", *name]:
            return ArtifactPath(turn, ".".join(name))
        case ["external", kind, message]:
            return EventPath(turn, kind, MessageId(message))
        case _:
            raise _malformed_error(
                "ar:<turn>. goes on with user.prompt, assistant.completion, channel.<name>, react.…, "
                "artifacts.<name> or external.<kind>.<message_id>",
                rest,
            )


def _parse_react(turn: TurnId, what: list[str]) -> MessageForm:
    match what:
        case [("notes" | "note" | "approval") as text, call]:
            return CallTextPath(turn, text, CallId(call))
        case [("thinking" | "model") as text, number]:
            return RoundTextPath(turn, text, _parse_number(number))
        case ["plan", "ack", number]:
            return RoundTextPath(turn, "plan.ack", _parse_number(number))
        case ["plan", plan]:
            return PlanPath(turn, PlanId(plan))
        case ["turn", "index"]:
            return TurnIndexPath(turn)
        case _:
            raise _malformed_error(
                "ar:<turn>.react. goes on with notes|note|approval.<call>, thinking|model|plan.ack.<round>, "
                "plan.<id> or turn.index",
                ".".join(what),
            )


def _parse_tool(rest: str) -> ToolPath:
    turn, parts = _split_turn(rest)
    match parts:
        case [call, ("call" | "code" | "notice" | "result") as part]:
            return ToolPath(turn, CallId(call), part)
        case ["tool_calls", call, "in", "json"]:
            return ToolPath(turn, CallId(call), "call")
        case ["tool_calls", call, "out", "json"]:
            return ToolPath(turn, CallId(call), "result")
        case _:
            raise _malformed_error("a tool path is tc:<turn>.<call>.call, .code, .notice or .result", rest)


def _parse_file(rest: str) -> FileForm:
    head, _, rel = rest.partition("/")
    turn, parts = _split_turn(head)
    match parts:
        case [("files" | "outputs") as area]:
            return FilePath(turn, area, rel)
        case ["user", "attachments"]:
            return AttachmentPath(turn, rel)
        case ["external", kind, "attachments"]:
            message, _, name = rel.partition("/")
            return EventAttachmentPath(turn, kind, MessageId(message), name)
        case _:
            raise _malformed_error(
                "fi:<turn>. goes on with files/<rel>, outputs/<rel>, user.attachments/<name> "
                "or external.<kind>.attachments/<message_id>/<name>",
                rest,
            )


def _parse_sources(rest: str) -> SourcesPath:
    inside = rest.removeprefix("sources_pool[").removesuffix("]")
    if rest != f"sources_pool[{inside}]":
        raise _malformed_error("a selection of sources is so:sources_pool[1,3-5]", rest)
    return SourcesPath.parse_ranges(inside)


def _parse_range_summary(rest: str) -> RangeSummaryPath:
    turn, parts = _split_turn(rest)
    match parts:
        case ["conv", "range", "summary", *ordinal]:
            return RangeSummaryPath(turn, _parse_ordinal(ordinal))
        case _:
            raise _malformed_error("a range summary is su:<turn>.conv.range.summary[.n]", rest)


def _parse_working_summary(rest: str) -> WorkingSummaryPath:
    turn, parts = _split_turn(rest)
    match parts:
        case ["conv", "working", "summary", *ordinal]:
            return WorkingSummaryPath(turn, _parse_ordinal(ordinal))
        case _:
            raise _malformed_error("a working summary is ws:<turn>.conv.working.summary[.n]", rest)


_SCHEMES: Final = MappingProxyType(
    {
        "ar": _parse_message,
        "tc": _parse_tool,
        "fi": _parse_file,
        "so": _parse_sources,
        "su": _parse_range_summary,
        "ws": _parse_working_summary,
        "sk": SkillPath,
        "ks": KnowledgePath,
    }
)
_KNOWN_SCHEMES = ", ".join(f"{scheme}:" for scheme in _SCHEMES)


def _split_turn(text: str) -> tuple[TurnId, list[str]]:
    """Split at dots: return the first word, which the form checks as a turn id, and the remaining words."""
    turn, *parts = text.split(".")
    return TurnId(turn), parts


def _parse_ordinal(parts: list[str]) -> int | None:
    match parts:
        case []:
            return None
        case [number]:
            return _parse_number(number)
        case _:
            raise _malformed_error("at most one number follows", ".".join(parts))


def _parse_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _malformed_error("a number in a path has 1 to 9 digits and no leading zero", text)
    return int(text)


def _malformed_error(expected: str, got: str) -> PathError:
    return PathError("path_malformed", f"{expected}; got {quote_prefix(got)}")
