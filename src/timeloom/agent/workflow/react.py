"""The agent inside a workflow: runs the steps of the actual turn, with the tools that the workflow chose."""

from collections.abc import Sequence
from dataclasses import dataclass

from timeloom.agent.answer import Answer
from timeloom.agent.workflow.payload import WORKFLOW_EVENT, Payload
from timeloom.agent.workflow.phases import PhaseNote, find_end, find_notes
from timeloom.agent.workflow.turn_call import TurnCall
from timeloom.core.blocks import ExternalEvent
from timeloom.core.codes import CodedError
from timeloom.core.timeline import Entry
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
        decision. A `note` asks the agent for more after its answer, and begins a phase. Each note counts once for a
        message, and a finished phase only returns its answer, so a resumed workflow can do the same again.
        """
        if payload.turn != self.call.payload.turn:
            raise CodedError("workflow_failed", "react.run takes the payload of the running turn")
        steps = self.call.steps
        notes = find_notes(await self._entries())
        if note.strip():
            steps.phase = max(steps.phase, await self._find_or_add(SECRETS.redact(note), notes))
        if end := find_end(notes, steps.phase):
            return await self.call.read_answer(before=end)
        await steps.run(self.turns)
        return await self.call.read_answer()

    async def _entries(self) -> list[Entry]:
        session = self.turns.session
        return await session.entries(list(session.views.turns.turns[self.call.payload.turn].seqs()))

    async def _find_or_add(self, text: str, notes: Sequence[PhaseNote]) -> int:
        """Return the entry of the note, which is appended unless it is there already."""
        session = self.turns.session
        for known in notes:
            if await session.text(known.text) == text:
                return known.seq
        author = f"workflow of {self.call.parts.bundle.name}"
        event = ExternalEvent(kind=WORKFLOW_EVENT, message_id=session.new_message_id(), text=text, author=author)
        added = await self.turns.inbox.add_event(event)
        return added.seq if added else 0
