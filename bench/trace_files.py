"""Reads recorded sessions of agents from a folder as traces."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.traces import Step, Trace, TraceEvent, TraceTokens, group_by_turns

SESSIONS: Final = "coding_agent_*.jsonl"
"""Long sessions of a coding agent, one event per line."""

DIALOGUES: Final = "airline.json.gz"
"""Many short dialogues with tool calls, as a list of chat transcripts."""

_EPOCH_TS: Final = "2026-01-01T00:00:00Z"


def read_sessions(folder: Path) -> list[Trace]:
    """Return every long session of the folder, sorted by name."""
    return [_session(path) for path in sorted(_traces_in(folder).glob(SESSIONS))]


def read_dialogues(folder: Path) -> list[Trace]:
    """Return every short dialogue of the folder; none if the file is missing."""
    path = _traces_in(folder) / DIALOGUES
    if not path.is_file():
        return []
    dialogues = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=list[_RecordedDialogue])
    return [_dialogue(f"dialogue_{n}", dialogue.traj) for n, dialogue in enumerate(dialogues)]


def _traces_in(folder: Path) -> Path:
    """Return the sub-folder `traces` if it exists, otherwise the folder itself."""
    inside = folder / "traces"
    return inside if inside.is_dir() else folder


class _RecordedUsage(msgspec.Struct):
    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0


class _RecordedLine(msgspec.Struct):
    t: str
    ts: str
    text: str | None = None
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    content: str = ""
    is_error: bool = False
    op: str = ""
    req: str = ""
    usage: _RecordedUsage | None = None


class _RecordedFunction(msgspec.Struct):
    name: str
    arguments: str


class _RecordedCall(msgspec.Struct):
    id: str
    function: _RecordedFunction


class _RecordedMessage(msgspec.Struct):
    role: str
    content: str | None = None
    tool_calls: list[_RecordedCall] = []
    tool_call_id: str = ""
    name: str = ""


class _RecordedDialogue(msgspec.Struct):
    traj: list[_RecordedMessage]


def _session(path: Path) -> Trace:
    decoder = msgspec.json.Decoder(_RecordedLine)
    lines = [decoder.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
    return group_by_turns(path.stem, list(_group_by_request(event for line in lines for event in _events(line))))


def _events(line: _RecordedLine) -> Iterator[TraceEvent]:
    text = line.text or ""
    match line.t:
        case "user":
            yield TraceEvent("user", text, line.ts)
        case "queue" if text:
            yield TraceEvent("followup", text, line.ts)
        case "compact_summary":
            yield TraceEvent("summary", text, line.ts)
        case "thinking":
            yield TraceEvent("thinking", text, line.ts, request=line.req, tokens=_tokens(line))
        case "text":
            yield TraceEvent("text", text, line.ts, request=line.req, tokens=_tokens(line))
        case "tool_use":
            params = bytes(line.input).decode()
            yield TraceEvent(
                "call", params, line.ts, call_id=line.id, tool=line.name, request=line.req, tokens=_tokens(line)
            )
        case "tool_result":
            yield TraceEvent("result", line.content, line.ts, call_id=line.id, failed=line.is_error)
        case _:
            # Bookkeeping of the program that ran the agent.
            return


def _tokens(line: _RecordedLine) -> TraceTokens:
    usage = line.usage or _RecordedUsage()
    return TraceTokens(
        usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.output_tokens
    )


def _group_by_request(events: Iterator[TraceEvent]) -> Iterator[Step]:
    """Yield neighbouring events of one model request together, everything else separately."""
    step: list[TraceEvent] = []
    for event in events:
        if step and not (event.request and event.request == step[0].request):
            yield tuple(step)
            step = []
        step.append(event)
    if step:
        yield tuple(step)


def _dialogue(name: str, messages: list[_RecordedMessage]) -> Trace:
    steps: list[Step] = []
    for n, message in enumerate(messages):
        text = message.content or ""
        match message.role:
            case "user":
                steps.append((TraceEvent("user", text, _EPOCH_TS),))
            case "tool":
                steps.append((TraceEvent("result", text, _EPOCH_TS, call_id=message.tool_call_id),))
            case "assistant":
                request = f"request_{n}"
                said = [TraceEvent("text", text, _EPOCH_TS, request=request)] if text else []
                calls = [
                    TraceEvent(
                        "call",
                        call.function.arguments,
                        _EPOCH_TS,
                        call_id=call.id,
                        tool=call.function.name,
                        request=request,
                    )
                    for call in message.tool_calls
                ]
                steps.append((*said, *calls))
            case _:
                # The system prompt belongs to the program, not to the conversation.
                continue
    return group_by_turns(name, [step for step in steps if step])
