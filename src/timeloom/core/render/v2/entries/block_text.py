"""Renders one entry of the prompt from the entry, its call's tool, its payloads and the conversation's aliases.

Every line of the runtime starts with `[`, a channel tag, `HIDDEN` or a plan mark, and no line of other text does.
"""

from typing import Final, assert_never

from timeloom.core.blocks import (
    AgentLogStarted,
    ApprovalDecided,
    ApprovalRequested,
    Attachment,
    AttachmentMeta,
    ChannelText,
    CompactionEnded,
    CompactionRequested,
    Completion,
    ConversationStarted,
    Erased,
    ExternalEvent,
    Feedback,
    Followup,
    Gate,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    Notice,
    Pinned,
    PlanAcknowledged,
    PlanRecorded,
    PlansCompacted,
    Pruned,
    RangeSummary,
    ReactCompletion,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    StageClarification,
    StageClarificationResolved,
    StageCoordinator,
    StageFeedback,
    StageGate,
    Steer,
    Thinking,
    Titled,
    ToolCall,
    ToolCode,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    Unknown,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.blocks.block import ERASED
from timeloom.core.payload import size_of
from timeloom.core.render.entry_text import NO_PAYLOADS, NO_TEXT, EntryText, Payloads, load_text, text_from_lines
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries.call_text import call_text, quoted_text, text_with_data
from timeloom.core.render.v2.entries.channel_text import (
    CODE_HEAD_CHARS,
    MAX_CODE_CHARS,
    action,
    channel,
    fence_notes,
    render_words,
    short_channel,
    shorten_words,
    text_without_gap,
)
from timeloom.core.render.v2.entries.plan_text import plan_text
from timeloom.core.render.v2.entries.previews import preview_data
from timeloom.core.render.v2.fence import begin_line, end_line, fence_words, refence_words
from timeloom.core.stream.native_reply import NativeReply, decode_calls
from timeloom.core.timeline import Entry, is_timestamp

MAX_INTERRUPTED_CHARS: Final = 4_000
"""Maximum length of an interrupted reply in the prompt. Less loses its content; more repeats text that follows in
full."""

PeopleBlock = UserPrompt | Followup | Steer | ExternalEvent | AttachmentMeta | Attachment
AgentBlock = Completion | ReactCompletion | Thinking | Notes | Note | ChannelText | WorkingSummary | RangeSummary
ProgressBlock = TurnStarted | TurnEnded | RoundStarted | ModelAnswered | Gate | ApprovalRequested | ApprovalDecided
ForeignBlock = (
    AgentLogStarted
    | StageGate
    | StageCoordinator
    | StageFeedback
    | StageClarification
    | StageClarificationResolved
    | Unknown
)
SilentBlock = (
    ConversationStarted
    | Titled
    | SourcesAdded
    | Erased
    | ModelCalled
    | Feedback
    | Hidden
    | Pruned
    | CompactionRequested
    | CompactionEnded
    | Pinned
)


def entry_text(
    entry: Entry,
    names: Names,
    tool_id: str = "",
    payloads: Payloads = NO_PAYLOADS,
    traits: ToolTraits | None = None,
) -> EntryText:
    """Return the text of the entry; `payloads` must contain `needed_payloads(entry)`.

    For an entry of a call, `tool_id` and `traits` are those that the call recorded.
    """
    match entry.block:
        case ToolCode() | ToolCall() | Notice() | ResultDigest() | ResultStatus() | ResultContent():
            return call_text(entry, names, tool_id, payloads, traits)
        case PlanRecorded() | PlanAcknowledged() | PlansCompacted() as block:
            return plan_text(block, names)
        case block:
            return _other_text(entry, block, payloads, names)


def _other_text(
    entry: Entry,
    block: PeopleBlock | AgentBlock | ProgressBlock | ForeignBlock | SilentBlock,
    payloads: Payloads,
    names: Names,
) -> EntryText:
    # Dispatch by class instead of `match`, so that each family's function can end with its own `assert_never`.
    if isinstance(block, PeopleBlock):
        return _people_text(entry, block, payloads, names)
    if isinstance(block, AgentBlock):
        return _agent_text(entry, block, payloads, names)
    if isinstance(block, ProgressBlock):
        return _progress_text(entry, block, payloads, names)
    if isinstance(block, ForeignBlock):
        return _foreign_text(entry, block, payloads, names)
    return NO_TEXT


def _people_text(entry: Entry, block: PeopleBlock, payloads: Payloads, names: Names) -> EntryText:
    path = entry.path
    match block:
        case UserPrompt(text=text):
            return text_from_lines("[USER]", render_words(text, path, payloads, names))
        case Followup(text=text):
            head = _event_head("USER FOLLOWUP", entry, block.started_ts, names)
            return text_from_lines(head, render_words(text, path, payloads, names))
        case Steer(text=text):
            head = _event_head("USER STEER", entry, block.started_ts, names)
            return text_from_lines(head, render_words(text, path, payloads, names) or "(stop)")
        case ExternalEvent(kind=kind, text=text, mime=mime):
            head = _event_head(f"EVENT {kind}", entry, block.started_ts, names)
            return text_without_gap(head, quoted_text(load_text(text, payloads), mime, names.path(path)), "[/EVENT]")
        case AttachmentMeta(digest=digest, summary=summary):
            size = "" if digest.size_bytes is None else f", {digest.size_bytes} bytes"
            error = f", error: {digest.error.message}" if digest.error else ""
            said = f"{digest.mime}{size}{error}{f': {summary}' if summary else ''}"
            return text_without_gap(f"[USER ATTACHMENT {_shown_path(path, names)}] {one_line(said, 2_000)}")
        case Attachment():
            return _attachment_text(block, payloads, names)
        case _:
            assert_never(block)


def _event_head(title: str, entry: Entry, started_ts: str, names: Names) -> str:
    """Return the first line of a message or event during a turn, with its path: no other line contains its id."""
    return f"[{title} {_shown_path(entry.path, names)}] {_clock_time(_start_time(entry, started_ts))}"


def _start_time(entry: Entry, started_ts: str) -> str:
    """Return the start time that the event states if it is a valid timestamp, otherwise the entry's time."""
    return started_ts if is_timestamp(started_ts) else entry.ts


def _clock_time(ts: str) -> str:
    """Return a timestamp without fractions of a second, as `2026-11-18 10:02:11`."""
    return f"{ts[:10]} {ts[11:19]}"


def _attachment_text(block: Attachment, payloads: Payloads, names: Names) -> EntryText:
    # The preceding metadata describes the attachment; its text is read by path unless recorded as shown.
    path, shown = names.path(block.artifact_path), block.shown
    if block.data is not None:
        shown = shown or preview_data(block.mime, size_of(block.data), path)
        if shown.how == "whole":
            return text_with_data("", block.mime, block.data)
    if shown is None or (block.text is None and shown.how == "whole"):
        return NO_TEXT
    text = "" if block.text is None or shown.how != "whole" else load_text(block.text, payloads)
    body = quoted_text(text, block.mime, path, shown, numbered=True)
    return text_without_gap(begin_line(path), body, end_line(path))


def _agent_text(entry: Entry, block: AgentBlock, payloads: Payloads, names: Names) -> EntryText:
    path = entry.path
    match block:
        case Completion(text=text, suggested_followups=followups):
            said = render_words(text, path, payloads, names)
            answer = channel("final_answer", said) if said else ""
            fields = {"action": "complete"} | ({"suggested_followups": followups} if followups else {})
            # An answer needs no action, unless the action says more.
            return text_from_lines(action(json_line(fields)) if followups or not said else "", answer)
        case ReactCompletion(text=text):
            said = render_words(text, path, payloads, names)
            return text_from_lines(channel("final_answer", said)) if said else NO_TEXT
        case Thinking(text=text):
            said = render_words(text, path, payloads, names)
            return text_without_gap(short_channel("thinking", said)) if said.strip() else NO_TEXT
        case Notes(text=text):
            said = render_words(text, path, payloads, names, fence_notes)
            return text_without_gap(short_channel("notes", said)) if said.strip() else NO_TEXT
        case ChannelText(channel=name, text=text):
            return text_without_gap(channel(name, _channel_words(load_text(text, payloads), path, names)))
        case Note(text=text):
            return text_without_gap("[INTERNAL NOTE]", render_words(text, path, payloads, names))
        case WorkingSummary(text=text):
            return text_from_lines(channel("summary", render_words(text, path, payloads, names)))
        case RangeSummary(text=text, covered_turn_ids=turns):
            covered = f"{len(turns)} turn{'' if len(turns) == 1 else 's'}" if turns else "a part of a turn"
            # Its rows were escaped when it was written.
            words = render_words(text, path, payloads, names, refence_words)
            return text_from_lines(f"[SUMMARY {_shown_path(path, names)}] covers {covered}", words)
        case _:
            assert_never(block)


def _channel_words(text: str, path: str, names: Names) -> str:
    if text.startswith(ERASED):
        return one_line(text)
    chars = CODE_HEAD_CHARS if len(text) > MAX_CODE_CHARS else len(text)
    return shorten_words(text, chars, names.path(path))


def _progress_text(entry: Entry, block: ProgressBlock, payloads: Payloads, names: Names) -> EntryText:
    match block:
        case TurnStarted():
            return text_without_gap(f"[TURN {names.turn(entry.turn_id)}] {_clock_time(entry.ts)[:16]}")
        case TurnEnded(reason="completed", text=""):
            return NO_TEXT
        case TurnEnded(reason=reason, text=text):
            return text_without_gap(f"[TURN END] {reason}{f': {one_line(text)}' if text else ''}")
        case RoundStarted():
            return NO_TEXT
        case ModelAnswered(interrupted=interrupted, purpose=purpose):
            # Replies to title and summary requests are not part of the conversation.
            cut = _attempt_words(block, payloads) if interrupted and purpose == "decision" else ""
            body = fence_words(cut[-MAX_INTERRUPTED_CHARS:])
            head = f"[INTERRUPTED ATTEMPT] {len(cut)} characters, not executed"
            return text_without_gap(head, body, "[/INTERRUPTED ATTEMPT]") if cut else NO_TEXT
        case Gate(policy=policy, verdict=verdict, text=text, tool_call_id=call):
            of_call = f" {names.call(entry.turn_id, call)}" if call else ""
            line = f"[GATE{of_call}] {one_line(f'{policy}: {verdict} {text}', 1_000)}"
            # The request for approval, or the result of a refused call, says the same after it.
            is_repeated = verdict == "ask" or (verdict == "refuse" and call)
            return NO_TEXT if verdict == "allow" or is_repeated else text_without_gap(line)
        case ApprovalRequested(tool_id=tool, tool_call_id=call, text=text):
            question = one_line(f"{tool}: {load_text(text, payloads)}", 2_000)
            return text_without_gap(f"[APPROVAL REQUESTED {names.call(entry.turn_id, call)}] {question}")
        case ApprovalDecided(tool_call_id=call, approved=approved, text=text):
            verdict = "granted" if approved else "refused"
            said = f": {one_line(text, 2_000)}" if text else ""
            return text_without_gap(f"[APPROVAL {names.call(entry.turn_id, call)}] {verdict}{said}")
        case _:
            assert_never(block)


def _attempt_words(block: ModelAnswered, payloads: Payloads) -> str:
    """Return all that the model had written: its text, and the native tool calls that it had begun."""
    calls = decode_calls(load_text(block.tool_calls, payloads))
    return NativeReply(load_text(block.text, payloads), calls).as_text()


def _foreign_text(entry: Entry, block: ForeignBlock, payloads: Payloads, names: Names) -> EntryText:
    if isinstance(block, Unknown):
        # The type is foreign text too: used as the header, it could imitate one of the runtime's headers.
        head, body = f"[UNKNOWN BLOCK] {one_line(block.foreign_type)}".rstrip(), load_text(block.json, payloads)
    else:
        head, body = f"[BLOCK {block.type_name}]", load_text(block.text, payloads)
    where = f" {_shown_path(entry.path, names)}" if entry.path else ""
    path = names.path(entry.path)
    return text_without_gap(head + where, quoted_text(body, block.mime_type(), path), "[/BLOCK]")


def _shown_path(path: str, names: Names) -> str:
    return one_line(names.path(path), 1_200)
