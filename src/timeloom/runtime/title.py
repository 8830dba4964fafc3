"""The title of a conversation, given once its first turn has ended: by a model, or by the first words of its user."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

from timeloom.core.blocks import AnyBlock, Completion, Gate, ModelCalled, Titled
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.core.policy.gates import ModelStep, Ruling
from timeloom.core.policy.titling import first_turn, wants_title
from timeloom.core.render.title import MAX_REPLY_CHARS, clean_title, first_words, title_tail
from timeloom.core.tokens import estimate
from timeloom.ports.model import Finished, Model, ModelError, ModelRequest, TextSegment
from timeloom.runtime.costs import is_priced, model_cost, model_most, with_guess
from timeloom.runtime.govern import Admission, Governor
from timeloom.runtime.hear_reply import Ending, hear_reply, outcome_of, unless
from timeloom.runtime.load_texts import load_texts
from timeloom.runtime.prompting import request_sha256
from timeloom.runtime.session import Session

MAX_OUTPUT_TOKENS: Final = 64
"""Most tokens of a reply; a title has about ten."""

DEADLINE_S: Final = 20.0
"""How long a model may take. Smaller gives up on models that think first; larger leaves a list without a title."""

GRACE_S: Final = 2.0
"""How long a call that is given up may take to let go; then nothing of it is recorded any more, and the turn begins."""

_logger = logging.getLogger(__name__)


class Titling:
    """Gives one conversation its title; whatever goes wrong, no turn is kept waiting and none ends."""

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

    async def begin(self) -> None:
        """Gives the title, if there is to be one; where a model is asked for it, beside whatever comes next."""
        if self._running is not None or not wants_title(self._session.views):
            return
        if self._model is None:
            await _quietly(self._give())
            return
        self._interrupt.clear()
        self._running = asyncio.create_task(_quietly(self._give()), name=f"title of {self._session.conversation}")
        self._running.add_done_callback(self._done)

    async def settle(self) -> None:
        """Gives the title, if there is to be one, and returns when that is done."""
        await self.begin()
        if self._running is not None:
            await asyncio.wait({self._running})

    async def give_up(self) -> None:
        """Ends a call that is under way: somebody is waiting for more than a title."""
        self._interrupt.set()
        if self._running is not None:
            _, pending = await asyncio.wait({self._running}, timeout=self._grace_s)
            for stuck in pending:
                stuck.cancel()

    def _done(self, _: asyncio.Task[None]) -> None:
        self._running = None

    async def _give(self) -> None:
        turn, message = self._session.views.turns.newest, self._session.opening
        fallback = first_words(message)
        answer = await self._answer() if self._model or not fallback else ""
        fallback = fallback or first_words(answer)
        if self._model is None or self._interrupt.is_set():
            await self._append([], fallback, turn)
        elif fallback:
            await self._ask(self._model, turn, title_tail(message, answer), fallback)

    async def _ask(self, model: Model, turn: TurnId, tail: str, fallback: str) -> None:
        session, system = self._session, load_texts()["title"]
        call = ModelCalled(
            # The call belongs to no round; it follows the last.
            round=max(1, session.views.progress.round),
            model=model.name,
            request_sha256=request_sha256(system, "", tail),
            purpose="title",
            system=system,
            tail=tail,
            estimated_tokens=estimate(system) + estimate(tail),
        )
        request = ModelRequest(
            system=system,
            segments=(TextSegment(tail),),
            purpose="title",
            max_output_tokens=MAX_OUTPUT_TOKENS,
            system_cache_point=False,
            number=session.views.spend.outcomes.get("title", 0),
            opening=session.opening,
        )
        admission = await self._admission(model, call, turn)
        if admission.ruling.verdict != "allow":
            # Nobody is asked about a title: there is one without the model.
            gate = Gate(policy=admission.ruling.policy, verdict="refuse", text=admission.ruling.text)
            await self._append([gate], fallback, turn)
            return
        async with self._governor.charging(admission) as bill:
            await session.append([call], turn)
            heard = _Heard()
            ending = await self._heard(model, request, heard)
            outcome = with_guess(outcome_of(call, heard.text, ending), call, model)
            bill.cost = model_cost(outcome.usage, rounds=0)
            title = clean_title(heard.text) if isinstance(ending, Finished) else ""
            await self._append([outcome], title or fallback, turn)

    async def _admission(self, model: Model, call: ModelCalled, turn: TurnId) -> Admission:
        step = ModelStep(
            model=model.name, round=call.round, prompt_tokens=call.estimated_tokens, priced=is_priced(model)
        )
        most = model_most(model, call.estimated_tokens, MAX_OUTPUT_TOKENS, rounds=0)
        try:
            async with asyncio.timeout(self._deadline_s):
                admission = await unless(self._interrupt, self._governor.admit(step, f"title/{turn}", most))
        except TimeoutError:
            return Admission(Ruling("refuse", "others were using up a budget", policy="title"))
        return admission or Admission(Ruling("refuse", "the next turn began", policy="title"))

    async def _heard(self, model: Model, request: ModelRequest, heard: "_Heard") -> Ending:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await hear_reply(model, request, heard, self._interrupt)
        except TimeoutError:
            return ModelError("timeout", f"there was no title within {self._deadline_s:g} s")

    async def _append(self, blocks: list[AnyBlock], title: str, turn: TurnId) -> None:
        # Somebody may have given one meanwhile.
        if title and not self._session.views.conversation.title:
            blocks = [*blocks, Titled(text=title)]
        if blocks:
            await self._session.append(blocks, turn)

    async def _answer(self) -> str:
        """The answer to the conversation's first message; empty where there is none."""
        session = self._session
        turn = first_turn(session.views)
        seqs = session.views.paths.find(f"ar:{turn}.assistant.completion")
        for entry in await session.entries(seqs[-1:]):
            if isinstance(entry.block, Completion):
                with suppress(CodedError):
                    return await session.text(entry.block.text)
        return ""


class _Heard:
    """The beginning of a reply; a model that does not stop fills no memory."""

    def __init__(self) -> None:
        self.text = ""

    def take(self, text: str) -> None:
        self.text += text[: MAX_REPLY_CHARS - len(self.text)]

    def think(self, text: str) -> None:
        pass


async def _quietly(work: Coroutine[object, object, None]) -> None:
    try:
        await work
    except CodedError as error:
        _logger.info("a conversation got no title: %s", error)
    except Exception:
        _logger.exception("a conversation got no title")
