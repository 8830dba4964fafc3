"""Forms over HTTP: the agent asks, and a person's answer is checked before it becomes an event."""

import json
from pathlib import Path

import pytest

from tests.harness.replies import answers, calls
from tests.server.server_harness import ApiClient, Json, ServerHarness, run
from timeloom.tools.react.form import form
from timeloom.tools.registry import ToolRegistry

FIELDS = [
    {"name": "day", "label": "Which day?", "type": "date", "required": True},
    {"name": "extras", "type": "choices", "options": ["bike", "dog"]},
]
ASK = calls("react.form", title="Your trip", fields=FIELDS)


class FormServer(ServerHarness):
    """A server whose agent has forms."""

    def registry(self) -> ToolRegistry:
        return super().registry().with_tools([form])


async def ask(client: ApiClient) -> tuple[str, str]:
    """Let the agent ask; return the conversation and the call."""
    conversation = str((await client.send_message("book"))["conversation_id"])
    await client.wait_for_state(conversation, "idle")
    (call,) = (one for one in await client.blocks(conversation) if one["type"] == "react.tool.call")
    return conversation, json.loads(str(call["text"]))["tool_call_id"]


async def send_answer(client: ApiClient, conversation: str, call: str, values: object) -> tuple[int, Json]:
    body = {"kind": "form", "form": call, "text": json.dumps(values), "mime": "application/json"}
    response = await client.post(f"/events/home/demo/{conversation}", body)
    return response.status_code, response.json()


def test_an_answer_begins_the_next_turn_with_its_checked_values(tmp_path: Path) -> None:
    async def check() -> None:
        stage = FormServer(tmp_path, ASK, answers("Please fill in the form."), answers("Booked."))
        async with stage.serve() as served:
            conversation, call = await ask(served.ann)
            status, receipt = await send_answer(
                served.ann, conversation, call, {"day": "2026-11-18", "extras": ["dog", "bike"]}
            )
            assert (status, receipt["status"]) == (202, "started")
            await served.ann.wait_for_state(conversation, "idle")
            blocks = await served.ann.blocks(conversation)
            (event,) = (one for one in blocks if one["type"] == "external.event")
            assert json.loads(str(event["text"])) == {
                "form": call,
                "title": "Your trip",
                "values": {"day": "2026-11-18", "extras": ["bike", "dog"]},
            }
            assert event["mime"] == "application/json"
            assert [one["text"] for one in blocks if one["type"] == "assistant.completion"][-1] == "Booked."
            again = await send_answer(served.ann, conversation, call, {"day": "2026-11-19"})
            assert (again[0], again[1]["code"]) == (409, "form_answered")

    run(check)


@pytest.mark.parametrize(
    ("values", "status", "code"),
    [
        ({}, 400, "form_answer_invalid"),
        ({"day": "tomorrow"}, 400, "form_answer_invalid"),
        ({"day": "2026-11-18", "more": 1}, 400, "form_answer_invalid"),
        ([], 400, "form_answer_invalid"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_form_stays_open(
    tmp_path: Path, values: object, status: int, code: str
) -> None:
    async def check() -> None:
        stage = FormServer(tmp_path, ASK, answers("Please."), answers("Booked."))
        async with stage.serve() as served:
            conversation, call = await ask(served.ann)
            got, problem = await send_answer(served.ann, conversation, call, values)
            assert (got, problem["code"]) == (status, code)
            assert (await send_answer(served.ann, conversation, call, {"day": "2026-11-18"}))[0] == 202

    run(check)


def test_only_a_shown_form_can_be_answered_by_its_owner(tmp_path: Path) -> None:
    async def check() -> None:
        broken = calls("react.form", title="Your trip", fields=[{"name": "a", "type": "choice"}])
        async with FormServer(tmp_path, broken, answers("Sorry.")).serve() as served:
            conversation, call = await ask(served.ann)
            for name in (call, "0123456789ab"):
                assert (await send_answer(served.ann, conversation, name, {}))[1]["code"] == "form_unknown"
            assert (await send_answer(served.client("bob"), conversation, call, {}))[0] == 404
            body = {"kind": "alert", "form": call, "text": "{}"}
            refused = await served.ann.post(f"/events/home/demo/{conversation}", body)
            assert refused.json()["code"] == "request_malformed"
            (result,) = (
                one
                for one in await served.ann.blocks(conversation)
                if one["type"] == "react.tool.result" and "form_malformed" in json.dumps(one)
            )
            assert "needs 1 to 50 options" in json.dumps(result)

    run(check)


def test_a_form_of_another_program_is_accepted_as_before(tmp_path: Path) -> None:
    async def check() -> None:
        async with FormServer(tmp_path, answers("Seen.")).serve() as served:
            conversation = str((await served.ann.send_message("hi"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            assert (await served.ann.send(conversation, "form", "free text"))["status"] == "started"

    run(check)
