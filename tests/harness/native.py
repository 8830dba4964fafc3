"""Harness for native tool calling: the real adapters against a service on loopback that streams tool calls."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from tests.harness.turn import TurnHarness
from timeloom.core.blocks import ModelCalled
from timeloom.core.policy.next_step import TurnLimits
from timeloom.ports.model import Model
from timeloom.providers.anthropic.model import AnthropicModel
from timeloom.providers.openai.model import OpenAIModel
from timeloom.providers.settings import ModelSettings
from timeloom.testing.fake_service import FakeResponse, FakeService, Stall, fake_service

Dialect = Literal["anthropic", "openai"]
DIALECTS: Final[tuple[Dialect, ...]] = ("anthropic", "openai")


class NativeSaid(msgspec.Struct, frozen=True, kw_only=True):
    """A reply: thinking, text and calls, each a name and the text of its arguments, and the way it ends."""

    thinking: str = ""
    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    limit: bool = False
    """Whether it reached its length limit."""
    ending: Literal["whole", "cut", "stall"] = "whole"


def said(*calls: tuple[str, str | dict[str, object]], text: str = "", thinking: str = "") -> NativeSaid:
    """Return a whole reply."""
    written = [(name, one if isinstance(one, str) else json.dumps(one)) for name, one in calls]
    return NativeSaid(text=text, calls=written, thinking=thinking)


class NativeHarness(TurnHarness):
    """A conversation in memory whose model is behind HTTP."""

    def __init__(self, tmp_path: Path, model: Model, service: FakeService, limits: TurnLimits | None = None) -> None:
        super().__init__(tmp_path, limits=limits)
        self.model, self.service = model, service
        self.setting = replace(self.setting, protocol="native")

    @property
    def bodies(self) -> list[dict[str, object]]:
        """The bodies of the requests so far."""
        return [json.loads(one.body) for one in self.service.requests]


@asynccontextmanager
async def native_stage(
    tmp_path: Path, dialect: Dialect, *replies: NativeSaid, limits: TurnLimits | None = None, edition: int = 1
) -> AsyncGenerator[NativeHarness]:
    """Yield the harness of a service that gives these replies in order."""
    frames = _anthropic_frames if dialect == "anthropic" else _openai_frames
    async with fake_service(*(_response(frames(one), one) for one in replies)) as service:
        model: Model = (
            AnthropicModel("m", ModelSettings(base_url=service.url, key="k"))
            if dialect == "anthropic"
            else OpenAIModel("m", ModelSettings(base_url=f"{service.url}/v1", key="k"))
        )
        try:
            stage = NativeHarness(tmp_path, model, service, limits)
            stage.setting = replace(stage.setting, edition=edition)
            yield stage
        finally:
            await model.close()


def tools_of(calls: Sequence[ModelCalled]) -> set[object]:
    """Return the different lists of tools that the calls recorded."""
    return {one.tools for one in calls}


def _response(frames: list[bytes], reply: NativeSaid) -> FakeResponse:
    if reply.ending == "whole":
        return FakeResponse(parts=frames)
    # The last frame would end the reply.
    kept = frames[:-2]
    return FakeResponse(parts=[*kept, Stall()]) if reply.ending == "stall" else FakeResponse(parts=kept, ending="cut")


def _anthropic_frames(reply: NativeSaid) -> list[bytes]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    events: list[dict[str, object]] = [{"type": "message_start", "message": {"model": "m-1", "usage": usage}}]
    blocks: list[tuple[dict[str, object], list[dict[str, object]]]] = []
    if reply.thinking:
        delta: dict[str, object] = {"type": "thinking_delta", "thinking": reply.thinking}
        blocks.append(({"type": "thinking", "thinking": ""}, [delta]))
    if reply.text:
        pieces = (reply.text[:3], reply.text[3:])
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": one} for one in pieces]))
    for n, (name, text) in enumerate(reply.calls):
        half = len(text) // 2
        deltas: list[dict[str, object]] = [
            {"type": "input_json_delta", "partial_json": one} for one in ("", text[:half], text[half:])
        ]
        blocks.append(({"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": {}}, deltas))
    for n, (start, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": n, "content_block": start})
        events.extend({"type": "content_block_delta", "index": n, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": n})
    reason = "max_tokens" if reply.limit else "tool_use" if reply.calls else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return [_frame(event) for event in events]


def _openai_frames(reply: NativeSaid) -> list[bytes]:
    deltas: list[dict[str, object]] = [{"role": "assistant"}]
    if reply.thinking:
        deltas.append({"reasoning_content": reply.thinking})
    if reply.text:
        deltas.extend({"content": piece} for piece in (reply.text[:3], reply.text[3:]))
    for n, (name, text) in enumerate(reply.calls):
        half = len(text) // 2
        function = {"name": name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": n, "id": f"call_{n}", "type": "function", "function": function}]})
        pieces = (text[:half], text[half:])
        deltas.extend({"tool_calls": [{"index": n, "function": {"arguments": one}}]} for one in pieces)
    reason = "length" if reply.limit else "tool_calls" if reply.calls else "stop"
    chunks: list[dict[str, object]] = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    usage = {"prompt_tokens": 9, "completion_tokens": 7}
    chunks.append({"model": "m-1", "choices": [{"delta": {}, "finish_reason": reason}], "usage": usage})
    return [*map(_frame, chunks), b"data: [DONE]\n\n"]


def _frame(event: dict[str, object]) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
