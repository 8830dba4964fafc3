"""Keeps the grants and settled amounts of the in-memory store."""

from collections import defaultdict
from collections.abc import Callable
from itertools import count

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import Amounts, BudgetGrant, Reservation, scope
from timeloom.stores.budget_rule import BudgetState, OpenCall, ScopeTotal, find_refusal


class MemoryLedgerTables:
    """`LedgerTables` for one event loop. No grant can outlive the process that holds it."""

    def __init__(self, check_open: Callable[[], None]) -> None:
        self._check_open = check_open
        self._grants: dict[str, BudgetGrant] = {}
        self._totals: defaultdict[str, ScopeTotal] = defaultdict(ScopeTotal)
        self._grant_numbers = count(1)

    async def grant(self, reservation: Reservation) -> BudgetGrant:
        self._check_open()
        others = [each for each in self._grants.values() if each.key != reservation.key]
        why = find_refusal(reservation, {cap.scope: self._budget_state(cap.scope, others) for cap in reservation.caps})
        if why:
            raise why
        granted = BudgetGrant(
            key=reservation.key,
            conversation=reservation.conversation,
            grant=f"memory.{next(self._grant_numbers)}",
            most=reservation.most,
            scopes=tuple(cap.scope for cap in reservation.caps),
        )
        self._grants.pop(reservation.key, None)
        if granted.scopes:
            self._grants[reservation.key] = granted
        return granted

    async def close_grant(self, reserved: BudgetGrant, actual: Amounts | None) -> None:
        self._check_open()
        found = self._grants.get(reserved.key)
        if found and found.grant == reserved.grant:
            del self._grants[reserved.key]
            if actual:
                self._charge(found, actual)

    async def unsettled(self, conversation: ConversationId) -> tuple[BudgetGrant, ...]:
        self._check_open()
        found = [each for each in self._grants.values() if each.conversation == conversation]
        return tuple(sorted(found, key=lambda each: each.key))

    async def spent(self, scope: str) -> Amounts:
        self._check_open()
        return self._totals.get(scope, ScopeTotal()).amounts

    def delete_conversation(self, conversation: ConversationId) -> None:
        """Delete the totals of a conversation and its turns, and charge its open grants to shared scopes."""
        for key, each in list(self._grants.items()):
            if each.conversation == conversation:
                del self._grants[key]
                self._charge(each, each.most.presumed_amounts)
        own, turns = scope("conversation", conversation), scope("turn", conversation, "")
        for name in [name for name in self._totals if name == own or name.startswith(turns)]:
            del self._totals[name]

    def _budget_state(self, scope: str, grants: list[BudgetGrant]) -> BudgetState:
        found = [each for each in grants if scope in each.scopes]
        in_flight = [OpenCall(*msgspec.structs.astuple(each.most)) for each in found]
        return BudgetState(self._totals.get(scope, ScopeTotal()), in_flight)

    def _charge(self, reserved: BudgetGrant, actual: Amounts) -> None:
        for each in reserved.scopes:
            self._totals[each] = self._totals[each].with_call(reserved.most, actual)
