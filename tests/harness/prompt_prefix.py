"""Checks that the cacheable part of each prompt extends the previous one of the conversation."""

from typing import Final

from timeloom.core.render.segments import RenderedSegment, is_byte_prefix
from timeloom.runtime.session.session import Session


class PromptPrefixCheck:
    """A prompt observer that fails if a prompt changes bytes that were sent before.

    Only a turn with another edition, or a recorded act that hides, prunes, summarizes or erases, may change them. An
    act counts even if all that it replaces are stubs of earlier acts. Failures are also kept, because a server catches
    what a turn raises.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._last: dict[str, tuple[tuple[RenderedSegment, ...], tuple[int, int, int]]] = {}

    def __call__(self, session: Session, segments: tuple[RenderedSegment, ...]) -> None:
        # Entries of nested calls are gone from the start; they name their own call and not a later act.
        acts = (by for seq, by in session.views.visible.gone.items() if by > seq)
        forgotten = max(acts, default=0), session.views.conversation.erased, session.views.turns.edition
        before, was_forgotten = self._last.get(session.conversation, ((), forgotten))
        self._last[session.conversation] = (segments, forgotten)
        if forgotten == was_forgotten and not is_byte_prefix(before, segments):
            self.failures.append(f"a prompt changed what was sent before, at entry {session.views.tail}")
            raise AssertionError(self.failures[-1])

    @property
    def observed(self) -> frozenset[str]:
        """The conversations whose prompts were observed since the last reset."""
        return frozenset(self._last)

    def reset(self) -> None:
        """Forget all prompts and failures, because tests reuse conversation ids."""
        self.failures.clear()
        self._last.clear()


PREFIX_CHECK: Final = PromptPrefixCheck()
"""The observer of all prompts of the suite; tests that build a `PromptBuilder` pass it themselves."""
