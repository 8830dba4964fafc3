"""The tool port: what a tool is, what a call of it is given, and what it comes to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import msgspec

from timeloom.core.blocks import AnyBlock, Hosting, Shown, ToolError
from timeloom.core.blocks.digest import Kind, Visibility
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.gates import Caller, Effect
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views

DEADLINE_S = 60.0
"""How long a call may take unless its tool says otherwise; then it is cancelled and its result is `tool_timeout`."""


MAX_TEXT_BYTES = 8 * 1024 * 1024
"""How much text one artifact of a call keeps unless its tool says otherwise. Smaller loses what a person could still
read; larger lets one call fill the store."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalogue, the gates and the loop know of a tool; `params_schema` is the text of a JSON Schema."""

    tool_id: str
    purpose: str
    description: str = ""
    params_schema: str = '{"type":"object"}'
    effect: Effect = "irreversible"
    deadline_s: float = DEADLINE_S
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other ids that models know it by."""
    write_params: tuple[str, ...] = ()
    """Parameters that are paths it writes, which are moved into the current turn before the call: `path`,
    `files.*.path`."""
    reports: bool = False
    """Whether everything that goes wrong stands in its own report, as with exec; then its errors make no notices."""
    max_text_bytes: int = MAX_TEXT_BYTES
    """Where the text of each of its artifacts is cut, with `...[truncated]` after it."""


class TimelineReader(Protocol):
    """What a tool may ask of its conversation."""

    @property
    def views(self) -> Views:
        """The views at the tail; a tool reads them and changes nothing."""
        ...

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        """The entries at these places, payloads left where they are."""
        ...

    async def payload(self, ref: BlobRef) -> bytes:
        """What the reference stands for."""
        ...


class Emit(Protocol):
    """Sends text to the client at once, on a channel; it is shown and not stored."""

    def __call__(self, channel: str, text: str, /) -> None: ...


class Nested(Protocol):
    """The way in which a call makes further calls, as a program does; each is on the timeline and passes the gates."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools that may be called so."""
        ...

    async def call(self, tool_id: str, params: str) -> str:
        """The answer: the text of a JSON object with `ok`, `error` and `ret`; nothing that goes wrong raises."""
        ...


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a call is given besides its parameters; `out_dir` is the workspace of the conversation on this machine."""

    conversation: ConversationId
    turn_id: TurnId
    tool_call_id: CallId
    caller: Caller
    timeline: TimelineReader
    out_dir: Path
    emit: Emit
    epoch_us: int
    nested: Nested | None = None


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """Something a call leaves at a logical path: text, bytes, or neither where it is read from disk.

    Bytes go on the timeline for images and PDF only. With `meta_only` the content stays out and its metadata is shown;
    with `content_only` it has no metadata of its own, as what belongs to the call and is no file.
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
    """How the prompt shows the content, where the tool has decided that itself, as one that reads does."""


class ToolNotice(msgspec.Struct, frozen=True):
    """Something the model must know of its call; a code of the registry and a sentence."""

    code: str
    text: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a call came to, in the order in which it stands on the timeline.

    `status` is a report or status at the call's result path; each artifact becomes metadata and content; `summary` is
    JSON at the result path that says what was done, after them; `blocks` are of the tool's own subject (plans, hides,
    notes). An outcome that leaves neither metadata nor a status gets a plain receipt.
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
    """A tool: its spec, and a call of it."""

    @property
    def spec(self) -> ToolSpec: ...

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Runs with the parameters (the text of a JSON object); a failure is an outcome with an error, not a raise."""
        ...


Known = Outcome | Literal["not_done", "unknown"]
"""What a tool can say of an earlier call of it: what it came to, that it was not carried out, or neither."""


@runtime_checkable
class Reconciling(Protocol):
    """A tool that can find out what became of a call that nobody has heard of since it began."""

    async def reconcile(self, params: str, context: ToolContext) -> Known:
        """What became of the call with these parameters and `context.tool_call_id`; it changes nothing."""
        ...
