"""The error codes of each route: those that follow from its form, and those that its table row adds."""

from collections.abc import Iterator
from typing import Final, cast

from msgspec.structs import fields

from timeloom.core.codes import CODES
from timeloom.server.endpoints import Endpoint
from timeloom.server.http.downloads import FileDownload
from timeloom.server.http.problem_json import STATUSES
from timeloom.server.openapi.component_types import StructType

ANY_ROUTE: Final = (
    "request_malformed",
    "forbidden",
    "route_unknown",
    "host_unknown",
    "internal_error",
    "server_closing",
    "store_closed",
    "store_locked",
    "store_unwritable",
)
"""Codes of every route: the checks of a request's head, and a store that cannot be used."""

BODY: Final = ("request_too_large", "request_timeout")

FILES: Final = (
    "attachment_type_unavailable",
    "path_malformed",
    "path_escapes_root",
    "path_too_long",
    "path_name_unsafe",
)
"""Codes of routes that accept files."""


def errors_of(one: Endpoint) -> dict[int, tuple[str, ...]]:
    """Return the codes of the route's errors by status, in the order of statuses; 500 stands for all other codes."""
    by_status: dict[int, dict[str, None]] = {}
    for code in _codes_of(one):
        by_status.setdefault(STATUSES.get(code, 500), {})[code] = None
    return {status: tuple(codes) for status, codes in sorted(by_status.items())}


def describe_codes(codes: tuple[str, ...]) -> str:
    """Return a sentence for each code."""
    return "\n".join(f"- `{code}`: {CODES[code]}" for code in codes)


def _codes_of(one: Endpoint) -> Iterator[str]:
    yield from ANY_ROUTE
    if one.requires != "anybody":
        yield from ("unauthorized", "rate_limited")
    if one.requires in ("owner", "reader", "decider"):
        yield "conversation_unknown"
    if one.body_type:
        yield from BODY
    if one.accepts_files:
        yield from FILES
    if FileDownload in one.response_types:
        yield "range_unsatisfiable"
    if any("cursor" in _names_of(kind) for kind in (one.body_type, one.query_type)):
        yield "cursor_malformed"
    yield from one.errors


def _names_of(kind: type | None) -> set[str]:
    return {one.name for one in fields(cast(StructType, kind))} if kind else set()
