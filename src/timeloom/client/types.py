"""Types of requests, responses, blocks and events, written by `make clients`."""

# A block with JSON in its `text` has a type for that JSON, such as `CallText`; see `timeloom.client.read_text`.

from __future__ import annotations

from typing import Any, Literal

import msgspec

from timeloom.client.blocks import Block


class AgentLogStartedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Heading above the agent's work in a turn in older logs; timeloom does not write it."""

    type: Literal["agent.log.header"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: AgentLogStartedMeta | None = None


class AgentLogStartedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `agent.log.header`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class ApprovalDecidedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's decision to allow or refuse a call."""

    type: Literal["react.approval.decision"]
    ts: str
    meta: ApprovalDecidedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ApprovalDecidedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.approval.decision`."""

    tool_call_id: str
    approved: bool
    by: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class ApprovalRequestedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests a person's approval of a call; the turn waits for the decision."""

    type: Literal["react.approval.request"]
    ts: str
    meta: ApprovalRequestedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ApprovalRequestedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.approval.request`."""

    tool_call_id: str
    tool_id: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    policy: str = ""
    blobs: dict[str, BlobRef] | None = None


class ApprovalsPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Waiting calls, in the order of their conversations. `cursor` requests the next page; it is empty on the
    last.
    """

    approvals: tuple[WaitingApproval, ...]
    cursor: str


class AttachmentBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Content of an attachment."""

    type: Literal["user.attachment"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    base64: str | None = None
    meta: AttachmentMeta | None = None


class AttachmentMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `user.attachment`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    digest: Digest | None = None
    shown: Shown | None = None
    hosted_uri: str = ""
    rn: str = ""
    key: str = ""
    physical_path: str = ""
    blobs: dict[str, BlobRef] | None = None


class AttachmentMetaBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of an attachment: its digest and the summary line for the prompt."""

    type: Literal["user.attachment.meta"]
    ts: str
    text: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    meta: AttachmentMetaMeta | None = None


class AttachmentMetaMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `user.attachment.meta`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    summary: str = ""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request; a second entry with the same id carries the `status` of the response."""

    id: str
    ts: str
    tenant: str
    project: str
    user: str
    role: str
    operation: str
    conversation_id: str = ""
    owner: str = ""
    """The owner of the conversation if it is another user."""
    call_id: str = ""
    status: int = 0


class AuditPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Entries, oldest first. `cursor` requests the next page and also works for entries that are added later."""

    entries: tuple[AuditEntry, ...]
    cursor: str


class Bill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows in the order of their columns. `total` covers all pages; `cursor` requests the next page."""

    tenant: str
    project: str
    total: SpendSums
    rows: tuple[SpendRow, ...]
    cursor: str


class BlobRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Reference to a stored payload by the SHA-256 of its bytes."""

    sha256: str
    size_bytes: int


class BundleHealth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bundle and the place of its fault; the reason is in `GET /bundles`, which needs a token."""

    name: str
    state: Literal["disabled", "ready"]
    code: str
    place: str


class BundleInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bundle; `fault` says why it takes no messages."""

    name: str
    title: str
    description: str
    state: Literal["disabled", "ready"]
    fault: str


class BundleList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All bundles; new conversations that name none belong to `default`."""

    bundles: tuple[BundleInfo, ...]
    default: str


class CachePoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cache point of a request: the last entry before it, and the prefix that ends there. `blocks` counts the
    content blocks of the prefix after the system text; the point on the system text has 0 blocks and seq 0.
    `tokens` is our count including the system text. `prefix` is a hash of the prefix without the system text.
    """

    seq: int
    blocks: int
    tokens: int
    prefix: str = ""
    lifetime: Literal["1h", "5m"] = "5m"
    small: bool = False
    """Whether the prefix has fewer tokens than the provider's minimum for caching."""


class CacheRates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prices of cached tokens as multiples of the price of an uncached token."""

    read: float = 0.1
    write_5m: float = 1.25
    write_1h: float = 2.0


class CacheRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cache forecast of a call, and why the reported use differs or less was read than possible."""

    expected: CacheForecast
    recorded: bool
    """Whether the call recorded the forecast; for an older call it is computed by the current rules."""
    reported: bool
    change: PromptChange | None
    """The first block that differs from the previous prompt, and the reason; None if the cache was used as
    expected.
    """
    reproduced: bool
    """Whether recomputing the forecast from the log gives the same points, lifetimes and numbers."""


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of the pre-tail cache point: first round that sets it, rounds after it, and editable tokens. A
    larger `offset_rounds` lets the agent hide more blocks, but a hide then resends more tokens.
    """

    min_rounds: int = 2
    offset_rounds: int = 4
    editable_tail_tokens: int = 20000
    lifetime: Literal["1h", "5m", "auto"] = "auto"


class CallText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text of a call: the tool, the time, and the parameters, unless they are in the blob store."""

    tool_id: str
    tool_call_id: str
    ts: str
    params: dict[str, Any] | None = None


class CallTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that the model requested; `params` is JSON with sorted keys."""

    tool_call_id: str
    tool_id: str
    params: str
    code: str = ""
    failed: bool = False
    result: Literal["", "live", "not_recorded", "recorded", "run"] = ""


class ChannelTextBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Text that the model wrote on a declared channel. `n` numbers the texts of one channel in a turn."""

    type: Literal["react.channel"]
    ts: str
    meta: ChannelTextMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ChannelTextMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.channel`."""

    channel: str
    round: int
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    n: int = 1
    widget: str = ""
    """The name of the widget that shows it; empty shows the text."""
    cut: bool = False
    """Whether a part of the text is missing: the reply ended within it, or it was too long."""
    blobs: dict[str, BlobRef] | None = None


class ChatApproval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person has to decide before the turn can continue."""

    turn_id: str
    seq: int
    tool_call_id: str
    tool_id: str
    text: str
    policy: str


class ChatBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored block."""

    seq: int
    block: Block


class ChatCompaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A compaction of older parts of the conversation started or finished."""

    status: Literal["completed", "skipped", "started"]
    before_tokens: int
    after_tokens: int


class ChatComplete(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn ended."""

    turn_id: str
    seq: int
    reason: Literal[
        "budget_exhausted",
        "cancelled",
        "completed",
        "exited",
        "max_iterations",
        "no_progress",
        "protocol_failure",
        "provider_error",
        "refused",
        "runtime_error",
        "stopped",
    ]


class ChatDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of streamed text. It is provisional: the stored block contains the whole text. Each reader receives
    the text from its beginning.
    """

    turn_id: str
    channel: str
    index: int
    text: str
    cut: bool = False
    """Whether the beginning of the text is missing, because the reader joined late."""
    path: str = ""
    """The file whose text this is, if the model wrote its path before the text."""
    mime: str = ""
    """The type of that file."""


class ChatError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The turn or this stream stopped; the code is one of `core/codes.py`."""

    code: str
    message: str


class ChatStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn began."""

    turn_id: str
    seq: int
    n: int


class ChatStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of the turn began, or a tool call finished."""

    step: Literal["model", "result", "round", "tool"]
    turn_id: str
    seq: int
    round: int = 0
    seen: int = 0
    """For `model`: all entries up to this seq are in the prompt, so a sender knows that its message was seen."""
    tool_id: str = ""
    tool_call_id: str = ""


class CompactionEndedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of the request `message_id`: the summarized turns and tokens, or the reason why nothing was
    done.
    """

    type: Literal["react.compact.end"]
    ts: str
    meta: CompactionEndedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class CompactionEndedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.compact.end`."""

    message_id: str
    outcome: Literal["completed", "skipped"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    turns: int = 0
    """The turns that the summary covers at least in part."""
    covered_tokens: int = 0
    """Estimated tokens that the summary replaced."""
    summary_tokens: int = 0
    """Estimated tokens of the summary."""


class CompactionRequestedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests a summary of the conversation before its newest `keep` rounds; `text` says what it should keep."""

    type: Literal["react.compact.request"]
    ts: str
    meta: CompactionRequestedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class CompactionRequestedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.compact.request`."""

    message_id: str
    """The id of the request; a request that is sent again has the same."""
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    keep: int = 0
    """The number of rounds that stay; 0 means the default."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The trajectories of a conversation (`recorded`) and its fork (`rerun`) after the fork point. Sums, models
    and `is_same` cover only `turns`, which may be one page of more turns.
    """

    forked_from: ForkPoint
    recorded_models: tuple[str, ...]
    rerun_models: tuple[str, ...]
    is_same: bool
    recorded: Effort
    rerun: Effort
    turns: tuple[TurnPair, ...]


class CompletionBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer shown to the user. `n` numbers the answers of a turn; the path without a number means the newest."""

    type: Literal["assistant.completion"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: CompletionMeta | None = None


class CompletionMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `assistant.completion`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    n: int = 1
    sources_used: tuple[int, ...] = ()
    suggested_followups: tuple[str, ...] = ()
    unformatted: bool = False
    """Whether it is plain text of a reply that had no decision."""
    blobs: dict[str, BlobRef] | None = None


class ConvStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current state of the conversation."""

    conversation_id: str
    state: Literal["idle", "interrupted", "running", "waiting"]
    tail: int
    """The last stored entry. A client that compares two statuses takes the one with the higher tail."""
    turn_id: str
    round: int
    unseen: tuple[int, ...]
    """The seqs of messages to the turn that are not in any prompt yet."""
    approvals: tuple[PendingApproval, ...]
    """The calls that wait for a person's decision."""


class ConversationDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation, its state, and the caller's permissions."""

    id: str
    tenant: str
    project: str
    user: str
    started_ts: str
    last_ts: str
    tail: int
    state: Literal["idle", "interrupted", "running", "waiting"]
    may_write: bool
    """Whether the caller may send messages; without it, the caller may only read and perhaps decide on calls."""
    may_decide: bool
    """Whether the caller may decide on calls that wait for approval."""
    bundle: str = ""
    title: str = ""
    parent: str | None = None


class ConversationInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation as lists show it."""

    id: str
    tenant: str
    project: str
    user: str
    started_ts: str
    last_ts: str
    tail: int
    bundle: str = ""
    title: str = ""
    parent: str | None = None


class ConversationList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conversations, newest first; `cursor` requests the next page and is empty at the end."""

    conversations: tuple[ListedConversation, ...]
    cursor: str


class ConversationMatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation that contains all of the words, and its newest messages with any of them."""

    conversation: ConversationInfo
    hits: tuple[MessageHit, ...]


class ConversationStartedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First entry of every conversation: its owner and its origin."""

    type: Literal["conv.header"]
    ts: str
    text: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class ConversationStartedText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text of `conv.header`."""

    tenant: str
    project: str
    user: str
    erased: bool = False
    bundle: str = ""
    parent: str | None = None
    forked_from: ForkPoint | None = None


class ConversationTitle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new title, and the seq of its entry on the timeline."""

    conversation_id: str
    title: str
    seq: int


class ConversationsInPeriod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conversations, newest feedback first. `total` covers all pages; `cursor` requests the next page."""

    tenant: str
    project: str
    start: str
    end: str
    total: Satisfaction
    conversations: tuple[PeriodConversation, ...]
    cursor: str


class Cut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shows entries `first_seq` to `last_seq` as `text`, or not at all if `text` is empty."""

    first_seq: int
    last_seq: int
    text: str


class DecisionBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's decision on a call, with an optional reason in `text`."""

    approved: bool
    text: str = ""


class DeclaredChannel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A channel that an agent declares: its name, the type of its content, its purpose and its widget. `purpose`
    says when and what the model writes on it. `widget` names the widget that shows it; empty shows the text.
    """

    name: str
    mime: str
    purpose: str = ""
    widget: str = ""


class Digest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact's logical and physical path, kind, size and origin, without its hosting location. `tool_call_id`
    is set only if it differs from that of the surrounding block.
    """

    artifact_path: str
    physical_path: str = ""
    mime: str = ""
    kind: Literal["display", "file"] | None = None
    visibility: Literal["external", "internal"] | None = None
    channel: str = ""
    tool_call_id: str | None = None
    sources_used: tuple[int, ...] = ()
    tokens: int | None = None
    size_bytes: int | None = None
    edited: bool = False
    write_warning: str = ""
    error: ToolError | None = None


class Effort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effort of some rounds: requests, calls, token usage and model time."""

    requests: int
    calls: int
    usage: Usage
    model_ms: int


class EraseBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Selects the content to erase: these paths, or `all`. With `quotes`, also blocks with the same text."""

    paths: tuple[str, ...] = ()
    all: bool = False
    quotes: bool = False


class ErasedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Records that the conversation's content was erased, where, and on whose request."""

    type: Literal["conv.erased"]
    ts: str
    meta: ErasedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ErasedEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry in an erasure report: its position and the reason, never its content."""

    seq: int
    type: str
    path: str
    why: Literal[
        "call it came from",
        "named",
        "quotes it",
        "reply it came from",
        "request that showed it",
        "result it came with",
        "shows it again",
        "stands in its place",
        "sums it up",
        "title made from it",
    ]


class ErasedForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An erased entry, and the salted hash of the form that replaced it."""

    seq: int
    hash: str


class ErasedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `conv.erased`."""

    by: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    forms: tuple[ErasedForm, ...] = ()


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entries and files that an erasure removes or has removed."""

    conversation: str
    entries: tuple[ErasedEntry, ...]
    before: int
    """The number of named entries that had been erased before."""
    quotes: tuple[ErasedEntry, ...]
    """Blocks that contain the same text independently; they stay unless they are named."""
    files: tuple[str, ...]
    """Files of the workspace."""
    copies: tuple[str, ...]
    """Conversations that have a copy because of a fork in either direction; they stay."""


class EventBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event: `followup`, `steer`, `cancel`, `compact`, or any other kind, which is shown to the model."""

    kind: str
    text: str = ""
    mime: str = "text/markdown"
    started_ts: str = ""
    """When the event began, as RFC 3339 in UTC; empty means now."""
    form: str = ""
    """For `form`: the id of the call that asked; `text` is then a JSON object with the values of its fields."""
    keep: int = 0
    """For `compact`: the number of newest rounds that stay; 0 means two."""
    request_id: str = ""
    """For `compact`: an id of your choice, so that a request that is sent twice is carried out once."""


class ExportedChain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The links of all entries, and the hash of the last entry."""

    head: str
    links: tuple[ExportedLink, ...]


class ExportedLink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The link of one entry, in hex. At most one of `block` and `record` is set."""

    seq: int
    salt: str = ""
    before: str = ""
    content: str = ""
    block: Block | None = None
    """The block as it was stored, if the export shows it in another state, for example hidden."""
    record: str = ""
    """The record, if it cannot be made from the block again."""


class ExternalEventBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Any other external event, such as a form, a wizard step or an alert; `started_ts` is the event's time."""

    type: Literal["external.event"]
    ts: str
    meta: ExternalEventMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ExternalEventMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `external.event`."""

    kind: str
    message_id: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    started_ts: str = ""
    blobs: dict[str, BlobRef] | None = None


class FeedbackBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Feedback on the turn by a person or a machine. A person's newest reaction counts; null clears it."""

    type: Literal["turn.feedback"]
    ts: str
    meta: FeedbackMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Feedback on a turn; a reaction of null withdraws the previous feedback of a person."""

    reaction: Literal["neutral", "not_ok", "ok"] | None
    text: str = ""
    ts: str = ""
    """When the feedback was given, as RFC 3339 in UTC; empty means now."""
    origin: Literal["machine", "user"] = "user"
    """Feedback of a machine is added to that of people; only admins may submit it."""
    confidence: float | None = None
    """The confidence of the machine, from 0 to 1."""


class FeedbackMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `turn.feedback`."""

    origin: Literal["machine", "user"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    reaction: Literal["neutral", "not_ok", "ok"] | None = None
    confidence: float | None = None
    given_ts: str = ""
    """Time of the feedback as reported by its sender; empty if it is the entry's time."""


class FeedbackReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The recorded feedback, and the seq of its entry on the timeline."""

    conversation_id: str
    turn_id: str
    seq: int
    reaction: Literal["neutral", "not_ok", "ok"] | None


class FetchBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Selects a conversation and its turns by id or number; without `turn_ids`, all turns."""

    conversation_id: str
    turn_ids: tuple[str, ...] | None = None
    cursor: str = ""
    limit: int = 20


class FileInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A downloadable file: its path on the timeline, resource name, URL, type and size."""

    path: str
    rn: str
    url: str
    name: str
    mime: str
    size_bytes: int


class FilesPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files in the order of creation. `cursor` requests the next page and is empty on the last one."""

    files: tuple[FileInfo, ...]
    cursor: str


class FollowupBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user message sent during the turn; `started_ts` is the time of sending if it is earlier than the entry's."""

    type: Literal["user.followup"]
    ts: str
    meta: FollowupMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class FollowupMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `user.followup`."""

    message_id: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    started_ts: str = ""
    quoted_roles: tuple[str, ...] = ()
    """As in `UserPrompt`."""
    blobs: dict[str, BlobRef] | None = None


class ForkBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The point to fork at: the end of a turn, by its id or number, or an entry. Default: the whole conversation."""

    turn: str | None = None
    seq: int | None = None


class ForkComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fork's status and both trajectories so far; `cursor` requests the next turns."""

    conversation_id: str
    status: ConvStatus
    comparison: Comparison
    cursor: str


class ForkPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entry of another conversation at which this one was forked."""

    conversation_id: str
    seq: int


class ForkResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new conversation, its fork point and its number of turns; `cut` says whether a turn was cut in two."""

    conversation: str
    forked_from: ForkPoint
    turns: int
    cut: bool


class GateBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A policy's verdict on a proposed step."""

    type: Literal["react.gate"]
    ts: str
    meta: GateMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class GateMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.gate`."""

    policy: str
    verdict: Literal["allow", "ask", "refuse"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    tool_call_id: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The server is up, with the state of its bundles."""

    status: Literal["ok"]
    version: str
    bundles: tuple[BundleHealth, ...]


class HiddenBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shows the blocks at `target` as `replacement` in all later prompts."""

    type: Literal["react.hidden"]
    ts: str
    meta: HiddenMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class HiddenMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.hidden`."""

    target: str
    replacement: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class ListedConversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation and its state."""

    id: str
    tenant: str
    project: str
    user: str
    started_ts: str
    last_ts: str
    tail: int
    state: Literal["idle", "interrupted", "running", "waiting"]
    bundle: str = ""
    title: str = ""
    parent: str | None = None


class Me(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current user, their project and the limits of the page."""

    tenant: str
    project: str
    user: str
    role: Literal["admin", "approver", "user"]
    model: str
    """The server's model."""
    demo: bool
    """Whether this model only demonstrates timeloom."""
    examples: tuple[str, ...]
    """Messages that this model handles well."""
    models: tuple[str, ...]
    """Models for re-runs; the server's default model comes first."""
    max_uploads: int
    """Maximum number of files per message."""
    max_upload_bytes: int
    """For all files of a message together."""
    refused_suffixes: tuple[str, ...]
    """Suffixes of file names whose types cannot be attached."""
    signs_in: bool
    """Whether this server signs people in and out; otherwise the application around it does."""
    widgets: tuple[WidgetInfo, ...]
    """The widgets that show channels."""


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message; without `conversation_id` it starts a new conversation."""

    message: str
    conversation_id: str | None = None
    bundle: str = ""
    """The bundle of a new conversation; empty means the server's default."""


class MessageHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that contains at least one of the words."""

    seq: int
    turn_id: str
    type: str
    path: str
    ts: str
    snippet: str


class ModelAnsweredBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a request ended: usage and stop reason, and the partial text if it was cut or failed."""

    type: Literal["react.model.outcome"]
    ts: str
    meta: ModelAnsweredMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ModelCalledBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request about to be sent: its hash, and the parts that cannot be rendered again from the log."""

    type: Literal["react.model.call"]
    ts: str
    meta: ModelCalledMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class ModelCalledMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.model.call`."""

    round: int
    model: str
    request_sha256: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    purpose: Literal["compaction", "decision", "title"] = "decision"
    attempt: int = 1
    system: str = ""
    tail: str = ""
    estimated_tokens: int = 0
    """Our estimate for the whole request; 0 if it was not estimated."""
    rendering: int = 1
    """Version of the rendering code; another version may produce different bytes."""
    seen: int = 0
    """The last entry that the request contains; 0 if it was not recorded, or for a side call."""
    cache: CacheForecast | None = None
    """Cache points and the expected cache use; None if caching was not planned."""
    sections: str = ""
    """The sections of the system text with their versions, such as `agent.1 reply.1`; none for edition 1. The
    assistant's own instructions follow by their digest: `own.9f86d081884c7d65`.
    """
    protocol: Literal["channels", "native"] = "channels"
    """How the model was asked to state its decision."""
    tools: str = ""
    """The functions of native tool calling, as JSON; empty with channels."""
    blobs: dict[str, BlobRef] | None = None


class NoteBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A short internal note that agents see and users do not."""

    type: Literal["react.note"]
    ts: str
    meta: NoteMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class NoteMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.note`."""

    tool_call_id: str
    channel: Literal["internal", "timeline_text"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class NotesBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent's message to the user before a call."""

    type: Literal["react.notes"]
    ts: str
    meta: NotesMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class NotesMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.notes`."""

    tool_call_id: str
    channel: Literal["internal", "timeline_text"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class NoticeBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Information for the model about its call or its reply: a code of the registry and a sentence."""

    type: Literal["react.notice"]
    ts: str
    text: str
    meta: NoticeMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class NoticeMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.notice`."""

    code: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    tool_call_id: str | None = None
    in_result: bool = False
    """Whether the result of the call states the same error, so that a prompt need not show it twice."""


class PendingApproval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that waits for a person's decision, and the question."""

    tool_call_id: str
    tool_id: str
    text: str


class PeriodBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A period from `start`, inclusive, to `end`, exclusive. Admins may select another `user`, or all with `*`."""

    start: str
    end: str
    user: str = ""
    cursor: str = ""
    limit: int = 50


class PeriodConversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation with the current feedback that it received in the period."""

    conversation: ConversationInfo
    last_feedback_ts: str
    counts: Satisfaction


class PinBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The path of the blocks to pin; with `pinned: false`, their pin ends."""

    path: str
    pinned: bool = True


class PinList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pins of a conversation, oldest first, and their tokens together."""

    conversation_id: str
    pins: tuple[PinnedPath, ...]
    tokens: int


class PinReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The recorded pin, or its end: the path of the blocks, their tokens, and the seq of its entry."""

    conversation_id: str
    path: str
    pinned: bool
    seq: int
    tokens: int


class PinnedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Keeps the blocks at `target` in prompts that are pruned or summarized later, or ends that if not `pinned`."""

    type: Literal["react.pinned"]
    ts: str
    meta: PinnedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class PinnedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.pinned`."""

    target: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    pinned: bool = True
    tokens: int = 0
    """Estimated tokens of the blocks when they were pinned."""


class PinnedPath(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pin: its path, the pinned entries, their estimated tokens, and the seq of the entry that pinned them."""

    path: str
    seqs: tuple[int, ...]
    tokens: int
    seq: int


class PlanAcknowledgedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step marks in a round's notes, as the model wrote them."""

    type: Literal["react.plan.ack"]
    ts: str
    text: str
    meta: PlanAcknowledgedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class PlanAcknowledgedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.plan.ack`."""

    round: int
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    plan_id: str | None = None


class PlanRecordedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plan's state after a change; `new`, `replace` and `activate` make an open plan the current one."""

    type: Literal["react.plan"]
    ts: str
    text: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    meta: PlanRecordedMeta | None = None


class PlanRecordedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.plan`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    change: Literal["activate", "close", "new", "progress", "replace"] = "new"


class PlansCompactedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The plans of a compacted range: their steps, statuses and paths."""

    type: Literal["react.plan.history"]
    ts: str
    text: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    meta: PlansCompactedMeta | None = None


class PlansCompactedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.plan.history`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class PlansText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The plans of a compacted range."""

    plans: tuple[PlanText, ...]


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as in RFC 9457; `detail` explains it and `code` identifies its kind."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str


class PromptChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reason why a prompt differs from the previous one, and the first entry that is rendered differently."""

    reason: Literal[
        "catalogue",
        "compaction",
        "edit",
        "estimate",
        "evicted",
        "expired",
        "hide",
        "look_back",
        "model",
        "more_kept",
        "no_outcome",
        "not_reported",
        "prune",
        "rendering",
        "system",
        "too_small",
    ]
    seq: int
    path: str


class PromptDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model request rebuilt from the log; `call` reports whether it equals the original byte for byte."""

    call: ReplayedCall
    system: str
    segments: tuple[PromptSegment, ...]
    tail: str


class PromptSegment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A segment of the prompt: its text, or the type and size of an image or a PDF."""

    text: str
    mime: str
    size_bytes: int
    cache_point: bool


class PrunedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shows each cut's entries as its text in all later prompts; `reason` records the arithmetic of the decision."""

    type: Literal["react.pruned"]
    ts: str
    meta: PrunedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class PrunedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.pruned`."""

    cuts: tuple[Cut, ...]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    reason: str = ""
    through_seq: int = 0
    """All turns up to this seq are shown as cards from now on; 0 if the cuts have another purpose."""
    round_tokens: int = 0
    """Estimated tokens of the rounds that rows replace."""
    row_tokens: int = 0
    """Estimated tokens of these rows; the next prune expects the same share."""


class RangeSummaryBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Replaces entries `first_seq` to `last_seq` in prompts, or the covered turns if both are 0."""

    type: Literal["conv.range.summary"]
    ts: str
    meta: RangeSummaryMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class RangeSummaryMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `conv.range.summary`."""

    covered_turn_ids: tuple[str, ...]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    first_seq: int = 0
    last_seq: int = 0
    n: int = 1
    blobs: dict[str, BlobRef] | None = None


class ReactCompletionBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent's closing text in older logs; timeloom does not write it."""

    type: Literal["react.completion"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: ReactCompletionMeta | None = None


class ReactCompletionMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.completion`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class ReplayedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model call of the log, its end, and whether its request can be rebuilt byte for byte."""

    kind: Literal["call"]
    conversation: str
    seq: int
    path: str
    turn_id: str
    round: int
    attempt: int
    purpose: Literal["compaction", "decision", "title"]
    model: str
    stored_sha256: str
    rebuilt_sha256: str
    verdict: Literal["differs", "same", "unchecked"]
    ended: str
    """The error, or else the stop reason; empty if the log does not contain the outcome."""
    usage: Usage
    erased: bool
    """Whether something in the request was erased; then it is unchecked, which is correct."""
    cache: CacheRow | None
    """The expected use of the provider's cache; None if there is no cacheable part or it is incomplete."""


class RerunBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entry after which to run again, and the model; default: the server's model."""

    seq: int
    model: str = ""
    turns: int | None = None
    """Maximum number of turns; default: all."""


class RerunJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A running re-run: its fork and its model."""

    conversation_id: str
    model: str


class ResourceBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resource name of a file."""

    rn: str


class RestoredTimeline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole conversation with the blocks of each turn in the order in which they began."""

    conversation_id: str
    tail: int
    blocks: tuple[SequencedBlock, ...]


class ResultContentBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Content of one artifact after a call; a later block at the same path holds a newer version."""

    type: Literal["react.tool.result"]
    ts: str
    meta: ResultContentMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    base64: str | None = None


class ResultContentMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.tool.result`."""

    tool_call_id: str
    role: Literal["content"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    digest: Digest | None = None
    shown: Shown | None = None
    hosted_uri: str = ""
    rn: str = ""
    key: str = ""
    physical_path: str = ""
    blobs: dict[str, BlobRef] | None = None


class ResultDigestBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call's metadata for one of its artifacts."""

    type: Literal["react.tool.result"]
    ts: str
    text: str
    meta: ResultDigestMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class ResultDigestMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.tool.result`."""

    tool_call_id: str
    role: Literal["digest"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class ResultStatusBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call's result as text: a report or status, with a structured error if the call failed."""

    type: Literal["react.tool.result"]
    ts: str
    meta: ResultStatusMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ResultStatusMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.tool.result`."""

    tool_call_id: str
    role: Literal["status"]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    error: ToolError | None = None
    shown: Shown | None = None
    blobs: dict[str, BlobRef] | None = None


class RoundPair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The recorded round and the re-run round with the same number."""

    round: int
    verdict: Literal["differs", "only_recorded", "only_rerun", "same"]
    recorded: RoundTrace | None
    rerun: RoundTrace | None


class RoundStartedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start of a round; external events after it belong to this round."""

    type: Literal["react.round.start"]
    ts: str
    meta: RoundStartedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class RoundStartedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.round.start`."""

    round: int
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class RoundTrace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A round: its calls or its answer, and its effort."""

    round: int
    calls: tuple[CallTrace, ...]
    answer: str
    effort: Effort


class Satisfaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Current reactions of people, the number of machine feedbacks, and the share of `ok` among people's
    reactions.
    """

    ok: int
    not_ok: int
    neutral: int
    machine: int
    satisfaction: float | None


class SearchPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Matches, newest first. `cursor` requests the next page and is empty on the last one."""

    found: tuple[ConversationMatch, ...]
    cursor: str


class SendReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The receipt of a message or event that is on the timeline."""

    conversation_id: str
    turn_id: str
    seq: int
    status: Literal[
        "cancelled", "compacted", "compacting", "decided", "followup", "queued", "started", "steered", "told"
    ]


class SequencedBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A block with its seq."""

    seq: int
    block: Block


class Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How prompts show a content, decided once at append time: whole, or as the text stored here. `tokens` is the
    count on which the decision was based.
    """

    how: Literal["preview", "stub", "whole"]
    tokens: int = 0
    text: str = ""
    hint: str = ""
    """What a large content is about, on one line, for the index of its turn."""


class SourceRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of the sources pool; it may have further fields."""

    source_type: Literal["attachment", "file", "manual", "web"]
    sid: int
    title: str = ""
    url: str = ""
    text: str = ""
    content: str | BlobRef = ""
    mime: str = ""
    size_bytes: int | None = None
    base64: str | BlobRef | None = None
    artifact_path: str = ""
    physical_path: str = ""
    rn: str = ""
    hosted_uri: str = ""
    key: str = ""
    domain: str = ""
    favicon: str = ""
    published_time_iso: str = ""
    modified_time_iso: str = ""
    fetched_time_iso: str = ""
    provider_rank: float | None = None
    weighted_rank: float | None = None
    objective_relevance: float | None = None
    query_relevance: float | None = None
    authority: float | str | None = None


class SourcesAddedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows added to the sources pool, or newer versions of rows with the same sid; their bodies are payloads."""

    type: Literal["conv.sources.added"]
    ts: str
    text: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    meta: SourcesAddedMeta | None = None


class SourcesAddedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `conv.sources.added`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    tool_call_id: str | None = None


class SourcesPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sources in the order of their ids. `cursor` requests the next page and is empty on the last one."""

    type: Literal["conv:sources_pool"]
    conversation_id: str
    rows: tuple[SourceRow, ...]
    cursor: str


class SourcesText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows of the sources pool."""

    rows: tuple[SourceRow, ...]


class SpendRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sums of one group; fields that the rows are not grouped by are empty. The calls of deleted conversations
    are in rows without a conversation.
    """

    calls: int
    unknown_costs: int
    """Calls whose cost is unknown or estimated; if there are any, the cost is at least `cost_nano_usd`."""
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    cost_nano_usd: int
    day: str
    user: str
    model: str
    conversation: str


class SpendSums(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums over model calls. Sums above 2^53 are reduced to it."""

    calls: int
    unknown_costs: int
    """Calls whose cost is unknown or estimated; if there are any, the cost is at least `cost_nano_usd`."""
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    cost_nano_usd: int


class StageClarificationBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question to the user for clarification."""

    type: Literal["stage.clarification"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: StageClarificationMeta | None = None


class StageClarificationMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `stage.clarification`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class StageClarificationResolvedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The user's clarification."""

    type: Literal["stage.clarification.resolved"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: StageClarificationResolvedMeta | None = None


class StageClarificationResolvedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `stage.clarification.resolved`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class StageCoordinatorBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Output of the coordinator stage."""

    type: Literal["stage.coordinator"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: StageCoordinatorMeta | None = None


class StageCoordinatorMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `stage.coordinator`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class StageFeedbackBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Output of the feedback stage."""

    type: Literal["stage.feedback"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: StageFeedbackMeta | None = None


class StageFeedbackMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `stage.feedback`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class StageGateBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Output of the gate stage."""

    type: Literal["stage.gate"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: StageGateMeta | None = None


class StageGateMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `stage.gate`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class SteerBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user message that redirects the turn at once; empty text means stop. `started_ts` is as in `Followup`."""

    type: Literal["user.steer"]
    ts: str
    meta: SteerMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class SteerMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `user.steer`."""

    message_id: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    started_ts: str = ""
    blobs: dict[str, BlobRef] | None = None


class ThinkingBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model's thinking in a round."""

    type: Literal["react.thinking"]
    ts: str
    meta: ThinkingMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ThinkingMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.thinking`."""

    round: int
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class TimelineExport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole conversation as `conv.timeline.v1`, with hidden blocks marked in their `meta`."""

    type: Literal["conv.timeline.v1"]
    conversation_id: str
    title: str
    started_ts: str
    last_ts: str
    tail: int
    blocks: tuple[Block, ...]
    sources_pool: tuple[SourceRow, ...]
    chain: ExportedChain
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    bundle: str | None = None


class TimelinePage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Blocks in order: the first has the seq `after + 1`. Pass `next` as `after` to get the next page."""

    conversation_id: str
    after: int
    tail: int
    blocks: tuple[Block, ...]
    next: int | None


class TitleBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new title of a conversation."""

    title: str


class TitledBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sets the conversation's title."""

    type: Literal["conv.title"]
    ts: str
    text: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    meta: TitledMeta | None = None


class TitledMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `conv.title`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class ToolCallBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Intent to call a tool; `params` is the complete text of one JSON object."""

    type: Literal["react.tool.call"]
    ts: str
    text: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    meta: ToolCallMeta | None = None


class ToolCallMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.tool.call`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    by: str | None = None
    """The call whose program made this one; None if the model made it."""
    traits: ToolTraits | None = None
    """The tool's traits at the time of the call; None stands for the built-in traits of the tool id."""
    blobs: dict[str, BlobRef] | None = None


class ToolCodeBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Program of an exec call; it precedes the call in edition 1 and follows it in edition 2."""

    type: Literal["react.tool.code"]
    ts: str
    meta: ToolCodeMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class ToolCodeMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.tool.code`."""

    tool_call_id: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    blobs: dict[str, BlobRef] | None = None


class ToolTraits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about one tool; the defaults describe a tool that brings text from outside and writes no files."""

    result_text: Literal["file", "foreign", "own"] = "foreign"
    """The origin of the text in its results; gates use it to detect untrusted text."""
    reads_artifacts: bool = False
    """Whether its results show existing artifacts at their paths; such a result is not a new version."""
    numbers_lines: bool = False
    """Whether prompts number the lines of the files in its results, because the model requests lines by number."""
    lists_matches: bool = False
    """Whether its JSON results list found lines: rows with `logical_path` and `matches`."""
    copies_files: bool = False
    """Whether its JSON results list copied files: rows with `path` and `copied_from`."""
    brings_files: bool = False
    """Whether its JSON results list files for programs of the turn: `pulled`, rows with `path`."""
    path_param: str = ""
    """The parameter with the path of the file that it writes; empty if it has none."""
    content_param: str = ""
    """The parameter with the text that its files contain; empty if its files contain none of its parameters."""
    allows_answer: bool = False
    """Whether the model needs no result of it, so that a final answer may follow it in the same reply."""
    manages_plans: bool = False
    """Whether it starts, replaces or closes plans."""
    runs_code: bool = False
    """Whether it runs the program of the code channel."""
    polled: bool = False
    """Whether it is meant to be called again until its result changes, so that repeated calls are not stopped."""
    address_params: tuple[str, ...] = ()
    """Parameters with the web addresses that it requests; gates look at addresses that nobody wrote before."""
    asks_by_form: bool = False
    """Whether its parameters are a form, which a person answers by an event."""
    conversation_only: bool = False
    """Whether it reads and writes only the conversation and its files; re-runs then execute it again."""


class TurnEndedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """End of a turn, with the reason."""

    type: Literal["react.turn.end"]
    ts: str
    meta: TurnEndedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None


class TurnEndedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.turn.end`."""

    reason: Literal[
        "budget_exhausted",
        "cancelled",
        "completed",
        "exited",
        "max_iterations",
        "no_progress",
        "protocol_failure",
        "provider_error",
        "refused",
        "runtime_error",
        "stopped",
    ]
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""


class TurnFeedback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Feedback on a turn that is still in effect."""

    seq: int
    ts: str
    origin: Literal["machine", "user"]
    reaction: Literal["neutral", "not_ok", "ok"] | None
    text: str
    confidence: float | None
    author: str
    given_ts: str


class TurnMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of the turn with its full text."""

    seq: int
    type: str
    path: str
    author: str
    ts: str
    mime: str
    text: str


class TurnOverview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn with its number, start, end reason, messages, files and feedback."""

    turn_id: str
    n: int
    started_ts: str
    ended: (
        Literal[
            "budget_exhausted",
            "cancelled",
            "completed",
            "exited",
            "max_iterations",
            "no_progress",
            "protocol_failure",
            "provider_error",
            "refused",
            "runtime_error",
            "stopped",
        ]
        | None
    )
    messages: tuple[TurnMessage, ...]
    files: tuple[FileInfo, ...]
    feedbacks: tuple[TurnFeedback, ...]


class TurnPair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A turn as it was recorded and as it was run again."""

    turn_id: str
    prompt: str
    verdict: Literal["differs", "only_recorded", "only_rerun", "same"]
    recorded_end: str
    rerun_end: str
    rerun_end_text: str
    """The explanation of that end, such as why the re-run was interrupted."""
    rounds: tuple[RoundPair, ...]


class TurnStartedBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start of a turn; `n` is its ordinal in the conversation. With `rerun` the turn belongs to a re-run, which
    supplies its model and tools. Only that re-run may continue it.
    """

    type: Literal["turn.header"]
    ts: str
    meta: TurnStartedMeta
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""


class TurnStartedMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `turn.header`."""

    n: int
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    rerun: bool = False
    edition: int = 1
    """The edition of everything that the model reads and writes in the turn."""
    output: str = ""
    """The JSON schema of the turn's answer, as compact JSON; empty if the answer is plain text."""
    channels: tuple[DeclaredChannel, ...] = ()
    """The channels that the turn declares beside the built-in ones."""


class TurnsBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Selects turns with feedback by turn id, reaction and origin."""

    turn_ids: tuple[str, ...] | None = None
    reactions: tuple[Literal["neutral", "not_ok", "ok"], ...] = ()
    origin: Literal["machine", "user"] | None = None
    cursor: str = ""
    limit: int = 20


class TurnsPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Turns in order. `cursor` requests the next page and is empty on the last one."""

    conversation: ConversationInfo
    turns: tuple[TurnOverview, ...]
    cursor: str


class TurnsWithFeedbacks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Turns in order. `counts` covers the whole conversation; `cursor` requests the next page."""

    conversation_id: str
    user_id: str
    counts: Satisfaction
    turns: tuple[TurnOverview, ...]
    cursor: str


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and cost of a model call, as reported by its provider; `cost_nano_usd` is in billionths of a dollar."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that the provider keeps for an hour."""
    output_tokens: int = 0
    cost_nano_usd: int = 0


class UserPromptBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The user message that opens the turn."""

    type: Literal["user.prompt"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: UserPromptMeta | None = None


class UserPromptMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `user.prompt`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    quoted_roles: tuple[str, ...] = ()
    """Roles of the messages that the text quotes from a client's history, except those of the user."""
    blobs: dict[str, BlobRef] | None = None


class WaitingApproval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that waits for a decision, with its question and its conversation."""

    conversation_id: str
    title: str
    user: str
    """The owner of the conversation."""
    turn_id: str
    seq: int
    tool_call_id: str
    tool_id: str
    text: str
    """The question."""
    policy: str
    ts: str
    """When the question was asked."""


class WidgetInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A widget: its bundle, empty for an agent without one, its name, and the title of its frame."""

    bundle: str
    name: str
    title: str


class WorkingSummaryBlock(Block, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Summary of a turn for later turns; `n` numbers the summaries of one turn."""

    type: Literal["conv.working.summary"]
    ts: str
    author: str = ""
    turn_id: str = ""
    mime: str = ""
    path: str = ""
    text: str | None = None
    meta: WorkingSummaryMeta | None = None


class WorkingSummaryMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `conv.working.summary`."""

    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    n: int = 1
    blobs: dict[str, BlobRef] | None = None


class CacheForecast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cache points of a request and the usage its provider is expected to report, in the model's tokens. The
    points and lifetimes are a function of the log and of `at`, `last`, `settings` and `rates`.
    """

    at: str
    """Time for which the forecast was made."""
    system: str
    """Hash of the system text."""
    points: tuple[CachePoint, ...] = ()
    hit: CachePoint | None = None
    """Longest prefix that the provider should still have cached; None if it should have none."""
    read_tokens: int = 0
    written_5m_tokens: int = 0
    written_1h_tokens: int = 0
    uncached_tokens: int = 0
    last: bool = False
    """Whether this call was certain to be the last of its turn."""
    settings: CacheSettings = msgspec.field(default_factory=CacheSettings)
    rates: CacheRates = msgspec.field(default_factory=CacheRates)
    version: int = 1
    """Version of the arithmetic; another version may choose other points."""


class ModelAnsweredMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `meta` of `react.model.outcome`."""

    round: int
    model: str
    stop_reason: str
    erased: bool = False
    """Whether the content was erased permanently; type, seq and path remain."""
    purpose: Literal["compaction", "decision", "title"] = "decision"
    attempt: int = 1
    usage: Usage = msgspec.field(default_factory=Usage)
    usage_reported: bool = True
    """Whether the provider reported usage; if not, `usage` is empty and the cost unknown."""
    priced: bool = True
    """Whether the model's price is known; if not, the cost is 0."""
    interrupted: bool = False
    error: str = ""
    detail: str = ""
    """Details of the error, from the provider or from timeloom."""
    repairs: tuple[str, ...] = ()
    """Names of the repairs that made the reply readable; empty if it was read as it stands."""
    repaired: str = ""
    """The repaired reply, which is executed in place of `text`."""
    protocol: Literal["channels", "native"] = "channels"
    """How the reply states the decision."""
    tool_calls: str = ""
    """The native tool calls of the reply, as JSON; empty if there are none."""
    blobs: dict[str, BlobRef] | None = None


class PlanText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plan in its JSON form: statuses by step number."""

    plan_id: str
    steps: tuple[str, ...]
    status: dict[str, Literal["done", "failed", "in_progress", "pending"]] = {}
    created_ts: str = ""
    last_ts: str = ""
    origin_turn_id: str | None = None
    last_turn_id: str | None = None
    closed_ts: str = ""
    superseded_ts: str = ""
    verbatim: bool = False
    snapshot_ref: str = ""


class ToolError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Error of a tool, with the code and message that the tool reported."""

    code: str
    message: str
    where: str = ""
    details: dict[str, str | int | float | bool | None] = {}


ToolResultBlock = ResultDigestBlock | ResultStatusBlock | ResultContentBlock

EventData = (
    ChatStart | ChatStep | ChatDelta | ChatBlock | ChatCompaction | ChatApproval | ChatComplete | ChatError | ConvStatus
)
"""The data of an event whose name is known."""

EVENT_TYPES: dict[str, type[EventData]] = {
    "chat.start": ChatStart,
    "chat.step": ChatStep,
    "chat.delta": ChatDelta,
    "chat.block": ChatBlock,
    "chat.compaction": ChatCompaction,
    "chat.approval": ChatApproval,
    "chat.complete": ChatComplete,
    "chat.error": ChatError,
    "conv.status": ConvStatus,
}
"""The type of the data of each event."""

BLOCK_TYPES: dict[str, tuple[type[Block], ...]] = {
    "conv.header": (ConversationStartedBlock,),
    "conv.title": (TitledBlock,),
    "conv.sources.added": (SourcesAddedBlock,),
    "conv.working.summary": (WorkingSummaryBlock,),
    "conv.range.summary": (RangeSummaryBlock,),
    "conv.erased": (ErasedBlock,),
    "turn.header": (TurnStartedBlock,),
    "agent.log.header": (AgentLogStartedBlock,),
    "react.turn.end": (TurnEndedBlock,),
    "user.prompt": (UserPromptBlock,),
    "user.attachment.meta": (AttachmentMetaBlock,),
    "user.attachment": (AttachmentBlock,),
    "user.followup": (FollowupBlock,),
    "user.steer": (SteerBlock,),
    "external.event": (ExternalEventBlock,),
    "turn.feedback": (FeedbackBlock,),
    "assistant.completion": (CompletionBlock,),
    "react.completion": (ReactCompletionBlock,),
    "react.round.start": (RoundStartedBlock,),
    "react.model.call": (ModelCalledBlock,),
    "react.model.outcome": (ModelAnsweredBlock,),
    "react.thinking": (ThinkingBlock,),
    "react.notes": (NotesBlock,),
    "react.note": (NoteBlock,),
    "react.channel": (ChannelTextBlock,),
    "react.tool.code": (ToolCodeBlock,),
    "react.tool.call": (ToolCallBlock,),
    "react.notice": (NoticeBlock,),
    "react.tool.result": (
        ResultDigestBlock,
        ResultStatusBlock,
        ResultContentBlock,
    ),
    "react.gate": (GateBlock,),
    "react.approval.request": (ApprovalRequestedBlock,),
    "react.approval.decision": (ApprovalDecidedBlock,),
    "react.plan": (PlanRecordedBlock,),
    "react.plan.ack": (PlanAcknowledgedBlock,),
    "react.plan.history": (PlansCompactedBlock,),
    "react.hidden": (HiddenBlock,),
    "react.pruned": (PrunedBlock,),
    "react.compact.request": (CompactionRequestedBlock,),
    "react.compact.end": (CompactionEndedBlock,),
    "react.pinned": (PinnedBlock,),
    "stage.gate": (StageGateBlock,),
    "stage.coordinator": (StageCoordinatorBlock,),
    "stage.feedback": (StageFeedbackBlock,),
    "stage.clarification": (StageClarificationBlock,),
    "stage.clarification.resolved": (StageClarificationResolvedBlock,),
}
"""The classes of each block type; those of one type differ in `meta.role`."""

TEXT_TYPES: dict[type[Block], type[Any]] = {
    ConversationStartedBlock: ConversationStartedText,
    SourcesAddedBlock: SourcesText,
    AttachmentMetaBlock: Digest,
    ToolCallBlock: CallText,
    ResultDigestBlock: Digest,
    PlanRecordedBlock: PlanText,
    PlansCompactedBlock: PlansText,
}
"""The type of the JSON in the `text` of a block, where it has one."""
