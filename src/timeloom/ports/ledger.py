"""The ledger port: shared budgets, reserved before a call and settled after it."""

import hashlib
from typing import Final, Protocol
from urllib.parse import quote

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import MEASURES, Measure, Scope

MAX_AMOUNT: Final = 2**62
"""Maximum amount of one call or of a sum, where sums stop growing. It fits into a database integer."""

KEY_CHARS: Final = 500
"""Maximum length of a key, which contains the ids of a conversation, a turn and a call with separators."""

RESERVE_WAIT_S: Final = 600.0
"""How long a call waits for other calls to settle. A value below the longest model call would fail needlessly."""

_NAMES: Final[dict[Scope, int]] = {"turn": 2, "conversation": 1, "tree": 1, "user": 2, "project": 2}
_SCOPE_CHARS: Final = 500


def scope(kind: Scope, *names: str) -> str:
    """Return the scope of that kind; names may contain any characters.

    `turn` takes the ids of the conversation and the turn, `conversation` one conversation id, `tree` that of its root,
    `user` and `project` the tenant and a name.
    """
    if len(names) != _NAMES[kind]:
        raise LedgerError(f"a scope of kind {kind} takes {_NAMES[kind]} names, got {len(names)}")
    joined = "/".join(quote(name, safe="", errors="surrogatepass") for name in names)
    if len(joined) > _SCOPE_CHARS:
        # Quoted names never contain `#`, so this cannot equal another scope.
        joined = f"#{hashlib.sha256(joined.encode()).hexdigest()}"
    return f"{kind}:{joined}"


class LedgerError(CodedError):
    """A reservation or an amount is malformed."""

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
    """A scope is so close to its limit that this call must wait for open calls, which did not settle in time."""

    def __init__(self, scope: str, measure: Measure, why: str) -> None:
        super().__init__("budget_busy", f"{scope} has no {measure} to promise now: {why}")
        self.scope = scope
        self.measure: Measure = measure


class Amounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The actual cost of a call or a scope."""

    rounds: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    tool_calls: int = 0
    wall_ms: int = 0

    def __post_init__(self) -> None:
        _check(self)


class MaxAmounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The maximum cost of a call. None means unknown: a call with an unknown limited measure runs alone."""

    rounds: int = 0
    tokens: int | None = 0
    cost_nano_usd: int | None = 0
    tool_calls: int = 0
    wall_ms: int | None = 0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def presumed_amounts(self) -> Amounts:
        """The amounts charged for a call that may have been made and can no longer be settled."""
        return Amounts(**{measure: getattr(self, measure) or 0 for measure in MEASURES})


class BudgetCap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a scope; None means no limit, but the amount is counted."""

    scope: str
    rounds: int | None = None
    tokens: int | None = None
    cost_nano_usd: int | None = None
    tool_calls: int | None = None
    wall_ms: int | None = None

    def __post_init__(self) -> None:
        _check(self)


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is about to be made, its maximum cost, and all scopes that pay for it."""

    key: str
    """Identifies the call permanently, so that after a crash it is reserved again instead of twice: the conversation,
    turn, round and attempt, or the call's id."""

    conversation: ConversationId
    most: MaxAmounts
    caps: tuple[BudgetCap, ...]

    def __post_init__(self) -> None:
        _check_text("a key", self.key, KEY_CHARS)
        for cap in self.caps:
            _check_text("a scope", cap.scope, KEY_CHARS + len("conversation:"))
        if len({cap.scope for cap in self.caps}) != len(self.caps):
            raise LedgerError("a reservation must not name a scope twice")


class BudgetGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A granted reservation, to be settled or released once."""

    key: str
    conversation: ConversationId
    grant: str
    """Distinguishes this grant from a later one with the same key."""

    most: MaxAmounts
    scopes: tuple[str, ...]


class Ledger(Protocol):
    """One ledger for all conversations of a store. The promises are checked by `timeloom.testing.ledger_contract`.

    1. A reservation is granted in all its scopes or in none, regardless of concurrent requests from any process.
    2. No scope is overspent by more than one call, if no call costs more than its stated maximum, or than the largest
       earlier call in that scope. Rounds and tool calls are known in advance and are never overspent.
    3. Settlements and releases are durable and happen once.
    4. A key has one valid grant: reserving it again replaces the grant, and the previous holder can settle nothing.
    5. An open call of a dead process does not block other calls. Its reservation counts as promised until the call is
       reserved again, settled or released, or its conversation is deleted.
    """

    async def reserve(self, reservation: Reservation, wait_s: float = RESERVE_WAIT_S) -> BudgetGrant:
        """Return the grant as soon as the budget allows it.

        Raises `BudgetSpentError` if the budget can never allow it, and `BudgetBusyError` if it did not in time. A
        caller that holds a grant for tokens, money or time must not wait here for another one.
        """
        ...

    async def settle(self, reserved: BudgetGrant, actual: Amounts) -> None:
        """Replace the reserved amounts by the actual cost of the call."""
        ...

    async def release(self, reserved: BudgetGrant) -> None:
        """Return the reserved amounts of a call that was not made."""
        ...

    async def unsettled(self, conversation: ConversationId) -> tuple[BudgetGrant, ...]:
        """Return the conversation's grants that are neither settled nor released, by key.

        After a crash, the new holder settles them from the timeline or releases them.
        """
        ...

    async def spent(self, scope: str) -> Amounts:
        """Return the settled amounts of that scope."""
        ...


def _check(amounts: Amounts | MaxAmounts | BudgetCap) -> None:
    for measure in MEASURES:
        amount: int | None = getattr(amounts, measure)
        if amount is not None and not 0 <= amount <= MAX_AMOUNT:
            raise LedgerError(f"{measure} must be between 0 and {MAX_AMOUNT}, got {amount}")


def _check_text(what: str, text: str, most_chars: int) -> None:
    if not 0 < len(text) <= most_chars or not text.isascii():
        raise LedgerError(f"{what} must have 1 to {most_chars} ASCII characters, got {text[:40]!r}")
