"""The model adapter for OpenAI's chat completions API and compatible services."""

from collections.abc import AsyncGenerator
from typing import Final

from timeloom.core.blocks import Usage
from timeloom.ports.clock import Clock
from timeloom.ports.model import ModelEvent, ModelRequest
from timeloom.providers.openai.content import ContentCache
from timeloom.providers.openai.quirks import COMPATIBLE_QUIRKS, OPENAI_QUIRKS, ChatService
from timeloom.providers.openai.reply import OpenAIReplyParser
from timeloom.providers.openai.request import request_body
from timeloom.providers.prices import Cost, Prices
from timeloom.providers.settings import ModelSettings
from timeloom.providers.streaming_request import ModelService, ServiceClient, ServiceRequest, call_headers

OFFICIAL: Final = "https://api.openai.com/v1"

OPENAI: Final = ChatService(
    prefix="openai", title="OpenAI", quirks=OPENAI_QUIRKS, price_provider="openai", call_headers=False
)
COMPATIBLE: Final = ChatService(prefix="openai", title="the OpenAI-compatible service", quirks=COMPATIBLE_QUIRKS)


class OpenAIModel:
    """A model behind chat completions: OpenAI, vLLM, Ollama, llama.cpp or another service at the base URL."""

    def __init__(
        self,
        model: str,
        settings: ModelSettings | None = None,
        clock: Clock | None = None,
        *,
        service: ChatService | None = None,
    ) -> None:
        """Connect at the first request; without `service`, it is OpenAI or, at another base URL, a compatible one."""
        settings = settings or ModelSettings()
        url = (settings.base_url or OFFICIAL).rstrip("/")
        self._model = model
        self._base_url = url
        self._is_official = url == OFFICIAL
        self._service = service or (OPENAI if self._is_official else COMPATIBLE)
        self._window_tokens = settings.window_tokens or self._service.window_tokens
        self._prices = Prices(settings.prices)
        endpoint = ModelService(
            name=self._service.title,
            url=self._service.request_url(url, model),
            headers=self._service.key_headers(settings.key),
            secret=settings.key or "",
            timeouts=settings.timeouts,
            http_client=settings.http_client,
        )
        self._client = ServiceClient(endpoint, clock)
        self._contents = ContentCache()

    @property
    def name(self) -> str:
        return f"{self._service.prefix}:{self._model}"

    @property
    def window_tokens(self) -> int:
        return self._window_tokens

    @property
    def native_tools(self) -> bool:
        return True

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self._prices.preload_library()
        service = self._service
        headers = call_headers(request) if service.call_headers else {}
        body = request_body(
            self._model, request, official=self._is_official, contents=self._contents, quirks=service.quirks
        )
        service_request = ServiceRequest(request=request, body=body, headers=headers, cost=self._cost)
        parser = OpenAIReplyParser(service.title, with_tools=bool(request.tools))
        return self._client.stream_reply(service_request, parser)

    def price_nano_usd(self, usage: Usage) -> int | None:
        cost = self._cost(usage)
        return cost.nano_usd if cost.known else None

    async def close(self) -> None:
        await self._client.close()

    def _cost(self, usage: Usage) -> Cost:
        # Other services have different prices for the same model, and a local machine has none.
        provider = self._service.price_provider
        return self._prices.cost(self.name, usage, api_url=None if provider else self._base_url, provider=provider)
