"""The phases of a turn: a workflow's notes separate them, so that a resumed workflow finds finished phases again.

A message that finds the agent at rest begins anew: the notes before it count no more. One that arrives while the agent
works belongs to the phase that is open.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from timeloom.agent.workflow.payload import WORKFLOW_EVENT
from timeloom.core.blocks import Completion, ExternalEvent, Followup, RoundStarted, Steer
from timeloom.core.payload import Text
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import CANCEL_EVENT


@dataclass(frozen=True, slots=True)
class PhaseNote:
    """A note of the workflow, with which a phase begins."""

    seq: int
    text: Text


def find_notes(entries: Sequence[Entry]) -> list[PhaseNote]:
    """Return the notes of the turn that count: those after the last message that found the agent at rest."""
    notes: list[PhaseNote] = []
    is_at_rest = False
    for entry in entries:
        match entry.block:
            case Completion():
                is_at_rest = True
            case RoundStarted():
                is_at_rest = False
            case ExternalEvent(kind=kind, text=text) if kind == WORKFLOW_EVENT:
                is_at_rest = False
                notes.append(PhaseNote(entry.seq, text))
            case ExternalEvent(kind=kind) if kind == CANCEL_EVENT:
                pass
            case Followup() | Steer() | ExternalEvent() if is_at_rest:
                notes.clear()
            case _:
                pass
    return notes


def find_end(notes: Sequence[PhaseNote], phase: int) -> int | None:
    """Return the entry before which the phase ended; None if it is the last one."""
    return next((note.seq for note in notes if note.seq > phase), None)
