"""Classifies the error responses of all model services."""

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, cast

import msgspec

from timeloom.platform.secrets import SECRETS
from timeloom.ports.model import ErrorKind, ModelError

CONTEXT_LENGTH_MARKS: Final = (
    "context_length_exceeded",
    "context length",
    "context limit",
    "context window",
    "context size",
    "exceed_context_size",
    "prompt is too long",
    "input is too long",
    "request_too_large",
    "request too large",
    "too many tokens",
    "reduce the length",
)
"""Marks of an error for a prompt that is too long: Anthropic, OpenAI, vLLM, llama.cpp, Ollama and compatible ones."""

WAIT_MARKS: Final = ("before trying again",)
"""Marks of a rate limit that is worded like a prompt that is too long: Bedrock's "Too many tokens, please wait"."""

REFUSAL_MARKS: Final = ("content_policy", "content_filter", "content management policy")
KEY_MARKS: Final = ("api key not valid", "api_key_invalid")
"""Marks of a wrong key with the status 400, as Gemini answers."""

QUOTA_MARKS: Final = ("insufficient_quota", "billing", "credit balance")

STATUS_OF_TYPE: Final[Mapping[str, int]] = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "invalid_request_error": 400,
    "request_too_large": 413,
    "timeout_error": 504,
}

KIND_OF_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: "unauthorized",
    402: "unauthorized",
    403: "unauthorized",
    407: "unauthorized",
    408: "timeout",
    413: "context_too_long",
    424: "overloaded",
    425: "overloaded",
    429: "rate_limited",
    504: "timeout",
    524: "timeout",
}

MAX_WAIT_S: Final = 86_400.0
MAX_NESTED_ERRORS: Final = 3
"""Maximum nesting of `error` objects; gateways wrap the errors that they pass on."""

MAX_MESSAGE_CHARACTERS: Final = 4000
MAX_SHOWN_CHARACTERS: Final = 300
API_KEY_PATTERN: Final = re.compile(r"\b(?:sk|key|pk)-[\w*.-]{4,200}")


class ReportedError(msgspec.Struct, frozen=True, kw_only=True):
    """The error that a service reported: type, code and message, unchanged."""

    type: str = ""
    code: str = ""
    message: str = ""


def to_model_error(
    service: str, status: int, reported: ReportedError, *, retry_after_s: float | None = None
) -> ModelError:
    """Return the `ModelError` for an error response with this status."""
    kind = _kind(status, f"{reported.type} {reported.code} {reported.message[:MAX_MESSAGE_CHARACTERS]}".lower())
    reason = redact(reported.message) or redact(reported.type) or "it gave no reason"
    return ModelError(kind, f"{service} answered {status}: {reason}", retry_after_s=retry_after_s)


def to_stream_error(service: str, reported: ReportedError) -> ModelError:
    """Return the `ModelError` for an error that a service reports inside its event stream."""
    status = STATUS_OF_TYPE.get(reported.type) or STATUS_OF_TYPE.get(reported.code)
    if status is None:
        status = int(reported.code) if reported.code.isdecimal() and len(reported.code) == 3 else 500
    return to_model_error(service, status, reported)


def parse_error_body(body: bytes) -> ReportedError:
    """Parse the body of an error response; a body that is not JSON becomes the message."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ReportedError(message=body[:MAX_MESSAGE_CHARACTERS].decode("utf-8", "replace"))
    return parse_error(value)


def parse_error(value: object) -> ReportedError:
    """Parse a decoded error: the object or its nested `error`, with its `message` or `detail`."""
    for _ in range(MAX_NESTED_ERRORS):
        value = _first(value)
        value = _object(value).get("error") or value
    fields = _object(value)
    message = fields.get("message") or fields.get("detail") or value
    return ReportedError(
        type=_short_field(fields, "type"),
        code=_short_field(fields, "code"),
        message=str(message)[:MAX_MESSAGE_CHARACTERS],
    )


def retry_after_s(headers: Mapping[str, str], now_us: int) -> float | None:
    """Return the wait that the service asks for: `retry-after-ms`, or `retry-after` as seconds or as a date."""
    if (millis := _number(headers.get("retry-after-ms", ""))) is not None:
        return _clamp_wait(millis / 1000)
    text = headers.get("retry-after", "").strip()[:100]
    if (seconds := _number(text)) is not None:
        return _clamp_wait(seconds)
    try:
        return _clamp_wait(parsedate_to_datetime(text).timestamp() - now_us / 1_000_000)
    except (ValueError, OverflowError):
        return None


def redact(text: str, secret: str = "") -> str:
    """Return the text on one short line, without known secrets and without anything that looks like an API key."""
    text = SECRETS.redact(text[:MAX_MESSAGE_CHARACTERS])
    if secret:
        text = text.replace(secret, "…")
    line = " ".join("".join(c if c.isprintable() else " " for c in API_KEY_PATTERN.sub("…", text)).split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[:MAX_SHOWN_CHARACTERS] + "…"


def _kind(status: int, words: str) -> ErrorKind:
    too_long = any(mark in words for mark in CONTEXT_LENGTH_MARKS) and not any(mark in words for mark in WAIT_MARKS)
    if status in {400, 413, 422, 429, 500} and too_long:
        return "context_too_long"
    if status in {400, 403, 422} and any(mark in words for mark in REFUSAL_MARKS):
        return "refused"
    if status in {400, 403, 429} and any(mark in words for mark in (*QUOTA_MARKS, *KEY_MARKS)):
        return "unauthorized"
    return KIND_OF_STATUS.get(status) or ("overloaded" if status >= 500 else "invalid")


def _first(value: object) -> object:
    """Return the first item of a list, because Gemini sends a list with one error; other values unchanged."""
    return next(iter(cast("list[object]", value)), None) if isinstance(value, list) else value


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _short_field(fields: Mapping[str, object], key: str) -> str:
    found = fields.get(key)
    return str(found)[:100] if isinstance(found, str | int) else ""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _clamp_wait(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_WAIT_S)
