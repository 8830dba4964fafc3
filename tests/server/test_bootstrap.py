"""Starting a server from Python: with settings alone, over any ASGI server, and refused before anything is stored."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

import timeloom.server
from tests.harness.replies import answers, calls
from tests.server.server_harness import repeated_reply
from timeloom import __version__
from timeloom.config.errors import ServerConfigError
from timeloom.config.sections.server import ServerSettings
from timeloom.config.sections.storage import RetentionSettings
from timeloom.config.settings import Settings
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.reader import ConversationUnknownError
from timeloom.providers.registry import ModelNameError
from timeloom.server import open_services, serve
from timeloom.server.app import build_app
from timeloom.server.bootstrap import Server
from timeloom.server.http_server import ListenError, listen
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.define import tool

pytestmark = pytest.mark.anyio

CHAT = "/chat/local/default"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    script = tmp_path / "play.yaml"
    script.write_text(json.dumps([repeated_reply(answers("Four."))]))
    return Settings(
        data_dir=tmp_path / "data",
        model=f"script:{script}",
        title_model="none",
        server=ServerSettings(port=0, grace_s=0.05),
    )


def client(server: Server) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, headers={"authorization": f"Bearer {server.token}"}, timeout=30)


async def test_a_server_is_started_with_settings_alone(settings: Settings) -> None:
    async with serve(settings) as server, client(server) as http:
        sent = await http.post(CHAT, json={"message": "Two and two?"}, headers={"accept": "text/event-stream"})
        assert "Four." in sent.text
        assert (await http.get("/me", headers={"authorization": "Bearer other"})).status_code == 401
    with pytest.raises(httpx2.ConnectError):
        await httpx2.AsyncClient().get(f"{server.url}/health")


async def test_a_server_deletes_conversations_after_the_retention_period(settings: Settings) -> None:
    old = ConversationId("conv_old")
    draft = Draft(NO_TURN, "2020-02-09T02:14:32.676425Z", ConversationStarted(tenant="t", project="p", user="u"))
    async with await SqliteStore.open(settings.data_dir) as store:
        await store.append(old, 0, [draft])
    async with serve(settings) as server:
        assert (await server.services.store.info(old)).tail == 1
    async with serve(replace(settings, retention=RetentionSettings(days=30))) as server, asyncio.timeout(30):
        with contextlib.suppress(ConversationUnknownError):
            async for _ in server.services.store.follow(old):
                pass  # Following ends when the conversation is deleted.
        assert await server.services.store.conversation_ids() == []


async def test_a_later_server_has_the_same_conversations(settings: Settings) -> None:
    async with serve(settings) as server, client(server) as http:
        accepted = (await http.post(CHAT, json={"message": "Two and two?"})).json()
    async with serve(settings) as server, client(server) as http:
        listed = (await http.get("/conversations/local/default")).json()
        assert [one["id"] for one in listed["conversations"]] == [accepted["conversation_id"]]


async def test_a_server_that_shuts_down_ends_the_wait_for_it(settings: Settings) -> None:
    async with serve(settings) as server:
        waiting = asyncio.create_task(server.wait())
        server.shut_down()
        await waiting
    assert server.serving.done()


async def test_a_cancelled_wait_leaves_the_server_running(settings: Settings) -> None:
    async with serve(settings) as server, client(server) as http:
        waiting = asyncio.create_task(server.wait())
        assert (await http.get("/health")).status_code == 200
        waiting.cancel()
        await asyncio.wait({waiting})
        assert (await http.get("/health")).status_code == 200


async def test_an_error_in_the_context_shuts_the_server_down(settings: Settings) -> None:
    server = None
    with pytest.raises(LookupError):
        async with serve(settings) as server:
            raise LookupError
    assert server is not None
    assert server.serving.done()


async def test_the_log_says_when_and_where_the_server_runs(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "timeloom"):
        async with serve(settings) as server:
            pass
    found = {record.message: vars(record).get("fields") for record in caplog.records}
    expected = {"version": __version__, "mode": "local", "address": server.url, "data_dir": str(settings.data_dir)}
    assert found["server started"] == found["server stopped"] == expected


async def test_services_run_under_any_asgi_server(settings: Settings) -> None:
    chosen = "a-token-of-my-own-choice"
    settings = replace(settings, server=replace(settings.server, token=chosen))
    async with open_services(settings) as services:
        transport = httpx2.ASGITransport(build_app(services))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert (await http.get("/me")).status_code == 401
            me = await http.get("/me", headers={"authorization": f"Bearer {chosen}"})
            assert me.json()["models"] == ["script:play.yaml"]


async def test_the_caller_erases_its_own_files_with_a_conversation(settings: Settings) -> None:
    erased: list[tuple[ConversationId, Sequence[str]]] = []

    def erase(conversation: ConversationId, user_texts: Sequence[str]) -> None:
        erased.append((conversation, list(user_texts)))

    async with serve(settings, side_file_erasers=[erase]) as server, client(server) as http:
        accepted = (await http.post(CHAT, json={"message": "Two and two?"})).json()
        name = accepted["conversation_id"]
        assert (await http.delete(f"/conversations/local/default/{name}")).status_code == 204
    assert erased == [(name, ["Two and two?"])]


async def test_the_callers_own_tools_are_called_in_a_conversation(settings: Settings, tmp_path: Path) -> None:
    script = [{"reply": calls("t.count", word="ferry")}, {"reply": answers("Counted.")}]
    (tmp_path / "play.yaml").write_text(json.dumps(script))
    called: list[str] = []

    async def count(word: str) -> str:
        """Counts the letters of a word."""
        called.append(word)
        return f"{len(word)} letters"

    async with serve(settings, tools=[tool("t.count", effect="pure")(count)]) as server, client(server) as http:
        sent = await http.post(CHAT, json={"message": "Count."}, headers={"accept": "text/event-stream"})
        assert "5 letters" in sent.text
    assert called == ["ferry"]


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (ServerSettings(host="0.0.0.0"), "not a loopback address"),
        (ServerSettings(token="short"), "at least 16 characters"),
        (ServerSettings(mode="tokens"), "needs --tokens-file"),
    ],
)
async def test_settings_that_cannot_be_served_store_nothing(
    settings: Settings, server: ServerSettings, words: str
) -> None:
    with pytest.raises(ServerConfigError, match=words) as raised:
        await serve(replace(settings, server=server)).__aenter__()
    assert raised.value.code == "setting_invalid"
    assert not settings.data_dir.exists()


async def test_a_port_in_use_stores_nothing(settings: Settings) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match="in use"):
            await serve(replace(settings, server=replace(settings.server, port=port))).__aenter__()
    assert not settings.data_dir.exists()


async def test_an_unknown_model_stores_nothing(settings: Settings) -> None:
    with pytest.raises(ModelNameError, match="nobody"):
        await serve(replace(settings, model="nobody:x")).__aenter__()
    assert not settings.data_dir.exists()


def test_the_package_exports_its_public_functions_and_nothing_else() -> None:
    names = ["Principal", "create_app", "open_services", "serve"]
    assert [getattr(timeloom.server, name).__name__ for name in timeloom.server.__all__] == names
    with pytest.raises(AttributeError, match="has no attribute 'served'"):
        _ = getattr(timeloom.server, "served")  # noqa: B009 - pyright knows the names that exist
