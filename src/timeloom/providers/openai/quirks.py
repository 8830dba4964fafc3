"""The differences between services that offer chat completions: what a request may contain, and how it is addressed."""

from typing import Final, Literal
from urllib.parse import quote

import msgspec


class ChatQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a chat completions request that services disagree about."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_options: bool = True
    """Whether the request asks for usage with `stream_options`; others report it unasked or reject the field."""
    parallel_tool_calls: bool = False
    """Whether the service knows the parameter; others may reject it."""


OPENAI_QUIRKS: Final = ChatQuirks(max_tokens_field="max_completion_tokens", parallel_tool_calls=True)
COMPATIBLE_QUIRKS: Final = ChatQuirks()


class ChatService(msgspec.Struct, frozen=True, kw_only=True):
    """A service with chat completions: its names, its quirks, and where its prices are found."""

    prefix: str
    """The prefix of its model names."""
    title: str
    """Its name in messages."""
    quirks: ChatQuirks = COMPATIBLE_QUIRKS
    price_provider: str = ""
    """Its id in genai-prices; empty looks the price up by URL."""
    window_tokens: int = 128_000
    key_header: Literal["authorization", "api-key"] = "authorization"
    deployment_version: str = ""
    """The `api-version` of a service whose URLs name a deployment, as Azure's do; empty for all others."""
    call_headers: bool = True
    """Whether requests carry the headers that identify the call to a test endpoint or a local service."""

    def request_url(self, base_url: str, model: str) -> str:
        """Return the URL of a request for this model."""
        if not self.deployment_version:
            return f"{base_url}/chat/completions"
        version = quote(self.deployment_version, safe="")
        deployment = quote(model, safe="")
        return f"{base_url}/openai/deployments/{deployment}/chat/completions?api-version={version}"

    def key_headers(self, key: str | None) -> dict[str, str]:
        """Return the header with the key; none without a key."""
        if not key:
            return {}
        return {"api-key": key} if self.key_header == "api-key" else {"authorization": f"Bearer {key}"}
