"""Over HTTP: a new conversation chooses its bundle; a fault of one bundle leaves the server and the others up."""

from pathlib import Path

import pytest

from tests.harness.bundles import TOOLS, write_bundle, write_shop
from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, Json, RunningServer, ServerHarness, calls, repeated_reply, run
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.registry import BundleRegistry
from timeloom.core.codes import CodedError

BUNDLES = "/bundles/home/demo"
BROKEN = "raise ValueError('secret reason')"


def stage_with(tmp_path: Path, *steps: str | dict[str, object], reloads: bool = False) -> ServerHarness:
    """Return a server with the bundles shop, desk and one that is broken."""
    stage = ServerHarness(tmp_path, *steps)
    broken = write_bundle(tmp_path / "broken", 'name = "broken"\ntools = ["tools:x"]', tools=BROKEN)
    stage.bundles = BundleRegistry(
        [write_shop(tmp_path / "shop"), Bundle(name="desk", title="The desk", description="Answers."), broken],
        reloads=reloads,
    )
    return stage


async def say(server: RunningServer, message: str, **body: str) -> str:
    """Send a message, wait for the end of its turn and return the conversation."""
    response = await server.ann.post(CHAT, {"message": message, **body})
    assert response.status_code == 202, response.text
    conversation = str(response.json()["conversation_id"])
    await server.ann.wait_for_state(conversation, "idle")
    return conversation


def calls_and_results(blocks: list[Json]) -> str:
    return " ".join(str(one.get("text")) for one in blocks if str(one["type"]).startswith("react.tool"))


def test_the_bundles_are_listed_with_their_faults(tmp_path: Path) -> None:
    async def check() -> None:
        async with stage_with(tmp_path).serve() as server:
            page = (await server.ann.get(BUNDLES)).json()
            assert page["default"] == "shop"
            assert [(one["name"], one["title"], one["state"]) for one in page["bundles"]] == [
                ("shop", "The shop", "ready"),
                ("desk", "The desk", "ready"),
                ("broken", "broken", "disabled"),
            ]
            assert page["bundles"][1]["description"] == "Answers."
            fault = "the bundle broken is disabled: tools.py, line 1: ValueError: secret reason"
            assert page["bundles"][2]["fault"] == fault

    run(check)


def test_health_shows_the_place_of_a_fault_and_not_its_reason(tmp_path: Path) -> None:
    async def check() -> None:
        async with stage_with(tmp_path).serve() as server:
            response = await server.http.get("/health")
            assert response.json()["status"] == "ok"
            broken = response.json()["bundles"][2]
            assert broken == {
                "name": "broken",
                "state": "disabled",
                "code": "bundle_invalid",
                "place": "tools.py, line 1",
            }
            assert "secret reason" not in response.text

    run(check)


def test_a_conversation_belongs_to_the_bundle_that_its_first_message_names(tmp_path: Path) -> None:
    async def check() -> None:
        steps = (calls("shop.price", item="Tea"), answers("3."), answers("Hello."))
        async with stage_with(tmp_path, *steps).serve() as server:
            first = await say(server, "price?")
            second = await say(server, "hi", bundle="desk")
            listed = (await server.ann.get(LIST)).json()["conversations"]
            assert {one["id"]: one["bundle"] for one in listed} == {first: "shop", second: "desk"}
            assert "Tea costs 3" in calls_and_results(await server.ann.blocks(first))
            other = await server.ann.post(CHAT, {"message": "x", "conversation_id": second, "bundle": "shop"})
            assert (other.status_code, other.json()["code"]) == (400, "request_malformed")

    run(check)


def test_the_widgets_of_a_bundle_are_served_as_they_are_loaded_now(tmp_path: Path) -> None:
    async def check() -> None:
        stage = stage_with(tmp_path, answers("Hello."), reloads=True)
        async with stage.serve() as server:
            assert (await server.http.get("/widgets/plot?bundle=shop")).status_code == 404
            write_shop(tmp_path / "shop", more='[widgets.plot]\nhtml = "<p>plot</p>"\ntitle = "Plot"')
            await say(server, "hi")
            assert "<p>plot</p>" in (await server.http.get("/widgets/plot?bundle=shop")).text
            me = (await server.ann.get("/me")).json()
            assert me["widgets"] == [{"bundle": "shop", "name": "plot", "title": "Plot"}]

    run(check)


@pytest.mark.parametrize(
    ("bundle", "status", "code", "words"),
    [
        ("nothing", 404, "bundle_unknown", "the bundles are shop, desk, broken"),
        ("broken", 503, "bundle_disabled", "tools.py, line 1: ValueError"),
    ],
)
def test_an_unknown_or_disabled_bundle_is_refused_and_starts_nothing(
    tmp_path: Path, bundle: str, status: int, code: str, words: str
) -> None:
    async def check() -> None:
        async with stage_with(tmp_path).serve() as server:
            response = await server.ann.post(CHAT, {"message": "hi", "bundle": bundle})
            assert (response.status_code, response.json()["code"]) == (status, code)
            assert words in response.json()["detail"]
            assert (await server.ann.get(LIST)).json()["conversations"] == []

    run(check)


def test_a_conversation_of_a_bundle_that_is_gone_can_be_read_and_takes_no_messages(tmp_path: Path) -> None:
    async def check() -> None:
        stage = stage_with(tmp_path, answers("Hello."), answers("Plain."))
        async with stage.serve() as server:
            conversation = await say(server, "hi", bundle="desk")
        stage.bundles = None
        async with stage.serve() as server:
            response = await server.ann.post(CHAT, {"message": "again", "conversation_id": conversation})
            assert (response.status_code, response.json()["code"]) == (409, "bundle_missing")
            assert "start with --bundle" in response.json()["detail"]
            assert any(one["type"] == "assistant.completion" for one in await server.ann.blocks(conversation))
            assert (await server.ann.get(f"{LIST}/{conversation}/status")).json()["state"] == "idle"
            assert await say(server, "plain")

    run(check)


def test_a_conversation_without_a_bundle_keeps_the_plain_agent(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("Hello."), calls("shop.price", item="Tea"), answers("None."))
        async with stage.serve() as server:
            conversation = await say(server, "hi")
        stage.bundles = stage_with(tmp_path).bundles
        async with stage.serve() as server:
            await server.ann.send_message("price?", conversation)
            await server.ann.wait_for_state(conversation, "idle")
            assert "unknown_tool" in str(await server.ann.blocks(conversation))

    run(check)


def test_a_changed_file_is_loaded_for_the_next_turn_of_an_open_conversation(tmp_path: Path) -> None:
    async def check() -> None:
        price = calls("shop.price", item="Tea")
        steps = (price, answers("3."), price, answers("4."), answers("Better."))
        async with stage_with(tmp_path, *steps, reloads=True).serve() as server:
            conversation = await say(server, "price?")
            (tmp_path / "shop" / "tools.py").write_text(TOOLS.replace("costs 3", "costs 4"))
            await say(server, "and now?", conversation_id=conversation)
            results = calls_and_results(await server.ann.blocks(conversation))
            assert ("Tea costs 3" in results, "Tea costs 4" in results) == (True, True)
            (tmp_path / "shop" / "tools.py").write_text("def broken(:")
            refused = await server.ann.post(CHAT, {"message": "x", "conversation_id": conversation})
            assert (refused.status_code, refused.json()["code"]) == (503, "bundle_disabled")
            assert "tools.py, line 1: SyntaxError" in refused.json()["detail"]
            (tmp_path / "shop" / "tools.py").write_text(TOOLS)
            await say(server, "thanks", conversation_id=conversation)

    run(check)


def test_a_running_turn_keeps_the_version_that_it_began_with(tmp_path: Path) -> None:
    async def check() -> None:
        price = calls("shop.price", item="Tea")
        stage = stage_with(tmp_path, calls("t.send"), price, answers("3."), reloads=True)
        async with stage.serve() as server:
            accepted = await server.ann.send_message("price?")
            conversation = str(accepted["conversation_id"])
            status = await server.ann.wait_for_state(conversation, "waiting")
            (tmp_path / "shop" / "tools.py").write_text(TOOLS.replace("costs 3", "costs 4"))
            approvals = status["approvals"]
            assert isinstance(approvals, list)
            call_id = str(approvals[0]["tool_call_id"])  # pyright: ignore[reportUnknownArgumentType]
            path = f"{LIST}/{conversation}/approvals/{call_id}"
            assert (await server.ann.post(path, {"approved": True})).status_code == 202
            await server.ann.wait_for_state(conversation, "idle")
            assert "Tea costs 3" in calls_and_results(await server.ann.blocks(conversation))

    run(check)


def test_openai_clients_choose_a_bundle_by_the_name_of_the_model_or_by_metadata(tmp_path: Path) -> None:
    async def check() -> None:
        async with stage_with(tmp_path, repeated_reply(answers("Hello."))).serve() as server:
            models = (await server.ann.get("/v1/models")).json()["data"]
            names = [one["id"] for one in models]
            assert names == ["timeloom", "timeloom/shop", "timeloom/desk", "timeloom/broken"]
            assert (await server.ann.get("/v1/models/timeloom")).json()["id"] == "timeloom"
            hello: list[Json] = [{"role": "user", "content": "hi"}]
            by_model = {"model": "timeloom/desk", "messages": hello}
            by_metadata = {"model": "timeloom", "messages": hello, "metadata": {"bundle": "desk"}}
            for body in (by_model, by_metadata):
                answered = (await server.ann.post("/v1/chat/completions", body)).json()
                info = (await server.ann.get(f"/conversations/local/default/{answered['conversation_id']}")).json()
                listed = await server.services.store.info(answered["conversation_id"])
                assert listed.bundle == "desk", info
            wrong = await server.ann.post("/v1/chat/completions", by_model | {"model": "timeloom/nothing"})
            assert (wrong.status_code, "'timeloom/shop'" in wrong.text) == (404, True)
            disabled = await server.ann.post("/v1/chat/completions", by_model | {"model": "timeloom/broken"})
            assert disabled.status_code == 503

    run(check)


def test_another_model_continues_a_history_in_a_conversation_of_its_own(tmp_path: Path) -> None:
    async def check() -> None:
        async with stage_with(tmp_path, repeated_reply(answers("Hello."))).serve() as server:
            first: Json = {"role": "user", "content": "hi"}
            rest: list[Json] = [first, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "more"}]
            ids: list[str] = []
            for model, messages in (("shop", [first]), ("desk", rest), ("shop", rest)):
                body = {"model": f"timeloom/{model}", "messages": messages}
                ids.append((await server.ann.post("/v1/chat/completions", body)).json()["conversation_id"])
            assert ids[0] == ids[2] != ids[1]

    run(check)


def test_ag_ui_clients_choose_a_bundle_by_a_forwarded_property(tmp_path: Path) -> None:
    async def check() -> None:
        async with stage_with(tmp_path, repeated_reply(answers("Hello."))).serve() as server:
            body: Json = {"threadId": "t1", "runId": "r1", "messages": [{"id": "1", "role": "user", "content": "hi"}]}
            for thread, props in (("t1", {"bundle": "desk"}), ("t2", ["mine"])):
                sent = await server.ann.post("/ag-ui", body | {"threadId": thread, "forwardedProps": props})
                assert sent.status_code == 200, sent.text
            listed = (await server.ann.get(LIST)).json()["conversations"]
            assert sorted(one["bundle"] for one in listed) == ["desk", "shop"]
            wrong = await server.ann.post("/ag-ui", body | {"threadId": "t3", "forwardedProps": {"bundle": 3}})
            assert wrong.status_code == 400

    run(check)


def test_a_server_with_an_unknown_bundle_does_not_start() -> None:
    with pytest.raises(CodedError, match="there is no folder and no package"):
        BundleRegistry(["nothing_of_that_name"])
