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
    UserPrompt,
)
from timeloom.core.ids import TurnId
from timeloom.core.policy.next_step import AskModel
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.read.export import with_payloads
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.ask_model import Prompt, Prompter

Input = Followup | Steer | ExternalEvent


class Prompted(msgspec.Struct, frozen=True):
    """The recorded prompt that opened a turn, with its attachments."""

    turn_id: TurnId
    text: str
    attachments: tuple[AttachmentMeta | Attachment, ...] = ()


class _Due(msgspec.Struct, frozen=True):
    """A message during a turn, and the first round whose request contained it."""

    round: int
    block: Input


class Said:
    """The prompts of a record in order, and the messages during its turns."""

    def __init__(self) -> None:
        self.prompts: list[Prompted] = []
        self.unsaid = 0
        self._due: dict[TurnId, list[_Due]] = {}

    def expect(self, turn: TurnId, number: int, blocks: Iterable[Input]) -> None:
        """Add the messages that the request of that round contained first."""
        self._due.setdefault(turn, []).extend(_Due(number, block) for block in blocks)

    def until(self, turn: TurnId, number: int) -> list[Input]:
        """Remove and return the messages to send before the request of that round."""
        due = self._due.get(turn, [])
        self._due[turn] = [one for one in due if one.round > number]
        return [one.block for one in due if one.round <= number]

    def left_over(self, turn: TurnId) -> list[str]:
        """Remove the turn's unsent messages; return the follow-ups, which can open a turn, and count the rest."""
        left = [one.block for one in self._due.pop(turn, [])]
        texts = [block.text for block in left if isinstance(block, Followup) and isinstance(block.text, str)]
        self.unsaid += len(left) - len(texts)
        return texts


async def say_again(store: Store, tenant: str, record: Iterable[Entry]) -> Said:
    """Return the messages and events of these entries."""
    said, waiting, rounds = Said(), dict[TurnId, list[Input]](), dict[TurnId, int]()
    for entry in record:
        turn = entry.turn_id
        match entry.block:
            case UserPrompt() | Attachment() | AttachmentMeta() as block:
                _open(said, turn, await with_payloads(store, tenant, block))
            case Followup() | Steer() | ExternalEvent() as block:
                waiting.setdefault(turn, []).append(await with_payloads(store, tenant, block))
            case ModelCalled(purpose="decision", round=number):
                rounds[turn] = number
                said.expect(turn, number, waiting.pop(turn, []))
            case _:
                pass
    for turn, blocks in waiting.items():
        said.expect(turn, rounds.get(turn, 0) + 1, blocks)
    return said


class SayingAgain:
    """Builds prompts after appending the recorded messages that are due before each of them."""

    def __init__(self, prompter: Prompter, said: Said, interrupt: asyncio.Event) -> None:
        self._prompter = prompter
        self._said = said
        self._interrupt = interrupt

    async def prompt(self, session: Session, step: AskModel) -> Prompt:
        """Append the messages that are due, then return the prompt at the tail."""
        turn = session.views.progress.turn_id
        for block in self._said.until(turn, step.round):
            await session.append([block], turn)
            # A steer or a cancellation takes effect before the model is called.
            if not isinstance(block, Followup):
                self._interrupt.set()
        return await self._prompter.prompt(session, step)


def _open(said: Said, turn: TurnId, block: UserPrompt | Attachment | AttachmentMeta) -> None:
    known = said.prompts[-1] if said.prompts and said.prompts[-1].turn_id == turn else None
    match block:
        case UserPrompt(text=text) if known is None and isinstance(text, str):
            said.prompts.append(Prompted(turn, text))
        case Attachment() | AttachmentMeta() if known is not None:
            said.prompts[-1] = Prompted(turn, known.text, (*known.attachments, block))
        case _:
            pass
