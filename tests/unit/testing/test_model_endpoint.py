"""The scripted model behind HTTP: any client of the two usual forms can ask it."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import msgspec
import pytest
import uvicorn

from timeloom.core.blocks import Usage
from timeloom.ports.model import Model, ModelRequest, TextSegment
from timeloom.providers.anthropic.model import AnthropicModel
from timeloom.providers.openai.model import OpenAIModel
from timeloom.providers.settings import ModelSettings
from timeloom.testing import ScriptedModel
from timeloom.testing.model_contract.fixtures import call_model
from timeloom.testing.model_endpoint import app as endpoint

SCRIPT = """
- {match: "the weather", steps: [{reply: rain}]}
- {reply: "first reply", chunk: 3, usage: {input_tokens: 5, cache_read_tokens: 90, output_tokens: 2}}
- {reply: "second", chunk: 2, error: cut}
- error: overloaded
- error: context_too_long
- error: timeout
- error: cut
- {reply: ""}
- {reply: a title, when: title}
"""
PATHS = ("/v1/messages", "/v1/chat/completions")


@asynccontextmanager
async def served(model: Model | None = None) -> AsyncGenerator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = endpoint.model_app(model or ScriptedModel.from_text(SCRIPT))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


def both(url: str) -> list[Model]:
    return [
        AnthropicModel("any", ModelSettings(base_url=url)),
        OpenAIModel("any", ModelSettings(base_url=f"{url}/v1")),
    ]


def request(number: int, **more: str) -> ModelRequest:
    purpose = "title" if more.get("purpose") else "decision"
    return ModelRequest(system="s", segments=(TextSegment(more.get("text", "hello")),), number=number, purpose=purpose)


def run(test: Callable[[str], Awaitable[None]]) -> None:
    async def body() -> None:
        async with served() as url:
            await test(url)

    asyncio.run(body())


def test_the_header_says_which_call_it_is_and_of_which_purpose() -> None:
    async def test(url: str) -> None:
        for model in both(url):
            for _ in range(2):
                result = await call_model(model, request(0))
                assert result.text == "first reply"
                assert result.finished is not None
                usage = msgspec.structs.replace(result.finished.usage, cost_nano_usd=0)
                assert usage == Usage(input_tokens=5, cache_read_tokens=90, output_tokens=2)
            assert (await call_model(model, request(0, purpose="title"))).text == "a title"
            assert (await call_model(model, request(0, text="How is the weather?"))).text == "rain"
            assert (await call_model(model, request(6))).text == ""
            await model.close()

    run(test)


def test_failures_and_cuts_are_those_of_the_script() -> None:
    async def test(url: str) -> None:
        for model in both(url):
            results = [await call_model(model, request(number)) for number in range(1, 6)]
            assert [result.text for result in results] == ["second", "", "", "", ""]
            kinds = [result.error.kind for result in results if result.error]
            assert kinds == ["cut", "overloaded", "context_too_long", "timeout", "cut"]
            error = (await call_model(model, request(7))).error
            assert error is not None
            assert error.kind == "invalid"
            await model.close()

    run(test)


def messages(replies: int, content: object = "hello") -> list[dict[str, object]]:
    said: dict[str, object] = {"role": "assistant", "content": "said"}
    return [{"role": "user", "content": content}, *[said] * replies]


@pytest.mark.parametrize("path", PATHS)
def test_other_clients_are_counted_by_the_replies_they_send_back(path: str) -> None:
    async def test(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            body = {"model": "m", "system": [{"type": "text", "text": "s"}], "max_tokens": 9}
            first = await client.post(path, json=body | {"messages": messages(0)})
            assert "first reply" in first.text
            parts = [{"type": "text", "text": "the weather"}, {"type": "image_url", "image_url": {"url": "data:"}}]
            assert "rain" in (await client.post(path, json=body | {"messages": messages(0, parts)})).text
            last = await client.post(path, json=body | {"messages": messages(6), "stream": True})
            assert last.headers["content-type"].startswith("text/event-stream")
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post(path, json=body | {"messages": messages(1)})
            assert (await client.post(path, json=body | {"messages": messages(2)})).status_code in (503, 529)

    run(test)


def test_usage_comes_only_to_those_who_ask_for_it_where_that_is_the_custom() -> None:
    async def test(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            body = {"model": "m", "messages": messages(0), "stream": True}
            plain = await client.post("/v1/chat/completions", json=body)
            asking = await client.post("/v1/chat/completions", json=body | {"stream_options": {"include_usage": True}})
            whole = await client.post("/v1/chat/completions", json=body | {"stream": None})
        assert ["prompt_tokens" in reply.text for reply in (plain, asking, whole)] == [False, True, True]

    run(test)


CALLING = """
- reply: |
    <channel:thinking>Look.</channel:thinking>
    <channel:ReactDecisionOutV2>{"action": "call_tool", "notes": "I look.",
    "tool_call": {"tool_id": "web.search", "params": {"q": "rain"}}}</channel:ReactDecisionOutV2>
- reply: |
    <channel:ReactDecisionOutV2>{"action": "complete", "final_answer": "It rains."}</channel:ReactDecisionOutV2>
- {reply: "<channel:ReactDecisionOutV2>{", error: cut}
"""


async def offered(url: str, path: str, number: int, name: str, *, stream: bool) -> str:
    """Return the answer to a client that offers one tool of this name."""
    tool = {"name": name, "type": "function", "function": {"name": name}}
    body = {"model": "m", "messages": messages(number), "tools": [tool], "stream": stream}
    async with httpx2.AsyncClient(base_url=url) as client:
        return (await client.post(path, json=body)).text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_offers_tools_gets_calls_of_them_and_answers(path: str, *, stream: bool) -> None:
    async def body() -> None:
        async with served(ScriptedModel.from_text(CALLING)) as url:
            called = await offered(url, path, 0, "web_search", stream=stream)
            answered = await offered(url, path, 1, "web_search", stream=stream)
            other = await offered(url, path, 0, "another", stream=stream)
        assert "I look." in called
        assert "call_0_1" in called
        assert ('"tool_use"' if path == "/v1/messages" else '"tool_calls"') in called
        assert "channel:" not in called + answered
        assert "It rains." in answered
        assert "web.search" in other

    asyncio.run(body())


RAW = """
- reply: |
    <channel:notes>I write.</channel:notes>
    <channel:action>{"action": "call_tool", "tool_call":
    {"tool_id": "files.write", "params": {"path": "a"}}}</channel:action>
    <channel:content>
    one "two"
    </channel:content>
- reply: |
    <channel:final_answer>
    It rains.
    </channel:final_answer>
"""


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_offers_tools_gets_the_texts_of_raw_channels(path: str) -> None:
    async def body() -> None:
        async with served(ScriptedModel.from_text(RAW)) as url:
            called = await offered(url, path, 0, "files_write", stream=False)
            answered = await offered(url, path, 1, "files_write", stream=False)
        assert "channel:" not in called + answered
        assert "I write." in called
        assert "two" in called
        assert "It rains." in answered

    asyncio.run(body())


def test_calls_are_written_as_each_service_writes_them() -> None:
    async def body() -> None:
        async with served(ScriptedModel.from_text(CALLING)) as url:
            openai = msgspec.json.decode(await offered(url, PATHS[1], 0, "web_search", stream=False))
            anthropic = msgspec.json.decode(await offered(url, PATHS[0], 0, "web_search", stream=False))
        (choice,) = openai["choices"]
        function = {"name": "web_search", "arguments": '{"q": "rain"}'}
        assert choice["message"]["tool_calls"] == [{"id": "call_0_1", "type": "function", "function": function}]
        assert choice["finish_reason"] == "tool_calls"
        use = {"type": "tool_use", "id": "call_0_1", "name": "web_search", "input": {"q": "rain"}}
        assert anthropic["content"] == [{"type": "text", "text": "I look."}, use]
        assert anthropic["stop_reason"] == "tool_use"

    asyncio.run(body())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_cut_is_one_for_clients_that_offer_tools_too(path: str, *, stream: bool) -> None:
    async def body() -> None:
        async with served(ScriptedModel.from_text(CALLING)) as url:
            with pytest.raises(httpx2.RemoteProtocolError):
                await offered(url, path, 2, "web_search", stream=stream)

    asyncio.run(body())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body", [b"", b"[", b"{}", b'{"model":"m","messages":[{"role":"user","content":5}]}', b"[" * 100_000]
)
def test_what_is_no_request_is_refused(path: str, body: bytes) -> None:
    async def test(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            reply = await client.post(path, content=body)
            assert reply.status_code == 400
            assert reply.json()["error"]["message"]

    run(test)


@pytest.mark.parametrize("header", [("x-timeloom-call-number", "one"), ("x-timeloom-purpose", "fun")])
def test_a_header_that_makes_no_sense_is_refused(header: tuple[str, str]) -> None:
    async def test(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            body = {"model": "m", "messages": messages(0)}
            assert (await client.post(PATHS[0], json=body, headers=dict([header]))).status_code == 400

    run(test)


def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_BODY_BYTES", 1000)

    async def test(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            reply = await client.post(PATHS[0], json={"model": "m", "messages": messages(0, "x" * 2000)})
            assert reply.status_code == 400

    run(test)


def test_the_model_is_listed() -> None:
    async def test(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as client:
            assert (await client.get("/v1/models")).json()["data"][0]["id"] == "script"

    run(test)


def test_any_model_can_be_served_thinking_included() -> None:
    async def body() -> None:
        async with served() as url:
            inner = AnthropicModel("any", ModelSettings(base_url=url))
            async with served(inner) as outer:
                for model in both(outer):
                    assert (await call_model(model, request(0))).text == "first reply"
                    await model.close()
            await inner.close()

    asyncio.run(body())
