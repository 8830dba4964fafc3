"""Resumes the turns that were left open when a process ended."""

import logging
from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from timeloom.core.blocks import EndReason
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.leases import ConversationHeldError
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import Store
from timeloom.runtime.turn.loop import TurnRunner

DEFAULT_CONCURRENCY: Final = 8
"""Number of turns resumed concurrently. Fewer leave models idle; more may exceed the provider's rate limit."""

PAGE: Final = 1000
"""Conversations listed per request to the store."""

_logger = logging.getLogger(__name__)


class OpenTurnEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The turn has ended, with the reason."""

    conversation: ConversationId
    reason: EndReason


class OpenTurnWaiting(msgspec.Struct, frozen=True, tag="waiting"):
    """The turn waits for a person's decision."""

    conversation: ConversationId


class OpenTurnHeld(msgspec.Struct, frozen=True, tag="held"):
    """Another process holds the conversation and is responsible for its turn."""

    conversation: ConversationId
    by: str
    since: str


class OpenTurnFailed(msgspec.Struct, frozen=True, tag="failed", omit_defaults=True):
    """The turn could not be resumed and stays open; `code` is one of `core/codes.py`, or empty."""

    conversation: ConversationId
    message: str
    code: str = ""


ResumeResult = OpenTurnEnded | OpenTurnWaiting | OpenTurnHeld | OpenTurnFailed
"""The result of resuming the open turn of a conversation."""

OpenTurnRunner = Callable[[ConversationId], Awaitable[TurnRunner]]
"""Opens a conversation and returns its turn runner; raises `ConversationHeldError` if another process holds it."""


async def resume_open_turns(
    store: Store,
    open_runner: OpenTurnRunner,
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    on_result: Callable[[ResumeResult], None] | None = None,
) -> list[ResumeResult]:
    """Resume every open turn of the store that no process holds; return the results in order of completion.

    A failure in one conversation does not affect the others. `on_result` is called with each result at once.
    """
    outcomes: list[ResumeResult] = []

    async def work(left: Iterator[ConversationId]) -> None:
        for conversation in left:
            outcome = await _resume_conversation(conversation, open_runner)
            if outcome:
                outcomes.append(outcome)
                if on_result:
                    on_result(outcome)

    # All workers share one iterator: each takes the next conversation when it has finished one.
    left = iter(await _list_open_turns(store))
    async with TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work(left))
    return outcomes


async def _list_open_turns(store: Store) -> list[ConversationId]:
    found: list[ConversationId] = []
    while page := await store.open_turns(after=found[-1] if found else "", limit=PAGE):
        found += page
    return found


async def _resume_conversation(conversation: ConversationId, open_runner: OpenTurnRunner) -> ResumeResult | None:
    """Resume the conversation's turn and return the result; None if the conversation was deleted meanwhile."""
    try:
        return await _resume_turn(conversation, await open_runner(conversation))
    except ConversationHeldError as error:
        return OpenTurnHeld(conversation, error.by.rstrip(","), error.since)
    except ConversationUnknownError:
        return None
    except CodedError as error:
        _logger.warning("the open turn of %s cannot be resumed: %s", conversation, error)
        return OpenTurnFailed(conversation, str(error), error.code)
    except Exception as error:
        _logger.exception("the open turn of %s cannot be resumed", conversation)
        return OpenTurnFailed(conversation, f"unexpected {type(error).__name__}; see the log for details")


async def _resume_turn(conversation: ConversationId, runner: TurnRunner) -> ResumeResult:
    try:
        outcome = await runner.resume()
        await runner.ensure_title()
    finally:
        await runner.titles.stop()
        await runner.session.close()
    return OpenTurnWaiting(conversation) if outcome == "waiting" else OpenTurnEnded(conversation, outcome)
