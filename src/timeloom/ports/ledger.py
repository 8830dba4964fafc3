"""The ledger port: what conversations may spend together, reserved before a call and settled after it."""

import hashlib
from typing import Final, Literal, Protocol
from urllib.parse import quote

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import MEASURES, Measure

ScopeKind = Literal["turn", "conversation", "tree", "user", "project"]
"""What a budget is for. A tree is a conversation with all that were begun from it, by the id of the first."""

MOST_AMOUNT: Final = 2**62
"""Largest amount, of one call or in all, where sums stop growing; what a database takes for an integer is larger."""

KEY_CHARS: Final = 500
"""Longest key: a conversation's, a turn's and a call's id, and what stands between them."""

RESERVE_WAIT_S: Final = 600.0
"""How long a call waits for others to settle. Shorter than the longest model call would give up for no reason."""

_NAMES: Final[dict[ScopeKind, int]] = {"turn": 2, "conversation": 1, "tree": 1, "user": 2, "project": 2}
_SCOPE_CHARS: Final = 500


def scope(kind: ScopeKind, *names: str) -> str:
    """The scope of that kind, whatever the names contain.

    `turn` takes the ids of the conversation and the turn, `conversation` and `tree` one conversation's, `user` and
    `project` the tenant and a name.
    """
    if len(names) != _NAMES[kind]:
        raise LedgerError(f"a scope of kind {kind} has {_NAMES[kind]} names, got {len(names)}")
    joined = "/".join(quote(name, safe="", errors="surrogatepass") for name in names)
    if len(joined) > _SCOPE_CHARS:
        # No name has a bare # in it, so that no other scope can look like this one.
        joined = f"#{hashlib.sha256(joined.encode()).hexdigest()}"
    return f"{kind}:{joined}"


class LedgerError(CodedError):
    """A reservation or an amount that has not the form of one."""

    def __init__(self, message: str) -> None:
        super().__init__("reservation_malformed", message)


class BudgetSpentError(CodedError):
    """A scope has nothing left for this call, and waiting will not change that."""

    def __init__(self, scope: str, measure: Measure, limit: int, used: int) -> None:
        super().__init__("budget_spent", f"{scope} may spend {limit} {measure}, and {used} are spent or promised")
        self.scope = scope
        self.measure: Measure = measure
        self.limit = limit
        self.used = used


class BudgetBusyError(CodedError):
    """A scope is so near its limit that this call has to wait for those in flight; they did not settle in time."""

    def __init__(self, scope: str, measure: Measure, why: str) -> None:
        super().__init__("budget_busy", f"{scope} has no {measure} to promise now: {why}")
        self.scope = scope
        self.measure: Measure = measure


class Amounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What something cost."""

    rounds: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    tool_calls: int = 0
    wall_ms: int = 0

    def __post_init__(self) -> None:
        _check(self)


class Most(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most a call may cost. None is unknown: where that is limited, the call is let through only by itself."""

    rounds: int = 0
    tokens: int | None = 0
    cost_nano_usd: int | None = 0
    tool_calls: int = 0
    wall_ms: int | None = 0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def presumed(self) -> Amounts:
        """What a call is charged with that may have been made and that nobody can settle any more."""
        return Amounts(**{measure: getattr(self, measure) or 0 for measure in MEASURES})


class Cap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a scope may spend in all; None is no limit, and is counted all the same."""

    scope: str
    rounds: int | None = None
    tokens: int | None = None
    cost_nano_usd: int | None = None
    tool_calls: int | None = None
    wall_ms: int | None = None

    def __post_init__(self) -> None:
        _check(self)


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is about to be made, the most it may cost, and all the scopes that pay for it."""

    key: str
    """Names the call for good, so that after a crash it is reserved again and not twice: the conversation, turn,
    round and attempt, or the call's id."""

    conversation: ConversationId
    most: Most
    caps: tuple[Cap, ...]

    def __post_init__(self) -> None:
        _check_text("a key", self.key, KEY_CHARS)
        for cap in self.caps:
            _check_text("a scope", cap.scope, KEY_CHARS + len("conversation:"))
        if len({cap.scope for cap in self.caps}) != len(self.caps):
            raise LedgerError("a reservation names each scope once")


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation that was granted, to be settled or released once."""

    key: str
    conversation: ConversationId
    grant: str
    """Tells this grant from a later one of the same key."""

    most: Most
    scopes: tuple[str, ...]


class Ledger(Protocol):
    """One ledger for all conversations of a place. Numbered promises, checked by `timeloom.testing.ledger_contract`:

    1. A reservation is granted in all its scopes or in none, whoever else asks at the same time in whatever process.
    2. No scope is overspent by more than one call, if no call costs more than it said, or than the largest before it
       in that scope. Rounds and tool calls, which are known beforehand, are never overspent.
    3. What is settled is durable and settled once; so is what is released.
    4. A key is reserved once: who reserves it again has it anew, and whoever had it before can settle nothing.
    5. A call whose process died holds nobody up by being in flight; what it reserved counts as promised until the
       call is reserved again, settled or released, or its conversation is deleted.
    """

    async def reserve(self, reservation: Reservation, wait_s: float = RESERVE_WAIT_S) -> Reserved:
        """The grant, as soon as there is room for it.

        Raises `BudgetSpentError` where there will be none, and `BudgetBusyError` where none came in time. Who holds a
        grant for tokens, money or time must not wait here for another one.
        """
        ...

    async def settle(self, reserved: Reserved, actual: Amounts) -> None:
        """Puts what the call did cost in the place of what was reserved."""
        ...

    async def release(self, reserved: Reserved) -> None:
        """Gives back what was reserved, of a call that was not made."""
        ...

    async def unsettled(self, conversation: ConversationId) -> tuple[Reserved, ...]:
        """The conversation's grants that are neither settled nor released, by key: for who took it over after a crash
        to settle from the timeline, or to release."""
        ...

    async def spent(self, scope: str) -> Amounts:
        """What was settled in that scope."""
        ...


def _check(amounts: Amounts | Most | Cap) -> None:
    for measure in MEASURES:
        amount: int | None = getattr(amounts, measure)
        if amount is not None and not 0 <= amount <= MOST_AMOUNT:
            raise LedgerError(f"{measure} are between 0 and {MOST_AMOUNT}, got {amount}")


def _check_text(what: str, text: str, most_chars: int) -> None:
    if not 0 < len(text) <= most_chars or not text.isascii():
        raise LedgerError(f"{what} has 1 to {most_chars} ASCII characters, got {text[:40]!r}")
