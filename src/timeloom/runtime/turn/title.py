"""Generates a conversation's title after its first turn, by a model or from the first words of the user."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

from timeloom.core.blocks import AnyBlock, Completion, EndReason, Gate, Titled
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.policy.gates import PolicyResult
from timeloom.core.policy.titling import find_first_turn, needs_title
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.title import MAX_REPLY_CHARS, clean_title, title_from_words
from timeloom.ports.model import FinishEvent, Model
from timeloom.runtime.governance.governor import Governor
from timeloom.runtime.model_calls.side_call import SideCall, SideReply, make_side_call
from timeloom.runtime.prompt.instructions.load import load_side_instructions
from timeloom.runtime.session.session import Session

MAX_OUTPUT_TOKENS: Final = 64
"""Maximum tokens of a reply; a title has about ten."""

DEADLINE_S: Final = 20.0
"""How long a model may take. Smaller times out models that think first; larger leaves lists without a title longer."""

GRACE_S: Final = 2.0
"""How long an interrupted call may take to stop; then it is cancelled unrecorded and the next turn begins."""

_logger = logging.getLogger(__name__)


class TitleGenerator:
    """Generates the title of one conversation; failures never delay or end a turn."""

    def __init__(
        self,
        session: Session,
        model: Model | None = None,
        *,
        governor: Governor | None = None,
        deadline_s: float = DEADLINE_S,
        grace_s: float = GRACE_S,
    ) -> None:
        self._session = session
        self._model = model
        self._governor = governor or Governor(session=session)
        self._deadline_s = deadline_s
        self._grace_s = grace_s
        self._interrupt = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def title_at_end(self, reason: EndReason) -> tuple[Titled, ...]:
        """Return the title block to store with the end of a turn if no model is needed, else nothing."""
        known = self._session.views.conversation
        if self._model or reason == "runtime_error" or known.title or known.erased:
            return ()
        title = title_from_words(self._session.first_user_message)
        return (Titled(text=title),) if title else ()

    async def start(self) -> None:
        """Start generating the title if one is wanted; a model call runs in the background."""
        if self._running is not None or not needs_title(self._session.views):
            return
        if self._model is None:
            await _log_errors(self._generate())
            return
        self._interrupt.clear()
        self._running = asyncio.create_task(
            _log_errors(self._generate()), name=f"title of {self._session.conversation}"
        )
        self._running.add_done_callback(self._done)

    async def finish(self) -> None:
        """Generate the title if one is wanted, and wait until that is done."""
        await self.start()
        if self._running is not None:
            await asyncio.wait({self._running})

    async def stop(self) -> None:
        """Stop a title call in progress, because the next turn must not wait for it."""
        self._interrupt.set()
        if self._running is not None:
            _, pending = await asyncio.wait({self._running}, timeout=self._grace_s)
            for stuck in pending:
                stuck.cancel()

    def _done(self, _: asyncio.Task[None]) -> None:
        self._running = None

    async def _generate(self) -> None:
        turn, message = self._session.views.turns.newest, self._session.first_user_message
        fallback = title_from_words(message)
        answer = await self._load_first_answer() if self._model or not fallback else ""
        fallback = fallback or title_from_words(answer)
        if self._model is None or self._interrupt.is_set():
            await self._append([], fallback, turn)
        elif fallback:
            await self._ask_model(
                self._model,
                turn,
                renderer_for(self._session.views.turns.edition).title_request(message, answer),
                fallback,
            )

    async def _ask_model(self, model: Model, turn: TurnId, tail: str, fallback: str) -> None:
        side = SideCall(
            purpose="title",
            result_name="title",
            turn=turn,
            key=f"title/{turn}",
            system=load_side_instructions(self._session.views.turns.edition)["title"],
            tail=tail,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            max_reply_chars=MAX_REPLY_CHARS,
            deadline_s=self._deadline_s,
            interrupted_reason="the next turn began",
        )
        match await make_side_call(self._session, self._governor, model, side, self._interrupt):
            case PolicyResult(policy=policy, text=text):
                await self._append([Gate(policy=policy, verdict="refuse", text=text)], fallback, turn)
            case SideReply(text=text, ending=ending, outcome=outcome):
                title = clean_title(text) if isinstance(ending, FinishEvent) else ""
                await self._append([outcome], title or fallback, turn)

    async def _append(self, blocks: list[AnyBlock], title: str, turn: TurnId) -> None:
        # A person may have set a title meanwhile.
        if title and not self._session.views.conversation.title:
            blocks = [*blocks, Titled(text=title)]
        if blocks:
            await self._session.append(blocks, turn)

    async def _load_first_answer(self) -> str:
        """Return the answer to the conversation's first message; empty if there is none."""
        session = self._session
        turn = find_first_turn(session.views)
        seqs = session.views.paths.find(f"ar:{turn}.assistant.completion")
        for entry in await session.entries(seqs[-1:]):
            if isinstance(entry.block, Completion):
                with suppress(CodedError):
                    return await session.text(entry.block.text)
        return ""


async def _log_errors(work: Coroutine[object, object, None]) -> None:
    try:
        await work
    except CodedError as error:
        _logger.info("a title could not be generated: %s", error)
    except Exception:
        _logger.exception("a title could not be generated")
