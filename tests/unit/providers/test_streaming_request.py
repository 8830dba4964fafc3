"""The exchange with a model service: its bounds, and the parts that differ by service."""

import asyncio

import pytest

from timeloom.providers.anthropic.model import AnthropicModel
from timeloom.providers.openai.model import OpenAIModel
from timeloom.providers.settings import ModelSettings
from timeloom.providers.streaming_request import ModelService
from timeloom.testing.fake_service import FakeResponse, Stall, fake_service
from timeloom.testing.model_contract.fixtures import REQUEST, CallOutcome, call_model

DELTA = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'


def asked(answer: FakeResponse, settings: ModelSettings | None = None) -> CallOutcome:
    async def ask() -> CallOutcome:
        async with fake_service(answer) as service:
            model = OpenAIModel("m", ModelSettings(base_url=service.url, key=(settings or ModelSettings()).key))
            try:
                return await call_model(model)
            finally:
                await model.close()

    return asyncio.run(ask())


def test_a_stream_without_its_last_mark_is_whole_if_the_reason_of_its_end_came() -> None:
    result = asked(FakeResponse(parts=(DELTA, END)))
    assert (result.text, result.finished is not None) == ("a", True)


def test_a_stream_that_does_not_end_after_its_last_event_is_not_waited_for_long() -> None:
    result = asked(FakeResponse(parts=(DELTA, END, b"data: [DONE]\n\n", Stall())))
    assert result.finished is not None


def test_a_refusal_of_any_size_is_read_to_a_bound() -> None:
    result = asked(FakeResponse(status=400, parts=(b"x" * 50_000,) * 20))
    assert result.error is not None
    assert len(str(result.error)) < 400


def test_a_refusal_that_breaks_off_is_a_refusal() -> None:
    result = asked(FakeResponse(status=429, parts=(b'{"error": "wai',), ending="cut"))
    assert result.error is not None
    assert result.error.kind == "rate_limited"


@pytest.mark.parametrize(("name", "cost"), [("claude-sonnet-4-5", 3_000_000), ("nobody-knows", 0)])
def test_a_cut_reply_was_paid_for_all_the_same(name: str, cost: int) -> None:
    start = b'data: {"type":"message_start","message":{"usage":{"input_tokens":1000}}}\n\n'

    async def ask() -> CallOutcome:
        async with fake_service(FakeResponse(parts=(start,), ending="cut")) as service:
            model = AnthropicModel(name, ModelSettings(base_url=f"{service.url}/v1/"))
            try:
                return await call_model(model)
            finally:
                await model.close()

    error = asyncio.run(ask()).error
    assert error is not None
    assert (error.kind, error.usage.input_tokens, error.usage.cost_nano_usd) == ("cut", 1000, cost)
    assert error.priced == bool(cost)


def test_the_key_goes_with_the_request_and_is_not_shown() -> None:
    async def ask() -> None:
        async with fake_service(FakeResponse(parts=(END,))) as service:
            model = OpenAIModel("m", ModelSettings(base_url=service.url, key="sk-secret"))
            await call_model(model, REQUEST)
            await model.close()
            (heard,) = service.requests
            assert heard.path == "/chat/completions"
            assert heard.headers["authorization"] == "bearer sk-secret"
            assert heard.headers["x-timeloom-call-number"] == "0"
            assert heard.headers["accept-encoding"] == "identity"

    asyncio.run(ask())
    service = ModelService(name="it", url="http://127.0.0.1", headers={"x-api-key": "sk-secret"}, secret="sk-secret")
    assert "sk-secret" not in repr(service)
