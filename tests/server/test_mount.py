"""An agent mounted in an application: its users chat below a prefix, each with their own conversations."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.server.server_harness import Json, frames
from timeloom import Agent, Bundle, get_plain, tool
from timeloom.bundles.bundle import BundleChannel, BundleWidget
from timeloom.config.sections.server import ServerSettings
from timeloom.config.settings import Settings
from timeloom.core.codes import CodedError
from timeloom.server import Principal, create_app
from timeloom.server.auth.app_authenticator import Authenticate
from timeloom.server.http_server import listen
from timeloom.testing import ScriptedModel, call, says

CHAT = "/agent/chat/local/default"
LIST = "/agent/conversations/local/default"


@tool("orders.refund")
async def refund(order: str) -> str:
    """Refund the order."""
    return f"refunded {order}"


def by_cookie(request: HTTPConnection) -> str | None:
    """Return the user of the session cookie, as an application with sessions of its own does."""
    return request.cookies.get("user")


def mounted(agent: Agent[str], authenticate: Authenticate | None = by_cookie) -> Starlette:
    async def front(_: Request) -> PlainTextResponse:
        return PlainTextResponse("the application")

    app = create_app(agent, authenticate=authenticate, recheck_s=0.02)
    return Starlette(lifespan=agent.lifespan, routes=[Route("/", front), Mount("/agent", app)])


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Leave the signals to pytest."""


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve the application with uvicorn on a free port and yield its address."""
    with listen("127.0.0.1", 0) as listener:
        server = _Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve([listener]))
        # The socket listens already, so requests wait until the application has started.
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


Work = Callable[[httpx2.AsyncClient], Awaitable[None]]


def use(agent: Agent[str], work: Work, authenticate: Authenticate | None = by_cookie) -> None:
    """Run the work with a client of the application that has the agent mounted."""

    async def main() -> None:
        async with serving(mounted(agent, authenticate)) as address, httpx2.AsyncClient(base_url=address) as client:
            await work(client)

    asyncio.run(main())


def cookie(user: str) -> dict[str, str]:
    return {"cookie": f"user={user}"}


async def chat(client: httpx2.AsyncClient, message: str, headers: dict[str, str], conversation: str = "") -> str:
    """Send the message, wait for the end of the turn and return the conversation."""
    body = {"message": message} | ({"conversation_id": conversation} if conversation else {})
    stream = {"accept": "text/event-stream"}
    async with client.stream("POST", CHAT, json=body, headers=headers | stream) as response:
        assert response.status_code == 200, await response.aread()
        events = [frame async for frame in frames(response)]
    assert events[-1].event == "chat.complete"
    return (await client.get(LIST, headers=headers)).json()["conversations"][0]["id"]


def socket_address(client: httpx2.AsyncClient) -> str:
    return f"ws{str(client.base_url).rstrip('/')[4:]}"


def problem(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_the_application_keeps_its_routes_and_the_agent_answers_below_the_prefix(tmp_path: Path) -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        assert (await client.get("/")).text == "the application"
        conversation = await chat(client, "hello", cookie("ann"))
        page = (await client.get(f"{LIST}/{conversation}/timeline", headers=cookie("ann"))).json()
        assert "Hi." in str(page["blocks"])
        me: Json = (await client.get("/agent/me", headers=cookie("ann"))).json()
        assert (me["user"], me["tenant"], me["project"], me["role"]) == ("ann", "local", "default", "user")
        assert me["signs_in"] is False
        assert (await client.get("/agent/health")).json()["status"] == "ok"

    use(Agent(ScriptedModel([says("Hi.")]), store=tmp_path), work)


def test_the_page_and_its_files_are_served_below_the_prefix() -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        assert (await client.get("/agent", follow_redirects=True)).url.path == "/agent/"
        page = await client.get("/agent/?token=abc")
        assert page.status_code == 200
        assert "script-src 'self'" in page.headers["content-security-policy"]
        script = page.text.partition('src="./')[2].partition('"')[0]
        assert (await client.get(f"/agent/{script}")).status_code == 200
        assert (await client.get("/agent/frame.html")).headers["x-frame-options"] == "SAMEORIGIN"
        for path in ("/agent/login", "/agent/logout"):
            assert problem(await client.post(path, json={"token": "a"})) == (404, "route_unknown")

    use(Agent(ScriptedModel([])), work)


def test_the_page_can_be_left_out() -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel([]))
        app = create_app(agent, authenticate=by_cookie, page=False)
        async with serving(app) as address, httpx2.AsyncClient(base_url=address) as client:
            assert problem(await client.get("/")) == (404, "route_unknown")
            assert (await client.get("/me", headers=cookie("ann"))).json()["user"] == "ann"

    asyncio.run(main())


def test_users_of_the_application_do_not_see_each_others_conversations() -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        conversation = await chat(client, "hello", cookie("ann"))
        listed = (await client.get(LIST, headers=cookie("bob"))).json()
        assert listed["conversations"] == []
        for path in ("", "/timeline", "/files", "/prompt?round=1"):
            refused = await client.get(f"{LIST}/{conversation}{path}", headers=cookie("bob"))
            assert problem(refused) == (404, "conversation_unknown")
        body = {"message": "more", "conversation_id": conversation}
        assert problem(await client.post(CHAT, json=body, headers=cookie("bob"))) == (404, "conversation_unknown")
        forked = await client.post(f"{LIST}/{conversation}/fork", json={}, headers=cookie("bob"))
        assert problem(forked) == (404, "conversation_unknown")

    use(Agent(ScriptedModel([says("Hi.")])), work)


def test_a_request_that_the_application_does_not_recognize_is_refused() -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        for path in ("/agent/me", LIST, "/agent/v1/models"):
            response = await client.get(path)
            assert response.status_code == 401
            assert "www-authenticate" not in response.headers
        assert problem(await client.post(CHAT, json={"message": "hi"})) == (401, "sign_in_required")
        with pytest.raises(InvalidStatus, match="401"):
            async with connect(f"{socket_address(client)}{CHAT}/conv_1_a/ws"):
                pass

    use(Agent(ScriptedModel([])), work)


def test_a_page_of_another_origin_cannot_use_the_cookie_of_the_application() -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        conversation = await chat(client, "hello", cookie("ann"))
        for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "same-site"}, {"origin": "null"}):
            response = await client.post(CHAT, json={"message": "hi"}, headers=cookie("ann") | foreign)
            assert problem(response) == (403, "forbidden")
        address = f"{socket_address(client)}{CHAT}/{conversation}/ws"
        with pytest.raises(InvalidStatus, match="403"):
            async with connect(address, additional_headers=cookie("ann"), origin="https://evil.example"):  # pyright: ignore[reportArgumentType]
                pass
        own = {"origin": str(client.base_url).rstrip("/")}
        assert (await client.post(CHAT, json={"message": "hi"}, headers=cookie("ann") | own)).status_code == 202

    use(Agent(ScriptedModel([says("Hi."), says("Hi again.")])), work)


def test_a_websocket_of_the_application_streams_the_conversation() -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        conversation = await chat(client, "hello", cookie("ann"))
        address = f"{socket_address(client)}{CHAT}/{conversation}/ws"
        async with connect(address, additional_headers=cookie("ann")) as socket:
            assert "conv.status" in str(await socket.recv()) + str(await socket.recv())

    use(Agent(ScriptedModel([says("Hi.")])), work)


def test_an_open_stream_ends_when_the_application_no_longer_recognizes_its_user() -> None:
    signed_in = {"ann"}

    async def authenticate(request: Request) -> str | None:
        user = request.cookies.get("user", "")
        return user if user in signed_in else None

    async def work(client: httpx2.AsyncClient) -> None:
        conversation = await chat(client, "hello", cookie("ann"))
        async with client.stream("GET", f"{CHAT}/{conversation}/stream", headers=cookie("ann")) as response:
            signed_in.clear()
            events = [frame async for frame in frames(response)]
        assert (events[-1].event, events[-1].data["code"]) == ("chat.error", "unauthorized")

    use(Agent(ScriptedModel([says("Hi.")])), work, authenticate)


def test_principals_carry_tenants_projects_and_roles() -> None:
    async def authenticate(request: Request) -> Principal | None:
        user = request.cookies.get("user", "")
        role = "approver" if user == "eve" else "user"
        return Principal(tenant="acme", project="shop", user=user, role=role) if user else None

    async def work(client: httpx2.AsyncClient) -> None:
        chat_path = "/agent/chat/acme/shop"
        assert problem(await client.post(CHAT, json={"message": "a"}, headers=cookie("ann"))) == (403, "forbidden")
        sent = (await client.post(chat_path, json={"message": "Refund."}, headers=cookie("ann"))).json()
        path = f"/agent/conversations/acme/shop/{sent['conversation_id']}"
        waiting: list[Json] = []
        while not waiting:
            await asyncio.sleep(0.01)
            waiting = (await client.get("/agent/approvals/acme/shop", headers=cookie("eve"))).json()["approvals"]
        call_id = waiting[0]["tool_call_id"]
        decided = await client.post(f"{path}/approvals/{call_id}", json={"approved": True}, headers=cookie("eve"))
        assert decided.status_code == 202
        assert problem(await client.post(f"{path}/title", json={"title": "a"}, headers=cookie("eve"))) == (
            403,
            "forbidden",
        )

    use(Agent(ScriptedModel([call("orders.refund", order="A1"), says("Done.")]), tools=[refund]), work, authenticate)


@pytest.mark.parametrize(
    "sender",
    [
        7,
        "a\u202eb",
        Principal(tenant="a/b", project="p", user="u"),
        Principal(tenant="t", project="p", user="u", role="boss"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_wrong_answer_of_authenticate_lets_nobody_in(sender: object) -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        assert problem(await client.get("/agent/me")) == (500, "internal_error")

    use(Agent(ScriptedModel([])), work, lambda _: sender)  # pyright: ignore[reportArgumentType]


def test_an_application_that_does_not_open_the_agent_is_told_how() -> None:
    async def main() -> None:
        app = Starlette(routes=[Mount("/agent", create_app(Agent(ScriptedModel([])), authenticate=by_cookie))])
        async with serving(app) as address, httpx2.AsyncClient(base_url=address) as client:
            response = await client.get("/agent/me", headers=cookie("ann"))
            assert problem(response) == (503, "agent_closed")
            assert "lifespan=agent.lifespan" in response.json()["detail"]
            with pytest.raises(InvalidStatus, match="503"):
                async with connect(f"ws{address[4:]}{CHAT}/conv_1_a/ws"):
                    pass

    asyncio.run(main())


def test_an_open_agent_cannot_be_mounted_any_more() -> None:
    async def main() -> None:
        async with Agent(ScriptedModel([])) as agent:
            with pytest.raises(CodedError, match="before you open it"):
                create_app(agent, authenticate=by_cookie)

    asyncio.run(main())


def test_without_authenticate_or_keys_nothing_is_mounted() -> None:
    with pytest.raises(CodedError, match="pass authenticate="):
        create_app(Agent(ScriptedModel([]), settings=Settings()))


def test_without_authenticate_the_token_of_the_settings_signs_in_below_the_prefix(tmp_path: Path) -> None:
    token = "0123456789abcdef"
    settings = Settings(server=ServerSettings(token=token))

    async def work(client: httpx2.AsyncClient) -> None:
        assert problem(await client.get("/agent/me")) == (401, "unauthorized")
        page = await client.get(f"/agent/?token={token}", headers={"sec-fetch-site": "none"})
        assert (page.status_code, page.headers["location"]) == (303, "/agent/")
        assert (await client.get("/agent/me")).json()["signs_in"] is True
        asked = await client.get(f"/agent/?token={token}")
        assert 'action="/agent/login"' in asked.text
        refused = await client.get("/agent/?token=wrong", headers={"sec-fetch-site": "none"})
        assert refused.headers["location"] == "/agent/#refused"
        form = await client.post("/agent/login", data={"token": token}, headers={"sec-fetch-site": "same-origin"})
        assert (form.status_code, form.headers["location"]) == (303, "/agent/")
        other_host = await client.get("/agent/me", headers={"host": "shop.example"})
        assert problem(other_host) == (421, "host_unknown")

    use(Agent(ScriptedModel([]), settings=settings, store=tmp_path), work, None)


def test_files_have_addresses_below_the_prefix() -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        conversation = await chat(client, "write", cookie("ann"))
        [file] = (await client.get(f"{LIST}/{conversation}/files", headers=cookie("ann"))).json()["files"]
        assert file["url"].startswith("/agent/conversations/")
        assert (await client.get(file["url"], headers=cookie("ann"))).text == "text"

    use(Agent(ScriptedModel([call("react.write", path="a.md", content="text"), says("Done.")])), work)


def test_a_script_and_the_application_share_the_open_agent() -> None:
    agent = Agent(ScriptedModel([says("Hi.")]))

    async def work(client: httpx2.AsyncClient) -> None:
        answer = await agent.run("hello", user="ann")
        listed = (await client.get(LIST, headers=cookie("ann"))).json()["conversations"]
        assert [one["id"] for one in listed] == [answer.conversation]

    use(agent, work)


def test_socket_io_and_the_openai_api_work_below_the_prefix() -> None:
    async def work(client: httpx2.AsyncClient) -> None:
        signed_in = cookie("ann")
        polled = await client.get("/agent/socket.io/?EIO=4&transport=polling", headers=signed_in)
        assert (polled.status_code, polled.text[0]) == (200, "0")
        body = {"model": "timeloom", "messages": [{"role": "user", "content": "hello"}]}
        answer = (await client.post("/agent/v1/chat/completions", json=body, headers=signed_in)).json()
        assert answer["choices"][0]["message"]["content"] == "Hi."
        assert (await client.get("/agent/v1/nothing")).json()["error"]["code"] == "route_unknown"

    use(Agent(ScriptedModel([says("Hi.")])), work)


def test_a_mounted_bundle_brings_its_tools_channels_and_widgets() -> None:
    @tool("shop.price", effect="pure")
    def price(item: str) -> str:
        """Return the price."""
        return f"{item} costs 3 {get_plain('currency')}"

    class ShopSettings(msgspec.Struct, frozen=True):
        currency: str = "EUR"

    shop = Bundle(
        name="shop",
        tools=(price,),
        settings=ShopSettings(),
        channels={"chart": BundleChannel(mime="application/json", purpose="A chart.", widget="bars")},
        widgets={"bars": BundleWidget(html="<p>bars</p>", title="Bars")},
    )
    drawn = f'<channel:chart>{{"a": 1}}</channel:chart>{says("3 EUR.")}'
    agent = Agent.from_bundle(shop, ScriptedModel([call("shop.price", item="Tea"), drawn]))

    async def work(client: httpx2.AsyncClient) -> None:
        conversation = await chat(client, "price?", cookie("ann"))
        page = (await client.get(f"{LIST}/{conversation}/timeline", headers=cookie("ann"))).json()
        assert "Tea costs 3 EUR" in str(page["blocks"])
        (chart,) = [block for block in page["blocks"] if ".channel.chart" in block.get("path", "")]
        assert chart["text"] == '{"a": 1}'
        me: Json = (await client.get("/agent/me", headers=cookie("ann"))).json()
        assert me["widgets"] == [{"bundle": "shop", "name": "bars", "title": "Bars"}]
        widget = await client.get("/agent/widgets/bars", params={"bundle": "shop"})
        assert (widget.status_code, "<p>bars</p>" in widget.text) == (200, True)
        assert "sandbox" in widget.headers["content-security-policy"]

    use(agent, work)
