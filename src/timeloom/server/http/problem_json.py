"""Converts coded errors to `application/problem+json` responses."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Final

import msgspec
from starlette.responses import Response

from timeloom.core.codes import CODES, CodedError
from timeloom.server.auth.authenticate import TokenError
from timeloom.server.rate_limit import RateLimitError

MEDIA_TYPE: Final = "application/problem+json"

RETRY_AFTER_S: Final = 5
"""Seconds after which a client should retry while the server restarts."""

STATUSES: Final = MappingProxyType(
    {
        "request_malformed": 400,
        "cursor_malformed": 400,
        "block_malformed": 400,
        "compaction_malformed": 400,
        "path_malformed": 400,
        "path_not_a_file": 400,
        "rn_malformed": 400,
        "path_escapes_root": 400,
        "path_too_long": 400,
        "path_name_unsafe": 400,
        "range_too_large": 400,
        "record_refused": 400,
        "unauthorized": 401,
        "sign_in_required": 401,
        "forbidden": 403,
        "conversation_unknown": 404,
        "entry_unknown": 404,
        "model_unknown": 404,
        "bundle_unknown": 404,
        "path_not_found": 404,
        "widget_unknown": 404,
        "form_unknown": 404,
        "form_answered": 409,
        "form_answer_invalid": 400,
        "route_unknown": 404,
        "approval_unknown": 409,
        "pin_not_visible": 409,
        "pin_unknown": 409,
        "pins_full": 409,
        "conflict": 409,
        "conversation_held": 409,
        "lease_lost": 409,
        "turn_not_running": 409,
        "output_conflict": 409,
        "record_conflict": 409,
        "output_schema_invalid": 400,
        "turn_open": 409,
        "bundle_missing": 409,
        "request_too_large": 413,
        "attachment_type_unavailable": 415,
        "range_unsatisfiable": 416,
        "request_timeout": 408,
        "host_unknown": 421,
        "rate_limited": 429,
        "reruns_busy": 429,
        "answer_missing": 502,
        "server_closing": 503,
        "agent_closed": 503,
        "bundle_disabled": 503,
        "store_closed": 503,
        "store_locked": 503,
        "store_unwritable": 503,
    }
)
"""The HTTP status of each error that a request can cause; all other codes are 500."""

_NOT_IN_DESCRIPTION: Final = re.compile(r"[^ !#-\[\]-~]")
"""Characters that `error_description` in `WWW-Authenticate` must not contain (RFC 6750, section 3)."""


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """An error as in RFC 9457; `detail` explains it and `code` identifies its kind."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFormat:
    """The form of a route's errors: its media type, the type of its body, and how a problem is converted to it."""

    media_type: str
    body_type: type[msgspec.Struct]
    convert: Callable[[Response], Response]
    code_path: tuple[str, ...]
    """Where in the body the code is."""

    def limit_codes(self, codes: tuple[str, ...]) -> dict[str, object]:
        """Return the JSON schema of bodies that have one of these codes."""
        schema: dict[str, object] = {"enum": list(codes)}
        for name in reversed(self.code_path):
            schema = {"properties": {name: schema}}
        return schema


PROBLEM_FORMAT: Final = ErrorFormat(
    media_type=MEDIA_TYPE, body_type=ProblemDetails, convert=lambda problem: problem, code_path=("code",)
)
"""Errors as in RFC 9457, which all routes have except those of other APIs."""


def problem_response(
    code: str, detail: str, instance: str, status: int | None = None, retry_after_s: float = RETRY_AFTER_S
) -> Response:
    """Return the problem+json response for a code."""
    status = status or STATUSES.get(code, 500)
    details = ProblemDetails(
        type=f"urn:timeloom:{code}", title=CODES[code], status=status, detail=detail, code=code, instance=instance
    )
    return Response(msgspec.json.encode(details), status, _headers(code, status, retry_after_s), media_type=MEDIA_TYPE)


def error_response(error: CodedError, instance: str) -> Response:
    """Return the response for a coded error; the details of internal errors are only in the log."""
    if STATUSES.get(error.code, 500) == 500:
        return problem_response(error.code, "internal error; see the server's log", instance)
    retry_after_s = error.retry_after_s if isinstance(error, RateLimitError) else RETRY_AFTER_S
    response = problem_response(error.code, str(error), instance, retry_after_s=retry_after_s)
    if isinstance(error, TokenError):
        description = _NOT_IN_DESCRIPTION.sub("'", str(error))
        response.headers["www-authenticate"] = f'Bearer error="invalid_token", error_description="{description}"'
    return response


def _headers(code: str, status: int, retry_after_s: float) -> dict[str, str]:
    # Only the application knows how its users sign in.
    if status == 401 and code != "sign_in_required":
        return {"www-authenticate": "Bearer"}
    if status == 408:
        # The rest of the body is not read.
        return {"connection": "close"}
    return {"retry-after": str(max(1, ceil(retry_after_s)))} if status in (429, 503) else {}
