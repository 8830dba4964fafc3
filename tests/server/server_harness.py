"""Harness for the server: a store, a scripted model and the application on a real socket in this process."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx2
import msgspec

from tests.harness import replies
from tests.server.contract_check import check_event, check_response
from timeloom.app import AgentSettings
from timeloom.bundles.registry import BundleRegistry
from timeloom.config.settings import Settings
from timeloom.core.blocks import ToolTraits
from timeloom.core.policy.budget import Budgets
from timeloom.core.policy.gates import DEFAULT_POLICIES, Policy
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.data_folder import build_side_file_erasers
from timeloom.ports.store import Store
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.runtime.hub.hub import HubSettings
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.auth.api_keys import ApiKey, hash_token
from timeloom.server.auth.authenticate import Authenticator, TokenVerifier
from timeloom.server.auth.principal import Role
from timeloom.server.bootstrap import ServerParts, build_services
from timeloom.server.http.uploads import UploadLimits
from timeloom.server.http_server import HttpServer, listen
from timeloom.server.rate_limit import RateLimits
from timeloom.server.services import Services, Widgets
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

Json = dict[str, object]
Step = dict[str, object]

CHAT = "/chat/home/demo"
LIST = "/conversations/home/demo"


class SseFrame(msgspec.Struct, frozen=True):
    """A server-sent event as a client parses it."""

    event: str
    data: Json
    id: int = 0


def make_key(token: str, tenant: str, project: str, user: str, role: Role = "user") -> ApiKey:
    return ApiKey(sha256=hash_token(token), tenant=tenant, project=project, user=user, role=role)


KEYS = (
    make_key("ann", "home", "demo", "ann"),
    make_key("bob", "home", "demo", "bob"),
    make_key("admin", "home", "*", "root", "admin"),
    make_key("project", "home", "other", "ann"),
    make_key("tenant", "away", "demo", "ann"),
    make_key("tenant-admin", "away", "*", "root", "admin"),
    make_key("approver", "home", "demo", "eve", "approver"),
    make_key("operator", "*", "*", "op", "admin"),
)


def calls(tool_id: str, **params: object) -> str:
    """Return a reply that thinks a little, writes a note and calls a tool."""
    return replies.calls(tool_id, notes="a note", thinking="hm", **params)


def repeated_reply(text: str) -> Step:
    return {"reply": text, "repeat": True}


class ApiClient:
    """An HTTP client with a token."""

    def __init__(self, http: httpx2.AsyncClient, token: str) -> None:
        self.http = http
        self.headers = {"authorization": f"Bearer {token}"}

    async def get(self, path: str, **query: str | int) -> httpx2.Response:
        return await self.http.get(path, params=query, headers=self.headers)

    async def post(self, path: str, body: object) -> httpx2.Response:
        return await self.http.post(path, json=body, headers=self.headers)

    async def send_message(self, message: str, conversation: str = "") -> Json:
        body = {"message": message} | ({"conversation_id": conversation} if conversation else {})
        response = await self.post(CHAT, body)
        assert response.status_code == 202, response.text
        return response.json()

    async def send(self, conversation: str, kind: str, text: str = "") -> Json:
        response = await self.post(f"/events/home/demo/{conversation}", {"kind": kind, "text": text})
        assert response.status_code == 202, response.text
        return response.json()

    async def blocks(self, conversation: str) -> list[Json]:
        """Return the timeline, read page by page."""
        found: list[Json] = []
        after: int | None = 0
        while after is not None:
            response = await self.get(f"{LIST}/{conversation}/timeline", after=after, limit=7)
            page = response.json()
            assert response.status_code == 200, page
            found += page["blocks"]
            after = page["next"]
        return found

    @asynccontextmanager
    async def post_and_stream(self, message: str, conversation: str = "") -> AsyncGenerator[AsyncIterator[SseFrame]]:
        """Post a message and stream the turn that it opens."""
        body = {"message": message} | ({"conversation_id": conversation} if conversation else {})
        headers = self.headers | {"accept": "text/event-stream"}
        async with self.http.stream("POST", CHAT, json=body, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield frames(response)

    @asynccontextmanager
    async def stream_conversation(self, conversation: str, after: int = 0) -> AsyncGenerator[AsyncIterator[SseFrame]]:
        """Stream a conversation after that block."""
        headers = self.headers | ({"last-event-id": str(after)} if after else {})
        async with self.http.stream("GET", f"{CHAT}/{conversation}/stream", headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield frames(response)

    async def wait_for_state(self, conversation: str, state: str) -> Json:
        """Wait until the conversation has that state and return its status."""
        while True:
            status: Json = (await self.get(f"{LIST}/{conversation}/status")).json()
            if status["state"] == state:
                return status
            await asyncio.sleep(0.01)


async def frames(response: httpx2.Response) -> AsyncIterator[SseFrame]:
    """Yield the events of a response, without heartbeats."""
    event, number, data = "", 0, list[str]()
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        match name:
            case "event":
                event = value
            case "id":
                number = int(value)
            case "data":
                data.append(value)
            case "" if event:
                frame = SseFrame(event, json.loads("\n".join(data)), number)
                check_event(frame.event, frame.data, frame.id)
                yield frame
                event, number, data = "", 0, []
            case _:
                pass


def blocks_in(received: Iterable[SseFrame]) -> list[tuple[int, object]]:
    return [(frame.id, frame.data["block"]) for frame in received if frame.event == "chat.block"]


def number_blocks(blocks: list[Json]) -> list[tuple[int, object]]:
    return list(enumerate(blocks, 1))


class ServerHarness:
    """A server over a store, and its clients."""

    def __init__(self, folder: Path, *steps: str | Step, store: Store | None = None, **settings: float) -> None:
        items: list[object] = [{"reply": step} if isinstance(step, str) else step for step in steps]
        self.folder = folder
        self.store = store or MemoryStore()
        self.model = ScriptedModel.from_text(json.dumps(items))
        self.models: tuple[ScriptedModel, ...] = ()
        """Further models for re-runs of conversations."""
        self.settings = msgspec.convert({"grace_s": 0.05, **settings}, HubSettings)
        self.sent: list[str] = []
        self.leave_s = 3.0
        self.uploads = UploadLimits()
        self.rules = AccessPolicy()
        self.limits = RateLimits()
        self.budgets = Budgets()
        self.channels: tuple[DeclaredChannel, ...] = ()
        self.widgets: Widgets = {}
        self.edition = Settings().context.edition
        self.policies: tuple[Policy, ...] = DEFAULT_POLICIES
        self.bundles: BundleRegistry | None = None
        """The bundles of the server."""
        self.registers: tuple[TokenVerifier, ...] = ()
        self.waiting = asyncio.Event()
        """Set once the tool `t.wait` or `t.flood` has started."""
        self.flooding = asyncio.Event()
        """Set to release the tool `t.flood`, which emits more than a client can read."""

    def registry(self) -> ToolRegistry:
        async def look(context: ToolContext, size: int = 10) -> str:
            """Looks."""
            context.emit("tool", "looking")
            return "x " * size

        async def send(context: ToolContext) -> Outcome:
            """Sends."""
            self.sent.append(context.tool_call_id)
            return Outcome(status="sent")

        async def wait() -> str:
            """Waits."""
            self.waiting.set()
            await asyncio.Event().wait()
            return "never"

        async def flood(context: ToolContext) -> str:
            """Says more than anybody can read."""
            self.waiting.set()
            await self.flooding.wait()
            for _ in range(200):
                context.emit("tool", "x" * 10_000)
                await asyncio.sleep(0.001)
            return "done"

        own = (
            tool("t.flood", effect="pure")(flood),
            tool("t.look", effect="pure", traits=ToolTraits(polled=True))(look),
            tool("t.send", effect="irreversible")(send),
            tool("t.wait", effect="pure")(wait),
        )
        return ToolRegistry((*react_tools(), *own))

    def parts(self) -> ServerParts:
        """Return the parts of the server, as the attributes say."""
        return ServerParts(
            store=self.store,
            model=self.model,
            rerun_models=tuple((model, None) for model in self.models),
            tools=self.registry(),
            bundles=self.bundles or BundleRegistry(),
            agent_settings=AgentSettings(
                data_dir=self.folder,
                budgets=self.budgets,
                policies=self.policies,
                edition=self.edition,
                channels=self.channels,
            ),
            widgets=self.widgets,
            hub_settings=self.settings,
            authenticator=Authenticator(KEYS, *self.registers),
            access_policy=self.rules,
            rate_limits=self.limits,
            upload_limits=self.uploads,
            max_body_bytes=10_000,
            drain_timeout_s=self.leave_s,
            revocation_interval_s=0.02,
            side_file_erasers=build_side_file_erasers(self.folder),
        )

    def open_services(self) -> AbstractAsyncContextManager[Services]:
        return build_services(self.parts())

    @asynccontextmanager
    async def serve(self, *, recovers: bool = False, small_buffers: bool = False) -> AsyncGenerator["RunningServer"]:
        """Run the server until the context ends."""
        async with self.open_services() as services:
            with listen("127.0.0.1", 0) as listener:
                url = f"http://127.0.0.1:{listener.getsockname()[1]}"
                if small_buffers:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
                if recovers:
                    services.hub.resume_open_turns()
                async with (
                    httpx2.AsyncClient(base_url=url, timeout=30, event_hooks={"response": [check_response]}) as http,
                    HttpServer(services).serve_in_background(listener),
                ):
                    yield RunningServer(services, http, url)


class RunningServer:
    """A running server."""

    def __init__(self, services: Services, http: httpx2.AsyncClient, url: str) -> None:
        self.services = services
        self.http = http
        self.url = url
        self.ann = ApiClient(http, "ann")

    def client(self, token: str) -> ApiClient:
        return ApiClient(self.http, token)

    def cookie(self, token: str) -> dict[str, str]:
        """Return the cookie header of a browser that signed in with that token."""
        return {"cookie": f"timeloom_token_{self.url.rpartition(':')[2]}={token}"}


def run(check: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(check())
