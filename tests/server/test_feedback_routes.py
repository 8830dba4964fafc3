"""Feedback over HTTP: one reaction of a person for each turn, what machines add, and how satisfied people are."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.harness.replies import answers
from tests.server.server_harness import (
    LIST,
    ApiClient,
    Json,
    RunningServer,
    ServerHarness,
    SseFrame,
    calls,
    repeated_reply,
    run,
)
from timeloom.core.blocks import Feedback
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.render.editions import EDITIONS, FIRST_EDITION
from timeloom.ports.store import Store
from timeloom.server.routes.feedback import ConversationsInPeriod, Satisfaction, TurnsWithFeedbacks
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore

ANSWERS = repeated_reply(answers("The answer is four."))
LONG_AGO, FAR_AHEAD = "2000-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


async def held(client: ApiClient, *messages: str) -> tuple[str, list[str]]:
    """A conversation of these messages, and its turns."""
    conversation, turns = "", list[str]()
    for message in messages:
        said = await client.send_message(message, conversation)
        conversation = str(said["conversation_id"])
        turns.append(str(said["turn_id"]))
        await client.wait_for_state(conversation, "idle")
    return conversation, turns


async def react(client: ApiClient, conversation: str, turn: str, reaction: str | None, **more: object) -> Json:
    response = await client.post(f"{LIST}/{conversation}/turns/{turn}/feedback", {"reaction": reaction, **more})
    assert response.status_code == 201, response.text
    return response.json()


async def judged(client: ApiClient, conversation: str, **body: object) -> TurnsWithFeedbacks:
    response = await client.post(f"{LIST}/{conversation}/turns-with-feedbacks", body)
    assert response.status_code == 200, response.text
    return msgspec.json.decode(response.content, type=TurnsWithFeedbacks)


async def in_period(client: ApiClient, **body: object) -> ConversationsInPeriod:
    asked = {"start": LONG_AGO, "end": FAR_AHEAD, **body}
    response = await client.post(f"{LIST}/feedback/conversations-in-period", asked)
    assert response.status_code == 200, response.text
    return msgspec.json.decode(response.content, type=ConversationsInPeriod)


def test_a_person_has_one_reaction_on_a_turn_and_null_clears_it(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, (one, two) = await held(served.ann, "one", "two")
            await react(served.ann, conversation, one, "ok", text="Very helpful!", ts="2026-03-21T10:00:00Z")
            taken = await react(served.ann, conversation, one, "not_ok", text="on second thoughts")
            await react(served.ann, conversation, two, "neutral")
            page = await judged(served.ann, conversation)
            assert page.counts == Satisfaction(ok=0, not_ok=1, neutral=1, machine=0, satisfaction=0.0)
            first, second = page.turns
            assert (first.turn_id, second.turn_id) == (one, two)
            assert [message.text for message in first.messages] == ["one", "The answer is four."]
            (said,) = first.feedbacks
            assert (said.seq, said.text, said.author) == (taken["seq"], "on second thoughts", "ann")
            await react(served.ann, conversation, one, None)
            page = await judged(served.ann, conversation)
            assert [turn.turn_id for turn in page.turns] == [two]

    run(check)


def test_erased_feedback_is_told_and_counted_no_more(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, (one, two, three) = await held(served.ann, "one", "two", "three")
            seqs = [
                (await react(served.ann, conversation, one, "ok"))["seq"],
                (await react(served.client("admin"), conversation, three, "ok", origin="machine"))["seq"],
            ]
            await react(served.ann, conversation, two, "not_ok")
            paths = [f"ar:log[{seq}]" for seq in seqs]
            erased = await served.ann.post(f"{LIST}/{conversation}/erase", {"paths": paths})
            assert erased.status_code == 200, erased.text
            page = await judged(served.ann, conversation)
            assert page.counts == Satisfaction(ok=0, not_ok=1, neutral=0, machine=0, satisfaction=0.0)
            assert [turn.turn_id for turn in page.turns] == [two]
            assert (await in_period(served.ann)).total == page.counts

    run(check)


def test_what_machines_say_is_added_and_only_an_admin_passes_it_on(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, (turn,) = await held(served.ann, "one")
            url = f"{LIST}/{conversation}/turns/{turn}/feedback"
            machine = {"reaction": "not_ok", "origin": "machine", "confidence": 0.75}
            assert (await served.ann.post(url, machine)).status_code == 403
            admin = served.client("admin")
            for _ in range(2):
                assert (await admin.post(url, machine)).status_code == 201
            await react(served.ann, conversation, turn, "ok")
            page = await judged(served.ann, conversation)
            assert page.counts == Satisfaction(ok=1, not_ok=0, neutral=0, machine=2, satisfaction=1.0)
            said = page.turns[0].feedbacks
            assert [(one.origin, one.confidence) for one in said] == [("machine", 0.75)] * 2 + [("user", None)]

    run(check)


def test_what_somebody_thinks_is_not_replaced_by_an_admin(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, (turn, other) = await held(served.ann, "one", "two")
            admin, url = served.client("admin"), f"{LIST}/{conversation}/turns/{turn}/feedback"
            await react(admin, conversation, other, "ok")
            await react(admin, conversation, other, "neutral")
            await react(served.ann, conversation, other, "ok")
            await react(served.ann, conversation, turn, "not_ok")
            for reaction in ("ok", None):
                refused = await admin.post(url, {"reaction": reaction})
                assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
                assert '"origin": "machine"' in refused.json()["detail"]
            await react(admin, conversation, turn, "ok", origin="machine")
            page = await judged(served.ann, conversation)
            assert page.counts == Satisfaction(ok=1, not_ok=1, neutral=0, machine=1, satisfaction=0.5)

    run(check)


def test_feedback_that_is_none_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, (turn,) = await held(served.ann, "one")
            for body, status in (
                ({}, 400),
                ({"reaction": "great"}, 400),
                ({"reaction": "ok", "ts": "yesterday"}, 400),
                ({"reaction": "ok", "confidence": 0.5}, 400),
                ({"reaction": "ok", "text": "x" * 5000}, 400),
                ({"reaction": "ok", "stars": 5}, 400),
            ):
                response = await served.ann.post(f"{LIST}/{conversation}/turns/{turn}/feedback", body)
                assert response.status_code == status, body
            machine = {"reaction": None, "origin": "machine", "text": " "}
            silent = await served.client("admin").post(f"{LIST}/{conversation}/turns/{turn}/feedback", machine)
            assert (silent.status_code, silent.json()["code"]) == (400, "request_malformed")
            assert "needs a reaction" in silent.json()["detail"]
            unknown = await served.ann.post(f"{LIST}/{conversation}/turns/turn_9/feedback", {"reaction": "ok"})
            assert (unknown.status_code, unknown.json()["code"]) == (404, "entry_unknown")
            foreign = await served.client("bob").post(
                f"{LIST}/{conversation}/turns/{turn}/feedback", {"reaction": "ok"}
            )
            assert foreign.status_code == 404

    run(check)


def test_turns_are_chosen_by_what_was_said_of_them_page_by_page(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, turns = await held(served.ann, "one", "two", "three", "four")
            for turn, reaction in zip(turns, ("ok", "not_ok", "ok"), strict=False):
                await react(served.ann, conversation, turn, reaction)
            for turn in (turns[1], turns[3]):
                await react(served.client("admin"), conversation, turn, "ok", origin="machine", confidence=0.5)
            asked: list[tuple[dict[str, object], list[int]]] = [
                ({"reactions": ["ok"]}, [0, 1, 2, 3]),
                ({"reactions": ["ok"], "origin": "user"}, [0, 2]),
                ({"origin": "machine"}, [1, 3]),
                ({"turn_ids": [turns[1], "turn_9"]}, [1]),
                ({"turn_ids": []}, []),
            ]
            for body, expected in asked:
                page = await judged(served.ann, conversation, **body)
                assert [turn.turn_id for turn in page.turns] == [turns[n] for n in expected], body
            seen, cursor = list[str](), ""
            while True:
                page = await judged(served.ann, conversation, limit=3, cursor=cursor)
                seen += [turn.turn_id for turn in page.turns]
                if not (cursor := page.cursor):
                    break
            assert seen == turns

    run(check)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_satisfaction_is_told_of_a_period(kind: str, tmp_path: Path) -> None:
    async def check() -> None:
        store: Store = MemoryStore() if kind == "memory" else await SqliteStore.open(tmp_path / "data")
        async with ServerHarness(tmp_path, ANSWERS, store=store).serve() as served:
            conversation, (one, two) = await held(served.ann, "one", "two")
            other, (third,) = await held(served.client("bob"), "three")
            await held(served.ann, "nothing is said of this")
            await react(served.ann, conversation, one, "ok")
            await react(served.ann, conversation, two, "not_ok")
            await react(served.client("bob"), other, third, "ok")
            mine = await in_period(served.ann)
            assert [item.conversation.id for item in mine.conversations] == [conversation]
            assert mine.total.satisfaction == 0.5
            own = await in_period(served.client("admin"))
            assert (own.total, own.conversations) == (NOTHING, ())
            everybody = await in_period(served.client("admin"), user="*", limit=1)
            assert (everybody.total.ok, everybody.total.not_ok) == (2, 1)
            assert [item.conversation.id for item in everybody.conversations] == [other]
            rest = await in_period(served.client("admin"), user="*", limit=1, cursor=everybody.cursor)
            assert [item.counts for item in rest.conversations] == [mine.total]
            assert (await in_period(served.ann, end="2001-01-01T00:00:00Z")).conversations == ()
            await refusals(served)
        await store.close()

    run(check)


NOTHING = Satisfaction(ok=0, not_ok=0, neutral=0, machine=0, satisfaction=None)


async def refusals(served: RunningServer) -> None:
    url, period = f"{LIST}/feedback/conversations-in-period", {"start": LONG_AGO, "end": FAR_AHEAD}
    for body, status in (
        ({"start": LONG_AGO}, 400),
        (period | {"end": "tomorrow"}, 400),
        (period | {"cursor": "x"}, 400),
        (period | {"user": "*"}, 403),
        (period | {"user": "bob"}, 403),
    ):
        assert (await served.ann.post(url, body)).status_code == status, body


@pytest.mark.parametrize("edition", EDITIONS)
def test_the_model_is_told_of_feedback_in_its_next_turn(tmp_path: Path, edition: int) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, ANSWERS)
        stage.edition = edition
        async with stage.serve() as served:
            conversation, (turn,) = await held(served.ann, "one")
            await react(served.ann, conversation, turn, "not_ok", text="Wrong by two.")
            await served.ann.send_message("two", conversation)
            await served.ann.wait_for_state(conversation, "idle")
            prompt = (await served.ann.get(f"{LIST}/{conversation}/prompt")).json()
            section = f"[FEEDBACK]\n  {turn}" if edition == FIRST_EDITION else "[FEEDBACK] t1"
            assert f"{section}: not_ok: Wrong by two.\n" in prompt["tail"]
            assert "Wrong by two" not in "".join(segment["text"] for segment in prompt["segments"])

    run(check)


def test_feedback_is_taken_while_a_turn_runs_and_heard_by_all(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("one"), calls("t.wait"), answers("never"))
        async with stage.serve() as served:
            conversation, (turn,) = await held(served.ann, "one")
            await served.ann.send_message("two", conversation)
            await stage.waiting.wait()
            taken = await react(served.ann, conversation, turn, "ok")
            async with served.ann.stream_conversation(conversation) as frames, asyncio.timeout(60):
                heard = [frame async for frame in until(frames, taken["seq"])]
            assert "turn.feedback" in str(heard[-1].data)
            assert turn in str(heard[-1].data)
            await served.ann.send(conversation, "cancel")
            await served.ann.wait_for_state(conversation, "idle")

    run(check)


async def until(frames: AsyncIterator[SseFrame], seq: object) -> AsyncIterator[SseFrame]:
    """The events up to the block of that seq."""
    async for frame in frames:
        yield frame
        if frame.id == seq:
            return


def test_a_program_beside_the_server_gives_feedback_through_its_hub(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, ANSWERS).serve() as served:
            conversation, (turn,) = await held(served.ann, "one")
            block = Feedback(origin="machine", reaction="neutral", confidence=0.4, text="no source", author="checker")
            (entry,) = await served.services.hub.append(ConversationId(conversation), [block], TurnId(turn))
            page = await judged(served.ann, conversation)
            (said,) = page.turns[0].feedbacks
            assert (said.seq, said.ts, said.origin) == (entry.seq, entry.ts, "machine")
            assert (said.reaction, said.confidence, said.author) == ("neutral", 0.4, "checker")

    run(check)
