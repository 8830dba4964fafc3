"""Resumes the turns that were left open when a process ended."""

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
"""Number of turns resumed concurrently. Fewer leave models idle; more may exceed the provider's rate limit."""

PAGE: Final = 1000
"""Conversations listed per request to the store."""

_logger = logging.getLogger(__name__)


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The turn has ended, with the reason."""

    conversation: ConversationId
    reason: EndReason


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """The turn waits for a person's decision."""

    conversation: ConversationId


class Held(msgspec.Struct, frozen=True, tag="held"):
    """Another process holds the conversation and is responsible for its turn."""

    conversation: ConversationId
    by: str
    since: str


class Failed(msgspec.Struct, frozen=True, tag="failed", omit_defaults=True):
    """The turn could not be resumed and stays open; `code` is one of `core/codes.py`, or empty."""

    conversation: ConversationId
    message: str
    code: str = ""


Recovered = Ended | Waiting | Held | Failed
"""The result of resuming the open turn of a conversation."""

Open = Callable[[ConversationId], Awaitable[Turns]]
"""Opens a conversation and returns its turn runner; raises `ConversationHeldError` if another process holds it."""


async def recover(
    store: Store, open_turns: Open, *, at_once: int = AT_ONCE, tell: Callable[[Recovered], None] | None = None
) -> list[Recovered]:
    """Resume every open turn of the store that no process holds; return the results in order of completion.

    A failure in one conversation does not affect the others. `on_result` is called with each result at once.
    """
    outcomes: list[Recovered] = []

    async def work(left: Iterator[ConversationId]) -> None:
        for conversation in left:
            outcome = await _recovered(conversation, open_turns)
            if outcome:
                outcomes.append(outcome)
                if tell:
                    tell(outcome)

    # All workers share one iterator: each takes the next conversation when it has finished one.
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
    """Resume the conversation's turn and return the result; None if the conversation was deleted meanwhile."""
    try:
        return await _gone_on(conversation, await open_turns(conversation))
    except HeldError as error:
        return Held(conversation, error.by.rstrip(","), error.since)
    except ConversationUnknownError:
        return None
    except CodedError as error:
        _logger.warning("the open turn of %s cannot be resumed: %s", conversation, error)
        return Failed(conversation, str(error), error.code)
    except Exception as error:
        _logger.exception("the open turn of %s cannot be resumed", conversation)
        return Failed(conversation, f"unexpected {type(error).__name__}; see the log for details")


async def _gone_on(conversation: ConversationId, turns: Turns) -> Recovered:
    try:
        pause = await turns.go_on()
        await turns.settle()
    finally:
        await turns.titles.give_up()
        await turns.session.close()
    return Waiting(conversation) if pause == "waiting" else Ended(conversation, pause)
