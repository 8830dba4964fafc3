"""Recovering: the turns that a process left open when it ended are gone on with."""

import logging
from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from timeloom.core.blocks import EndReason
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.leases import HeldError
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import Store
from timeloom.runtime.turn.loop import Turns

AT_ONCE: Final = 8
"""How many turns are gone on with at once. Fewer leave models waiting; more may be refused by their service."""

PAGE: Final = 1000
"""How many conversations are listed at once."""

_logger = logging.getLogger(__name__)


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The turn has ended, for that reason."""

    conversation: ConversationId
    reason: EndReason


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """The turn waits for a person to decide."""

    conversation: ConversationId


class Held(msgspec.Struct, frozen=True, tag="held"):
    """Somebody else holds the conversation, and goes on with its turn or will."""

    conversation: ConversationId
    by: str
    since: str


class Failed(msgspec.Struct, frozen=True, tag="failed", omit_defaults=True):
    """The turn could not be gone on with and is open as before; `code` is one of the registry, where it has one."""

    conversation: ConversationId
    message: str
    code: str = ""


Recovered = Ended | Waiting | Held | Failed
"""What came of the open turn of a conversation."""

Open = Callable[[ConversationId], Awaitable[Turns]]
"""Opens a conversation for who goes on with its turns; raises `HeldError` where somebody else has it."""


async def recover(
    store: Store, open_turns: Open, *, at_once: int = AT_ONCE, tell: Callable[[Recovered], None] | None = None
) -> list[Recovered]:
    """Goes on with every open turn of the store that nobody is at, and says what came of each, in order of their ends.

    What goes wrong in one conversation keeps none of the others. `tell` hears of each as soon as it is known.
    """
    outcomes: list[Recovered] = []

    async def work(left: Iterator[ConversationId]) -> None:
        for conversation in left:
            outcome = await _recovered(conversation, open_turns)
            if outcome:
                outcomes.append(outcome)
                if tell:
                    tell(outcome)

    # One iterator for all: each takes the next as soon as it is done with the last.
    left = iter(await _listed(store))
    async with TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work(left))
    return outcomes


async def _listed(store: Store) -> list[ConversationId]:
    found: list[ConversationId] = []
    while page := await store.open_turns(after=found[-1] if found else "", limit=PAGE):
        found += page
    return found


async def _recovered(conversation: ConversationId, open_turns: Open) -> Recovered | None:
    """What came of that conversation's turn; None where it was deleted meanwhile."""
    try:
        return await _gone_on(conversation, await open_turns(conversation))
    except HeldError as error:
        return Held(conversation, error.by.rstrip(","), error.since)
    except ConversationUnknownError:
        return None
    except CodedError as error:
        _logger.warning("the open turn of %s cannot be gone on with: %s", conversation, error)
        return Failed(conversation, str(error), error.code)
    except Exception as error:
        _logger.exception("the open turn of %s cannot be gone on with", conversation)
        return Failed(conversation, f"an unexpected {type(error).__name__}; the log says where")


async def _gone_on(conversation: ConversationId, turns: Turns) -> Recovered:
    try:
        pause = await turns.go_on()
        await turns.settle()
    finally:
        await turns.titles.give_up()
        await turns.session.close()
    return Waiting(conversation) if pause == "waiting" else Ended(conversation, pause)
