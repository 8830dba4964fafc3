"""Saying again: what a user and the outside said in a record, said at the same places of a re-run."""

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
    """What opened a turn."""

    turn_id: TurnId
    text: str
    attachments: tuple[AttachmentMeta | Attachment, ...] = ()


class _Due(msgspec.Struct, frozen=True):
    """Something said while a turn ran, and the round whose request was the first to have it."""

    round: int
    block: Input


class Said:
    """The prompts of a record in order, and what was said in its turns."""

    def __init__(self) -> None:
        self.prompts: list[Prompted] = []
        self.unsaid = 0
        self._due: dict[TurnId, list[_Due]] = {}

    def expect(self, turn: TurnId, number: int, blocks: Iterable[Input]) -> None:
        """Takes in what the request of that round had first."""
        self._due.setdefault(turn, []).extend(_Due(number, block) for block in blocks)

    def until(self, turn: TurnId, number: int) -> list[Input]:
        """What is to be said before the request of that round; it is not given again."""
        due = self._due.get(turn, [])
        self._due[turn] = [one for one in due if one.round > number]
        return [one.block for one in due if one.round <= number]

    def left_over(self, turn: TurnId) -> list[str]:
        """What was not said before the turn ended and can open one of its own; the rest is counted as unsaid."""
        left = [one.block for one in self._due.pop(turn, [])]
        texts = [block.text for block in left if isinstance(block, Followup) and isinstance(block.text, str)]
        self.unsaid += len(left) - len(texts)
        return texts


async def say_again(store: Store, tenant: str, record: Iterable[Entry]) -> Said:
    """What is said in these entries of a conversation."""
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
    """Makes prompts, each after what the record has before it was said."""

    def __init__(self, prompter: Prompter, said: Said, interrupt: asyncio.Event) -> None:
        self._prompter = prompter
        self._said = said
        self._interrupt = interrupt

    async def prompt(self, session: Session, step: AskModel) -> Prompt:
        """The prompt at the tail, with what is said before it."""
        turn = session.views.progress.turn_id
        for block in self._said.until(turn, step.round):
            await session.append([block], turn)
            # Whoever stops the turn, or turns it, is heard before the model is asked.
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
