"""Collects the facts that a summary must keep, from the log itself so that repeated summaries lose nothing."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from timeloom.core.blocks import ExternalEvent, Followup, Note, Steer, UserPrompt
from timeloom.core.ids import TurnId
from timeloom.core.policy.compaction import FIRST_SEQ
from timeloom.core.policy.gates import Effect
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.facts import CallFact, CallOutcome, SummaryFacts, TurnRow
from timeloom.core.render.foreign_text.fence import excerpt, one_line
from timeloom.core.render.v1.summary import MESSAGE_CHARS
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.calls import CallEntries
from timeloom.core.view.turns import Turn
from timeloom.core.view.views import Views
from timeloom.runtime.session.session import Session

ROW_TOKENS: Final = 40
"""Minimum tokens of a row of a summary; no more rows are collected than can fit."""

MAX_FILES: Final = 60
MAX_EXAMINED_ARTIFACTS: Final = 400
"""Maximum files that a summary lists, and maximum artifacts examined to find them."""


EffectOf = Callable[[str], Effect]
"""Returns the effect of the tool with that id."""


async def collect_summary_facts(
    session: Session, cut: int, tokens: int, text_chars: int, effect_of: EffectOf
) -> SummaryFacts:
    """Return the facts that a summary up to that entry must contain besides its prose, within `tokens`."""
    views = session.views
    rows = max(1, tokens // ROW_TOKENS)
    forgetting = views.forgetting
    covered = [(turn_id, turn.n) for turn_id, turn in _newest_turns(session, cut, rows)][::-1]
    running = views.progress.turn_id if views.progress.running else NO_TURN
    covers_running_turn = bool(covered) and covered[-1][0] == running
    return SummaryFacts(
        first_seq=FIRST_SEQ,
        last_seq=cut,
        last_turn=covered[-1][1] if covered else 0,
        turns=tuple([await _turn_row(session, turn_id, n) for turn_id, n in covered if turn_id != running]),
        current_messages=await _current_messages(session, running, cut, text_chars) if covers_running_turn else (),
        current_calls=collect_calls(views, running, cut, effect_of) if covers_running_turn else (),
        notes=tuple(await _lines(session, _last_seqs(forgetting.notes, cut, rows))),
        messages=tuple(await _lines(session, _last_seqs(forgetting.said, cut, rows))),
        files=_files(session),
        outside=tuple(_last_seqs(forgetting.outside, cut, rows)),
        previous_path=await _path_of(session, forgetting.summary_seq),
    )


def _newest_turns(session: Session, cut: int, rows: int) -> Iterator[tuple[TurnId, Turn]]:
    turns = session.views.turns.turns
    begun = ((turn_id, turn) for turn_id, turn in reversed(turns.items()) if turn.spans[0][0] <= cut)
    return islice(begun, rows)


async def _turn_row(session: Session, turn: TurnId, n: int) -> TurnRow:
    recap = f"ws:{turn}.conv.working.summary"
    paths = session.views.paths
    asked = await _load_first(session, paths.find(f"ar:{turn}.user.prompt")[:1])
    answered = await _load_first(session, paths.find(f"ar:{turn}.assistant.completion"))
    summed = await _load_first(session, paths.find(recap))
    first = session.views.turns.turns[turn].spans[0][0]
    ts = asked.ts if asked else (await session.entries([first]))[0].ts
    return TurnRow(
        n=n,
        turn_id=turn,
        ts=ts,
        asked=await _text(session, asked),
        answered=await _text(session, answered),
        working_summary=await _text(session, summed),
        working_summary_path=recap if summed else "",
    )


async def _current_messages(session: Session, turn: TurnId, cut: int, chars: int) -> tuple[str, ...]:
    """Return the user's messages in the running turn up to the cut."""
    first = session.views.turns.turns[turn].spans[0][0]
    prompts = [seq for seq in session.views.paths.find(f"ar:{turn}.user.prompt") if seq <= cut]
    message_seqs = [seq for seq in session.views.forgetting.said if first <= seq <= cut]
    renderer = renderer_for(session.views.turns.edition)
    lines: list[str] = []
    for entry in await session.entries(sorted([*prompts, *message_seqs])):
        text = await _text(session, entry)
        lines.append(renderer.message_row(_kind(entry), entry.path, text, chars, session.views))
    return tuple(lines)


def collect_calls(
    views: Views, turn: TurnId, last_seq: int, effect_of: EffectOf, ended_since: int = 0
) -> tuple[CallFact, ...]:
    """Return the calls of that turn up to the entry `last_seq`; the turn must be the newest one with calls.

    With `ended_since`, only calls that have a receipt at or after that entry.
    """
    calls: list[CallFact] = []
    for key, call in reversed(views.calls.calls.items()):
        if not key.startswith(f"{turn}."):
            break
        ended = max(call.receipt_seqs, default=0) >= ended_since
        if call.call_seq is not None and call.call_seq <= last_seq and ended:
            has_effects = effect_of(call.tool_id) != "pure"
            calls.append(CallFact(turn, call.tool_call_id, call.tool_id, _call_outcome(call), has_effects))
    return tuple(reversed(calls))


def _call_outcome(call: CallEntries) -> CallOutcome:
    if call.approved is False:
        return "not approved"
    if not call.receipt_seqs:
        return "no result"
    return "failed" if call.failed else "ok"


async def _lines(session: Session, seqs: Sequence[int]) -> list[str]:
    lines: list[str] = []
    for entry in await session.entries(seqs):
        text = await _text(session, entry)
        if isinstance(entry.block, Note):
            lines.append("- " + text.strip("\n").replace("\n", "\n  "))
        else:
            path = one_line(_shown_path(session, entry.path))
            lines.append(f"- {_kind(entry)} {entry.ts[:16]} {path}: {excerpt(text, MESSAGE_CHARS)}")
    return lines


def _files(session: Session) -> tuple[str, ...]:
    """Return lines for the conversation's files, newest last, each with type and size of its newest version."""
    newest = islice(reversed(session.views.artifacts.artifacts.items()), MAX_EXAMINED_ARTIFACTS)
    files = ((path, artifact.digest) for path, artifact in newest if path.startswith("fi:"))
    lines: list[str] = []
    for path, digest in islice(files, MAX_FILES):
        details = f" ({one_line(digest.mime)}, {digest.size_bytes} bytes)" if digest else ""
        lines.append(f"- {one_line(_shown_path(session, path), 1_200)}{details}")
    return tuple(lines[::-1])


def _shown_path(session: Session, path: str) -> str:
    return renderer_for(session.views.turns.edition).path(path, session.views)


def _last_seqs(seqs: Sequence[int], cut: int, most: int) -> list[int]:
    """Return the last seqs up to the cut, at most `most`, in order."""
    found = list(islice((seq for seq in reversed(seqs) if seq <= cut), most))
    return found[::-1]


async def _path_of(session: Session, seq: int) -> str:
    return (await session.entries([seq]))[0].path if seq else ""


async def _load_first(session: Session, seqs: Sequence[int]) -> Entry | None:
    found = await session.entries(seqs)
    return found[0] if found else None


async def _text(session: Session, entry: Entry | None) -> str:
    return await session.text(getattr(entry.block, "text", "")) if entry else ""


def _kind(entry: Entry) -> str:
    match entry.block:
        case UserPrompt():
            return "prompt"
        case Followup():
            return "followup"
        case Steer():
            return "steer"
        case ExternalEvent(kind=kind):
            return kind
        case block:
            return block.type_name
