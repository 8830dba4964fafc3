"""The model request of a round, and the interface of its builder."""

from typing import Protocol

import msgspec

from timeloom.core.blocks.caching import CacheForecast
from timeloom.core.policy.next_step import AskModel
from timeloom.ports.model import ModelRequest
from timeloom.runtime.session.session import Session


class PromptRequest(msgspec.Struct, frozen=True):
    """A model request with the parts that are recorded so that it can be rebuilt."""

    request: ModelRequest
    sha256: str
    system: str
    tail: str
    seq: int
    """The last entry that the prompt contains; the call records this number, and is appended only right after it."""
    estimated_tokens: int = 0
    """The estimated tokens of the whole request."""
    cache: CacheForecast | None = None
    """The cache points, and the expected use of the provider's cache."""
    sections: str = ""
    """The sections of the system text with their versions."""
    tools: str = ""
    """The text of the functions of native tool calling; empty with channels."""


class PromptSource(Protocol):
    """Builds the prompt of a round from the conversation."""

    async def build_prompt(self, session: Session, step: AskModel) -> PromptRequest:
        """Return the prompt at the current tail."""
        ...
