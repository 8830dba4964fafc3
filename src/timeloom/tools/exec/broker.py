"""Answers tool calls and fetches of a running program on behalf of its conversation."""

import asyncio
import base64
from collections import Counter
from collections.abc import Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from timeloom.core.blocks import Hosting, make_tool_error
from timeloom.core.codes import CodedError
from timeloom.core.paths import KnowledgePath, SkillPath, SourcesPath
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow, row_to_json
from timeloom.ports.sandbox import ExecutionLimits
from timeloom.ports.tool import ToolContext
from timeloom.tools.errors import to_tool_error
from timeloom.tools.react.resolve import (
    ContentSource,
    NoContent,
    ReadableContent,
    ResolvedPath,
    resolve,
    to_logical_path,
)

T = TypeVar("T")

MAX_COUNTED: Final = 50
"""Most distinct tools, and distinct outcomes per tool, that are counted for the report."""

MAX_NAME_CHARS: Final = 200
"""Longest tool id that is counted; longer ones are cut."""


class _CallError(msgspec.Struct):
    code: str = ""


class _CallAnswer(msgspec.Struct):
    """The part of a call's answer that is inspected."""

    ok: bool = False
    error: _CallError | None = None


@dataclass(slots=True)
class ProgramBroker:
    """Answers one program, with exactly the permissions of the call that runs it."""

    context: ToolContext
    fetch_bytes: int
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    source: ContentSource = field(default_factory=NoContent)
    """The knowledge that programs can fetch."""
    calls: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """For each called tool, the number of calls per outcome: `ok` or an error code."""
    _calls_started: int = 0
    _bytes_exchanged: int = 0
    _variables: Context = field(default_factory=copy_context)
    """The context variables of the call that runs the program. Requests arrive in tasks of the sandbox, and tools of a
    bundle still have to know their bundle."""

    async def call(self, tool_id: str, params: str) -> str:
        """Return the tool's answer if the program may call the tool and has calls left; otherwise an error answer."""
        nested = self.context.nested
        allowed = {name for spec in nested.specs for name in (spec.tool_id, *spec.aliases)} if nested else set[str]()
        if nested is None or tool_id not in allowed:
            self._count_outcome(tool_id, "unknown_tool")
            return error_answer(
                "unknown_tool", f"no tool {tool_id[:120]!a} may be called from a program; {_list_allowed(allowed)}"
            )
        if spent := self._check_call_limit(len(params.encode(errors="replace"))):
            self._count_outcome(tool_id, "call_limit")
            return error_answer("call_limit", spent)
        answer = await self._run_in_context(nested.call(tool_id, params))
        self._bytes_exchanged += len(answer.encode())
        self.count_answer(tool_id, answer)
        return answer

    def count_answer(self, tool_id: str, answer: str) -> None:
        """Count the outcome of an answered call."""
        self._count_outcome(tool_id, _outcome_of_answer(answer))

    async def fetch(self, path: str) -> str:
        """Return the content at a logical path: rows for `so:`, text for other paths, an object for bytes."""
        try:
            found = await self._run_in_context(self._fetch_value(path))
        except CodedError as error:
            tool_error = to_tool_error(error, self.context.out_dir)
            return error_answer(tool_error.code, tool_error.message)
        answer = msgspec.json.encode({"ok": True, "error": None, "ret": found})
        if len(answer) > self.fetch_bytes:
            return error_answer("tool_result_too_large", self._too_large_message(len(answer)))
        return answer.decode()

    async def _run_in_context(self, work: Coroutine[object, object, T]) -> T:
        return await asyncio.create_task(work, context=self._variables.copy())

    def _check_call_limit(self, size: int) -> str:
        """Return why the call is refused; if it is admitted, count it and return an empty text."""
        most = self.limits
        if self._calls_started >= most.tool_calls:
            return f"a program may make {most.tool_calls} calls of tools, and this one has; ask for more at once"
        if self._bytes_exchanged + size > most.tool_bytes:
            text = f"the calls of a program may hold {most.tool_bytes} bytes, parameters and answers together"
            return f"{text}, and those of this one have {self._bytes_exchanged} already; write files in OUT_DIR instead"
        self._calls_started += 1
        self._bytes_exchanged += size
        return ""

    async def _fetch_value(self, text: str) -> object:
        path = to_logical_path(text, self.context.turn_id, self.context.timeline.views)
        if isinstance(path, SkillPath | KnowledgePath) and isinstance(self.source, NoContent):
            raise CodedError("path_malformed", "fetch_ctx takes ar:, tc:, so:, ws:, su: and fi: paths")
        if isinstance(path, SourcesPath):
            pool = self.context.timeline.views.sources.pool
            return [await self._load_row(row) for sid in path.sids if (row := pool.get(sid))]
        found = await resolve(path, self.context, self.source)
        # Checked before conversion to text, which takes several times the memory.
        if (size := sum(readable.size_bytes for readable in found.readables)) > self.fetch_bytes:
            raise CodedError("tool_result_too_large", self._too_large_message(size))
        return _to_value(found)

    async def _load_row(self, row: SourceRow) -> dict[str, object]:
        """Return the row with its body and without hosting details, which the program must not see."""
        plain = {name: value for name, value in row_to_json(row).items() if name not in Hosting.__struct_fields__}
        if isinstance(row.content, BlobRef):
            plain["content"] = (await self.context.timeline.payload(row.content)).decode("utf-8", "replace")
        return plain

    def _too_large_message(self, size: int) -> str:
        return f"one fetch brings at most {self.fetch_bytes} bytes, got {size}; read files from OUT_DIR"

    def _count_outcome(self, tool_id: str, outcome: str) -> None:
        # Ids and codes come from a program, so their number and length are unbounded.
        tool_id, outcome = tool_id[:MAX_NAME_CHARS], outcome[:MAX_NAME_CHARS]
        name = tool_id if tool_id in self.calls or len(self.calls) < MAX_COUNTED else "others"
        counter = self.calls.setdefault(name, Counter[str]())
        counter[outcome if outcome in counter or len(counter) < MAX_COUNTED else "others"] += 1


def error_answer(code: str, message: str) -> str:
    """Return the answer for a failed request."""
    error = make_tool_error(code, message)
    return msgspec.json.encode({"ok": False, "error": error, "ret": None}).decode()


def _list_allowed(allowed: set[str]) -> str:
    shown = ", ".join(sorted(allowed)[:MAX_COUNTED])
    return f"those that may: {shown}" if shown else "none may"


def _outcome_of_answer(answer: str) -> str:
    decoded = msgspec.json.decode(answer, type=_CallAnswer)
    return "ok" if decoded.ok else decoded.error.code if decoded.error else "tool_call_error"


def _to_value(found: ResolvedPath) -> object:
    if len(found.readables) == 1:
        return _to_content(found.readables[0])
    return [_to_content(readable) for readable in found.readables]


def _to_content(readable: ReadableContent) -> object:
    if readable.text is not None:
        return readable.text
    return {
        "path": readable.path,
        "physical_path": readable.physical_path,
        "mime": readable.mime,
        "size_bytes": readable.size_bytes,
        "base64": base64.b64encode(readable.data or b"").decode(),
    }
