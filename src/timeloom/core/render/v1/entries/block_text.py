"""Renders one entry of the prompt from the entry, its call's tool and its payloads."""

from typing import assert_never

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
from timeloom.core.render.entry_text import (
    NO_PAYLOADS,
    NO_TEXT,
    EntryText,
    Payloads,
    load_text,
    render_words,
    text_from_lines,
)
from timeloom.core.render.foreign_text.fence import escape_reserved, fence, one_line, refence
from timeloom.core.render.v1.entries.call_text import call_text, physical_line, text_with_data
from timeloom.core.render.v1.entries.plan_text import plan_text
from timeloom.core.render.v1.entries.previews import preview_text
from timeloom.core.timeline import Entry, is_timestamp

MAX_INTERRUPTED_CHARS = 4_000
"""Maximum length of an interrupted reply in the prompt. Less loses its content; more repeats text that follows in
full."""

PeopleBlock = UserPrompt | Followup | Steer | ExternalEvent | AttachmentMeta | Attachment
AgentBlock = Completion | ReactCompletion | Thinking | Notes | Note | WorkingSummary | RangeSummary
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
    | ChannelText
)


def entry_text(
    entry: Entry, tool_id: str = "", payloads: Payloads = NO_PAYLOADS, traits: ToolTraits | None = None
) -> EntryText:
    """Return the text of the entry; `payloads` must contain `needed_payloads(entry)`.

    For an entry of a call, `tool_id` and `traits` are those that the call recorded.
    """
    match entry.block:
        case (ToolCode() | ToolCall() | Notice() | ResultDigest() | ResultStatus() | ResultContent()) as block:
            return call_text(block, entry.turn_id, tool_id, payloads, traits)
        case PlanRecorded() | PlanAcknowledged() | PlansCompacted() as block:
            return plan_text(block)
        case block:
            return _other_text(entry, block, payloads)


def _other_text(
    entry: Entry, block: PeopleBlock | AgentBlock | ProgressBlock | ForeignBlock | SilentBlock, payloads: Payloads
) -> EntryText:
    # Dispatch by class instead of `match`, so that each family's function can end with its own `assert_never`.
    if isinstance(block, PeopleBlock):
        return _people_text(entry, block, payloads)
    if isinstance(block, AgentBlock):
        return _agent_text(entry, block, payloads)
    if isinstance(block, ProgressBlock):
        return _progress_text(entry, block, payloads)
    if isinstance(block, ForeignBlock):
        return _foreign_text(entry, block, payloads)
    return NO_TEXT


def _start_time(entry: Entry, started_ts: str) -> str:
    """Return the start time that the event states if it is a valid timestamp, otherwise the entry's time."""
    return started_ts if is_timestamp(started_ts) else entry.ts


def _people_text(entry: Entry, block: PeopleBlock, payloads: Payloads) -> EntryText:
    path = entry.path
    match block:
        case UserPrompt(text=text):
            return text_from_lines("[USER MESSAGE]", _path_line(path), render_words(text, path, payloads))
        case Followup(text=text):
            said = render_words(text, path, payloads)
            return text_from_lines(f"[USER FOLLOWUP] ts={_start_time(entry, block.started_ts)}", _path_line(path), said)
        case Steer(text=text):
            said = render_words(text, path, payloads) or "(stop)"
            return text_from_lines(f"[USER STEER] ts={_start_time(entry, block.started_ts)}", _path_line(path), said)
        case ExternalEvent(kind=kind, text=text, mime=mime):
            body = load_text(text, payloads)
            shown = preview_text(body, mime, path)
            content = fence(body) if shown.how == "whole" else shown.text
            return text_from_lines(
                f"[EXTERNAL EVENT {kind}] ts={_start_time(entry, block.started_ts)}", _path_line(path), content
            )
        case AttachmentMeta(digest=digest, summary=summary):
            name = one_line(path.rpartition("/")[2])
            size = "" if digest.size_bytes is None else f" | {digest.size_bytes} bytes"
            error = f"error: {one_line(digest.error.message)}" if digest.error else ""
            return text_from_lines(
                f"[USER ATTACHMENT] {name} | {one_line(digest.mime)}{size}",
                f"summary: {one_line(summary, 2_000)}" if summary else "",
                error,
                _path_line(path),
                physical_line(path),
            )
        case Attachment():
            return _attachment_text(block, payloads)
        case _:
            assert_never(block)


def _attachment_text(block: Attachment, payloads: Payloads) -> EntryText:
    # The preceding metadata describes the attachment; its text is read by path unless recorded as shown.
    if block.data is not None:
        return text_with_data([], block.mime, block.data, block.artifact_path, block.shown)
    if block.shown is None or (block.text is None and block.shown.how == "whole"):
        return NO_TEXT
    if block.text is not None and block.shown.how == "whole":
        return text_from_lines(_path_line(block.artifact_path), fence(load_text(block.text, payloads), 1))
    return text_from_lines(_path_line(block.artifact_path), refence(block.shown.text))


def _agent_text(entry: Entry, block: AgentBlock, payloads: Payloads) -> EntryText:
    path = entry.path
    match block:
        case Completion(text=text, suggested_followups=followups):
            offers = " | ".join(one_line(offer) for offer in followups)
            suggested = f"suggested followups: {offers}" if offers else ""
            return text_from_lines(
                "[ASSISTANT MESSAGE]", _path_line(path), render_words(text, path, payloads), suggested
            )
        case ReactCompletion(text=text):
            return text_from_lines("[REACT.COMPLETION]", render_words(text, path, payloads))
        case Thinking(text=text):
            said = render_words(text, path, payloads)
            return text_from_lines(f"[AI Agent think]: {said}") if said.strip() else NO_TEXT
        case Notes(text=text):
            return text_from_lines(f"[AI Agent say]: {render_words(text, path, payloads)}")
        case Note(text=text):
            return text_from_lines("[react.note] (internal)", "[INTERNAL NOTE]", render_words(text, path, payloads))
        case WorkingSummary(text=text):
            return text_from_lines("[WORKING SUMMARY]", _path_line(path), render_words(text, path, payloads))
        case RangeSummary(text=text, covered_turn_ids=turns):
            covered = f"covers {len(turns)} turns" if turns else "covers a part of a turn"
            return text_from_lines(
                f"[CONVERSATION SUMMARY] {covered}", _path_line(path), render_words(text, path, payloads)
            )
        case _:
            assert_never(block)


def _progress_text(entry: Entry, block: ProgressBlock, payloads: Payloads) -> EntryText:
    match block:
        case TurnStarted():
            return text_from_lines(f"[TURN {entry.turn_id}] ts={entry.ts}")
        case TurnEnded(reason=reason, text=text):
            return text_from_lines(f"[TURN END] {reason}{f': {one_line(text)}' if text else ''}")
        case RoundStarted(round=n):
            return text_from_lines(f"[ROUND {n}]")
        case ModelAnswered(interrupted=interrupted, purpose=purpose, text=text):
            # Replies to title and summary requests are not part of the conversation.
            cut = load_text(text, payloads) if interrupted and purpose == "decision" else ""
            body = escape_reserved(cut[-MAX_INTERRUPTED_CHARS:])
            return (
                text_from_lines(f"[INTERRUPTED ATTEMPT] {len(cut)} characters, not acted on", body) if cut else NO_TEXT
            )
        case Gate(policy=policy, verdict=verdict, text=text):
            return (
                NO_TEXT
                if verdict == "allow"
                else text_from_lines(f"[GATE] {one_line(policy)}: {verdict} {one_line(text)}")
            )
        case ApprovalRequested(tool_id=tool, tool_call_id=call, text=text):
            question = one_line(load_text(text, payloads), 2_000)
            return text_from_lines(f"[APPROVAL ASKED {call}] {one_line(tool)}: {question}")
        case ApprovalDecided(tool_call_id=call, approved=approved, text=text):
            return text_from_lines(
                f"[APPROVAL {call}] {'granted' if approved else 'refused'} {one_line(text, 2_000)}".rstrip()
            )
        case _:
            assert_never(block)


def _foreign_text(entry: Entry, block: ForeignBlock, payloads: Payloads) -> EntryText:
    if isinstance(block, Unknown):
        # The type is foreign text too: used as the header, it could imitate one of the runtime's headers.
        head, body = f"[UNKNOWN BLOCK] {one_line(block.foreign_type)}".rstrip(), load_text(block.json, payloads)
    else:
        head, body = f"[{block.type_name}]", load_text(block.text, payloads)
    path = entry.path
    shown = preview_text(body, block.mime_type(), path)
    content = fence(body) if shown.how == "whole" else shown.text
    return text_from_lines(head, _path_line(path) if path else "", content)


def _path_line(path: str) -> str:
    return f"[path: {one_line(path, 1_200)}]"
