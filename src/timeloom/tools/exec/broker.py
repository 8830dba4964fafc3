"""The broker of a program: what it may ask for while it runs, answered from its conversation."""

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import msgspec

from timeloom.core.blocks import registered_error
from timeloom.core.codes import CodedError
from timeloom.core.paths import KnowledgePath, SkillPath, SourcesPath, parse
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow, row_to_json
from timeloom.ports.sandbox import Limits
from timeloom.ports.tool import ToolContext
from timeloom.tools.errors import failure
from timeloom.tools.react.resolve import EmptyShelf, Readable, Resolved, resolve

MAX_COUNTED: Final = 50
"""Most different tools, and outcomes of each, that are counted for the report."""

MAX_NAME_CHARS: Final = 200
"""Longest id of a tool that is remembered."""

_HOSTING: Final = ("hosted_uri", "rn", "key")


class _Error(msgspec.Struct):
    code: str = ""


class _Answer(msgspec.Struct):
    """What is looked at of an answer to a call."""

    ok: bool = False
    error: _Error | None = None


@dataclass(slots=True)
class ProgramBroker:
    """Answers one program, with the rights of the call that runs it and no more."""

    context: ToolContext
    fetch_bytes: int
    limits: Limits = field(default_factory=Limits)
    calls: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """For each tool that was called, how often it came to what: `ok`, or the code of an error."""
    _begun: int = 0
    _bytes: int = 0

    async def call(self, tool_id: str, params: str) -> str:
        """The answer of the tool, if it is one that the program may call."""
        nested = self.context.nested
        allowed = {name for spec in nested.specs for name in (spec.tool_id, *spec.aliases)} if nested else set[str]()
        if nested is None or tool_id not in allowed:
            self._count(tool_id, "unknown_tool")
            return failed("unknown_tool", f"no tool {tool_id[:120]!a} may be called from a program; {_known(allowed)}")
        if spent := self._spent(len(params.encode(errors="replace"))):
            self._count(tool_id, "call_limit")
            return failed("call_limit", spent)
        answer = await nested.call(tool_id, params)
        self._bytes += len(answer.encode())
        self.count(tool_id, answer)
        return answer

    def count(self, tool_id: str, answer: str) -> None:
        """Takes note of a call that was answered."""
        self._count(tool_id, _came_to(answer))

    async def fetch(self, path: str) -> str:
        """What stands at a logical path: of `so:` the rows, of anything else the text, of bytes an object."""
        try:
            found = await self._found(path)
        except CodedError as error:
            said = failure(error, self.context.out_dir)
            return failed(said.code, said.message)
        answer = msgspec.json.encode({"ok": True, "error": None, "ret": found})
        if len(answer) > self.fetch_bytes:
            return failed("tool_result_too_large", self._too_large(len(answer)))
        return answer.decode()

    def _spent(self, size: int) -> str:
        """Why no more calls may be made; nothing where this one may, which counts from now on."""
        most = self.limits
        if self._begun >= most.tool_calls:
            return f"a program may make {most.tool_calls} calls of tools, and this one has; ask for more at once"
        if self._bytes + size > most.tool_bytes:
            said = f"the calls of a program may hold {most.tool_bytes} bytes, parameters and answers together"
            return f"{said}, and those of this one have {self._bytes} already; write files in OUT_DIR instead"
        self._begun += 1
        self._bytes += size
        return ""

    async def _found(self, text: str) -> object:
        path = parse(text)
        if isinstance(path, SkillPath | KnowledgePath):
            raise CodedError("path_malformed", "fetch_ctx takes ar:, tc:, so:, ws:, su: and fi: paths")
        if isinstance(path, SourcesPath):
            pool = self.context.timeline.views.sources.pool
            return [await self._row(row) for sid in path.sids if (row := pool.get(sid))]
        found = await resolve(path, self.context, EmptyShelf())
        # Before it is made a text, which takes several times as much.
        if (size := sum(readable.size_bytes for readable in found.readables)) > self.fetch_bytes:
            raise CodedError("tool_result_too_large", self._too_large(size))
        return _value(found)

    async def _row(self, row: SourceRow) -> dict[str, object]:
        """The row as it was given, with its body; where it is hosted is nobody's business inside."""
        plain = {name: value for name, value in row_to_json(row).items() if name not in _HOSTING}
        if isinstance(row.content, BlobRef):
            plain["content"] = (await self.context.timeline.payload(row.content)).decode("utf-8", "replace")
        return plain

    def _too_large(self, size: int) -> str:
        return f"one fetch brings at most {self.fetch_bytes} bytes, got {size}; read files from OUT_DIR"

    def _count(self, tool_id: str, outcome: str) -> None:
        # Ids and codes come from a program, so there may be any number of them, of any length.
        tool_id, outcome = tool_id[:MAX_NAME_CHARS], outcome[:MAX_NAME_CHARS]
        name = tool_id if tool_id in self.calls or len(self.calls) < MAX_COUNTED else "others"
        counter = self.calls.setdefault(name, Counter[str]())
        counter[outcome if outcome in counter or len(counter) < MAX_COUNTED else "others"] += 1


def failed(code: str, message: str) -> str:
    """The answer of a question that could not be answered."""
    error = registered_error(code, message)
    return msgspec.json.encode({"ok": False, "error": error, "ret": None}).decode()


def _known(allowed: set[str]) -> str:
    shown = ", ".join(sorted(allowed)[:MAX_COUNTED])
    return f"those that may: {shown}" if shown else "none may"


def _came_to(answer: str) -> str:
    said = msgspec.json.decode(answer, type=_Answer)
    return "ok" if said.ok else said.error.code if said.error else "tool_call_error"


def _value(found: Resolved) -> object:
    if len(found.readables) == 1:
        return _content(found.readables[0])
    return [_content(readable) for readable in found.readables]


def _content(readable: Readable) -> object:
    if readable.text is not None:
        return readable.text
    return {
        "path": readable.path,
        "physical_path": readable.physical_path,
        "mime": readable.mime,
        "size_bytes": readable.size_bytes,
        "base64": base64.b64encode(readable.data or b"").decode(),
    }
