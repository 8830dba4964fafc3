"""Checks policies and budgets before each step and settles its cost afterwards."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.policy.budget import (
    SCOPES,
    Allowance,
    Budgets,
    BudgetUsage,
    Scope,
    describe_exhausted,
    find_exhausted,
    format_amount,
    list_budget_usage,
)
from timeloom.core.policy.gates import (
    ALLOWED,
    DEFAULT_POLICIES,
    ModelStep,
    Policy,
    PolicyResult,
    Proposal,
    SpendTotals,
    ToolStep,
    pick_strictest,
    policy_name,
    refuse,
    repaired_irreversible_needs_approval,
    unknown_outcome_needs_approval,
)
from timeloom.core.policy.next_step import BUDGET_POLICY
from timeloom.core.render.facts import AnnouncedBudget
from timeloom.core.view.spend import Spend
from timeloom.ports.ledger import (
    Amounts,
    BudgetBusyError,
    BudgetCap,
    BudgetGrant,
    BudgetSpentError,
    MaxAmounts,
    Reservation,
    scope,
)
from timeloom.ports.model import Model
from timeloom.runtime.governance.costs import presumed_cost
from timeloom.runtime.governance.interrupted_calls import find_recorded_cost
from timeloom.runtime.session.session import Session

Step = ModelStep | ToolStep

NO_BUDGETS: Final = Budgets()

SHARED_SCOPES: Final[tuple[Scope, ...]] = ("tree", "user", "project")
"""Scopes that several conversations spend from at once; the other scopes belong to one conversation."""

_logger = logging.getLogger(__name__)


class Charge(msgspec.Struct):
    """The actual cost of a step; if it stays None, the presumed cost of the reservation is settled.

    A step that may be cut off sets `cost` whenever it knows more, or `cut_cost`, which is called if it was cut off.
    """

    cost: Amounts | None = None
    cut_cost: Callable[[MaxAmounts], Amounts] = presumed_cost


class Admission(msgspec.Struct, frozen=True):
    """The ruling on a step, the reservation made for it, and the time of that reservation."""

    ruling: PolicyResult = ALLOWED
    reserved: BudgetGrant | None = None
    epoch_us: int = 0


@dataclass(slots=True, kw_only=True)
class Governor:
    """Admits or refuses every step of one conversation."""

    session: Session
    policies: tuple[Policy, ...] = DEFAULT_POLICIES
    fixed_policies: tuple[Policy, ...] = (repaired_irreversible_needs_approval, unknown_outcome_needs_approval)
    """Policies that hold whatever is configured."""
    budgets: Budgets = NO_BUDGETS
    models: tuple[Model, ...] = ()
    """The models of the conversation, which price calls that a crashed process left without an outcome."""
    _leftovers_settled: bool = field(default=False)

    @property
    def is_shared(self) -> bool:
        """Whether other conversations spend from the same budgets; admitting a step may then have to wait."""
        return bool(self._shared_scopes())

    async def admit(self, step: Step, key: str, most: MaxAmounts, *, begun: bool = False) -> Admission:
        """Check the policies, then the budgets, and reserve the step's maximum cost.

        A step that was `begun` needs no second approval: a person has approved it, or a crash interrupted it.
        """
        ruling = self._decide(step, begun)
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
            return Admission(PolicyResult("refuse", describe_exhausted(_to_budget_usage(error)), BUDGET_POLICY))
        except BudgetBusyError as error:
            return Admission(PolicyResult("refuse", str(error), BUDGET_POLICY))
        return Admission(reserved=reserved, epoch_us=self.session.epoch_us())

    @asynccontextmanager
    async def charge_on_exit(self, admission: Admission) -> AsyncGenerator[Charge]:
        """Settle the step's cost and duration when the context exits, normally or with an error."""
        charge = Charge()
        try:
            yield charge
        finally:
            if admission.reserved:
                cost = charge.cost or charge.cut_cost(admission.reserved.most)
                wall_ms = max(0, self.session.epoch_us() - admission.epoch_us) // 1000
                await self.session.ledger.settle(admission.reserved, replace(cost, wall_ms=wall_ms))

    async def release(self, admission: Admission) -> None:
        """Release the reservation of a step that is not executed."""
        if admission.reserved:
            await self.session.ledger.release(admission.reserved)

    async def budgets_for_prompt(self) -> tuple[AnnouncedBudget, ...]:
        """Return the budgets in the form that the prompt shows."""
        known = [*self._own_budget_usage(*self._own_spend())]
        for cap, name in zip(self._caps(), self._shared_scopes(), strict=True):
            spent = await self.session.ledger.spent(cap.scope)
            known += list_budget_usage(name, getattr(self.budgets, name), _amounts_to_totals(spent))
        return tuple(_to_announced_budget(one) for one in known)

    def _decide(self, step: Step, begun: bool) -> PolicyResult:
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
        # The fixed ones first: of several questions a person must read theirs, such as that an effect is unknown.
        rulings = [_apply_policy(policy, proposal) for policy in (*self.fixed_policies, *self.policies)]
        if isinstance(step, ModelStep) and not step.priced and self._limits_money():
            rulings.append(PolicyResult("refuse", _UNPRICED.format(step.model), BUDGET_POLICY))
        if account := find_exhausted(self._own_budget_usage(turn, conversation), step):
            rulings.append(PolicyResult("refuse", describe_exhausted(account), BUDGET_POLICY))
        return pick_strictest(rulings)

    def _own_spend(self) -> tuple[SpendTotals, SpendTotals]:
        """Return the spend of the newest turn and of the conversation."""
        spend, turn = self.session.views.spend, self.session.views.progress.turn_id
        return _to_spend_totals(spend.by_turn.get(turn, Spend())), _to_spend_totals(spend.total)

    def _own_budget_usage(self, turn: SpendTotals, conversation: SpendTotals) -> tuple[BudgetUsage, ...]:
        return (
            *list_budget_usage("turn", self.budgets.turn, turn),
            *list_budget_usage("conversation", self.budgets.conversation, conversation),
        )

    def _limits_money(self) -> bool:
        return any(_allowance(self.budgets, name).cost_nano_usd is not None for name in SCOPES)

    def _shared_scopes(self) -> list[Scope]:
        return [name for name in SHARED_SCOPES if any(_allowance(self.budgets, name).limits())]

    def _caps(self) -> tuple[BudgetCap, ...]:
        return tuple(self._cap(name) for name in self._shared_scopes())

    def _cap(self, name: Scope) -> BudgetCap:
        caller, allowance = self.session.caller, _allowance(self.budgets, name)
        names = {
            "tree": (self.session.root,),
            "user": (caller.tenant, caller.user),
            "project": (caller.tenant, caller.project),
        }
        return BudgetCap(
            scope=scope(name, *names[name]),
            rounds=allowance.rounds,
            tokens=allowance.tokens,
            cost_nano_usd=allowance.cost_nano_usd,
            tool_calls=allowance.tool_calls,
            wall_ms=allowance.wall_ms,
        )

    async def _settle_leftovers(self, key: str) -> None:
        """Settle the reservations of a crashed process by the timeline; a call that was not made is released.

        A reservation under `key` is kept, because the step is about to be reserved again.
        """
        if self._leftovers_settled:
            return
        self._leftovers_settled = True
        for reserved in await self.session.ledger.unsettled(self.session.conversation):
            if reserved.key != key:
                cost = await find_recorded_cost(self.session, reserved, self.models)
                if cost:
                    await self.session.ledger.settle(reserved, cost)
                else:
                    await self.session.ledger.release(reserved)


_UNPRICED = "the price of {} is unknown, so a budget of money cannot limit it; set its price in `prices`"


def _to_budget_usage(error: BudgetSpentError) -> BudgetUsage:
    return BudgetUsage(cast(Scope, error.scope.partition(":")[0]), error.measure, error.used, error.limit)


def _apply_policy(policy: Policy, proposal: Proposal) -> PolicyResult:
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


def _to_spend_totals(spend: Spend) -> SpendTotals:
    return SpendTotals(
        rounds=spend.rounds,
        model_calls=spend.model_calls,
        tool_calls=spend.tool_calls,
        tokens=spend.input_tokens + spend.cache_read_tokens + spend.cache_write_tokens + spend.output_tokens,
        cost_nano_usd=spend.cost_nano_usd,
        wall_ms=spend.wall_us // 1000,
    )


def _amounts_to_totals(spent: Amounts) -> SpendTotals:
    return SpendTotals(
        rounds=spent.rounds,
        tool_calls=spent.tool_calls,
        tokens=spent.tokens,
        cost_nano_usd=spent.cost_nano_usd,
        wall_ms=spent.wall_ms,
    )


def _to_announced_budget(account: BudgetUsage) -> AnnouncedBudget:
    used, limit = format_amount(account.measure, account.used), format_amount(account.measure, account.limit)
    return AnnouncedBudget(f"{account.scope} budget", account.used, account.limit, f"{used} of {limit}")
