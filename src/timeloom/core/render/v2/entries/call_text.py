"""Renders the blocks of a tool call: the call as the channels of a decision, and results between two lines."""

from typing import Final, assert_never, cast

import msgspec

from timeloom.core.blocks import (
    Digest,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    ToolCall,
    ToolCode,
    ToolError,
    ToolTraits,
)
from timeloom.core.blocks.tool_traits import resolve_traits
from timeloom.core.ids import TurnId
from timeloom.core.paths import EntriesPath, PathError, find_written_path
from timeloom.core.payload import BlobRef, size_of
from timeloom.core.render.entry_text import NO_TEXT, EntryText, Payloads, load_text
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import escape_json, json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries.channel_text import (
    CODE_HEAD_CHARS,
    MAX_CODE_CHARS,
    action,
    channel,
    raw_channel,
    shorten_words,
    text_without_gap,
)
from timeloom.core.render.v2.entries.previews import bare_mime, not_shown_line, preview_data, preview_text
from timeloom.core.render.v2.entries.status_text import alias_paths, status_json
from timeloom.core.render.v2.fence import begin_line, end_line, fence_text, refence_text, refence_words
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_data_tokens

MAX_PARAM_CHARS: Final = 400
"""Maximum length of a string parameter that is shown completely. Text that a call wrote appears again in its result."""

MAX_CALL_CHARS: Final = 8_000
"""Maximum length of the parameters of a call; longer parameters are truncated."""

MAX_PARAM_DEPTH: Final = 32
"""Maximum depth at which strings are shortened; deeper parameters are truncated as text."""

RAW_PARAMS: Final = ("content", "patch")
"""Parameters that are written in channels of their own."""

MAX_INLINE_CHARS: Final = 80
"""Maximum length of a text of one line that stays inside the JSON: the two tags of a channel cost more."""

MAX_COMPARED_CHARS: Final = 2_000
"""How much of a text is searched for the message of its error, which then is not repeated before it."""

OK_STATUS: Final = '{"ok":true}'
"""The status that the runtime records for a call without any result."""

CallBlock = ToolCode | ToolCall | Notice | ResultDigest | ResultStatus | ResultContent


def call_text(
    entry: Entry, names: Names, tool_id: str, payloads: Payloads, traits: ToolTraits | None = None
) -> EntryText:
    """Return the text of an entry of a call.

    `tool_id` is the called tool, empty if it is unknown. `traits` are the traits that the call recorded.
    """
    block, turn = cast("CallBlock", entry.block), entry.turn_id
    match block:
        case ToolCode(text=text):
            return text_without_gap(channel("code", _code_words(load_text(text, payloads), entry.seq)))
        case ToolCall():
            return action_text(block, turn, payloads, names)
        case Notice(in_result=True):
            return NO_TEXT
        case Notice(code=code, text=text, tool_call_id=call):
            of_call = f" {names.call(turn, call)}" if call else ""
            return text_without_gap(f"[NOTICE{of_call}] {one_line(f'{code}: {text}', 4_200)}")
        case ResultDigest(tool_call_id=call, digest=digest):
            return _digest_text(names.call(turn, call), digest, names)
        case ResultStatus(tool_call_id=call):
            return _status_text(block, turn, names.call(turn, call), payloads, resolve_traits(tool_id, traits), names)
        case ResultContent(tool_call_id=call):
            return _content_text(block, names.call(turn, call), payloads, resolve_traits(tool_id, traits), names)
        case _:
            assert_never(block)


def quoted_text(text: str, mime: str, path: str, shown: Shown | None = None, *, numbered: bool = False) -> str:
    """Return foreign text fenced, or its preview; `path` is shown as given."""
    # Imported logs do not record how a content is shown, so the rule of an append is applied here.
    shown = shown or preview_text(text, mime, path)
    if shown.how != "whole":
        return refence_text(shown.text).removesuffix("\n")
    return fence_text(text, 1 if numbered else None).removesuffix("\n")


def text_with_data(head: str, mime: str, data: bytes | BlobRef) -> EntryText:
    """Return the line, if there is one, followed by the attached image or PDF."""
    text = text_without_gap(head) if head else NO_TEXT
    tokens = text.tokens + estimate_data_tokens(bare_mime(mime), size_of(data))
    return EntryText(text.text, data, bare_mime(mime), tokens)


def _code_words(code: str, seq: int) -> str:
    # The call follows its code, so at this entry its number is not known. The place of the entry is as short.
    place = str(EntriesPath.from_numbers([seq]))
    return shorten_words(code, MAX_CODE_CHARS if len(code) <= MAX_CODE_CHARS else CODE_HEAD_CHARS, place, refence_words)


def action_text(block: ToolCall, turn: TurnId, payloads: Payloads, names: Names, *, compact: bool = False) -> EntryText:
    """Return the call as the channels of a decision; `compact` leaves out the fields that every call has."""
    params, path = load_text(block.params, payloads), names.path(block.path(turn))
    try:
        fields = msgspec.json.decode(params, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError):
        # Blocks reject parameters that are not JSON, so only a stored payload can get here.
        return _call_line(block, turn, one_line(params, MAX_CALL_CHARS), [], names, compact=compact)
    where = _long_text_path(fields, path, turn, names)
    raw = [
        # Escapes in a recorded parameter are undone when the call runs, so they are not escaped again.
        raw_channel(name, shorten_words(text, MAX_PARAM_CHARS, where, refence_words))
        for name in RAW_PARAMS
        if isinstance(text := fields.get(name), str) and _is_long_text(text)
    ]
    if raw:
        fields = {name: value for name, value in fields.items() if not (name in RAW_PARAMS and _is_raw(value))}
    shown = _params_json(fields, params if not raw else "", where, names)
    return _call_line(block, turn, shown, raw, names, compact=compact)


def _is_raw(value: object) -> bool:
    return isinstance(value, str) and _is_long_text(value)


def _is_long_text(text: str) -> bool:
    return len(text) > MAX_INLINE_CHARS or "\n" in text


def _call_line(block: ToolCall, turn: TurnId, params: str, raw: list[str], names: Names, *, compact: bool) -> EntryText:
    if block.by:
        # A program made this call, so it is no decision of the model.
        head = begin_line(names.call(turn, block.tool_call_id), f"by {names.call(turn, block.by)}", block.tool_id)
        return text_without_gap(f"{head} {params}", *raw)
    tool = json_line(one_line(block.tool_id))
    shown = "" if params == "{}" else f',"params":{params}'
    call = f'{{"tool_id":{tool}{shown}}}'
    return text_without_gap(action(call if compact else f'{{"action":"call_tool","tool_call":{call}}}'), *raw)


def _params_json(fields: dict[str, object], text: str, where: str, names: Names) -> str:
    """Return the parameters as JSON; `text` is their recorded text, empty if fields were taken out."""
    shortened = _shorten_strings(alias_paths(fields, names), where, MAX_PARAM_DEPTH)
    # Unchanged parameters are shown as the model wrote them: decoding would change numbers such as 1.10.
    unchanged = bool(text) and shortened == fields
    line = escape_json(msgspec.json.format(text, indent=-1)) if unchanged else json_line(shortened)
    return line if len(line) <= MAX_CALL_CHARS else f"{line[:MAX_CALL_CHARS]}… [see {where}]"


def _shorten_strings(value: object, where: str, depth: int) -> object:
    match value:
        case str():
            return value if len(value) <= MAX_PARAM_CHARS else f"{value[:MAX_PARAM_CHARS]}... [see {where}]"
        case dict() if depth:
            items = cast("dict[str, object]", value).items()
            return {key: _shorten_strings(inner, where, depth - 1) for key, inner in items}
        case list() if depth:
            return [_shorten_strings(inner, where, depth - 1) for inner in cast("list[object]", value)]
        case _:
            return value


def _long_text_path(params: dict[str, object], path: str, turn: TurnId, names: Names) -> str:
    """Return the path under which the long text of a call can be read: the file it writes, else the call."""
    target = params.get("path")
    if "content" in params and isinstance(target, str):
        try:
            return one_line(names.path(str(find_written_path(target, turn))), 1_200)
        except PathError:
            return path
    return path


def _digest_text(call: str, digest: Digest, names: Names) -> EntryText:
    """Return the line of an artifact that failed or has a warning; the content of any other follows in its entry."""
    where = "" if digest.artifact_path.startswith("tc:") else names.path(digest.artifact_path)
    if digest.error:
        return text_without_gap(_failed_line(call, digest.error, where))
    if digest.write_warning:
        return text_without_gap(begin_line(call, "warning", digest.write_warning))
    if not where and digest.tokens is None:
        return text_without_gap(begin_line(call, "ok"))
    return NO_TEXT


def _failed_line(call: str, error: ToolError, where: str = "", said: str = "") -> str:
    """Return the begin line of a failed call; `said` is the text that follows it, if any."""
    place = f" (in {error.where})" if error.where else ""
    # Many tools repeat the beginning of their output as the message, and its facts as details.
    begin = said[:MAX_COMPARED_CHARS]
    known = {name: fact for name, fact in error.details.items() if not (isinstance(fact, str) and fact in begin)}
    details = f" {json_line(known)}" if known else ""
    message = "" if error.message in begin else f": {error.message}"
    return begin_line(call, f"failed {where}".rstrip(), f"{error.code}{message}{place}{details}")


def _status_text(
    block: ResultStatus, turn: TurnId, call: str, payloads: Payloads, traits: ToolTraits, names: Names
) -> EntryText:
    shown = block.shown
    whole = shown is None or shown.how == "whole"
    said = load_text(block.text, payloads) if whole else ""
    if block.error and _is_error_text(said, block.error):
        return text_without_gap(_failed_line(call, block.error))
    head = _failed_line(call, block.error, said=said) if block.error else begin_line(call)
    if whole and bare_mime(block.mime) == "application/json" and traits.conversation_only:
        status = status_json(said, traits, names)
        if status is None:
            # The contents that were read follow in their own entries.
            return NO_TEXT
        said = status
    if whole and said in ("", OK_STATUS):
        return text_without_gap(head if block.error else begin_line(call, "ok"))
    return text_without_gap(head, quoted_text(said, block.mime, names.path(block.path(turn)), shown), end_line(call))


def _content_text(block: ResultContent, call: str, payloads: Payloads, traits: ToolTraits, names: Names) -> EntryText:
    path, mime, shown = names.path(block.artifact_path), block.mime, block.shown
    is_result = block.artifact_path.startswith("tc:")
    head = begin_line(call, "" if is_result else path)
    if block.text is not None:
        whole = shown is None or shown.how == "whole"
        text = load_text(block.text, payloads) if whole else ""
        numbered = traits.numbers_lines and not is_result
        if whole and not text:
            return text_without_gap(begin_line(call, "empty") if is_result else f"{head}\n{end_line(call)}")
        return text_without_gap(head, quoted_text(text, mime, path, shown, numbered=numbered), end_line(call))
    if block.data is not None:
        shown = shown or preview_data(mime, size_of(block.data), path)
        if shown.how == "whole":
            return text_with_data(head, mime, block.data)
    if shown and shown.text:
        return text_without_gap(head, quoted_text("", mime, path, shown), end_line(call))
    missing = not_shown_line(mime, block.digest.size_bytes if block.digest else None, path)
    # On one line: a begin line alone would make all that follows look like the content.
    return text_without_gap(f"{head} {missing.removeprefix('[READ] ')}")


def _is_error_text(text: str, error: ToolError) -> bool:
    """Whether the text only repeats the error, so that it is not shown twice."""
    return text == msgspec.json.encode({"error": error}).decode()
