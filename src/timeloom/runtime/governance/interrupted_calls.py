"""Computes the cost of calls whose process died, from the parts of them that are on the timeline."""

from collections.abc import Sequence

from timeloom.core.blocks import ModelAnswered, ModelCalled
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.ids import CallId, TurnId
from timeloom.core.view.spend import Spend
from timeloom.ports.ledger import Amounts, BudgetGrant
from timeloom.ports.model import Model
from timeloom.runtime.governance.costs import cut_call_cost, model_cost, presumed_cost
from timeloom.runtime.session.session import Session

ModelBlock = ModelCalled | ModelAnswered


async def find_recorded_cost(session: Session, reserved: BudgetGrant, models: Sequence[Model]) -> Amounts | None:
    """Return the cost of the reserved call according to the timeline; None if the call was never made.

    A call is on the timeline before it is made. A model call without an outcome costs its prompt, because no part of
    its reply was stored.
    """
    match reserved.key.removeprefix(f"{session.conversation}/").split("/"):
        case ["model", turn, number, attempt]:
            found = await _model_blocks(session, TurnId(turn), [int(number)], "decision")
            return _model_call_cost(session, reserved, [one for one in found if str(one.attempt) == attempt], models)
        case ["title" | "compaction" as purpose, turn, *_]:
            return await _side_call_cost(session, reserved, TurnId(turn), purpose, models)
        case ["tool", turn, call_id]:
            return presumed_cost(reserved.most) if session.views.calls.get(TurnId(turn), CallId(call_id)) else None
        case _:
            return presumed_cost(reserved.most)


async def _side_call_cost(
    session: Session, reserved: BudgetGrant, turn: TurnId, purpose: CallPurpose, models: Sequence[Model]
) -> Amounts | None:
    # A side call is recorded under the round in which it was made, which its key does not name.
    rounds = session.views.spend.by_turn.get(turn, Spend()).rounds
    found = await _model_blocks(session, turn, range(1, max(1, rounds) + 1), purpose)
    # The outcome is stored after the settlement. So a call with an outcome belongs to an earlier reservation.
    return _model_call_cost(session, reserved, [one for one in found[-1:] if isinstance(one, ModelCalled)], models)


async def _model_blocks(
    session: Session, turn: TurnId, rounds: Sequence[int], purpose: CallPurpose
) -> list[ModelBlock]:
    """Return the calls and outcomes of that purpose in these rounds, in order."""
    seqs = sorted(seq for number in rounds for seq in session.views.paths.find(f"ar:{turn}.react.model.{number}"))
    blocks = [entry.block for entry in await session.entries(seqs)]
    return [one for one in blocks if isinstance(one, ModelBlock) and one.purpose == purpose]


def _model_call_cost(
    session: Session, reserved: BudgetGrant, found: Sequence[ModelBlock], models: Sequence[Model]
) -> Amounts | None:
    if not found:
        return None
    last = found[-1]
    if isinstance(last, ModelAnswered):
        return model_cost(last.usage, rounds=reserved.most.rounds)
    prompt_tokens = session.views.reported.to_model_tokens(last.model, last.estimated_tokens)
    model = next((one for one in models if one.name == last.model), None)
    return cut_call_cost(reserved.most, prompt_tokens, "", model)
