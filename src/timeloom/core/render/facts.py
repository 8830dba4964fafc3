"""Values that every edition of the rendering takes: limits, facts of a round, of calls and of a summary."""

from typing import Final, Literal

import msgspec

from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.entry_text import NO_PAYLOADS, Payloads

CallOutcome = Literal["ok", "failed", "not approved", "no result"]


class CardLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a pruned turn its card shows.

    Smaller limits make the model read content again; larger limits save less. Truncated content names its path.
    """

    text_chars: int = 4_000
    """Per message of the user, the assistant or an external event."""
    result_chars: int = 400
    """Per tool result."""
    result_items: int = 50
    """Number of list items that are examined for the shape of a result."""
    result_keys: int = 80
    """Number of object keys that the shape of a result lists."""
    rows: int = 40
    """Maximum number of rows."""


class CardContext(msgspec.Struct, frozen=True):
    """Facts beyond the entries: their payloads, and the entries with the newest snapshots of open plans."""

    payloads: Payloads = NO_PAYLOADS
    open_plans: frozenset[int] = frozenset()


EMPTY_CONTEXT: Final = CardContext()


class AnnouncedBudget(msgspec.Struct, frozen=True):
    """A budget of the turn in any unit."""

    name: str
    used: int
    limit: int
    text: str = ""
    """The text for both numbers, if plain numbers would lack a unit."""


class RoundFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that hold in this round only: its number, the time, the budgets and the state of the cache."""

    iteration: int
    max_iterations: int
    now: str
    budgets: tuple[AnnouncedBudget, ...] = ()
    prompt_tokens: int = 0
    window_tokens: int = 0
    cache: str = ""
    workspace: tuple[str, ...] = ()
    refused: str = ""
    """The reply that could not be executed and is asked for again."""


class CallFact(msgspec.Struct, frozen=True):
    """A call of a turn: its tool, its outcome, and whether its tool has effects."""

    turn_id: TurnId
    call_id: CallId
    tool_id: str
    outcome: CallOutcome
    has_effects: bool

    @property
    def path(self) -> str:
        """The path of the call's result."""
        return f"tc:{self.turn_id}.{self.call_id}.result"


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A covered turn in a few words: the request, the answer, and the path of its working summary."""

    n: int
    turn_id: TurnId
    ts: str
    asked: str = ""
    answered: str = ""
    working_summary: str = ""
    """The text of the working summary, if there is one."""
    working_summary_path: str = ""


class SummaryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a summary keeps besides its prose; every list is oldest first and may be cut at the front."""

    first_seq: int
    last_seq: int
    last_turn: int
    """The number of the last turn that is covered at least in part."""
    turns: tuple[TurnRow, ...] = ()
    current_messages: tuple[str, ...] = ()
    """The user's messages of the current turn, if a part of that turn is covered."""
    current_calls: tuple[CallFact, ...] = ()
    """The calls of the current turn up to the cut."""
    notes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    outside: tuple[int, ...] = ()
    previous_path: str = ""
    """The path of the previous summary, which this one includes."""
    by_hand: str = ""
    """Why no model wrote the prose."""
