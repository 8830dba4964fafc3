"""API keys that are revoked while a client is connected with them."""

import json
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, RunningServer, ServerHarness, repeated_reply, run
from tests.server.test_socketio import connected
from tests.server.test_websocket import opened, until
from timeloom.server.auth.principal import Principal

CARL = Principal(tenant="home", project="demo", user="carl")


class Fickle:
    """A register whose one key is taken back or given another role."""

    def __init__(self) -> None:
        self.known: Principal | None = CARL

    async def find_principal(self, token: str) -> Principal | None:
        return self.known if token == "carl" else None


async def begun(served: RunningServer) -> str:
    carl = served.client("carl")
    conversation = str((await carl.send_message("go"))["conversation_id"])
    await carl.wait_for_state(conversation, "idle")
    return conversation


def a_stage(folder: Path) -> tuple[ServerHarness, Fickle]:
    stage, register = ServerHarness(folder, repeated_reply(answers("Done."))), Fickle()
    stage.registers = (register,)
    return stage, register


def test_open_connections_end_when_their_key_is_taken_back(tmp_path: Path) -> None:
    stage, register = a_stage(tmp_path)

    async def check() -> None:
        async with stage.serve() as served:
            conversation = await begun(served)
            url = f"{CHAT}/{conversation}/stream"
            await served.http.get(LIST, params={"token": "carl"})
            async with (
                served.client("carl").stream_conversation(conversation) as heard,
                # The cookie, which a browser has, is a token like the header.
                served.http.stream("GET", url) as by_cookie,
                opened(served, conversation, token="carl") as socket,
                connected(served, {"token": "carl"}) as idle,
                connected(served, {"token": "carl"}) as joined,
                served.ann.stream_conversation(str((await served.ann.send_message("go"))["conversation_id"])) as others,
            ):
                await joined.join(conversation)
                register.known = None
                assert [frame async for frame in heard][-1].data["code"] == "unauthorized"
                assert '"unauthorized"' in (await by_cookie.aread()).decode()
                assert (await until(socket, "chat.error"))[-1]["data"]["code"] == "unauthorized"
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
                assert closed.value.rcvd and closed.value.rcvd.code == 1008
                for friend in (idle, joined):
                    assert (await friend.until("chat.error"))["code"] == "unauthorized"
                    await friend.left.wait()
                assert (await anext(others)).event == "conv.status"
            assert (await served.client("carl").get(LIST)).status_code == 401

    run(check)


def test_a_key_that_stands_for_something_else_has_to_come_back(tmp_path: Path) -> None:
    stage, register = a_stage(tmp_path)

    async def check() -> None:
        async with stage.serve() as served:
            conversation = await begun(served)
            async with opened(served, conversation, token="carl") as socket:
                register.known = Principal(tenant="home", project="demo", user="carl", role="approver")
                assert (await until(socket, "chat.error"))[-1]["data"]["code"] == "unauthorized"
            async with opened(served, conversation, token="carl") as socket:
                await socket.send(json.dumps({"event": "chat.message", "data": {"message": "Hello again"}}))
                await until(socket, "accepted")

    run(check)
