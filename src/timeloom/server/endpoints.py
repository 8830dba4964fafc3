"""The table of routes; parameters, bodies and responses are derived from the handlers' type hints."""

import inspect
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args, get_type_hints

from starlette.responses import Response

from timeloom.server.authorize import Who
from timeloom.server.protocols import websocket
from timeloom.server.protocols.ag_ui import routes as ag_ui
from timeloom.server.protocols.openai import routes as openai_api
from timeloom.server.routes import (
    chat,
    conversations,
    feedback,
    files,
)
from timeloom.server.routes import (
    health as service,
)
from timeloom.server.routes import (
    inspect as looking,
)
from timeloom.server.routes import (
    reruns as again,
)
from timeloom.server.routes import (
    web_ui as page,
)

# Needed by every request and expensive to compute.
_hints: Final = cache(get_type_hints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An HTTP route: its method, path, required permission and handler."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    who: Who
    run: Callable[..., Awaitable[object]]
    status: int = 200
    audited: bool = False
    """Whether every request is written to the audit log, also those of the owner."""
    refusal: Callable[[Response], Response] | None = None
    """Converts an error response for clients of another API; None keeps problem+json."""

    @property
    def name(self) -> str:
        """The operation id, as in the OpenAPI document, metrics and the audit log."""
        return self.run.__name__

    @property
    def summary(self) -> str:
        """The summary in the OpenAPI document: the handler's docstring."""
        return inspect.getdoc(self.run) or ""

    @property
    def body(self) -> type | None:
        """The type of the request body; None if there is none."""
        return _hints(self.run).get("body")

    @property
    def takes_files(self) -> bool:
        """Whether the body may also be a form with files."""
        return "files" in _hints(self.run)

    @property
    def query(self) -> type | None:
        """The type of the query parameters; None if there are none."""
        return _hints(self.run).get("query")

    @property
    def answers(self) -> tuple[type, ...]:
        """The response types."""
        hint = _hints(self.run)["return"]
        return get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A WebSocket route; its handler gets the request context, the socket and the query."""

    path: str
    who: Who
    run: Callable[..., Awaitable[None]]

    @property
    def query(self) -> type:
        """The type of the query parameters."""
        return _hints(self.run)["query"]


_PROJECT: Final = "{tenant}/{project}"
_LIST: Final = f"/conversations/{_PROJECT}"
_ONE: Final = f"{_LIST}/{{conversation_id}}"

OPERATIONS: Final = (
    Operation(method="GET", path="/health", who="anybody", run=service.get_health),
    Operation(method="GET", path="/ready", who="anybody", run=service.get_ready),
    Operation(method="GET", path="/me", who="known", run=page.get_me),
    Operation(method="GET", path="/metrics", who="operator", run=service.get_metrics),
    Operation(method="GET", path=f"/audit/{_PROJECT}", who="admin", run=service.get_audit),
    Operation(method="POST", path=f"/chat/{_PROJECT}", who="member", run=chat.post_message, status=202),
    Operation(method="GET", path=f"/chat/{_PROJECT}/{{conversation_id}}/stream", who="owner", run=chat.get_stream),
    Operation(
        method="POST", path=f"/events/{_PROJECT}/{{conversation_id}}", who="owner", run=chat.post_event, status=202
    ),
    Operation(method="GET", path=_LIST, who="member", run=conversations.list_conversations),
    Operation(method="GET", path=f"{_LIST}/search", who="member", run=looking.search_conversations),
    Operation(method="POST", path=f"{_LIST}/fetch", who="member", run=looking.post_fetch),
    Operation(
        method="POST",
        path=f"{_LIST}/feedback/conversations-in-period",
        who="member",
        run=feedback.post_conversations_in_period,
    ),
    Operation(method="GET", path=_ONE, who="owner", run=conversations.get_conversation),
    Operation(method="DELETE", path=_ONE, who="owner", run=conversations.delete_conversation, status=204, audited=True),
    Operation(method="GET", path=f"{_ONE}/timeline", who="owner", run=conversations.get_timeline),
    Operation(method="GET", path=f"{_ONE}/sources", who="owner", run=conversations.get_sources),
    Operation(method="GET", path=f"{_ONE}/status", who="owner", run=conversations.get_status),
    Operation(method="GET", path=f"{_ONE}/prompt", who="owner", run=looking.get_prompt),
    Operation(method="GET", path=f"{_ONE}/files", who="owner", run=files.list_files),
    Operation(method="GET", path=f"{_ONE}/file", who="owner", run=files.get_file),
    Operation(method="GET", path=f"{_ONE}/file/url", who="owner", run=files.get_artifact_url),
    Operation(method="POST", path="/by-rn", who="known", run=files.post_by_rn),
    Operation(method="POST", path=f"{_ONE}/title", who="owner", run=conversations.post_title),
    Operation(
        method="POST", path=f"{_ONE}/turns/{{turn_id}}/feedback", who="owner", run=feedback.post_feedback, status=201
    ),
    Operation(method="POST", path=f"{_ONE}/turns-with-feedbacks", who="reader", run=feedback.post_turns_with_feedbacks),
    Operation(method="POST", path=f"{_ONE}/fork", who="owner", run=conversations.post_fork, status=201),
    Operation(method="POST", path=f"{_ONE}/rerun", who="owner", run=again.post_rerun, status=202),
    Operation(method="DELETE", path=f"{_ONE}/rerun", who="owner", run=again.delete_rerun, status=204),
    Operation(method="GET", path=f"{_ONE}/comparison", who="owner", run=again.get_comparison),
    Operation(method="POST", path=f"{_ONE}/erase", who="owner", run=conversations.post_erase, audited=True),
    Operation(
        method="POST",
        path=f"{_ONE}/approvals/{{call_id}}",
        who="decider",
        run=chat.post_approval,
        status=202,
    ),
    Operation(method="POST", path="/ag-ui", who="known", run=ag_ui.post_run),
    Operation(
        method="POST",
        path="/v1/chat/completions",
        who="known",
        run=openai_api.post_completion,
        refusal=openai_api.refused,
    ),
    Operation(method="GET", path="/v1/models", who="known", run=openai_api.list_models, refusal=openai_api.refused),
    Operation(
        method="GET", path="/v1/models/{model}", who="known", run=openai_api.get_model, refusal=openai_api.refused
    ),
)

SOCKETS: Final = (Socket(path=f"/chat/{_PROJECT}/{{conversation_id}}/ws", who="reader", run=websocket.hold_socket),)
"""WebSocket routes, authorized like requests; OpenAPI cannot describe them."""
