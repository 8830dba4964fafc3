"""Errors of model services: their classification and the shown message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.ports.model import ErrorKind
from timeloom.providers.errors import (
    ReportedError,
    parse_error_body,
    redact,
    retry_after_s,
    to_model_error,
    to_stream_error,
)

NOW_US = 1_700_000_000_000_000

KNOWN: list[tuple[str, int, str, ErrorKind]] = [
    (
        "Anthropic",
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 1 > 0"}}',
        "context_too_long",
    ),
    (
        "Anthropic",
        400,
        '{"error":{"message":"input length and `max_tokens` exceed context limit: 190000 + 21000"}}',
        "context_too_long",
    ),
    (
        "Anthropic",
        413,
        '{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        "context_too_long",
    ),
    ("Anthropic", 529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "overloaded"),
    (
        "Anthropic",
        400,
        '{"error":{"message":"Your credit balance is too low to access the Anthropic API"}}',
        "unauthorized",
    ),
    (
        "OpenAI",
        400,
        '{"error":{"message":"This model\'s maximum context length is 8192 tokens.","code":"context_length_exceeded"}}',
        "context_too_long",
    ),
    (
        "OpenAI",
        429,
        '{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}',
        "unauthorized",
    ),
    (
        "OpenAI",
        429,
        '{"error":{"message":"Request too large for gpt-4o on tokens per min","code":"rate_limit_exceeded"}}',
        "context_too_long",
    ),
    ("OpenAI", 400, '{"error":{"message":"flagged","code":"content_policy_violation"}}', "refused"),
    (
        "vLLM",
        400,
        '{"object":"error","message":"maximum context length is 4096","type":"BadRequestError","code":400}',
        "context_too_long",
    ),
    (
        "llama.cpp",
        400,
        '{"error":{"code":400,"message":"exceeds the available context size","type":"exceed_context_size_error"}}',
        "context_too_long",
    ),
    ("Ollama", 400, '{"error":"input length exceeds the context length"}', "context_too_long"),
    ("Ollama", 404, '{"error":{"message":"model \\"x\\" not found, try pulling it first"}}', "invalid"),
    ("a gateway", 502, "<html>Bad gateway</html>", "overloaded"),
    ("a gateway", 418, '{"detail": [{"loc": ["body"]}]}', "invalid"),
]


@pytest.mark.parametrize(
    ("service", "status", "body", "kind"), KNOWN, ids=[f"{k[0]}-{k[1]}-{n}" for n, k in enumerate(KNOWN)]
)
def test_the_refusals_of_known_services_are_understood(service: str, status: int, body: str, kind: ErrorKind) -> None:
    error = to_model_error(service, status, parse_error_body(body.encode()))
    assert error.kind == kind
    assert str(error).startswith(f"{service} answered {status}: ")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (ReportedError(type="overloaded_error"), "overloaded"),
        (ReportedError(type="server_error"), "overloaded"),
        (ReportedError(code="rate_limit_exceeded"), "rate_limited"),
        (ReportedError(code="401", message="no"), "unauthorized"),
        (ReportedError(code="9999"), "overloaded"),
        (ReportedError(type="invalid_request_error", message="prompt is too long"), "context_too_long"),
    ],
)
def test_failures_in_a_stream_have_the_kind_of_their_status(said: ReportedError, kind: ErrorKind) -> None:
    assert to_stream_error("it", said).kind == kind


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e300"}, 86_400.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0.0),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
    ],
)
def test_the_wait_that_a_service_asks_for_is_understood(headers: dict[str, str], wait_s: float | None) -> None:
    assert retry_after_s(headers, NOW_US) == wait_s


def test_what_is_shown_is_one_short_line_without_keys() -> None:
    shown = redact("bad key sk-ant-api03-abc\x1b[31m\n and\tmy own-secret " + "x" * 5000, secret="own-secret")
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert "sk-ant" not in shown
    assert "own-secret" not in shown
    assert len(shown) <= 301


@given(
    st.integers(300, 599),
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.text(),
        lambda inner: st.dictionaries(st.sampled_from(["error", "message", "code", "type", "detail"]), inner),
    ).map(lambda value: repr(value).replace("'", '"').replace("None", "null").encode()),
)
def test_any_refusal_becomes_an_error(status: int, body: bytes) -> None:
    error = to_model_error("it", status, parse_error_body(body))
    assert len(str(error)) < 400
