"""The scripted model: replies from a list of steps, for tests, demos and benchmarks."""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

from timeloom.core.blocks import Usage
from timeloom.core.blocks.round import CallPurpose
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, ModelRequest, TextPiece, TextSegment
from timeloom.ports.reply_pieces import ReplyPieces
from timeloom.providers.script_file import Scene, Script, Step, StepError, parse_script, read_script

WINDOW_TOKENS: Final = 200_000
CHARACTERS_PER_TOKEN: Final = 4
UNLIMITED_CALLS: Final = 1 << 62

SHOWN_CHARACTERS: Final = 240
"""Characters of a message or a prompt in an error. More would not fit into the recorded outcome of a call."""

_logger = logging.getLogger(__name__)


class ScriptedModel:
    """A model whose n-th call of a purpose gets the n-th step of that purpose; a repeated call gets the same step."""

    def __init__(
        self, script: Script | Sequence[Step | str], *, name: str = "script", window_tokens: int = WINDOW_TOKENS
    ) -> None:
        scenes = [item for item in script if isinstance(item, Scene)]
        steps = tuple(Step(reply=s) if isinstance(s, str) else s for s in script if not isinstance(s, Scene))
        self._scenes = [_SceneSteps(scene) for scene in (*scenes, *([Scene(steps)] if steps or not scenes else []))]
        self._name = name
        self._window_tokens = window_tokens

    @classmethod
    def from_file(cls, path: Path | str, *, name: str = "", window_tokens: int = WINDOW_TOKENS) -> "ScriptedModel":
        """Return the model that a YAML file describes; its default name is that of the file."""
        path = Path(path)
        return cls(read_script(path), name=name or f"script:{path.name}", window_tokens=window_tokens)

    @classmethod
    def from_text(cls, text: str) -> "ScriptedModel":
        """Return the model that this YAML text describes."""
        return cls(parse_script(text))

    @property
    def name(self) -> str:
        return self._name

    @property
    def window_tokens(self) -> int:
        return self._window_tokens

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        step = self._step(request)
        if step.error is not None and step.error != "cut":
            await asyncio.sleep(step.delay_ms / 1000)
            raise ModelError(step.error, f"the script says so: {step.error}")
        pieces = ReplyPieces(request)
        size = step.chunk or max(1, len(step.reply))
        for at in range(0, len(step.reply), size):
            if step.delay_ms:
                await asyncio.sleep(step.delay_ms / 1000)
            for piece in pieces.take(TextPiece(step.reply[at : at + size])):
                yield piece
        for piece in pieces.close():
            yield piece
        # Counted last, because counting a long prompt takes longer than replying.
        usage = step.usage or _estimate_usage(request, step.reply)
        if step.error == "cut":
            raise ModelError("cut", "the script cuts the reply here", usage=usage)
        yield FinishEvent("end", usage, "script")

    async def close(self) -> None:
        pass

    def _step(self, request: ModelRequest) -> Step:
        lists = next((lists for lists in self._scenes if lists.scene.matches(request.opening)), None)
        if lists is None:
            opening = f"{request.opening[:SHOWN_CHARACTERS]!r}"
            raise _missing_reply(f"no `match` of the script suits the conversation's first user message {opening}")
        if step := lists.find_step(request.purpose, request.number):
            return step
        wanted = f"the script has no {request.purpose} reply for call {request.number + 1}"
        # A script without titles is usual: the conversation is then named after its first message.
        expected = request.purpose != "title" or lists.answers("title")
        raise _missing_reply(f"{wanted}; {lists.describe()}; {_prompt_end(request)}", logged=expected)


class _SceneSteps:
    """The steps of a scene by purpose, each with the number of the first call after it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._steps: dict[CallPurpose, list[Step]] = {}
        for step in scene.steps:
            self._steps.setdefault(step.when, []).append(step)
        self._first_call_after = {
            purpose: list(accumulate(UNLIMITED_CALLS if step.repeat is True else step.repeat for step in steps))
            for purpose, steps in self._steps.items()
        }

    def find_step(self, purpose: CallPurpose, number: int) -> Step | None:
        """Return the step of the call, or None if the script ends before it."""
        at = bisect_right(self._first_call_after.get(purpose, []), number)
        steps = self._steps.get(purpose, [])
        return steps[at] if at < len(steps) else None

    def answers(self, purpose: CallPurpose) -> bool:
        """Return whether the script has any step for the purpose."""
        return purpose in self._steps

    def describe(self) -> str:
        """Return how many calls the script answers for each purpose."""
        counts = [
            f"{'all' if calls[-1] >= UNLIMITED_CALLS else calls[-1]} of {purpose}"
            for purpose, calls in self._first_call_after.items()
        ]
        return f"it answers {', '.join(counts) or 'none'}"


def _missing_reply(message: str, *, logged: bool = True) -> ModelError:
    """Return the error for a call that the script does not answer, and log it, so that a failed test shows it."""
    _logger.log(logging.WARNING if logged else logging.DEBUG, "scripted model: %s", message)
    return ModelError("invalid", message)


def _prompt_end(request: ModelRequest) -> str:
    """Return the end of the prompt before its uncached tail, which repeats what each prompt ends with."""
    segments = request.segments[:-1] or request.segments
    texts = [segment.text for segment in segments if isinstance(segment, TextSegment)]
    return f"the prompt ends with {texts[-1].rstrip()[-SHOWN_CHARACTERS:]!r}" if texts else "the prompt has no text"


def _estimate_usage(request: ModelRequest, reply: str) -> Usage:
    """Estimate the usage of a step that defines none, so that token counts are not zero."""
    prompt = len(request.system) + sum(len(s.text) for s in request.segments if isinstance(s, TextSegment))
    return Usage(input_tokens=-(-prompt // CHARACTERS_PER_TOKEN), output_tokens=-(-len(reply) // CHARACTERS_PER_TOKEN))


__all__ = ["Scene", "Script", "ScriptedModel", "Step", "StepError"]
