"""Automatic retries of a chat completions client do not duplicate an accepted message."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.harness.replies import answers, decision_reply
from tests.server.server_harness import RunningServer, ServerHarness, Step, calls, repeated_reply, run
from timeloom.core.blocks import Notice
from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.policy.next_step import NO_REASON
from timeloom.server.protocols.send_and_stream import PAGE_ENTRIES

pytestmark = pytest.mark.slow

EITHER = pytest.mark.parametrize("streams", [False, True])
EXIT = decision_reply({"action": "exit", "notes": "there is nothing to do"})
NO_DECISION = "<channel:thinking>nothing</channel:thinking>"
Said = list[ChatCompletionMessageParam]


@asynccontextmanager
async def client(served: RunningServer, conversation: str = "") -> AsyncGenerator[AsyncOpenAI]:
    """A client as it comes, which tries again by itself."""
    headers = {"x-conversation-id": conversation} if conversation else {}
    async with AsyncOpenAI(api_key="ann", base_url=f"{served.url}/v1", default_headers=headers) as opened:
        assert opened.max_retries == 2
        yield opened


async def asked(ours: AsyncOpenAI, messages: Said, *, streams: bool) -> tuple[str, str | None]:
    """The answer and how it ended."""
    if not streams:
        (choice,) = (await ours.chat.completions.create(model="timeloom", messages=messages)).choices
        return choice.message.content or "", choice.finish_reason
    stream = await ours.chat.completions.create(model="timeloom", messages=messages, stream=True)
    choices = [choice async for chunk in stream for choice in chunk.choices]
    return "".join(choice.delta.content or "" for choice in choices), choices[-1].finish_reason


def user(text: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": text}


async def listed(served: RunningServer) -> list[str]:
    return [one["id"] for one in (await served.ann.get("/conversations/home/demo")).json()["conversations"]]


async def said(served: RunningServer) -> list[object]:
    """All messages of the one conversation."""
    (conversation,) = await listed(served)
    blocks = await served.ann.blocks(conversation)
    return [one["text"] for one in blocks if one["type"] in ("user.prompt", "user.followup")]


@EITHER
@pytest.mark.parametrize(
    ("step", "content", "finish_reason"),
    [
        (EXIT, "there is nothing to do", "stop"),
        (decision_reply({"action": "exit"}), NO_REASON, "stop"),
        (repeated_reply(calls("t.look")), "the model's answers could not be carried out", "length"),
    ],
)
def test_a_turn_that_ends_without_an_answer_says_why(
    tmp_path: Path, streams: bool, step: str | Step, content: str, finish_reason: str
) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, step, repeated_reply(EXIT)).serve() as served, client(served) as ours:
            answer, ended = await asked(ours, [user("go")], streams=streams)
            assert (answer.startswith(content), ended) == (True, finish_reason), answer
            assert await said(served) == ["go"]
            # What is said next goes on with the same conversation, as after any answer.
            history: Said = [user("go"), {"role": "assistant", "content": answer}, user("and now?")]
            await asked(ours, history, streams=streams)
            assert await said(served) == ["go", "and now?"]

    run(check)


@EITHER
def test_a_budget_that_is_used_up_is_a_limit(tmp_path: Path, streams: bool) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, repeated_reply(calls("t.look")))
        stage.budgets = Budgets(turn=Allowance(rounds=1))
        async with stage.serve() as served, client(served) as ours:
            answer, ended = await asked(ours, [user("go")], streams=streams)
            assert (bool(answer), ended) == (True, "length")
            assert await said(served) == ["go"]

    run(check)


@EITHER
@pytest.mark.parametrize(("kind", "content"), [("cancel", "cancelled by ann"), ("steer", "the user stopped the turn")])
def test_a_turn_that_is_ended_from_outside_is_not_begun_again(
    tmp_path: Path, streams: bool, kind: str, content: str
) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), repeated_reply(answers("x")))
        async with stage.serve() as served, client(served) as ours:
            asking = asyncio.create_task(asked(ours, [user("go")], streams=streams))
            await stage.waiting.wait()
            (conversation,) = await listed(served)
            await served.ann.send(conversation, kind)
            assert await asking == (content, "stop")
            assert await said(served) == ["go"]

    run(check)


@EITHER
@pytest.mark.parametrize("step", [{"error": "context_too_long", "repeat": True}, repeated_reply(NO_DECISION)])
def test_a_turn_that_fails_is_an_error_after_which_nothing_is_said_again(
    tmp_path: Path, streams: bool, step: Step
) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Hello."), step).serve() as served:
            conversation = str((await served.ann.send_message("hello"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            async with client(served, conversation) as ours:
                with pytest.raises(openai.APIError) as failed:
                    await asked(ours, [user("go")], streams=streams)
            assert failed.value.code == "answer_missing"
            if isinstance(failed.value, openai.APIStatusError):
                assert failed.value.response.headers["x-should-retry"] == "false"
            assert await said(served) == ["hello", "go"]

    run(check)


@EITHER
def test_a_server_that_closes_has_the_message_and_is_not_told_it_again(tmp_path: Path, streams: bool) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"))
        async with stage.serve() as served, client(served) as ours:
            asking = asyncio.create_task(asked(ours, [user("go")], streams=streams))
            await stage.waiting.wait()
            served.services.hub.stop_accepting()
            with pytest.raises(openai.APIError) as closing:
                await asking
            assert closing.value.code == "server_closing"
            if isinstance(closing.value, openai.APIStatusError):
                headers = closing.value.response.headers
                assert (headers["x-should-retry"], "retry-after" in headers) == ("false", False)
            assert await said(served) == ["go"]

    run(check)


@EITHER
def test_a_turn_that_waits_for_a_person_says_so_each_time(tmp_path: Path, streams: bool) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.send"), repeated_reply(answers("Sent.")))
        async with stage.serve() as served, client(served) as ours:
            question, ended = await asked(ours, [user("send it")], streams=streams)
            assert ("t.send" in question, ended) == (True, "stop")
            (conversation,) = await listed(served)
            # However much came since.
            await served.services.hub.append(
                ConversationId(conversation), [Notice(code="x", text="x")] * (PAGE_ENTRIES + 1)
            )
            history: Said = [user("send it"), {"role": "assistant", "content": question}, user("well?")]
            assert await asked(ours, history, streams=streams) == (question, "stop")
            assert await said(served) == ["send it", "well?"]
            assert stage.sent == []

    run(check)
