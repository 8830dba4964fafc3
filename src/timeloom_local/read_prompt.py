"""Parses the parts of a prompt that the local model uses: prompts of edition 1 here, others in `read_channels`."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from timeloom.core.render.foreign_text.fence import unfence
from timeloom.ports.model import ModelRequest, TextSegment
from timeloom_local.prompt_content import ListedSource, PromptCall, PromptContent, PromptFile, describe_missing
from timeloom_local.read_channels import is_second_edition, read_second_edition

MAX_PROMPT_CHARS: Final = 400_000
"""Maximum length of the prompt's end that is read; the current turn is there."""


def read_prompt(request: ModelRequest) -> PromptContent:
    """Parse the prompt of a request; unknown lines are skipped."""
    texts = [segment.text for segment in request.segments if isinstance(segment, TextSegment)]
    body, tail = "".join(texts[:-1])[-MAX_PROMPT_CHARS:], texts[-1] if texts else ""
    content = PromptContent()
    if is_second_edition(tail):
        read_second_edition(content, body, tail)
    else:
        for head, lines in _split_blocks(body):
            _read_block(content, head, lines)
        _read_tail(content, tail)
    content.message = content.message.strip()
    return content


_HEAD: Final = re.compile(
    r"\[(?P<kind>TURN|USER MESSAGE|USER FOLLOWUP|USER STEER|USER ATTACHMENT|ROUND|TOOL RESULT|TOOL CODE|NOTICE"
    r"|ASSISTANT MESSAGE|WORKING SUMMARY|CONVERSATION SUMMARY|INTERRUPTED ATTEMPT|EXTERNAL EVENT|UNKNOWN BLOCK"
    r"|TURN END|APPROVAL ASKED|APPROVAL|GATE|REACT\.[A-Z.]+|AI Agent (?:think|say)|react\.(?:tool\.call|note))\b"
    r"(?P<rest>[^\n]*)"
)
_GUARD: Final = re.compile(r"^(\s*)~(?=~*(?:\[|HIDDEN|PRUNED|RECENT|CURRENT TURN|SOURCES POOL|ANNOUNCE))", re.MULTILINE)
_PATH: Final = re.compile(r"\[path: (.*)\]")
_TOOL: Final = re.compile(r"\s*(\S+)\]\.(summary|result|artifact)")


def _split_blocks(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Yield each header with its lines. Untrusted lines are prefixed with a bar, so none can imitate a header."""
    head: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        if found := _HEAD.match(line):
            if head:
                yield head, lines
            head, lines = found, []
        else:
            lines.append(line)
    if head:
        yield head, lines


def _read_block(content: PromptContent, head: re.Match[str], lines: list[str]) -> None:
    kind, rest = head["kind"], head["rest"]
    match kind:
        case "USER MESSAGE" | "USER FOLLOWUP" | "USER STEER":
            content.add_message(kind, _message_text(lines))
        case "ASSISTANT MESSAGE":
            content.exchanges.append((content.message, _message_text(lines)))
        case "USER ATTACHMENT":
            for path in _paths(lines):
                content.files[path] = PromptFile(path=path, attached=True)
        case "react.tool.call":
            _read_call(content, lines)
        case "TOOL RESULT":
            _read_result(content, rest, lines)
        case _:
            _read_progress(content, kind, rest)


def _read_progress(content: PromptContent, kind: str, rest: str) -> None:
    """Read the lines about the progress of the turn: its start, notices and refused approvals."""
    if kind == "TURN":
        content.begin_turn(rest.strip().partition("]")[0])
    elif kind == "NOTICE":
        content.add_notice(rest.partition("] ")[2])
    elif kind == "APPROVAL" and content.calls and "refused" in rest:
        content.calls[-1].failure = "a person refused it"


class _CallBlock(msgspec.Struct):
    tool_id: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


def _read_call(content: PromptContent, lines: list[str]) -> None:
    try:
        parsed = msgspec.json.decode("\n".join(lines).strip(), type=_CallBlock)
    except msgspec.MsgspecError:  # very long parameters are cut in the prompt
        parsed = _CallBlock("", msgspec.Raw(b"{}"))
    content.calls.append(PromptCall(tool_id=parsed.tool_id, params=bytes(parsed.params).decode("utf-8", "replace")))


def _read_result(content: PromptContent, rest: str, lines: list[str]) -> None:
    named = _TOOL.match(rest)
    if not named:
        return
    paths, quoted = _paths(lines), [line for line in lines if _QUOTED.match(line)]
    text = unfence("\n".join(quoted))
    if content.calls:
        call = content.calls[-1]
        call.done = True
        call.paths += paths
        call.failure = call.failure or _failure(lines)
        if named[2] == "result":
            call.status = text
            call.failure = call.failure or describe_missing(text)
        elif named[2] == "artifact":
            call.text = f"{call.text}\n{text}".strip("\n")
    for path in paths:
        if path.startswith("fi:"):
            attached = ".attachments/" in path
            is_cut = any(line.startswith("[PREVIEW]") for line in lines)
            content.add_file(
                PromptFile(path=path, text=text if quoted else None, attached=attached, is_cut=is_cut and bool(quoted))
            )


_QUOTED: Final = re.compile(r"[0-9]*\|")


def _failure(lines: list[str]) -> str:
    for line in lines:
        if line.startswith("error: "):
            try:
                return str(msgspec.json.decode(line[7:], type=dict[str, object]).get("message", "")) or "it failed"
            except msgspec.MsgspecError:
                return line[7:]
    return ""


def _message_text(lines: list[str]) -> str:
    kept = [line for line in lines if not _PATH.fullmatch(line) and not line.startswith("suggested followups: ")]
    return _GUARD.sub(r"\1", "\n".join(kept)).strip()


def _paths(lines: list[str]) -> list[str]:
    return [found[1] for line in lines if (found := _PATH.fullmatch(line))]


_ROW: Final = re.compile(r"\[S (\d+)\] (.*?) \| (?:.*? \| )?(\S.*)")
_STEP: Final = re.compile(r"    (\S) \[\d+\] (.+)")


def _read_tail(content: PromptContent, tail: str) -> None:
    current = False
    for line in tail.split("\n"):
        if row := _ROW.match(line):
            content.sources.append(ListedSource(int(row[1]), row[2], row[3]))
        elif line.startswith("  plan_id="):
            current = line.endswith("(current)")
        elif current and (step := _STEP.match(line)):
            content.plan.append((step[2], step[1]))
        elif line.startswith("[LAST ROUND]"):
            content.last_round = True
