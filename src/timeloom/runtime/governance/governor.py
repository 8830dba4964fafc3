"""Checks policies and budgets before each step and settles its cost afterwards."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ModelAnswered
from timeloom.core.policy.budget import SCOPES, Account, Allowance, Budgets, Scope, accounts, amount, exhausted, told
from timeloom.core.policy.gates import (
    ALLOWED,
    DEFAULT_POLICIES,
    ModelStep,
    Policy,
    Proposal,
    Ruling,
    Spent,
    ToolStep,
    policy_name,
    refuse,
    strictest,
)
from timeloom.core.policy.next_step import BUDGET
from timeloom.core.render.tail.announce import Budget
from timeloom.core.view.spend import Spend
from timeloom.ports.ledger import Amounts, BudgetBusyError, BudgetSpentError, Cap, Most, Reservation, Reserved, scope
from timeloom.runtime.governance.costs import model_cost
from timeloom.runtime.session.session import Session

Step = ModelStep | ToolStep

NO_BUDGETS: Final = Budgets()

SHARED: Final[tuple[Scope, ...]] = ("tree", "user", "project")
"""Scopes that several conversations spend from at once; the other scopes belong to one conversation."""

_logger = logging.getLogger(__name__)


class Bill(msgspec.Struct):
    """The actual cost of a step; if it stays None, the presumed cost of the reservation is settled."""

    cost: Amounts | None = None


class Admission(msgspec.Struct, frozen=True):
    """The ruling on a step, the reservation made for it, and the time of that reservation."""

    ruling: Ruling = ALLOWED
    reserved: Reserved | None = None
    epoch_us: int = 0


@dataclass(slots=True, kw_only=True)
class Governor:
    """Admits or refuses every step of one conversation."""

    session: Session
    policies: tuple[Policy, ...] = DEFAULT_POLICIES
    budgets: Budgets = NO_BUDGETS
    _settled: bool = field(default=False)

    @property
    def is_shared(self) -> bool:
        """Whether other conversations spend from the same budgets; admitting a step may then have to wait."""
        return bool(self._shared())

    async def admit(self, step: Step, key: str, most: Most, *, begun: bool = False) -> Admission:
        """Check the policies, then the budgets, and reserve the step's maximum cost.

        A step that was `begun` needs no second approval: a person has approved it, or a crash interrupted it.
        """
        ruling = self._ruling(step, begun)
        if ruling.verdict == "refuse" or (ruling.verdict == "ask" and not begun):
            return Admission(ruling)
        caps = self._caps()
        if not caps:
            return Admission()
        conversation = self.session.conversation
        reservation = Reservation(key=f"{conversation}/{key}", conversation=conversation, most=most, caps=caps)
        # Pending entries must not wait while other conversations spend.
        await self.session.flush()
        await self._settle_leftovers(reservation.key)
        try:
            reserved = await self.session.ledger.reserve(reservation)
        except BudgetSpentError as error:
            return Admission(Ruling("refuse", told(_account(error)), BUDGET))
        except BudgetBusyError as error:
            return Admission(Ruling("refuse", str(error), BUDGET))
        return Admission(reserved=reserved, epoch_us=self.session.epoch_us())

    @asynccontextmanager
    async def charging(self, admission: Admission) -> AsyncGenerator[Bill]:
        """Settle the step's cost and duration when the context exits, normally or with an error."""
        bill = Bill()
        try:
            yield bill
        finally:
            if admission.reserved:
                cost = bill.cost or _promised(admission.reserved.most)
                wall_ms = max(0, self.session.epoch_us() - admission.epoch_us) // 1000
                await self.session.ledger.settle(admission.reserved, replace(cost, wall_ms=wall_ms))

    async def release(self, admission: Admission) -> None:
        """Release the reservation of a step that is not executed."""
        if admission.reserved:
            await self.session.ledger.release(admission.reserved)

    async def announced(self) -> tuple[Budget, ...]:
        """Return the budgets in the form that the prompt shows."""
        known = [*self._own_accounts(*self._own_spend())]
        for cap, name in zip(self._caps(), self._shared(), strict=True):
            spent = await self.session.ledger.spent(cap.scope)
            known += accounts(name, getattr(self.budgets, name), _spent_of(spent))
        return tuple(_announced(one) for one in known)

    def _ruling(self, step: Step, begun: bool) -> Ruling:
        turn, conversation = self._own_spend()
        # A tool call that was begun is already included in the spend.
        counted = int(begun and isinstance(step, ToolStep))
        turn, conversation = (replace(one, tool_calls=one.tool_calls - counted) for one in (turn, conversation))
        proposal = Proposal(
            step=step,
            caller=self.session.caller,
            turn=turn,
            conversation=conversation,
            origins=frozenset(self.session.views.governance.origins),
        )
        rulings = [_asked(policy, proposal) for policy in self.policies]
        if isinstance(step, ModelStep) and not step.priced and self._limits_money():
            rulings.append(Ruling("refuse", _UNPRICED.format(step.model), BUDGET))
        if account := exhausted(self._own_accounts(turn, conversation), step):
            rulings.append(Ruling("refuse", told(account), BUDGET))
        return strictest(rulings)

    def _own_spend(self) -> tuple[Spent, Spent]:
        """Return the spend of the newest turn and of the conversation."""
        spend, turn = self.session.views.spend, self.session.views.progress.turn_id
        return _spent(spend.by_turn.get(turn, Spend())), _spent(spend.total)

    def _own_accounts(self, turn: Spent, conversation: Spent) -> tuple[Account, ...]:
        return (
            *accounts("turn", self.budgets.turn, turn),
            *accounts("conversation", self.budgets.conversation, conversation),
        )

    def _limits_money(self) -> bool:
        return any(_allowance(self.budgets, name).cost_nano_usd is not None for name in SCOPES)

    def _shared(self) -> list[Scope]:
        return [name for name in SHARED if any(_allowance(self.budgets, name).limits())]

    def _caps(self) -> tuple[Cap, ...]:
        return tuple(self._cap(name) for name in self._shared())

    def _cap(self, name: Scope) -> Cap:
        caller, allowance = self.session.caller, _allowance(self.budgets, name)
        names = {
            "tree": (self.session.root,),
            "user": (caller.tenant, caller.user),
            "project": (caller.tenant, caller.project),
        }
        return Cap(
            scope=scope(name, *names[name]),
            rounds=allowance.rounds,
            tokens=allowance.tokens,
            cost_nano_usd=allowance.cost_nano_usd,
            tool_calls=allowance.tool_calls,
            wall_ms=allowance.wall_ms,
        )

    async def _settle_leftovers(self, key: str) -> None:
        """Settle the reservations of a crashed process: by the timeline, else by their presumed cost.

        A reservation under `key` is kept, because the step is about to be reserved again.
        """
        if self._settled:
            return
        self._settled = True
        for reserved in await self.session.ledger.unsettled(self.session.conversation):
            if reserved.key != key:
                await self.session.ledger.settle(reserved, await self._cost(reserved))

    async def _cost(self, reserved: Reserved) -> Amounts:
        match reserved.key.removeprefix(f"{self.session.conversation}/").split("/"):
            case ["model", turn, number, attempt]:
                seqs = self.session.views.paths.find(f"ar:{turn}.react.model.{number}")
                for entry in await self.session.entries(seqs):
                    block = entry.block
                    if isinstance(block, ModelAnswered) and (block.purpose, str(block.attempt)) == (
                        "decision",
                        attempt,
                    ):
                        return model_cost(block.usage, rounds=reserved.most.rounds)
            case _:
                pass
        return _promised(reserved.most)


_UNPRICED = "nobody knows what {} costs, so that it cannot be held to a budget of money; put its price in `prices`"


def _promised(most: Most) -> Amounts:
    # The duration of an interrupted call is unknown, so its time is not counted.
    return replace(most.presumed, wall_ms=0)


def _account(error: BudgetSpentError) -> Account:
    return Account(cast(Scope, error.scope.partition(":")[0]), error.measure, error.used, error.limit)


def _asked(policy: Policy, proposal: Proposal) -> Ruling:
    name = policy_name(policy)
    try:
        ruling = policy(proposal) or ALLOWED
    except Exception:
        _logger.exception("the policy %s failed", name)
        # A policy that fails has not allowed the step.
        ruling = refuse(f"the policy {name} failed, so that nothing is allowed until it is mended")
    return ruling if ruling.policy else replace(ruling, policy=name)


def _allowance(budgets: Budgets, name: Scope) -> Allowance:
    found: Allowance = getattr(budgets, name)
    return found


def _spent(spend: Spend) -> Spent:
    return Spent(
        rounds=spend.rounds,
        model_calls=spend.model_calls,
        tool_calls=spend.tool_calls,
        tokens=spend.input_tokens + spend.cache_read_tokens + spend.cache_write_tokens + spend.output_tokens,
        cost_nano_usd=spend.cost_nano_usd,
        wall_ms=spend.wall_us // 1000,
    )


def _spent_of(spent: Amounts) -> Spent:
    return Spent(
        rounds=spent.rounds,
        tool_calls=spent.tool_calls,
        tokens=spent.tokens,
        cost_nano_usd=spent.cost_nano_usd,
        wall_ms=spent.wall_ms,
    )


def _announced(account: Account) -> Budget:
    used, limit = amount(account.measure, account.used), amount(account.measure, account.limit)
    return Budget(f"{account.scope} budget", account.used, account.limit, f"{used} of {limit}")
