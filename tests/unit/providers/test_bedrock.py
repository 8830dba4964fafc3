"""Models of Amazon Bedrock. Requests and streams are checked against the service model that botocore ships."""

import asyncio
import base64
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from timeloom import Agent, Answer, Settings, tool
from timeloom.config.settings import ModelsSettings
from timeloom.core.blocks import Usage
from timeloom.core.codes import CodedError
from timeloom.core.render.native_tools import NativeTool
from timeloom.ports.model import (
    DataSegment,
    ErrorKind,
    FinishEvent,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    TextSegment,
    ToolCallPiece,
)
from timeloom.providers.bedrock.access import BedrockAccess
from timeloom.providers.bedrock.event_stream import AwsEventDecoder
from timeloom.providers.bedrock.model import BedrockModel
from timeloom.providers.bedrock.reply import BedrockReplyParser
from timeloom.providers.bedrock.request import request_body
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings
from timeloom.providers.sse import StreamError
from timeloom.testing.fake_service import FakeResponse, RecordedRequest, fake_service
from timeloom.testing.model_contract.fixtures import CallOutcome, call_model, expect_model_error
from timeloom.testing.model_endpoint.bedrock import BedrockDialect, encode_frame, event_frame
from timeloom.testing.model_endpoint.dialect import EndpointReply, ToolUse

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
STREAM = (("content-type", "application/vnd.amazon.eventstream"),)
REQUEST = ModelRequest(system="Answer.", segments=(TextSegment("What is it?", cache_point=True),))
SCHEMA = '{"type":"object","properties":{"city":{"type":"string"}}}'
TOOL = NativeTool(name="weather", description="Return the weather.", params_schema=SCHEMA)
DIALECT = BedrockDialect()


@pytest.fixture(autouse=True)
def no_aws_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither files nor the metadata service of the machine give a region or credentials."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session.token")


def botocore(module: str) -> Any:
    return cast(Any, importlib.import_module(f"botocore.{module}"))


def converse_stream() -> Any:
    """Return the operation ConverseStream of botocore's service model."""
    loaded = botocore("loaders").Loader().load_service_model("bedrock-runtime", "service-2")
    return botocore("model").ServiceModel(loaded).operation_model("ConverseStream")


def ask(*parts: bytes, model: str = CLAUDE, status: int = 200) -> tuple[CallOutcome, RecordedRequest]:
    """Ask a model whose service answers with these bytes; return the outcome and the request that arrived."""

    async def main() -> tuple[CallOutcome, RecordedRequest]:
        headers = STREAM if status == 200 else (("content-type", "application/json"),)
        async with fake_service(FakeResponse(status=status, headers=headers, parts=parts)) as service:
            opened = BedrockModel(model, ModelSettings(base_url=service.url), environ={"AWS_REGION": "eu-central-1"})
            outcome = await call_model(opened, REQUEST)
            await opened.close()
            return outcome, service.requests[0]

    return asyncio.run(main())


def whole_reply(*pieces: str, reply: EndpointReply | None = None) -> list[bytes]:
    reply = reply or EndpointReply(model="m", usage=Usage(input_tokens=3, cache_read_tokens=2, output_tokens=1))
    uses = [DIALECT.tool_use_frames(index, use) for index, use in enumerate(reply.tool_uses)]
    return [
        DIALECT.opening_frames("m", reply.usage),
        *map(DIALECT.text_frame, pieces),
        *uses,
        DIALECT.closing_frames(reply),
    ]


def parse(frames: bytes, size: int = 1 << 20) -> list[ModelEvent]:
    """Return the model events of these frames, which arrive in pieces of this size."""
    decoder, parser = AwsEventDecoder(), BedrockReplyParser("Bedrock")
    events: list[ModelEvent] = []
    for at in range(0, len(frames), size):
        for event in decoder.feed(frames[at : at + size]):
            events += parser.feed(event)
    return events if parser.done else [*events, *parser.end()]


def body_of(request: ModelRequest, model: str = CLAUDE) -> dict[str, Any]:
    """Return the body, checked against the service model: names, types, unions and required members."""
    body = json.loads(request_body(model, request))
    report = (
        botocore("validate")
        .ParamValidator()
        .validate(_with_bytes({"modelId": model, **body}), converse_stream().input_shape)
    )
    assert not report.has_errors(), report.generate_report()
    return body


def _with_bytes(value: object) -> object:
    """Return the value with the type that botocore has for blobs, which are base64 in JSON."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {
            name: base64.b64decode(one) if name == "bytes" and isinstance(one, str) else _with_bytes(one)
            for name, one in fields.items()
        }
    return [_with_bytes(one) for one in cast("list[object]", value)] if isinstance(value, list) else value


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("model", [CLAUDE, "arn:aws:bedrock:eu-central-1:1:application-inference-profile/a1"])
def test_a_request_is_signed_as_it_arrives(model: str) -> None:
    outcome, request = ask(*whole_reply("Hi."), model=model)
    assert outcome.text == "Hi."
    assert request.headers["x-amz-security-token"] == "session.token"
    assert request.path.count("/") == 3
    # The service computes the signature again from what it received.
    received = botocore("awsrequest").AWSRequest(
        "POST", f"http://{request.headers['host']}{request.path}", data=request.body
    )
    signed = request.headers["authorization"].split("signedheaders=")[1].partition(",")[0].split(";")
    for name in signed:
        received.headers[name] = request.headers[name]
    # The fake service reads headers in lower case.
    received.headers.replace_header("x-amz-date", request.headers["x-amz-date"].upper())
    received.context["timestamp"] = received.headers["x-amz-date"]
    auth = botocore("auth").SigV4Auth(
        botocore("credentials").Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session.token"),
        "bedrock",
        "eu-central-1",
    )
    canonical = auth.canonical_request(received)
    assert request.headers["authorization"].endswith(auth.signature(auth.string_to_sign(received, canonical), received))


def test_an_api_key_of_bedrock_needs_no_signature() -> None:
    environ = {"AWS_BEARER_TOKEN_BEDROCK": "env:KEY", "KEY": "bedrock-key", "AWS_REGION": "us-east-1"}
    access = BedrockAccess(environ, "bedrock-key", None)
    assert access.sign("https://x", b"") == {"authorization": "Bearer bedrock-key"}
    assert access.base_url == "https://bedrock-runtime.us-east-1.amazonaws.com"
    model = open_model("bedrock:amazon.nova-pro-v1:0", environ=environ)
    assert (model.name, model.window_tokens) == ("bedrock:amazon.nova-pro-v1:0", 200_000)


def test_a_missing_region_or_missing_credentials_are_named() -> None:
    with pytest.raises(CodedError, match="set AWS_REGION"):
        open_model("bedrock:m", environ={})
    with pytest.raises(ModelError, match=r"AWS_PROFILE.*AWS_BEARER_TOKEN_BEDROCK") as caught:
        BedrockAccess({"AWS_DEFAULT_REGION": "eu-west-1"}, None, None).sign("https://x", b"")
    assert caught.value.kind == "unauthorized"


def test_the_region_may_come_from_the_profile(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion = eu-north-1\n")
    assert BedrockAccess({}, None, None).region == "eu-north-1"


def test_without_botocore_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["botocore"] = None
from timeloom.core.codes import CodedError
from timeloom.providers.registry import open_model
try:
    open_model("bedrock:m", environ={})
except CodedError as error:
    print(error.code, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("model_not_installed models of Amazon Bedrock need botocore")
    assert "pip install 'timeloom[bedrock]'" in done.stdout


@tool(effect="pure")
def weather(city: str) -> str:
    """Return the current weather."""
    return f"rain in {city}"


def test_an_agent_calls_tools_natively() -> None:
    async def main() -> Answer[str]:
        look = EndpointReply(model="m", usage=Usage(), tool_uses=(ToolUse("t1", "tools_weather", '{"city":"Oslo"}'),))
        replies = [
            FakeResponse(headers=STREAM, parts=parts) for parts in (whole_reply(reply=look), whole_reply("Rain."))
        ]
        async with fake_service(*replies) as service:
            model = BedrockModel(CLAUDE, ModelSettings(base_url=service.url, key="k"), environ={})
            settings = Settings(models=ModelsSettings(protocol="native"))
            answer = await Agent(model, tools=[weather], settings=settings).run("weather?")
            await model.close()
            return answer

    answer = asyncio.run(main())
    assert (answer.text, answer.calls) == ("Rain.", [("tools.weather", {"city": "Oslo"})])


def test_cache_points_are_blocks_behind_what_they_cache() -> None:
    request = ModelRequest(
        system="Answer.",
        segments=(
            TextSegment("a", cache_point=True, cache_lifetime="1h"),
            TextSegment("b", cache_point=True),
            TextSegment("c"),
        ),
    )
    body = body_of(request)
    assert body["system"] == [{"text": "Answer."}, {"cachePoint": {"type": "default", "ttl": "1h"}}]
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"text": "a"},
                {"cachePoint": {"type": "default", "ttl": "1h"}},
                {"text": "b"},
                {"cachePoint": {"type": "default"}},
                {"text": "c"},
            ],
        }
    ]
    assert body["inferenceConfig"] == {"maxTokens": 8192}


@pytest.mark.parametrize(("model", "points"), [("amazon.nova-pro-v1:0", 2), ("meta.llama3-1-70b-instruct-v1:0", 0)])
def test_only_models_with_caching_get_cache_points(model: str, points: int) -> None:
    text = json.dumps(body_of(REQUEST, model))
    assert text.count("cachePoint") == points
    assert "ttl" not in text


def test_images_and_documents_are_blocks_and_other_data_is_named() -> None:
    segments = (
        DataSegment("image/png", b"png"),
        DataSegment("application/pdf; x=1", b"pdf", cache_point=True),
        DataSegment("video/mp4", b"mp4"),
        TextSegment(" "),
    )
    content = body_of(ModelRequest(system=" ", segments=segments))["messages"][0]["content"]
    assert content == [
        {"image": {"format": "png", "source": {"bytes": "cG5n"}}},
        {"document": {"format": "pdf", "name": "document-1", "source": {"bytes": "cGRm"}}},
        {"cachePoint": {"type": "default"}},
        {"text": "[video/mp4, 3 bytes: this model cannot see it]"},
    ]


def test_functions_thinking_and_temperature_are_sent() -> None:
    body = body_of(
        ModelRequest(system="", segments=(TextSegment("a"),), tools=(TOOL,), thinking_tokens=10, temperature=0.5)
    )
    assert body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]["type"] == "object"
    assert body["toolConfig"]["tools"][1] == {"cachePoint": {"type": "default"}}
    assert body["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert body["inferenceConfig"] == {"maxTokens": 8192 + 1024}
    plain = body_of(
        ModelRequest(system="", segments=(TextSegment("a"),), thinking_tokens=10, temperature=0.5), "meta.llama"
    )
    assert plain["inferenceConfig"] == {"maxTokens": 8192, "temperature": 0.5}
    assert "additionalModelRequestFields" not in plain


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_stream_is_read_however_it_is_cut(size: int) -> None:
    reply = EndpointReply(
        model="m",
        usage=Usage(input_tokens=3, cache_read_tokens=2, cache_write_tokens=4, output_tokens=1),
        tool_uses=(ToolUse("t1", "weather", '{"city":"Oslo"}'), ToolUse("t2", "weather", "{}")),
    )
    frames = b"".join(
        [*whole_reply("é 😀", reply=reply)[:2], DIALECT.thinking_frame("hm"), *whole_reply(reply=reply)[1:]]
    )
    events = parse(frames, size)
    assert events[0] == TextPiece("é 😀")
    assert [event for event in events if isinstance(event, ToolCallPiece)] == [
        ToolCallPiece(0, name="weather"),
        ToolCallPiece(0, '{"city":"Oslo"}'),
        ToolCallPiece(1, name="weather"),
        ToolCallPiece(1, "{}"),
    ]
    assert events[-1] == FinishEvent("end", reply.usage)


def test_botocore_reads_the_frames_of_the_fixtures_alike() -> None:
    reply = EndpointReply(
        model="m", usage=Usage(input_tokens=3, output_tokens=1), tool_uses=(ToolUse("t1", "f", "{}"),)
    )
    events = list(_read_with_botocore(b"".join(whole_reply("a", reply=reply))))
    names = ["messageStart", "contentBlockDelta", "contentBlockStart", "contentBlockDelta", "contentBlockStop"]
    assert [next(iter(event)) for event in events] == [*names, "messageStop", "metadata"]
    assert events[1]["contentBlockDelta"] == {"delta": {"text": "a"}, "contentBlockIndex": 0}
    assert events[-1]["metadata"]["usage"]["inputTokens"] == 3


def _read_with_botocore(frames: bytes) -> Iterator[Mapping[str, Any]]:
    class Raw:
        def stream(self) -> Iterator[bytes]:
            yield frames

    shape = converse_stream().output_shape.members["stream"]
    parser = botocore("parsers").EventStreamJSONParser()
    yield from botocore("eventstream").EventStream(Raw(), shape, parser, "ConverseStream")


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("throttlingException", "Too many tokens, please wait before trying again.", "rate_limited"),
        ("validationException", "Input is too long for requested model.", "context_too_long"),
        ("validationException", "Malformed input request", "invalid"),
        ("serviceUnavailableException", "Try again", "overloaded"),
        ("internalServerException", "", "overloaded"),
        ("modelStreamErrorException", "The system encountered an unexpected error", "overloaded"),
        ("newException", "?", "overloaded"),
    ],
)
def test_an_exception_in_the_stream_has_its_kind(name: str, message: str, kind: ErrorKind) -> None:
    with pytest.raises(ModelError) as caught:
        parse(DIALECT.text_frame("a") + event_frame(name, {"message": message}, kind="exception"))
    assert caught.value.kind == kind


def test_an_exception_of_the_model_keeps_its_own_status() -> None:
    frame = event_frame("modelStreamErrorException", {"message": "m", "originalStatusCode": 429}, kind="exception")
    with pytest.raises(ModelError) as caught:
        parse(frame)
    assert caught.value.kind == "rate_limited"


def test_an_error_without_a_type_is_reported() -> None:
    headers = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "broken"}
    with pytest.raises(ModelError, match="InternalFailure: broken"):
        parse(encode_frame(headers, b""))


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (429, "Too many tokens, please wait before trying again.", "rate_limited"),
        (429, "Model is not ready for inference.", "rate_limited"),
        (424, "The model had an error", "overloaded"),
        (403, "You don't have access to the model with the specified model ID.", "unauthorized"),
        (408, "Model has timed out in processing the request.", "timeout"),
    ],
)
def test_a_refused_request_has_its_kind(status: int, message: str, kind: ErrorKind) -> None:
    error = ask(json.dumps({"message": message}).encode(), status=status)[0].error
    assert error is not None
    assert (error.kind, message in str(error)) == (kind, True)


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_a_filtered_reply_is_refused(reason: str) -> None:
    with pytest.raises(ModelError, match=reason) as caught:
        parse(DIALECT.text_frame("a") + event_frame("messageStop", {"stopReason": reason}))
    assert caught.value.kind == "refused"


@pytest.mark.parametrize(("reason", "told"), [("max_tokens", "max_tokens"), ("malformed_tool_use", "other")])
def test_a_reply_without_usage_ends_with_its_reason(reason: str, told: str) -> None:
    events = parse(DIALECT.text_frame("a") + event_frame("messageStop", {"stopReason": reason}))
    assert events[-1] == FinishEvent(told, Usage(), usage_reported=False)  # type: ignore[arg-type]


def test_a_stream_without_its_end_is_cut() -> None:
    for frames in (DIALECT.text_frame("a"), event_frame("metadata", {"usage": None})):
        with pytest.raises(ModelError) as caught:
            parse(frames)
        assert caught.value.kind == "cut"


def test_cached_tokens_of_an_hour_are_counted_apart() -> None:
    usage = {
        "inputTokens": 1,
        "outputTokens": 2,
        "cacheWriteInputTokens": 30,
        "cacheDetails": [{"ttl": "1h", "inputTokens": 20}, {"ttl": "5m", "inputTokens": 10}],
    }
    events = parse(event_frame("messageStop", {"stopReason": "end_turn"}) + event_frame("metadata", {"usage": usage}))
    counts = Usage(input_tokens=1, output_tokens=2, cache_write_tokens=30, cache_write_1h_tokens=20)
    assert events == [FinishEvent("end", counts)]


def test_unknown_events_and_deltas_are_passed_over() -> None:
    odd = [
        event_frame("newEvent", {"x": [1]}),
        event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"citation": {"title": "t"}}}),
        event_frame("contentBlockDelta", {"contentBlockIndex": 9, "delta": {"toolUse": {"input": "x"}}}),
        event_frame("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}}),
        event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "s"}}}),
    ]
    events = parse(b"".join([*odd, *whole_reply("a"), *odd]))
    assert [event.text for event in events if isinstance(event, TextPiece)] == ["a"]


@pytest.mark.parametrize("place", [2, 9, 14, -2], ids=["length", "prelude", "headers", "checksum"])
def test_a_damaged_frame_is_refused(place: int) -> None:
    frame = bytearray(DIALECT.text_frame("a"))
    frame[place] ^= 0xFF
    with pytest.raises(StreamError, match="damaged"):
        AwsEventDecoder().feed(bytes(frame) + DIALECT.text_frame("b") * 100)


def test_a_payload_that_is_not_json_is_refused() -> None:
    headers = {":message-type": "event", ":event-type": "contentBlockDelta"}
    for payload in (b"{", b'{"delta": 5}', b"\xff\xfe"):
        with pytest.raises(ModelError) as caught:
            parse(encode_frame(headers, payload))
        assert caught.value.kind == "invalid"


def test_silence_of_a_service_without_credentials_is_an_error_of_the_call() -> None:
    async def main() -> ModelError:
        model = BedrockModel(CLAUDE, ModelSettings(base_url="http://127.0.0.1:1"), environ={"AWS_REGION": "eu-west-1"})
        return await expect_model_error(model)

    assert asyncio.run(main()).kind == "unauthorized"
