"""The model adapter for Amazon Bedrock's Converse API. It was never tried against the live service."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final
from urllib.parse import quote

from timeloom.core.blocks import Usage
from timeloom.platform.secrets import resolve_key
from timeloom.ports.clock import Clock
from timeloom.ports.model import ModelEvent, ModelRequest
from timeloom.providers.bedrock.access import KEY_VARIABLE, URL_VARIABLE, BedrockAccess
from timeloom.providers.bedrock.event_stream import MEDIA_TYPE, AwsEventDecoder
from timeloom.providers.bedrock.reply import BedrockReplyParser
from timeloom.providers.bedrock.request import request_body
from timeloom.providers.prices import Cost, Prices
from timeloom.providers.settings import ModelSettings
from timeloom.providers.streaming_request import ModelService, ServiceClient, ServiceRequest, StreamFormat

TITLE: Final = "Amazon Bedrock"
WINDOW_TOKENS: Final = 200_000
PRICE_PROVIDER: Final = "aws"


class BedrockModel:
    """A model of Amazon Bedrock: a model id, the id of an inference profile, or the ARN of one."""

    def __init__(
        self,
        model: str,
        settings: ModelSettings | None = None,
        clock: Clock | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Take the region and credentials from AWS's configuration; a key is an API key of Bedrock."""
        settings = settings or ModelSettings()
        environ = os.environ if environ is None else environ
        key = settings.key or environ.get(KEY_VARIABLE, "").strip() or None
        base_url = settings.base_url or environ.get(URL_VARIABLE, "").strip() or None
        self._access = BedrockAccess(environ, key and resolve_key(key, environ), base_url)
        self._model = model
        self._window_tokens = settings.window_tokens or WINDOW_TOKENS
        self._prices = Prices(settings.prices)
        # An ARN contains slashes and colons, which belong to one part of the path.
        self._url = f"{self._access.base_url}/model/{quote(model, safe='')}/converse-stream"
        service = ModelService(
            name=TITLE,
            url=self._url,
            headers={},
            secret=self._access.key or "",
            timeouts=settings.timeouts,
            http_client=settings.http_client,
            format=StreamFormat(MEDIA_TYPE, AwsEventDecoder),
        )
        self._client = ServiceClient(service, clock)

    @property
    def name(self) -> str:
        return f"bedrock:{self._model}"

    @property
    def window_tokens(self) -> int:
        return self._window_tokens

    @property
    def native_tools(self) -> bool:
        return True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self._prices.preload_library()
        body = request_body(self._model, request)
        # Signed for each request, because a signature is valid for five minutes.
        headers = await asyncio.to_thread(self._access.sign, self._url, body)
        service_request = ServiceRequest(request=request, body=body, headers=headers, cost=self._cost)
        async with aclosing(self._client.stream_reply(service_request, BedrockReplyParser(TITLE))) as events:
            async for event in events:
                yield event

    def price_nano_usd(self, usage: Usage) -> int | None:
        cost = self._cost(usage)
        return cost.nano_usd if cost.known else None

    async def close(self) -> None:
        await self._client.close()

    def _cost(self, usage: Usage) -> Cost:
        return self._prices.cost(self.name, usage, provider=PRICE_PROVIDER)
