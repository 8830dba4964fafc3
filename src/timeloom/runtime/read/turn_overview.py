"""Builds an overview of each turn for people: its messages, files and feedback."""

from collections.abc import Iterable, Sequence

import msgspec

from timeloom.core.blocks import Completion, ExternalEvent, Feedback, Followup, Steer, UserPrompt
from timeloom.core.blocks.turn import EndReason
from timeloom.core.blocks.user import Origin, Reaction
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.turns import Turn
from timeloom.core.view.views import Views
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.runtime.read.export import with_payloads
from timeloom.runtime.read.files import FileInfo, describe_artifact


class TurnMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the turn with its full text."""

    seq: int
    type: str
    path: str
    author: str
    ts: str
    mime: str
    text: str


class TurnFeedback(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback on a turn that is still in effect."""

    seq: int
    ts: str
    origin: Origin
    reaction: Reaction | None
    text: str
    confidence: float | None
    author: str
    given_ts: str


class TurnOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A turn with its number, start, end reason, messages, files and feedback."""

    turn_id: TurnId
    n: int
    started_ts: str
    ended: EndReason | None
    messages: tuple[TurnMessage, ...]
    files: tuple[FileInfo, ...]
    feedbacks: tuple[TurnFeedback, ...]


def require_turn(views: Views, turn: str) -> TurnId:
    """Return the id of the turn with that id, number or alias; raises `entry_unknown`."""
    if found := views.turns.find_named(turn):
        return found
    raise CodedError("entry_unknown", f"there is no turn {turn[:60]!r}; number of turns: {len(views.turns.turns)}")


def select_turns_after(
    views: Views, after: int, wanted: Iterable[TurnId], limit: int
) -> tuple[list[TurnId], int | None]:
    """Return up to `limit` of these turns after that number, and the number after which the next page begins."""
    chosen = set(wanted)
    names = [name for name, turn in views.turns.turns.items() if turn.n > after and name in chosen]
    page = names[:limit]
    return page, views.turns.turns[page[-1]].n if len(names) > limit else None


async def build_turn_overviews(
    store: Store, info: ConversationInfo, views: Views, turns: Sequence[TurnId]
) -> tuple[TurnOverview, ...]:
    """Return the overviews of these turns."""
    files: dict[str, list[FileInfo]] = {turn: [] for turn in turns}
    for text, artifact in views.artifacts.artifacts.items():
        if not text.startswith("fi:") or _turn_of_path(text) not in files:
            continue
        if file_info := await describe_artifact(store, info, views, text, artifact):
            files[_turn_of_path(text)].append(file_info)
    return tuple([await _build_overview(store, info, views, turn, files[turn]) for turn in turns])


async def _build_overview(
    store: Store, info: ConversationInfo, views: Views, turn: TurnId, files: Iterable[FileInfo]
) -> TurnOverview:
    known = views.turns.turns[turn]
    entries = await _load_entries(store, info, known)
    active_seqs = {one.seq for one in views.feedback.turns.get(turn, ()) if not one.is_empty}
    message_entries = [entry for entry in entries if _is_message(entry)]
    return TurnOverview(
        turn_id=turn,
        n=known.n,
        started_ts=entries[0].ts,
        ended=known.ended,
        messages=tuple([await _load_message(store, info.tenant, entry) for entry in message_entries]),
        files=tuple(files),
        feedbacks=tuple(_to_feedback(entry.block, entry) for entry in entries if entry.seq in active_seqs),
    )


async def _load_entries(store: Store, info: ConversationInfo, turn: Turn) -> list[Entry]:
    found: list[Entry] = []
    for first, last in turn.spans:
        found += await store.load(info.id, after=first - 1, limit=last - first + 1)
    return found


def _is_message(entry: Entry) -> bool:
    return isinstance(entry.block, UserPrompt | Followup | Steer | ExternalEvent | Completion)


async def _load_message(store: Store, tenant: str, entry: Entry) -> TurnMessage:
    block = await with_payloads(store, tenant, entry.block)
    assert isinstance(block, UserPrompt | Followup | Steer | ExternalEvent | Completion)
    assert isinstance(block.text, str)
    return TurnMessage(
        seq=entry.seq,
        type=block.type_name,
        path=entry.path,
        author=block.author,
        ts=entry.ts,
        mime=block.mime_type(),
        text=block.text,
    )


def _turn_of_path(path: str) -> str:
    return path.removeprefix("fi:").partition(".")[0]


def _to_feedback(block: object, entry: Entry) -> TurnFeedback:
    assert isinstance(block, Feedback)
    return TurnFeedback(
        seq=entry.seq,
        ts=entry.ts,
        origin=block.origin,
        reaction=block.reaction,
        text=block.text,
        confidence=block.confidence,
        author=block.author,
        given_ts=block.given_ts,
    )
