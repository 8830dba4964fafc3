"""Parses the parts of a prompt that the local model uses."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from timeloom.core.render.foreign_text.fence import unfence
from timeloom.ports.model import ModelRequest, TextSegment

MAX_PROMPT_CHARS: Final = 400_000
"""Maximum length of the prompt's end that is read; the current turn is there."""


class PromptCall(msgspec.Struct, kw_only=True):
    """A call of the current turn and its outcome; `failure` is the message of an error or a refusal.

    `status` is the returned value, `text` the content of its artifacts.
    """

    tool_id: str
    params: str
    done: bool = False
    failure: str = ""
    paths: list[str] = []
    status: str = ""
    text: str = ""


class PromptFile(msgspec.Struct, kw_only=True):
    """A file or attachment in the prompt; `text` is its content if the newest mention shows it."""

    path: str
    text: str | None = None
    attached: bool = False
    is_cut: bool = False
    """Whether the prompt shows only a part of the text."""

    @property
    def name(self) -> str:
        """The file name without folders."""
        return self.path.rpartition("/")[2]

    @property
    def relative(self) -> str:
        """The path in the workspace, without the turn: `files/docs/a.md`."""
        return self.path.partition(".")[2]


class ListedSource(msgspec.Struct, frozen=True):
    """A row of the sources pool; `where` is its path or URL."""

    sid: int
    title: str
    where: str


class PromptContent(msgspec.Struct, kw_only=True):
    """The content of a prompt: the newest message, the calls of the turn, files, sources and the plan."""

    message: str = ""
    stop: bool = False
    turn: str = ""
    calls: list[PromptCall] = []
    files: dict[str, PromptFile] = {}
    exchanges: list[tuple[str, str]] = []
    """Earlier messages with their answers."""
    said: list[str] = []
    """The messages of earlier turns."""
    sources: list[ListedSource] = []
    plan: list[tuple[str, str]] = []
    """The steps of the current plan with their marks."""
    last_round: bool = False


def read_prompt(request: ModelRequest) -> PromptContent:
    """Parse the prompt of a request; unknown lines are skipped."""
    texts = [segment.text for segment in request.segments if isinstance(segment, TextSegment)]
    body, tail = "".join(texts[:-1])[-MAX_PROMPT_CHARS:], texts[-1] if texts else ""
    content = PromptContent()
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
            _read_message(content, kind, _message_text(lines))
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


def _read_message(content: PromptContent, kind: str, text: str) -> None:
    content.stop = kind == "USER STEER" and text in ("", "(stop)")
    # A follow-up before the first call extends the message; later it replaces the message.
    adds = kind == "USER FOLLOWUP" and content.message and not content.calls
    if content.calls and kind != "USER MESSAGE":
        content.said.append(content.message)
        content.calls = []
    content.message = f"{content.message}\n{text}" if adds else text


def _read_progress(content: PromptContent, kind: str, rest: str) -> None:
    """Read the lines about the progress of the turn: its start, notices and refused approvals."""
    if kind == "TURN":
        content.said += [content.message] if content.message else []
        content.turn = rest.strip().partition("]")[0]
        content.calls, content.message, content.stop = [], "", False
    elif kind == "NOTICE":
        _read_notice(content, rest)
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
            call.failure = call.failure or _missing_files(text)
        elif named[2] == "artifact":
            call.text = f"{call.text}\n{text}".strip("\n")
    for path in paths:
        if path.startswith("fi:"):
            attached = ".attachments/" in path
            content.files.pop(path, None)
            is_cut = any(line.startswith("[PREVIEW]") for line in lines)
            content.files[path] = PromptFile(
                path=path, text=text if quoted else None, attached=attached, is_cut=is_cut and bool(quoted)
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


class _ReadStatus(msgspec.Struct):
    paths: list[str] = []
    missing: list[str] = []


def _missing_files(status: str) -> str:
    """Return the failure of a read that found none of its paths; empty otherwise."""
    try:
        found = msgspec.json.decode(status, type=_ReadStatus)
    except msgspec.MsgspecError:
        return ""
    names = ", ".join(path.rpartition("/")[2] for path in found.missing)
    return f"there is no file {names}" if found.missing and not found.paths else ""


def _read_notice(content: PromptContent, rest: str) -> None:
    code, _, message = rest.partition("] ")[2].partition(": ")
    if content.calls and code and not code.startswith("protocol_violation.") and not content.calls[-1].failure:
        content.calls[-1].failure = message
        content.calls[-1].done = True


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
