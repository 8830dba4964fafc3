"""Sends requests and reads responses, files and event streams; the operations build on it."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from timeloom.client.api_error import ApiError, read_error
from timeloom.client.decode import decode, decode_first
from timeloom.client.event_stream import Backoff, read_events
from timeloom.client.types import EventData

T = TypeVar("T")

EVENTS_TYPE: Final = "text/event-stream"

SILENCE_S: Final = 45.0
"""A stream that is silent for so long is dead, because the server sends a comment every 15 seconds."""


RETRIED: Final = frozenset({429, 502, 503, 504})
"""Statuses after which `follow` tries again: a limit, or a server or proxy that restarts."""


class Unset:
    """The type of `UNSET`."""


UNSET: Final = Unset()
"""A parameter that is not sent."""


class AttachedFile(NamedTuple):
    """A file to attach to a message."""

    name: str
    data: bytes
    mime: str = ""
    """The type; without it, the server decides by the name."""


class Connection:
    """A connection to one server as one user, in one project."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        tenant: str = "local",
        project: str = "default",
        timeout_s: float = 60.0,
        reconnect_s: float = 0.3,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self.tenant = tenant
        self.project = project
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._reconnect_s = reconnect_s
        self._owns_http = http is None
        self._http = http or httpx2.AsyncClient(timeout=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless the HTTP client was passed in."""
        if self._owns_http:
            await self._http.aclose()

    def path(self, template: str, **names: str) -> str:
        """Return the path with its parameters; each is quoted whole."""
        values = {"tenant": self.tenant, "project": self.project, **names}
        return template.format_map({name: quote(value, safe="") for name, value in values.items()})

    async def request(
        self,
        method: str,
        path: str,
        kind: type[T] | tuple[type[T], ...],
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        files: Sequence[AttachedFile] = (),
    ) -> T:
        """Send a request and return its JSON result; of several types, the first that fits."""
        data = await self.exchange(method, path, query=query, body=body, files=files)
        return decode_first(data, kind) if isinstance(kind, tuple) else decode(data, kind)

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        files: Sequence[AttachedFile] = (),
    ) -> bytes:
        """Send a request and return the bytes of the response; raise `ApiError` if the server refuses it."""
        response = await self._http.send(self._build(method, path, query, body, files))
        if response.is_error:
            raise read_error(response.status_code, response.content)
        return response.content

    async def stream(
        self, method: str, path: str, *, body: Mapping[str, object], files: Sequence[AttachedFile] = ()
    ) -> AsyncGenerator[EventData]:
        """Send a request and yield the events of its response."""
        async with self._open_stream(self._build(method, path, None, body, files)) as response:
            async for event in read_events(response):
                yield event.data

    async def follow(
        self, method: str, path: str, *, query: Mapping[str, object] | None = None
    ) -> AsyncGenerator[EventData]:
        """Yield the events of a conversation; a lost connection continues after the last block that arrived.

        Raises if the first connection fails, and later if the server refuses to continue.
        """
        last_id, backoff, has_connected = "", Backoff(self._reconnect_s), False
        while True:
            request = self._build(method, path, query)
            if last_id:
                request.headers["last-event-id"] = last_id
            try:
                async with self._open_stream(request) as response:
                    has_connected = True
                    async for event in read_events(response):
                        backoff.reset()
                        last_id = event.id or last_id
                        yield event.data
            except (httpx2.TransportError, ApiError) as error:
                is_final = isinstance(error, ApiError) and error.status not in RETRIED
                if is_final or not has_connected:
                    raise
            await backoff.wait()

    @asynccontextmanager
    async def _open_stream(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Response]:
        request.headers["accept"] = EVENTS_TYPE
        request.extensions = {**request.extensions, "timeout": {**request.extensions["timeout"], "read": SILENCE_S}}
        response = await self._http.send(request, stream=True)
        try:
            if response.is_error:
                raise read_error(response.status_code, await response.aread())
            yield response
        finally:
            await response.aclose()

    def _build(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        files: Sequence[AttachedFile] = (),
    ) -> httpx2.Request:
        params = _to_texts(query)
        content: dict[str, Any] = {}
        headers = dict(self._headers)
        if files:
            content["data"] = _to_texts(body)
            content["files"] = [("files", _form_file(one)) for one in files]
        elif body is not None:
            content["content"] = msgspec.json.encode(_given(body))
            headers["content-type"] = "application/json"
        return self._http.build_request(method, f"{self._url}{path}", params=params, headers=headers, **content)


def _given(values: Mapping[str, object] | None) -> dict[str, object]:
    return {name: value for name, value in (values or {}).items() if value is not UNSET}


def _to_texts(values: Mapping[str, object] | None) -> dict[str, str]:
    """Return the values as an address or a form has them; null cannot be sent there."""
    given = {name: value for name, value in _given(values).items() if value is not None}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}


def _form_file(file: AttachedFile) -> tuple[str, bytes] | tuple[str, bytes, str]:
    return (file.name, file.data, file.mime) if file.mime else (file.name, file.data)
