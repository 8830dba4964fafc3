"""The model adapter for Anthropic's messages API."""

from collections.abc import AsyncGenerator
from typing import Final

from timeloom.core.blocks import Usage
from timeloom.ports.clock import Clock
from timeloom.ports.model import ModelEvent, ModelRequest
from timeloom.providers.anthropic.reply import AnthropicReplyParser
from timeloom.providers.anthropic.request import request_body
from timeloom.providers.prices import Cost, Prices
from timeloom.providers.settings import ModelSettings
from timeloom.providers.streaming_request import ModelService, ServiceClient, ServiceRequest, call_headers

OFFICIAL: Final = "https://api.anthropic.com"
API_VERSION: Final = "2023-06-01"
WINDOW_TOKENS: Final = 200_000


class AnthropicModel:
    """A model behind Anthropic's messages API, at Anthropic or at a compatible service."""

    def __init__(self, model: str, settings: ModelSettings | None = None, clock: Clock | None = None) -> None:
        settings = settings or ModelSettings()
        url = (settings.base_url or OFFICIAL).rstrip("/").removesuffix("/v1")
        self._model = model
        self._is_official = url == OFFICIAL
        self._window_tokens = settings.window_tokens or WINDOW_TOKENS
        self._prices = Prices(settings.prices)
        headers = {"anthropic-version": API_VERSION}
        if settings.key:
            headers["x-api-key"] = settings.key
        service = ModelService(
            name="Anthropic" if self._is_official else "the Anthropic-compatible service",
            url=f"{url}/v1/messages",
            headers=headers,
            secret=settings.key or "",
            timeouts=settings.timeouts,
            http_client=settings.http_client,
        )
        self._service_name = service.name
        self._client = ServiceClient(service, clock)

    @property
    def name(self) -> str:
        return f"anthropic:{self._model}"

    @property
    def window_tokens(self) -> int:
        return self._window_tokens

    @property
    def native_tools(self) -> bool:
        return True

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self._prices.preload_library()
        headers = {} if self._is_official else call_headers(request)
        service_request = ServiceRequest(
            request=request, body=request_body(self._model, request), headers=headers, cost=self._cost
        )
        parser = AnthropicReplyParser(self._service_name, with_tools=bool(request.tools))
        return self._client.stream_reply(service_request, parser)

    def price_nano_usd(self, usage: Usage) -> int | None:
        cost = self._cost(usage)
        return cost.nano_usd if cost.known else None

    async def close(self) -> None:
        await self._client.close()

    def _cost(self, usage: Usage) -> Cost:
        return self._prices.cost(self.name, usage)
