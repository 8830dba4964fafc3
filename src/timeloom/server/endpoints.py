"""The table of routes; parameters, bodies and responses are derived from the handlers' type hints."""

import inspect
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args, get_type_hints

from timeloom.server.authorize import Permission
from timeloom.server.http.problem_json import PROBLEM_FORMAT, ErrorFormat
from timeloom.server.protocols import websocket
from timeloom.server.protocols.ag_ui import routes as ag_ui
from timeloom.server.protocols.openai import routes as openai_api
from timeloom.server.routes import (
    approvals,
    bundles,
    chat,
    conversations,
    feedback,
    files,
    health,
    login,
    pins,
    reruns,
    search,
    spend,
    web_ui,
    widgets,
)
from timeloom.server.routes import inspect as inspect_routes

# Needed by every request and expensive to compute.
_hints: Final = cache(get_type_hints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An HTTP route: its method, path, required permission and handler."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    requires: Permission
    handler: Callable[..., Awaitable[object]]
    status: int = 200
    audited: bool = False
    """Whether every request is written to the audit log, also those of the owner."""
    error_format: ErrorFormat = PROBLEM_FORMAT
    """The form of errors; clients of another API expect that API's."""

    errors: tuple[str, ...] = ()
    """Codes of errors that do not follow from the other fields."""

    form_refusal: str = ""
    """Where a page's own form is redirected to if it is refused; empty accepts no such form."""

    @property
    def name(self) -> str:
        """The operation id, as in the OpenAPI document, metrics and the audit log."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """The summary in the OpenAPI document: the handler's docstring."""
        return inspect.getdoc(self.handler) or ""

    @property
    def body_type(self) -> type | None:
        """The type of the request body; None if there is none."""
        return _hints(self.handler).get("body")

    @property
    def accepts_files(self) -> bool:
        """Whether the body may also be a form with files."""
        return "files" in _hints(self.handler)

    @property
    def query_type(self) -> type | None:
        """The type of the query parameters; None if there are none."""
        return _hints(self.handler).get("query")

    @property
    def response_types(self) -> tuple[type[object], ...]:
        """The response types."""
        hint = _hints(self.handler)["return"]
        return get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketEndpoint:
    """A WebSocket route; its handler gets the request context, the socket and the query."""

    path: str
    requires: Permission
    handler: Callable[..., Awaitable[None]]

    @property
    def query_type(self) -> type:
        """The type of the query parameters."""
        return _hints(self.handler)["query"]


WRITING: Final = ("conversation_held", "lease_lost", "conflict", "bundle_missing", "bundle_disabled")
"""Codes of routes that append to a conversation: another process may write to it, or its bundle cannot be used."""

SENDING: Final = (*WRITING, "conversation_unknown", "turn_not_running")
"""Codes of routes that send a message, an event or a decision."""

STARTING: Final = (*SENDING, "bundle_unknown")
"""Codes of routes that may start a conversation."""

PATHS: Final = (
    "path_malformed",
    "path_too_long",
    "path_escapes_root",
    "path_name_unsafe",
    "path_not_a_file",
    "range_too_large",
    "path_not_found",
)
"""Codes of routes that take a logical path."""

_PROJECT: Final = "{tenant}/{project}"
_LIST: Final = f"/conversations/{_PROJECT}"
_ONE: Final = f"{_LIST}/{{conversation_id}}"

ENDPOINTS: Final = (
    Endpoint(method="GET", path="/health", requires="anybody", handler=health.get_health),
    Endpoint(method="GET", path="/ready", requires="anybody", handler=health.get_ready),
    Endpoint(
        method="POST",
        path="/login",
        requires="anybody",
        handler=login.post_login,
        errors=("unauthorized", "rate_limited"),
        status=204,
        form_refusal=login.REFUSED_PAGE,
    ),
    Endpoint(method="POST", path="/logout", requires="anybody", handler=login.post_logout, status=204),
    Endpoint(method="GET", path="/me", requires="known", handler=web_ui.get_me),
    Endpoint(
        method="GET",
        path="/widgets/{widget}",
        requires="anybody",
        handler=widgets.get_widget,
        errors=("widget_unknown",),
    ),
    Endpoint(method="GET", path="/metrics", requires="operator", handler=health.get_metrics),
    Endpoint(method="GET", path=f"/audit/{_PROJECT}", requires="admin", handler=health.get_audit),
    Endpoint(
        method="POST",
        path=f"/chat/{_PROJECT}",
        requires="member",
        handler=chat.post_message,
        errors=STARTING,
        status=202,
    ),
    Endpoint(
        method="GET",
        path=f"/chat/{_PROJECT}/{{conversation_id}}/stream",
        requires="owner",
        handler=chat.get_stream,
        errors=("cursor_malformed",),
    ),
    Endpoint(
        method="POST",
        path=f"/events/{_PROJECT}/{{conversation_id}}",
        requires="owner",
        handler=chat.post_event,
        errors=(*SENDING, "form_unknown", "form_answered", "form_answer_invalid"),
        status=202,
    ),
    Endpoint(method="GET", path=f"/bundles/{_PROJECT}", requires="member", handler=bundles.list_bundles),
    Endpoint(method="GET", path=f"/approvals/{_PROJECT}", requires="member", handler=approvals.list_approvals),
    Endpoint(method="GET", path=f"/spend/{_PROJECT}", requires="member", handler=spend.get_spend),
    Endpoint(method="GET", path=_LIST, requires="member", handler=conversations.list_conversations),
    Endpoint(method="GET", path=f"{_LIST}/search", requires="member", handler=search.search_conversations),
    Endpoint(
        method="POST",
        path=f"{_LIST}/fetch",
        requires="member",
        handler=inspect_routes.post_fetch,
        errors=("conversation_unknown", "entry_unknown"),
    ),
    Endpoint(
        method="POST",
        path=f"{_LIST}/feedback/conversations-in-period",
        requires="member",
        handler=feedback.post_conversations_in_period,
    ),
    Endpoint(method="GET", path=_ONE, requires="owner", handler=conversations.get_conversation),
    Endpoint(
        method="DELETE",
        path=_ONE,
        requires="owner",
        handler=conversations.delete_conversation,
        errors=WRITING,
        status=204,
        audited=True,
    ),
    Endpoint(method="GET", path=f"{_ONE}/timeline", requires="owner", handler=conversations.get_timeline),
    Endpoint(method="GET", path=f"{_ONE}/sources", requires="owner", handler=conversations.get_sources),
    Endpoint(method="GET", path=f"{_ONE}/status", requires="owner", handler=conversations.get_status),
    Endpoint(
        method="GET",
        path=f"{_ONE}/prompt",
        requires="owner",
        handler=inspect_routes.get_prompt,
        errors=("entry_unknown", "path_not_found"),
    ),
    Endpoint(method="GET", path=f"{_ONE}/files", requires="owner", handler=files.list_files),
    Endpoint(method="GET", path=f"{_ONE}/file", requires="owner", handler=files.get_file, errors=PATHS),
    Endpoint(method="GET", path=f"{_ONE}/file/url", requires="owner", handler=files.get_artifact_url, errors=PATHS),
    Endpoint(method="POST", path="/by-rn", requires="known", handler=files.post_by_rn, errors=("rn_malformed", *PATHS)),
    Endpoint(method="GET", path=f"{_ONE}/pins", requires="owner", handler=pins.list_pins),
    Endpoint(
        method="POST",
        path=f"{_ONE}/pins",
        requires="owner",
        handler=pins.post_pin,
        errors=(*WRITING, *PATHS, "pin_not_visible", "pin_unknown", "pins_full"),
    ),
    Endpoint(method="POST", path=f"{_ONE}/title", requires="owner", handler=conversations.post_title, errors=WRITING),
    Endpoint(
        method="POST",
        path=f"{_ONE}/turns/{{turn_id}}/feedback",
        requires="owner",
        handler=feedback.post_feedback,
        errors=(*WRITING, "entry_unknown"),
        status=201,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/turns-with-feedbacks",
        requires="reader",
        handler=feedback.post_turns_with_feedbacks,
        errors=("entry_unknown",),
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/fork",
        requires="owner",
        handler=conversations.post_fork,
        errors=("entry_unknown", "turn_open"),
        status=201,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/rerun",
        requires="owner",
        handler=reruns.post_rerun,
        errors=("entry_unknown", "turn_open", "model_unknown", "reruns_busy", "bundle_missing", "bundle_disabled"),
        status=202,
    ),
    Endpoint(
        method="DELETE",
        path=f"{_ONE}/rerun",
        requires="owner",
        handler=reruns.delete_rerun,
        errors=("turn_not_running",),
        status=204,
    ),
    Endpoint(
        method="GET",
        path=f"{_ONE}/comparison",
        requires="owner",
        handler=reruns.get_comparison,
        errors=("entry_unknown",),
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/erase",
        requires="owner",
        handler=conversations.post_erase,
        errors=(*WRITING, *PATHS, "turn_open"),
        audited=True,
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/approvals/{{call_id}}",
        requires="decider",
        handler=chat.post_approval,
        errors=(*SENDING, "approval_unknown"),
        status=202,
    ),
    Endpoint(
        method="POST", path="/ag-ui", requires="known", handler=ag_ui.post_run, errors=(*STARTING, "approval_unknown")
    ),
    Endpoint(
        method="POST",
        path="/v1/chat/completions",
        requires="known",
        handler=openai_api.post_completion,
        errors=(*STARTING, "model_unknown", "output_schema_invalid", "output_conflict", "answer_missing"),
        error_format=openai_api.OPENAI_FORMAT,
    ),
    Endpoint(
        method="GET",
        path="/v1/models",
        requires="known",
        handler=openai_api.list_models,
        error_format=openai_api.OPENAI_FORMAT,
    ),
    Endpoint(
        method="GET",
        path="/v1/models/{model}",
        requires="known",
        handler=openai_api.get_model,
        errors=("model_unknown",),
        error_format=openai_api.OPENAI_FORMAT,
    ),
)

WEBSOCKET_ENDPOINTS: Final = (
    WebSocketEndpoint(
        path=f"/chat/{_PROJECT}/{{conversation_id}}/ws", requires="reader", handler=websocket.hold_socket
    ),
)
"""WebSocket routes, authorized like requests; OpenAPI cannot describe them."""
