"""Sends the recorded messages and events of a conversation again, at the same positions of a re-run."""

import asyncio
from collections.abc import Iterable

import msgspec

from timeloom.core.blocks import (
    Attachment,
    AttachmentMeta,
    ExternalEvent,
    Followup,
    ModelCalled,
    Steer,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import TurnId
from timeloom.core.policy.next_step import AskModel
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.prompt.request import PromptRequest, PromptSource
from timeloom.runtime.read.export import with_payloads
from timeloom.runtime.session.session import Session

RecordedInput = Followup | Steer | ExternalEvent


class RecordedPrompt(msgspec.Struct, frozen=True):
    """The recorded prompt that opened a turn, with its attachments."""

    turn_id: TurnId
    text: str
    attachments: tuple[AttachmentMeta | Attachment, ...] = ()
    quoted_roles: tuple[str, ...] = ()
    output: str = ""
    """The JSON schema of the recorded turn's answer."""


class _PendingInput(msgspec.Struct, frozen=True):
    """A message during a turn, and the first round whose request contained it."""

    round: int
    block: RecordedInput


class RecordedInputs:
    """The prompts of a record in order, and the messages during its turns."""

    def __init__(self) -> None:
        self.prompts: list[RecordedPrompt] = []
        self.unsent_count = 0
        self._pending: dict[TurnId, list[_PendingInput]] = {}

    def add(self, turn: TurnId, number: int, blocks: Iterable[RecordedInput]) -> None:
        """Add the messages that the request of that round contained first."""
        self._pending.setdefault(turn, []).extend(_PendingInput(number, block) for block in blocks)

    def take_until(self, turn: TurnId, number: int) -> list[RecordedInput]:
        """Remove and return the messages to send before the request of that round."""
        due = self._pending.get(turn, [])
        self._pending[turn] = [one for one in due if one.round > number]
        return [one.block for one in due if one.round <= number]

    def take_unsent_followups(self, turn: TurnId) -> list[RecordedPrompt]:
        """Remove the turn's unsent messages; return the follow-ups, which can open a turn, and count the rest."""
        left = [one.block for one in self._pending.pop(turn, [])]
        late = [
            RecordedPrompt(turn, block.text, quoted_roles=block.quoted_roles)
            for block in left
            if isinstance(block, Followup) and isinstance(block.text, str)
        ]
        self.unsent_count += len(left) - len(late)
        return late


async def read_recorded_inputs(store: Store, tenant: str, record: Iterable[Entry]) -> RecordedInputs:
    """Return the messages and events of these entries."""
    outputs = dict[TurnId, str]()
    inputs, pending, rounds = RecordedInputs(), dict[TurnId, list[RecordedInput]](), dict[TurnId, int]()
    for entry in record:
        turn = entry.turn_id
        match entry.block:
            case TurnStarted(output=output):
                outputs[turn] = output
            case UserPrompt() | Attachment() | AttachmentMeta() as block:
                _add_prompt(inputs, turn, await with_payloads(store, tenant, block), outputs.get(turn, ""))
            case Followup() | Steer() | ExternalEvent() as block:
                pending.setdefault(turn, []).append(await with_payloads(store, tenant, block))
            case ModelCalled(purpose="decision", round=number):
                rounds[turn] = number
                inputs.add(turn, number, pending.pop(turn, []))
            case _:
                pass
    for turn, blocks in pending.items():
        inputs.add(turn, rounds.get(turn, 0) + 1, blocks)
    return inputs


class InputReplayer:
    """Builds prompts after appending the recorded messages that are due before each of them."""

    def __init__(self, source: PromptSource, inputs: RecordedInputs, interrupt: asyncio.Event) -> None:
        self._source = source
        self._inputs = inputs
        self._interrupt = interrupt

    async def build_prompt(self, session: Session, step: AskModel) -> PromptRequest:
        """Append the messages that are due, then return the prompt at the tail."""
        turn = session.views.progress.turn_id
        for block in self._inputs.take_until(turn, step.round):
            await session.append([block], turn)
            # A steer or a cancellation takes effect before the model is called.
            if not isinstance(block, Followup):
                self._interrupt.set()
        return await self._source.build_prompt(session, step)


def _add_prompt(
    inputs: RecordedInputs, turn: TurnId, block: UserPrompt | Attachment | AttachmentMeta, output: str
) -> None:
    known = inputs.prompts[-1] if inputs.prompts and inputs.prompts[-1].turn_id == turn else None
    match block:
        case UserPrompt(text=text, quoted_roles=roles) if known is None and isinstance(text, str):
            inputs.prompts.append(RecordedPrompt(turn, text, quoted_roles=roles, output=output))
        case Attachment() | AttachmentMeta() if known is not None:
            inputs.prompts[-1] = msgspec.structs.replace(known, attachments=(*known.attachments, block))
        case _:
            pass
