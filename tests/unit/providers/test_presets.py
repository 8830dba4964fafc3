"""The services that are known by a prefix, over HTTP on loopback.

The replies are written after the shapes of the sources named beside them, or marked as unchecked where none was
read; none was recorded from a live service.
"""

import asyncio
from typing import Final, cast

import msgspec
import pytest

from timeloom.core.blocks import Usage
from timeloom.core.codes import CodedError
from timeloom.ports.model import (
    FinishEvent,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    TextSegment,
    ThinkingPiece,
)
from timeloom.providers.presets import PRESETS
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings
from timeloom.testing.fake_service import FakeResponse, RecordedRequest, fake_service

REPLIES: Final = {
    # github.com/ollama/ollama, openai/openai.go (ChatCompletionChunk): `reasoning` in the delta, usage in a last chunk.
    "ollama": (
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm"},"finish_reason":null}]}',
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}',
        b'{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}',
    ),
    # docs.vllm.ai, "Reasoning Outputs": `reasoning_content`, in newer versions `reasoning`.
    "vllm": (
        b'{"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}],"usage":null}',
        b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop","stop_reason":null}]}',
        b'{"choices":[],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2}}',
    ),
    # github.com/lmstudio-ai/lmstudio-bug-tracker/issues/378: `role` and `reasoning_content` in each delta.
    "lmstudio": (
        b'{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"},"finish_reason":null}]}',
        b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}',
        b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        b'{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}',
    ),
    # openrouter.ai/docs/api-reference/streaming: `reasoning` beside `reasoning_details`, usage with its cost.
    "openrouter": (
        (
            b'{"provider":"X","choices":[{"index":0,"delta":{"content":"","reasoning":"hm","reasoning_details":[{"type":'
            b'"reasoning.text","text":"hm"}]},"finish_reason":null,"native_finish_reason":null}]}'
        ),
        b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop","native_finish_reason":"STOP"}]}',
        b'{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"cost":0.00001,"is_byok":false}}',
    ),
    # github.com/ogx-ai/ogx/issues/5122: the usage so far on each chunk, so that only the last one counts.
    "gemini": (
        (
            b'{"choices":[{"delta":{"content":"H","role":"assistant"},"index":0}],"usage":{"completion_tokens":1,'
            b'"prompt_tokens":10,"total_tokens":11}}'
        ),
        (
            b'{"choices":[{"delta":{"content":"i","role":"assistant"},"finish_reason":"stop","index":0}],"usage":{'
            b'"completion_tokens":2,"prompt_tokens":10,"total_tokens":12}}'
        ),
    ),
    # docs.axflow.dev, azure-openai/chat (PromptFilterResult): a first chunk with `prompt_filter_results` and no choice.
    "azure": (
        (
            b'{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,'
            b'"severity":"safe"}}}]}'
        ),
        b'{"choices":[{"index":0,"delta":{"content":"Hi"},"content_filter_results":{},"finish_reason":"stop"}]}',
        b'{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}',
    ),
    # github.com/groq/groq-python, types/chat/chat_completion_chunk.py (XGroq): the usage in `x_groq`.
    "groq": (
        b'{"choices":[{"index":0,"delta":{"role":"assistant","reasoning":"hm"},"finish_reason":null}],"x_groq":{"id":"r"}}',
        b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}',
        (
            b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":10,'
            b'"completion_tokens":2,"queue_time":0.1}}}'
        ),
    ),
    # github.com/spring-projects/spring-ai/pull/5020 (ThinkChunk): a list of `thinking` and `text` parts.
    "mistral": (
        (
            b'{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]},'
            b'"finish_reason":null}]}'
        ),
        b'{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"H"}]},"finish_reason":null}]}',
        (
            b'{"choices":[{"index":0,"delta":{"content":"i"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,'
            b'"total_tokens":12,"completion_tokens":2}}'
        ),
    ),
    # docs.rs/crate/deepseek-sdk/0.3.0, chat/response.rs (Usage): `prompt_tokens` is the sum of cache hits and misses.
    "deepseek": (
        b'{"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"hm"},"finish_reason":null}],"usage":null}',
        b'{"choices":[{"index":0,"delta":{"content":"Hi","reasoning_content":null},"finish_reason":"stop"}]}',
        (
            b'{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":4,'
            b'"prompt_cache_miss_tokens":6}}'
        ),
    ),
}


def sse(*chunks: bytes) -> FakeResponse:
    return FakeResponse(parts=[b"data: %b\n\n" % chunk for chunk in (*chunks, b"[DONE]")])


def ask(name: str, response: FakeResponse) -> tuple[list[ModelEvent], RecordedRequest]:
    async def run() -> tuple[list[ModelEvent], RecordedRequest]:
        async with fake_service(response) as service:
            settings = ModelSettings(key="k-1", base_url=service.url, http_client="direct")
            model = open_model(name, settings, environ={})
            try:
                request = ModelRequest(system="", segments=(TextSegment("Hello"),))
                return [event async for event in model.stream(request)], service.requests[0]
            finally:
                await model.close()

    return asyncio.run(run())


@pytest.mark.parametrize("prefix", PRESETS)
def test_the_documented_reply_of_each_service_is_read(prefix: str) -> None:
    events, _ = ask(f"{prefix}:m", sse(*REPLIES[prefix]))
    assert "".join(event.text for event in events if isinstance(event, TextPiece)) == "Hi"
    thinking = "".join(event.text for event in events if isinstance(event, ThinkingPiece))
    assert thinking == ("" if prefix in {"gemini", "azure"} else "hm")
    finish = events[-1]
    assert isinstance(finish, FinishEvent)
    cached = 4 if prefix == "deepseek" else 0
    usage = Usage(input_tokens=10 - cached, cache_read_tokens=cached, output_tokens=2)
    assert (finish.stop_reason, finish.usage_reported) == ("end", True)
    assert msgspec.structs.replace(finish.usage, cost_nano_usd=0) == usage


@pytest.mark.parametrize("prefix", PRESETS)
def test_each_service_gets_the_request_that_it_documents(prefix: str) -> None:
    _, request = ask(f"{prefix}:m", sse(*REPLIES[prefix]))
    body = cast("dict[str, object]", msgspec.json.decode(request.body))
    newer = prefix in {"azure", "groq"}
    assert ("max_completion_tokens" in body, "max_tokens" in body) == (newer, not newer)
    assert ("stream_options" in body) == (prefix != "mistral")
    if prefix == "azure":
        assert request.path == "/openai/deployments/m/chat/completions?api-version=2025-01-01-preview"
        assert (request.headers["api-key"], "authorization" in request.headers) == ("k-1", False)
    else:
        assert (request.path, request.headers["authorization"]) == ("/chat/completions", "bearer k-1")


@pytest.mark.parametrize("prefix", [name for name, preset in PRESETS.items() if preset.needs_key])
def test_a_missing_key_names_its_variable(prefix: str) -> None:
    with pytest.raises(CodedError, match=f"set {PRESETS[prefix].key_variable}") as caught:
        open_model(f"{prefix}:m", environ={})
    assert caught.value.code == "model_unauthorized"


def test_local_services_need_no_key() -> None:
    names = ["ollama:qwen3:8b", "vllm:m", "lmstudio:m"]
    assert [open_model(name, environ={}).name for name in names] == names


def test_azure_needs_its_endpoint() -> None:
    with pytest.raises(CodedError, match="set AZURE_OPENAI_ENDPOINT"):
        open_model("azure:m", environ={"AZURE_OPENAI_API_KEY": "k"})


def test_a_base_url_without_a_scheme_names_its_variable() -> None:
    with pytest.raises(CodedError, match=r"http://; set GROQ_BASE_URL"):
        open_model("groq:m", environ={"GROQ_BASE_URL": "localhost:1", "GROQ_API_KEY": "k"})


@pytest.mark.parametrize(
    ("name", "response", "kind"),
    [
        # openrouter.ai/docs/api/reference/errors-and-debugging: an error inside the stream, its code a number.
        ("openrouter:m", sse(b'{"error":{"code":429,"message":"slow down"},"choices":[]}'), "rate_limited"),
        # github.com/groq/groq-python (XGroq.error): a text that says why the stream stopped.
        ("groq:m", sse(b'{"choices":[],"x_groq":{"id":"r","error":"over capacity"}}'), "overloaded"),
        # docs.rs/openai-interface/0.12.0 (FinishReason): DeepSeek interrupts a reply for lack of resources.
        (
            "deepseek:m",
            sse(b'{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}'),
            "overloaded",
        ),
        # github.com/continuedev/continue/issues/10290: 400 for a wrong key of Gemini. Unchecked: the list around it.
        (
            "gemini:m",
            FakeResponse(
                status=400,
                headers=(("content-type", "application/json"),),
                parts=[b'[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]'],
            ),
            "unauthorized",
        ),
    ],
)
def test_documented_errors_have_their_kind(name: str, response: FakeResponse, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(name, response)
    assert caught.value.kind == kind
