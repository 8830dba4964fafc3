"""AG-UI: every event is one of the published schema, and together they are a run as its clients expect it."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import CHAT, LIST, ApiClient, RunningServer, ServerHarness, calls, repeated_reply, run
from timeloom.server.protocols.ag_ui.run import HIDDEN_FILE_TEXT

Said = dict[str, Any]
EVENT: TypeAdapter[object] = TypeAdapter(Event)
OPENS = {
    "RUN_STARTED": "RUN_FINISHED",
    "STEP_STARTED": "STEP_FINISHED",
    "TEXT_MESSAGE_START": "TEXT_MESSAGE_END",
    "REASONING_START": "REASONING_END",
    "REASONING_MESSAGE_START": "REASONING_MESSAGE_END",
    "TOOL_CALL_START": "TOOL_CALL_END",
}
WITHIN = {
    "TEXT_MESSAGE_CONTENT": "TEXT_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT": "REASONING_MESSAGE_START",
    "TOOL_CALL_ARGS": "TOOL_CALL_START",
}


def asks(text: str, thread: str = "thread-1", before: tuple[Said, ...] = (), **more: object) -> Said:
    """A run as the protocol's own package writes it."""
    messages: list[Said] = [*before, {"id": "m1", "role": "user", "content": text}]
    said: Said = {"threadId": thread, "runId": "run-1", "state": {}, "messages": messages, "tools": [], "context": []}
    body = RunAgentInput.model_validate({**said, "forwardedProps": {}, **more})
    return json.loads(body.model_dump_json(by_alias=True))


async def events(client: ApiClient, body: Said) -> AsyncGenerator[Said]:
    headers = client.headers | {"accept": "text/event-stream"}
    async with client.http.stream("POST", "/ag-ui", json=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                EVENT.validate_json(line[6:])
                yield json.loads(line[6:])


async def heard(client: ApiClient, body: Said) -> list[Said]:
    found = [event async for event in events(client, body)]
    check_order(found)
    return found


def check_order(found: list[Said]) -> None:
    """Assert that every started item ends, that items nest, and that all events are inside the run."""
    opened: list[str] = []
    for event in found:
        kind = str(event["type"])
        if kind in OPENS:
            assert kind == "RUN_STARTED" or "RUN_STARTED" in opened
            opened.append(kind)
        elif kind in OPENS.values():
            (begin,) = [one for one, end in OPENS.items() if end == kind]
            assert opened.pop() == begin
        elif kind in WITHIN:
            assert opened[-1] == WITHIN[kind]
            assert event["delta"]
    assert opened == ([] if found[-1]["type"] == "RUN_FINISHED" else ["RUN_STARTED"])


def texts(found: list[Said], kind: str = "TEXT_MESSAGE_CONTENT") -> list[str]:
    """The messages, each in one piece."""
    said: dict[object, str] = {}
    for event in found:
        if event["type"] == kind:
            said[event["messageId"]] = said.get(event["messageId"], "") + str(event["delta"])
    return list(said.values())


async def conversations(served: RunningServer) -> list[str]:
    return [one["id"] for one in (await served.ann.get(LIST)).json()["conversations"]]


@pytest.mark.parametrize("order", [("path", "channel", "content"), ("content", "channel", "path")])
def test_the_text_of_an_internal_file_is_not_told(tmp_path: Path, order: tuple[str, ...]) -> None:
    async def check() -> None:
        said = {"path": "files/a.md", "channel": "internal", "content": "secret stuff, and more of it"}
        write, read = {name: said[name] for name in order}, {"paths": ["files/a.md"]}
        stage = ServerHarness(tmp_path, calls("react.write", **write), calls("react.read", **read), answers("Done."))
        async with stage.serve() as served:
            found = await heard(served.ann, asks("go"))
            told = [event for event in found if event["type"].startswith("TOOL_CALL")]
            assert "secret" not in json.dumps(told)
            assert [event["content"] for event in told if event["type"] == "TOOL_CALL_RESULT"].count(
                HIDDEN_FILE_TEXT
            ) >= 1
            live = [event["value"]["text"] for event in found if event["type"] == "CUSTOM"]
            assert bool(live) == (order[0] == "content")
            (conversation,) = await conversations(served)
            assert "secret" in json.dumps(await served.ann.blocks(conversation))

    run(check)


def test_a_turn_is_a_run_of_the_published_schema(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(
            tmp_path, calls("t.look", size=2), slow_reply(answers("A long answer, piece by piece."), delay_ms=20)
        )
        async with stage.serve() as served:
            found = await heard(served.ann, asks("go"))
            assert texts(found) == ["a note", "A long answer, piece by piece."]
            assert texts(found, "REASONING_MESSAGE_CONTENT") == ["hm"]
            started, finished = found[0], found[-1]
            (conversation,) = await conversations(served)
            assert (started["threadId"], started["runId"]) == ("thread-1", "run-1")
            assert started["metadata"]["conversationId"] == conversation
            assert finished["outcome"] == {"type": "success"}
            kinds = [event["type"] for event in found]
            assert kinds.count("STEP_STARTED") == 2
            (call,) = [event for event in found if event["type"] == "TOOL_CALL_START"]
            assert call["toolCallName"] == "t.look"
            (args,) = [event for event in found if event["type"] == "TOOL_CALL_ARGS"]
            assert json.loads(str(args["delta"])) == {"size": 2}
            results = [event for event in found if event["type"] == "TOOL_CALL_RESULT"]
            assert [one["toolCallId"] for one in results] == [call["toolCallId"]]
            assert "x x" in str(results[0]["content"])
            tool_output = [event["value"] for event in found if event["type"] == "CUSTOM"]
            assert [one["text"] for one in tool_output] == ["looking"]

    run(check)


def test_a_thread_is_always_the_same_conversation_and_everybody_has_their_own(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Yes."))).serve() as served:
            await heard(served.ann, asks("first"))
            earlier: tuple[Said, ...] = (
                {"id": "a", "role": "user", "content": "first"},
                {"id": "b", "role": "assistant", "content": "Yes."},
            )
            await heard(served.ann, asks("second", before=earlier))
            await heard(served.client("bob"), asks("third"))
            (conversation,) = await conversations(served)
            prompts = [one["text"] for one in await served.ann.blocks(conversation) if one["type"] == "user.prompt"]
            assert prompts == ["first", "second"]

    run(check)


def test_a_thread_may_be_the_id_of_a_conversation(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Yes."))).serve() as served:
            conversation = str((await served.ann.send_message("hello"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            found = await heard(served.ann, asks("again", thread=conversation))
            assert texts(found) == ["Yes."]
            assert await conversations(served) == [conversation]
            # For somebody else it is the name of a thread like any other.
            await heard(served.client("bob"), asks("mine", thread=conversation))
            assert "mine" not in str(await served.ann.blocks(conversation))

    run(check)


def test_a_thread_that_began_elsewhere_is_quoted(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Yes."))).serve() as served:
            before: tuple[Said, ...] = (
                {"id": "a", "role": "user", "content": [{"type": "text", "text": "Who?"}]},
                {"id": "b", "role": "assistant", "content": "Me."},
                {"id": "c", "role": "activity", "activityType": "x", "content": {"a": 1}},
                {"id": "d", "role": "reasoning", "content": "hm"},
            )
            await heard(served.ann, asks("And now?", before=before))
            (conversation,) = await conversations(served)
            (prompt,) = [one["text"] for one in await served.ann.blocks(conversation) if one["type"] == "user.prompt"]
            assert str(prompt).split("\n\n")[1:] == ["| user: Who?\n| assistant: Me.", "The message now:", "And now?"]

    run(check)


def test_a_turn_that_waits_is_interrupted_and_resumed(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.send"), repeated_reply(answers("Sent.")))
        async with stage.serve() as served:
            found = await heard(served.ann, asks("send it"))
            outcome = found[-1]["outcome"]
            (interrupt,) = outcome["interrupts"]
            assert (outcome["type"], interrupt["reason"], stage.sent) == ("interrupt", "approval", [])
            resume: list[Said] = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
            found = await heard(served.ann, asks("", resume=resume))
            assert texts(found) == ["Sent."]
            assert stage.sent == [interrupt["id"]]

    run(check)


def test_a_thread_that_waits_says_for_what_each_time(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.send"), repeated_reply(answers("Sent.")))
        async with stage.serve() as served:
            first = (await heard(served.ann, asks("send it")))[-1]["outcome"]
            again = (await heard(served.ann, asks("well?")))[-1]["outcome"]
            assert again == first
            resume: list[Said] = [{"interruptId": again["interrupts"][0]["id"], "status": "resolved"}]
            assert texts(await heard(served.ann, asks("", resume=resume))) == ["Sent."]

    run(check)


@pytest.mark.parametrize("answer", [{"status": "cancelled"}, {"status": "resolved", "payload": {"approved": False}}])
def test_what_is_not_approved_is_not_done(tmp_path: Path, answer: Said) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.send"), repeated_reply(answers("Well then.")))
        async with stage.serve() as served:
            outcome = (await heard(served.ann, asks("send it")))[-1]["outcome"]
            resume: list[Said] = [{"interruptId": outcome["interrupts"][0]["id"], **answer}]
            assert texts(await heard(served.ann, asks("", resume=resume))) == ["Well then."]
            assert stage.sent == []

    run(check)


def test_a_turn_that_is_cancelled_says_so(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), repeated_reply(answers("x")))
        async with stage.serve() as served:
            found: list[Said] = []
            async for event in events(served.ann, asks("go")):
                found.append(event)
                if event["type"] == "TOOL_CALL_END":
                    await stage.waiting.wait()
                    (conversation,) = await conversations(served)
                    await served.ann.send(conversation, "cancel")
            check_order(found)
            assert found[-1]["outcome"] == {"type": "cancelled"}

    run(check)


def test_a_stream_that_ends_before_its_turn_is_an_error(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"))
        async with stage.serve() as served:
            found: list[Said] = []
            async for event in events(served.ann, asks("go")):
                found.append(event)
                if event["type"] == "TOOL_CALL_END":
                    served.services.hub.stop_accepting()
            check_order(found)
            assert (found[-1]["type"], found[-1]["code"]) == ("RUN_ERROR", "server_closing")

    run(check)


def test_a_client_that_leaves_leaves_the_turn(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, slow_reply(answers("A long answer, piece by piece."), delay_ms=30, chunk=4))
        async with stage.serve() as served:
            stream = events(served.ann, asks("go"))
            async for event in stream:
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    break
            await stream.aclose()
            (conversation,) = await conversations(served)
            await served.ann.wait_for_state(conversation, "idle")
            assert "A long answer, piece by piece." in str(await served.ann.blocks(conversation))

    run(check)


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"messages": []}, 400, "request_malformed"),
        ({"messages": [{"id": "a", "role": "assistant", "content": "x"}]}, 400, "request_malformed"),
        ({"tools": [{"name": "f", "description": "d"}]}, 400, "request_malformed"),
        (
            {"messages": [{"id": "a", "role": "user", "content": [{"type": "image", "source": "x"}]}]},
            400,
            "request_malformed",
        ),
        ({"resume": [{"interruptId": "0123456789ab", "status": "resolved"}]}, 409, "approval_unknown"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, more: Said, status: int, code: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            response = await served.ann.post("/ag-ui", asks("x") | more)
            assert (response.status_code, response.json()["code"]) == (status, code)
            assert await conversations(served) == []

    run(check)


def test_a_decision_on_nothing_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Yes."))).serve() as served:
            await heard(served.ann, asks("go"))
            for name in ("0123456789ab", "no such name"):
                resume: list[Said] = [{"interruptId": name, "status": "resolved"}]
                response = await served.ann.post("/ag-ui", asks("", resume=resume))
                assert (response.status_code, response.json()["code"]) == (409, "approval_unknown")
            # Nobody is left at the conversation.
            assert (await served.ann.post(CHAT, {"message": "x"})).status_code == 202

    run(check)
