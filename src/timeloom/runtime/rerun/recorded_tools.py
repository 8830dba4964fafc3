"""Answers calls of a re-run with recorded results if an equal call was recorded, without running the tool."""

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from timeloom.core.blocks import (
    Note,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    ToolCall,
    ToolCode,
    ToolTraits,
    make_tool_error,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import FilePath, parse_long, to_physical
from timeloom.core.payload import BlobRef, Text
from timeloom.core.policy.gates import Policy, PolicyResult, Proposal, ToolStep, policy_name
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.tool import Outcome, TimelineReader, Tool, ToolContext, ToolSpec
from timeloom.runtime.rerun.trajectory import ReadText, ResultOrigin, to_canonical_json
from timeloom.runtime.turn.run_tool import RecordedOutcome
from timeloom.tools.artifacts import is_editable
from timeloom.tools.registry import ToolRegistry
from timeloom.tools.workspace import Workspace
from timeloom.wire.record import decode_record, encode_record

_B = TypeVar("_B", ResultContent, ResultDigest)
_Key = tuple[str, str, str]


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the record with the entries of its result."""

    turn_id: TurnId
    tool_call_id: CallId
    results: tuple[Entry, ...]


class CallRecording:
    """The calls of a record by tool and parameters, and the origin of each result in the re-run.

    For equal calls each result is used once, in order; after that the last one is repeated.
    """

    def __init__(self, tools: ToolRegistry) -> None:
        self._tools = tools
        self._calls: dict[_Key, deque[RecordedCall]] = {}
        self._recorded_ids: dict[str, str] = {}
        self.missing_tool_traits: dict[str, ToolTraits] = {}
        """The recorded traits of tools that are no longer registered."""
        self.result_origins: dict[CallId, ResultOrigin] = {}
        self.gates_skipped = False
        """Whether the gates were skipped for the current call; then its tool must not run."""
        self.cites_files = False
        """Whether the files that calls produced are in the recorded sources pool."""

    @classmethod
    async def from_entries(cls, entries: Iterable[Entry], text: ReadText, tools: ToolRegistry) -> "CallRecording":
        """Return the calls of these entries that have a result; `tools` resolves the aliases of tools."""
        recording = cls(tools)
        calls: dict[tuple[TurnId, CallId], _RecordedEntries] = {}
        for entry in entries:
            call_id: CallId | None = getattr(entry.block, "tool_call_id", None)
            recording.cites_files |= call_id is None and _has_file_rows(entry)
            if call_id:
                calls.setdefault((entry.turn_id, call_id), _RecordedEntries()).add(entry)
        for (turn, call_id), collected in calls.items():
            recording._add_traits(collected.call)
            if collected.call and any(isinstance(one.block, ResultDigest | ResultStatus) for one in collected.results):
                code = await text(collected.code.text) if collected.code else ""
                key = (
                    recording._canonical_tool_id(collected.call.tool_id),
                    to_canonical_json(await text(collected.call.params)),
                    code,
                )
                call = RecordedCall(turn_id=turn, tool_call_id=call_id, results=tuple(collected.results))
                recording._calls.setdefault(key, deque()).append(call)
        return recording

    def has_call(self, tool_id: str, params: str) -> bool:
        """Return whether a call of that tool with these parameters and without code was recorded."""
        return (self._canonical_tool_id(tool_id), self._as_recorded(params), "") in self._calls

    def match_call(self, call: ToolCall, params: str, code: str) -> RecordedCall | None:
        """Return the recorded call that equals this one, if any; later parameters may refer to either id."""
        found = self._calls.get((self._canonical_tool_id(call.tool_id), self._as_recorded(params), code))
        if not found:
            return None
        recorded = found.popleft() if len(found) > 1 else found[0]
        self._recorded_ids[call.tool_call_id] = recorded.tool_call_id
        return recorded

    def traits_of(self, tool_id: str) -> ToolTraits:
        """Return the traits of that tool."""
        return self._tools.traits_of(tool_id)

    def _add_traits(self, call: ToolCall | None) -> None:
        if call and call.traits and self._tools.get(call.tool_id) is None:
            self.missing_tool_traits[call.tool_id] = call.traits

    def _canonical_tool_id(self, tool_id: str) -> str:
        return self._tools.resolve(tool_id).spec.tool_id

    def _as_recorded(self, params: str) -> str:
        """Return the parameters with call ids replaced by the recorded ids of equal calls."""
        for own, recorded in self._recorded_ids.items():
            params = params.replace(own, recorded)
        return to_canonical_json(params)


class RecordedTools(ToolRegistry):
    """The tools of a re-run: every tool except those with `conversation_only` first looks up the recording.

    Those run on the timeline and files of the fork, because a recorded result would describe the other conversation.

    With `live`, a call that was not recorded is executed; otherwise its result is the error `call_not_recorded`. A tool
    that is no longer registered still has its recorded results.
    """

    one_at_a_time = True

    def __init__(self, tools: ToolRegistry, recording: CallRecording, *, live: bool) -> None:
        super().__init__(tools)
        self.custom_traits = {**recording.missing_tool_traits, **self.custom_traits}
        self.cites_files = recording.cites_files
        self._recording = recording
        self._live = live

    def resolve(self, name: str) -> Tool:
        tool = super().resolve(name)
        return _RecordedTool(tool, self._recording, live=self._live)


def skip_gates_for_recorded(policy: Policy, recording: CallRecording, *, live: bool) -> Policy:
    """Return the policy, skipped for calls that are answered from the recording and run nothing."""

    def ruling(proposal: Proposal) -> PolicyResult | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id, params=params) if not recording.traits_of(tool_id).conversation_only:
                # Equality of a program depends on its code as well, which the gate does not see.
                is_program = recording.traits_of(tool_id).runs_code
                is_known = not is_program and recording.has_call(tool_id, params)
                recording.gates_skipped = is_known or not live
                return None if recording.gates_skipped else policy(proposal)
            case _:
                return policy(proposal)

    ruling.__name__ = policy_name(policy)
    return ruling


def _has_file_rows(entry: Entry) -> bool:
    block = entry.block
    return isinstance(block, SourcesAdded) and any(row.source_type == "file" for row in block.rows)


class _RecordedEntries:
    """The entries of one recorded call."""

    def __init__(self) -> None:
        self.call: ToolCall | None = None
        self.code: ToolCode | None = None
        self.results: list[Entry] = []

    def add(self, entry: Entry) -> None:
        match entry.block:
            case ToolCall() as block:
                self.call = block
            case ToolCode() as block:
                self.code = block
            case ResultDigest() | ResultStatus() | ResultContent() | SourcesAdded() | Notice() | Note() if self.call:
                self.results.append(entry)
            case _:
                pass


class _RecordedTool:
    def __init__(self, tool: Tool, recording: CallRecording, *, live: bool) -> None:
        self._tool = tool
        self._recording = recording
        self._live = live

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Return the recorded result; without one, run the tool if allowed, else return an error."""
        origins = self._recording.result_origins
        if self._recording.traits_of(self.spec.tool_id).conversation_only:
            origins[context.tool_call_id] = "run"
            return await self._tool.call(params, context)
        call, written, code = await _load_written_call(context)
        recorded = self._recording.match_call(call, written, code)
        if recorded:
            clash = _find_source_clash(recorded, context.timeline.views)
            origins[context.tool_call_id] = "not_recorded" if clash else "recorded"
            return _not_recorded(clash) if clash else await _to_outcome(recorded, context)
        may_run = self._live and not self._recording.gates_skipped
        origins[context.tool_call_id] = "live" if may_run else "not_recorded"
        return await self._tool.call(params, context) if may_run else _not_recorded(_NOT_RUN)


_NOT_RUN = "this is a re-run of a recorded conversation, and no call with these parameters was recorded; it was not run"


def _not_recorded(text: str) -> Outcome:
    return Outcome(error=make_tool_error("call_not_recorded", text))


async def _load_written_call(context: ToolContext) -> tuple[ToolCall, str, str]:
    """Return the call as the model wrote it, its parameters and its code, before parameters were bound."""
    known = context.timeline.views.calls.get(context.turn_id, context.tool_call_id)
    assert known is not None
    seqs = sorted(seq for seq in (known.code_seq, known.call_seq) if seq)
    call, code = None, ""
    for entry in await context.timeline.entries(seqs):
        match entry.block:
            case ToolCall() as block:
                call = block
            case ToolCode() as block:
                code = await _text(block.text, context.timeline)
            case _:
                pass
    assert call is not None
    return call, await _text(call.params, context.timeline), code


async def _text(text: Text, timeline: TimelineReader) -> str:
    return text if isinstance(text, str) else (await timeline.payload(text)).decode("utf-8", "replace")


def _find_source_clash(recorded: RecordedCall, views: Views) -> str:
    """Return why the result cannot be used: it cites source ids that mean other sources here; empty if it can."""
    for entry in recorded.results:
        if isinstance(entry.block, SourcesAdded):
            for row in entry.block.rows:
                known = views.sources.pool.get(row.sid)
                if known and known.url != row.url:
                    return f"the call was recorded, but source {row.sid} of its result is another one here"
    return ""


async def _to_outcome(recorded: RecordedCall, context: ToolContext) -> Outcome:
    """Return the recorded result as the outcome of this call, with its files written to the workspace."""
    entries = [_with_new_ids(entry, recorded, context) for entry in recorded.results]
    await _write_files(entries, context)
    return RecordedOutcome(recorded_blocks=tuple(entry.block for entry in entries))


def _with_new_ids(entry: Entry, recorded: RecordedCall, context: ToolContext) -> Entry:
    """Return the entry with the ids of this call and turn instead of the recorded ones, also in paths."""
    record = encode_record(entry)
    for before, now in ((recorded.tool_call_id, context.tool_call_id), (recorded.turn_id, context.turn_id)):
        record = re.sub(rb"(?<!\w)%s(?!\w)" % re.escape(before).encode(), now.encode(), record)
    return decode_record(record, entry.seq)


async def _write_files(entries: Sequence[Entry], context: ToolContext) -> None:
    """Write the files of the result to the workspace if the record has them completely."""
    sizes = {one.digest.artifact_path: one.digest.size_bytes for one in _blocks(entries, ResultDigest)}
    for content in _blocks(entries, ResultContent):
        path = parse_long(content.artifact_path)
        payload = content.data if content.text is None else content.text
        if payload is None or not isinstance(path, FilePath) or not is_editable(path, context.turn_id):
            continue
        data = await context.timeline.payload(payload) if isinstance(payload, BlobRef) else _bytes(payload)
        if len(data) >= (sizes.get(content.artifact_path) or 0):
            workspace = Workspace(context.out_dir)
            await asyncio.to_thread(workspace.ensure_content, to_physical(path), data, read_only=False)


def _blocks(entries: Sequence[Entry], kind: type[_B]) -> list[_B]:
    return [entry.block for entry in entries if isinstance(entry.block, kind)]


def _bytes(payload: str | bytes) -> bytes:
    return payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
