"""The agent inside a workflow: runs the steps of the actual turn, with the tools that the workflow chose."""

from dataclasses import dataclass

from timeloom.agent.answer import Answer
from timeloom.agent.workflow.payload import WORKFLOW_EVENT, Payload
from timeloom.agent.workflow.turn_call import TurnCall
from timeloom.core.blocks import ExternalEvent
from timeloom.core.codes import CodedError
from timeloom.platform.secrets import SECRETS
from timeloom.runtime.turn.loop import TurnRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class React:
    """The agent of one turn; `BaseWorkflow.build_react` makes it."""

    call: TurnCall
    turns: TurnRunner
    """The runner with the tools of this agent; its session and inbox are those of the conversation."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The ids of the tools that the agent may call."""
        return tuple(spec.tool_id for spec in self.turns.action_context.registry.specs())

    async def run(self, payload: Payload, *, note: str = "") -> Answer[str]:
        """Run the agent on the open turn and return the answer so far; a turn that a crash left open continues.

        With the reason `waiting`, a person has to decide: return, and `run` of the workflow is called again after the
        decision. A `note` asks the agent for more after its answer. Each note counts once in a turn, so a resumed
        workflow can pass it again.
        """
        if payload.turn != self.call.payload.turn:
            raise CodedError("workflow_failed", "react.run takes the payload of the running turn")
        if note.strip():
            await self._add_note(SECRETS.redact(note))
        await self.call.steps.run(self.turns)
        return await self.call.read_answer()

    async def _add_note(self, note: str) -> None:
        session = self.turns.session
        for entry in await session.entries(list(session.views.turns.turns[self.call.payload.turn].seqs())):
            match entry.block:
                case ExternalEvent(kind=kind, text=text) if kind == WORKFLOW_EVENT:
                    if await session.text(text) == note:
                        return
                case _:
                    pass
        author = f"workflow of {self.call.parts.bundle.name}"
        event = ExternalEvent(kind=WORKFLOW_EVENT, message_id=session.new_message_id(), text=note, author=author)
        await self.turns.inbox.add_event(event)
