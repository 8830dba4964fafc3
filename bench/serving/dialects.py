"""The request format and the event names of each agent server."""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec

from bench.serving.plans import Server

CHAT: Final = "/chat/home/bench"

AGENT: Final = "bench"
"""The name of the agent on other servers."""


class MessageRequest(msgspec.Struct, frozen=True):
    """A request that sends a message; its answer is an event stream."""

    path: str
    kind: str
    body: bytes


class ServerDialect(msgspec.Struct, frozen=True, kw_only=True):
    """The request format and the event names of one server."""

    ask: Callable[[str, str], MessageRequest]
    """Returns the request for a message to that conversation; an empty name starts a new one."""

    delta: bytes
    """The name of the events that contain the model's text."""

    text: bytes
    """The JSON key before the text."""

    failure: bytes
    """The name of the event of a failed turn."""

    conversation: re.Pattern[bytes]
    """Matches the conversation's id in the first event that has it."""


def _ask_timeloom(text: str, conversation: str) -> MessageRequest:
    return json_request(CHAT, {"message": text, **({"conversation_id": conversation} if conversation else {})})


def _ask_agno(text: str, conversation: str) -> MessageRequest:
    form = {"message": text, "stream": "true", **({"session_id": conversation} if conversation else {})}
    return MessageRequest(f"/agents/{AGENT}/runs", "application/x-www-form-urlencoded", urlencode(form).encode())


def _ask_langgraph(text: str, conversation: str) -> MessageRequest:
    body = {
        "assistant_id": AGENT,
        "input": {"messages": [{"role": "user", "content": text}]},
        "stream_mode": ["messages-tuple"],
        "if_not_exists": "create",
        "durability": "sync",
    }
    return json_request(f"/threads/{conversation or uuid.uuid4()}/runs/stream", body)


def json_request(path: str, body: object) -> MessageRequest:
    """Return a request with a JSON body."""
    return MessageRequest(path, "application/json", msgspec.json.encode(body))


DIALECTS: Final[Mapping[Server, ServerDialect]] = {
    "timeloom": ServerDialect(
        ask=_ask_timeloom,
        delta=b"chat.delta",
        text=b'"text":',
        failure=b"chat.error",
        conversation=re.compile(rb'"conversation_id":"([^"]+)"'),
    ),
    "agno": ServerDialect(
        ask=_ask_agno,
        delta=b"RunContent",
        text=b'"content":',
        failure=b"RunError",
        conversation=re.compile(rb'"session_id":"([^"]+)"'),
    ),
    "langgraph": ServerDialect(
        ask=_ask_langgraph,
        delta=b"messages",
        text=b'"content":',
        failure=b"error",
        conversation=re.compile(rb'"thread_id":"([^"]+)"'),
    ),
}
