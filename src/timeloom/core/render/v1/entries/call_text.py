"""Renders the blocks of a tool call: code, call, notices and results."""

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
from timeloom.core.paths import PathError, parse_long, rewrite_path, to_physical
from timeloom.core.paths.forms import FileForm
from timeloom.core.payload import BlobRef, size_of
from timeloom.core.render.entry_text import NO_TEXT, EntryText, Payloads, load_text, text_from_lines
from timeloom.core.render.foreign_text.fence import fence, one_line, refence
from timeloom.core.render.foreign_text.json_text import escape_json, json_line
from timeloom.core.render.v1.entries.previews import bare_mime, not_shown_line, preview_data, preview_text
from timeloom.core.tokens import estimate_data_tokens

MAX_PARAM_CHARS: Final = 400
"""Maximum length of a string parameter that is shown completely. Text that a call wrote appears again in its result."""

MAX_CALL_CHARS: Final = 8_000
"""Maximum length of the parameters of a call; longer parameters are truncated."""

MAX_PARAM_DEPTH: Final = 32
"""Maximum depth at which strings are shortened; deeper parameters are truncated as text."""

CallBlock = ToolCode | ToolCall | Notice | ResultDigest | ResultStatus | ResultContent


def call_text(
    block: CallBlock, turn: TurnId, tool_id: str, payloads: Payloads, traits: ToolTraits | None = None
) -> EntryText:
    """Return the text of a block of a call.

    `tool_id` is the called tool, empty if it is unknown. `traits` are the traits that the call recorded.
    """
    match block:
        case ToolCode(tool_call_id=call, text=text):
            code = preview_text(load_text(text, payloads), block.mime, block.path(turn))
            body = fence(load_text(text, payloads), 1) if code.how == "whole" else code.text
            return text_from_lines(f"[TOOL CODE {call}]", _path_line(block.path(turn)), body)
        case ToolCall(tool_id=tool, tool_call_id=call, params=params):
            shown = _params_json(load_text(params, payloads), block.path(turn), turn)
            head = json_line({"tool_id": one_line(tool), "tool_call_id": call}).removesuffix("}")
            return text_from_lines("[react.tool.call] (JSON)", f'{head},"params":{shown}}}')
        case Notice(code=code, text=text, tool_call_id=call):
            return text_from_lines(f"[NOTICE{f' {call}' if call else ''}] {one_line(code)}: {one_line(text, 4_000)}")
        case ResultDigest(digest=Digest(artifact_path=path, tokens=int(), error=None)) if path.startswith("tc:"):
            # The result text follows in its own entry at the call's path, so the digest adds nothing.
            return NO_TEXT
        case ResultDigest(tool_call_id=call):
            return text_from_lines(f"[TOOL RESULT {call}].summary {one_line(tool_id)}".rstrip(), *_digest_lines(block))
        case ResultStatus(tool_call_id=call, text=text, mime=mime, shown=shown):
            path = block.path(turn)
            said = load_text(text, payloads) if _is_shown_whole(shown) else ""
            error = f"error: {json_line(block.error)}" if block.error else ""
            body = "" if block.error and _is_error_text(said, block.error) else _body(said, mime, path, shown)
            return text_from_lines(
                f"[TOOL RESULT {call}].result {one_line(tool_id)}".rstrip(), _path_line(path), error, body
            )
        case ResultContent():
            return _content_text(block, tool_id, payloads, resolve_traits(tool_id, traits))
        case _:
            assert_never(block)


def _content_text(block: ResultContent, tool_id: str, payloads: Payloads, traits: ToolTraits) -> EntryText:
    path, mime, shown = block.artifact_path, block.mime, block.shown
    part = "result" if path.startswith("tc:") else "artifact"
    head = [
        f"[TOOL RESULT {block.tool_call_id}].{part} {one_line(tool_id)}".rstrip(),
        _path_line(path),
        _physical_path_line(block),
    ]
    if block.text is not None:
        text = load_text(block.text, payloads) if _is_shown_whole(shown) else ""
        numbered = traits.numbers_lines and part == "artifact"
        return text_from_lines(*head, _body(text, mime, path, shown, numbered=numbered))
    if block.data is None:
        return text_from_lines(*head, refence(shown.text) if shown and shown.text else not_shown_line(mime, None, path))
    return text_with_data(head, mime, block.data, path, shown)


def text_with_data(head: list[str], mime: str, data: bytes | BlobRef, path: str, shown: Shown | None) -> EntryText:
    """Return the lines, followed by the attached image or PDF, or by the line that replaces it."""
    shown = shown or preview_data(mime, size_of(data), path)
    if shown.how != "whole":
        return text_from_lines(*head, refence(shown.text))
    text = text_from_lines(*head)
    tokens = (text.tokens if head else 0) + estimate_data_tokens(bare_mime(mime), size_of(data))
    return EntryText(text.text if head else "", data, bare_mime(mime), tokens)


def _is_shown_whole(shown: Shown | None) -> bool:
    return shown is None or shown.how == "whole"


def _is_error_text(text: str, error: ToolError) -> bool:
    """Whether the text only repeats the error, so that it is not shown twice."""
    return text == msgspec.json.encode({"error": error}).decode()


def _body(text: str, mime: str, path: str, shown: Shown | None, *, numbered: bool = False) -> str:
    # Imported logs do not record how a content is shown, so the rule of an append is applied here.
    shown = shown or preview_text(text, mime, path)
    if shown.how != "whole":
        return refence(shown.text)
    return fence(text, 1 if numbered else None)


def _digest_lines(block: ResultDigest) -> list[str]:
    digest = block.digest
    status = "status: failed" if digest.error else "status: ok"
    # A result at the call's path is not listed as an artifact.
    if digest.artifact_path.startswith("tc:"):
        return [status, f"error: {json_line(digest.error)}" if digest.error else ""]
    return [status, f"artifact: {json_line(digest)}"]


def _path_line(path: str) -> str:
    return f"[path: {one_line(path, 1_200)}]"


def _physical_path_line(block: ResultContent) -> str:
    if block.digest and block.digest.physical_path:
        return f"[physical_path: {one_line(block.digest.physical_path, 1_200)}]"
    return physical_line(block.artifact_path)


def physical_line(path: str) -> str:
    """Return the line with the physical path of a file; empty if the path does not name a file."""
    form = parse_long(path)
    return f"[physical_path: {one_line(str(to_physical(form)), 1_200)}]" if isinstance(form, FileForm) else ""


def _params_json(params: str, path: str, turn: TurnId) -> str:
    try:
        if len(params) <= MAX_PARAM_CHARS:
            return escape_json(msgspec.json.format(params, indent=-1))
        value = msgspec.json.decode(params, type=dict[str, object])
        line = json_line(_shorten_strings(value, _long_text_path(value, path, turn), MAX_PARAM_DEPTH))
    except (msgspec.MsgspecError, RecursionError):
        # Blocks reject parameters that are not JSON, so only a stored payload can get here.
        line = one_line(params, MAX_CALL_CHARS + 1)
    return line if len(line) <= MAX_CALL_CHARS else f"{line[:MAX_CALL_CHARS]}… [see {path}]"


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


def _long_text_path(params: dict[str, object], path: str, turn: TurnId) -> str:
    """Return the path under which the long text of a call can be read: the file it writes, else the call."""
    target = params.get("path")
    if "content" in params and isinstance(target, str):
        try:
            return str(rewrite_path(target, turn).path)
        except PathError:
            return path
    return path
