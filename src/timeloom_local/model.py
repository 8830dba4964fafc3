"""Implements the model port: rules and a router choose the action, the small model writes its text."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace

from timeloom.core.blocks import Usage
from timeloom.core.render.title import title_from_words
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, ModelRequest, TextPiece
from timeloom.ports.reply_pieces import ReplyPieces
from timeloom_local import grammar, prompts
from timeloom_local.engine import GenerationEnd, GenerationRequest, LlamaEngine
from timeloom_local.planner import plan_reply
from timeloom_local.read_catalogue import read_catalogue
from timeloom_local.read_prompt import read_prompt
from timeloom_local.reply import Parts, Slot
from timeloom_local.routing.embeddings import SentenceModel
from timeloom_local.routing.router import Router
from timeloom_local.slots import SlotText
from timeloom_local.weights import router_weights, writer_weights

WINDOW_TOKENS: Final = 128_000
"""Context window to report. The model reads only a few parts of any prompt, so this bounds only the conversation."""

PIECE_CHARS: Final = 60
"""Length of the pieces of text that rules write. Most replies have no other text, and a reply is streamed in pieces."""


class LocalModel:
    """A demo model: every reply is well-formed, and the same request gets the same reply."""

    def __init__(self, engine: LlamaEngine | None = None) -> None:
        writer_weights()
        router_weights()
        self._engine = engine or LlamaEngine()
        self._is_closed = False
        self._router: Router | None = None
        self._router_lock = asyncio.Lock()

    @property
    def name(self) -> str:
        return "local"

    @property
    def window_tokens(self) -> int:
        return WINDOW_TOKENS

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if self._is_closed:
            raise ModelError("invalid", "the local model was closed")
        usage, whole = Usage(), ReplyPieces(request)
        for part in await self._parts(request):
            if isinstance(part, str):
                for start in range(0, len(part), PIECE_CHARS):
                    for event in whole.take(TextPiece(part[start : start + PIECE_CHARS])):
                        yield event
                continue
            slot_text = SlotText(part)
            tokens = min(part.generation.max_tokens, request.max_output_tokens)
            async with aclosing(self._engine.write(replace(part.generation, max_tokens=tokens))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, GenerationEnd):
                        text = slot_text.close(is_complete=piece.whole)
                        usage = Usage(
                            input_tokens=usage.input_tokens + piece.prompt_tokens,
                            output_tokens=usage.output_tokens + piece.output_tokens,
                        )
                    else:
                        text = slot_text.feed(piece)
                    for event in whole.take(TextPiece(text)) if text else ():
                        yield event
        for event in whole.take(FinishEvent("end", usage, "SmolLM2-135M-Instruct")):
            yield event

    def price_nano_usd(self, usage: Usage) -> int:
        """Return 0, because the model runs on this machine."""
        return 0

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.to_thread(self._engine.close)

    async def _parts(self, request: ModelRequest) -> Parts:
        match request.purpose:
            case "decision":
                return await asyncio.to_thread(self._plan_reply, request, await self._load_router())
            case "title":
                # SmolLM2 invents topics: it titled "What can you do?" with "What can you do with baking without yeast".
                return (title_from_words(request.opening),)
            case "compaction":
                text = read_prompt(request).message or request.opening
                generation = GenerationRequest(
                    prompt=prompts.for_summary(text), grammar=grammar.sentence(400), max_tokens=90
                )
        return (Slot(generation=generation, form="raw"),)

    async def _load_router(self) -> Router:
        async with self._router_lock:
            if self._router is None:
                sentences = await asyncio.to_thread(SentenceModel, router_weights())
                self._router = Router(sentences)
        return self._router

    def _plan_reply(self, request: ModelRequest, router: Router) -> Parts:
        return plan_reply(read_prompt(request), read_catalogue(request.system), router)
