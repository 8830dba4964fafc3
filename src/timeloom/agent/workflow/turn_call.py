"""One call of a workflow: its payload, the turn that it belongs to, and how far the agent's steps came."""

from dataclasses import dataclass, replace

from timeloom.agent.answer import Answer, FinishedTurn, read_answer
from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.agent.workflow.payload import Payload
from timeloom.agent.workflow.steps import TurnSteps
from timeloom.core.policy.next_step import EndTurn
from timeloom.core.view.progress import pending_approvals
from timeloom.runtime.hub.events import to_status
from timeloom.runtime.turn.loop import TurnRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """A call of `run` and its hooks."""

    parts: WorkflowParts
    turns: TurnRunner
    """The runner of the turn with the bundle's own tools."""
    payload: Payload
    steps: TurnSteps
    delivered: int
    """The last entry that the payload contains."""

    @property
    def has_unhandled_message(self) -> bool:
        """Whether a message arrived that neither the payload nor a request to the model contains."""
        return any(seq > self.delivered for seq in self.turns.session.views.progress.unseen)

    @property
    def is_waiting(self) -> bool:
        """Whether a person has to decide."""
        return bool(pending_approvals(self.turns.session.views.progress))

    def is_interrupted(self) -> bool:
        """Whether the turn was stopped, cancelled, or redirected by a message that the workflow has not seen."""
        progress = self.turns.session.views.progress
        return progress.is_called_off or (progress.steered and self.has_unhandled_message)

    async def read_answer(self, *, before: int | None = None) -> Answer[str]:
        """Return the result of the turn so far, with the end that the policy chose in the agent's last run.

        With `before`, it is the result of a finished phase, from the entries before that one.
        """
        end, session = self.steps.end, self.turns.session
        views, turn = session.views, self.payload.turn
        seqs = [seq for seq in views.turns.turns[turn].seqs() if before is None or seq < before]
        finished = FinishedTurn(
            conversation=session.conversation,
            tenant=session.caller.tenant,
            entries=await session.entries(seqs),
            views=views,
            pending=() if before else to_status(session.conversation, views, session.stored_tail).approvals,
        )
        answer = await read_answer(self.parts.store, finished, lambda text: text)
        if before:
            return replace(answer, reason="completed")
        return replace(answer, reason=end.reason, detail=end.text) if isinstance(end, EndTurn) else answer
