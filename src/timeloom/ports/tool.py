"""The tool port: the definition of a tool, the context of a call, and its outcome."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import AnyBlock, Hosting, Shown, ToolError, ToolTraits
from timeloom.core.blocks.digest import Kind, Visibility
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.gates import Caller, Effect
from timeloom.core.sources import NewSource, SourceRow
from timeloom.core.sources.rows import make_manual_source
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views

DEADLINE_S = 60.0
"""Default deadline of a call in seconds; a longer call is cancelled with the result `tool_timeout`."""


MAX_TEXT_BYTES = 8 * 1024 * 1024
"""Default maximum size of the text of one artifact. A smaller value loses text that a person could still read; a larger
one lets one call fill the store."""


class ToolTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a tool in a catalogue; `params_schema` is a JSON Schema text with the descriptions."""

    purpose: str
    description: str
    params_schema: str
    examples: tuple[str, ...] = ()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a tool that the catalogue, the gates and the loop use; `params_schema` is a JSON Schema text."""

    tool_id: str
    purpose: str
    description: str = ""
    params_schema: str = '{"type":"object"}'
    effect: Effect = "irreversible"
    deadline_s: float = DEADLINE_S
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other ids under which models call it."""
    write_params: tuple[str, ...] = ()
    """Parameters that are output paths, such as `path` or `files.*.path`. They are moved into the current turn before
    the call."""
    exact_params: tuple[str, ...] = ()
    """Parameters whose text reaches the tool as the model wrote it, because the tool undoes copied escapes itself. It
    can compare them with a file. Only from edition 2 on."""
    reports: bool = False
    """Whether the tool's report contains all of its errors, as with exec; its errors then add no notices."""
    max_text_bytes: int = MAX_TEXT_BYTES
    """Maximum size of the text of each artifact; longer text is cut and marked with `...[truncated]`."""
    traits: ToolTraits | None = None
    """The files and text that it reads, writes and shows; None stands for the built-in traits of its id."""
    edition: int = 1
    """The first edition of the prompt whose catalogue lists it."""
    first_edition: ToolTexts | None = None
    """The texts that edition 1 of the prompt shows; None if they are the same."""


class TimelineReader(Protocol):
    """Read access of a tool to its conversation."""

    @property
    def views(self) -> Views:
        """The views at the tail; tools must not change them."""
        ...

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        """Return the entries with these seqs, without loading their payloads."""
        ...

    async def payload(self, ref: BlobRef) -> bytes:
        """Return the bytes of the reference."""
        ...


class Emit(Protocol):
    """Sends text to the client immediately, on a channel; the text is displayed but not stored."""

    def __call__(self, channel: str, text: str, /) -> None: ...


class NestedToolCaller(Protocol):
    """Makes nested calls from within a call, as a program does; each is recorded on the timeline and gated."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools that may be called."""
        ...

    async def call(self, tool_id: str, params: str) -> str:
        """Return the answer, a JSON object text with `ok`, `error` and `ret`; errors never raise."""
        ...


class SourceCollector(Protocol):
    """Collects the sources that a tool adds during its call."""

    def add(self, source: NewSource) -> int:
        """Return the id under which the source will be in the pool when the call has ended."""
        ...

    def rows(self) -> tuple[SourceRow, ...]:
        """Return the rows to record with the result of the call."""
        ...


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a call; `out_dir` is the workspace of the conversation on this machine."""

    conversation: ConversationId
    turn_id: TurnId
    tool_call_id: CallId
    caller: Caller
    timeline: TimelineReader
    out_dir: Path
    emit: Emit
    epoch_us: int
    nested: NestedToolCaller | None = None
    copies_from: int = 1
    """The edition of the prompt whose escapes the `exact_params` of the call may contain. Calls of a program have 1,
    since their text is exact."""
    window_tokens: int = 200_000
    """The context window of the conversation's model."""
    new_sources: SourceCollector | None = None

    def add_source(
        self,
        *,
        title: str = "",
        url: str = "",
        text: str = "",
        content: str = "",
        mime: str = "",
        published_time_iso: str = "",
    ) -> int:
        """Add a source to the pool and return its id, for citations such as `[[S:3]]`.

        A source with the URL of a known one gets that one's id. `text` is a snippet, `content` the whole text. The pool
        has the row once the call has ended. Raises `source_malformed` if it has neither a title, a URL nor a text.
        """
        if self.new_sources is None:
            raise CodedError("source_malformed", "this call has no conversation whose pool could take a source")
        source = make_manual_source(title, text or content, url)
        added = replace(source, text=text, content=content, mime=mime, published_time_iso=published_time_iso)
        return self.new_sources.add(added)


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """An output of a call at a logical path: text, bytes, or neither if it is read from disk.

    Bytes are stored on the timeline for images and PDF only. With `meta_only`, only the metadata is stored and shown.
    With `content_only`, it has no metadata, because it belongs to the call and is not a file.
    """

    path: str
    mime: str
    text: str | BlobRef | None = None
    data: bytes | BlobRef | None = None
    kind: Kind | None = None
    visibility: Visibility | None = None
    channel: str = ""
    physical_path: str = ""
    sources_used: tuple[int, ...] = ()
    size_bytes: int | None = None
    write_warning: str = ""
    error: ToolError | None = None
    hosting: Hosting | None = None
    meta_only: bool = False
    content_only: bool = False
    shown: Shown | None = None
    """How the prompt shows the content, if the tool decides that itself, as reading tools do."""


class ToolCallError(Exception):
    """The failure of a call, raised by its tool: a message for the model, a code, and details.

    `outcome="unknown"` says that the call may have had its effect, for example because a reply got lost. The model is
    told, and an irreversible tool is not called again without a person's approval.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "tool_call_error",
        outcome: Literal["failed", "unknown"] = "failed",
        details: Mapping[str, str | int | float | bool | None] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.code = code
        # A misspelled `unknown` must not count as a failure without an effect: the tool would be called again.
        self.outcome: Literal["failed", "unknown"] = "failed" if outcome == "failed" else "unknown"
        self.details = details


class ToolNotice(msgspec.Struct, frozen=True):
    """A notice to the model about its call: a registered code and a sentence."""

    code: str
    text: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a call, in the order in which the timeline records it.

    `status` is a report or status at the call's result path. Each artifact becomes metadata and content. `summary` is
    JSON at the result path after them, which describes the action. `blocks` are specific to the tool (plans, hides,
    notes). An outcome without metadata and without a status gets a plain receipt.
    """

    notices: tuple[ToolNotice, ...] = ()
    sources: tuple[SourceRow, ...] = ()
    status: str | None = None
    status_mime: str = "application/json"
    artifacts: tuple[Artifact, ...] = ()
    summary: str | None = None
    blocks: tuple[AnyBlock, ...] = ()
    error: ToolError | None = None


class Tool(Protocol):
    """A tool: its spec and its call function."""

    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Run the call; `params` is a JSON object text. A failure is an outcome with an error, not an exception."""
        ...


ReconcileResult = Outcome | Literal["not_done", "unknown"]
"""The result of reconciling an earlier call: its outcome, `not_done`, or `unknown`."""


@runtime_checkable
class ReconcilableTool(Protocol):
    """A tool that can find out the outcome of an earlier call whose result was lost."""

    async def reconcile(self, params: str, context: ToolContext) -> ReconcileResult:
        """Return the outcome of the call with these parameters and `context.tool_call_id`; changes nothing."""
        ...
