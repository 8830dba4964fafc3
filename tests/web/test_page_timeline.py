"""Reloading a conversation after a server restart, and the marks of hidden content."""

import asyncio
import getpass
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.harness.replies import answers, slow_reply
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply
from timeloom.app import open_session
from timeloom.core.blocks import (
    Completion,
    ConversationStarted,
    Hidden,
    ModelAnswered,
    Notice,
    RangeSummary,
    RoundStarted,
    Titled,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import TurnId
from timeloom.stores.sqlite import SqliteStore

LONG = " ".join(f"word{n}" for n in range(120))
TOKEN = "a-token-that-stays-the-same"
FIRST, SECOND = TurnId("turn_1"), TurnId("turn_2")


async def write_conversation(data: Path) -> None:
    async with await SqliteStore.open(data) as store:
        header = ConversationStarted(tenant="local", project="default", user=getpass.getuser())
        session = await open_session(store, None, header)
        opening = [TurnStarted(n=1), UserPrompt(text="Hello?"), RoundStarted(round=1), Completion(text="Hello!")]
        await session.append([*opening, TurnEnded(reason="completed")], FIRST)
        await session.append([Titled(text="What was forgotten")], FIRST)
        summary = RangeSummary(covered_turn_ids=(FIRST,), text="They greeted each other.", first_seq=2, last_seq=6)
        hidden = Hidden(target="ar:turn_1.assistant.completion", replacement="a greeting")
        failed = ModelAnswered(round=1, model="m", stop_reason="", error="overloaded", detail="too many requests")
        notice = Notice(code="protocol_violation.decision_malformed", text="expected a value")
        asked = [TurnStarted(n=2), UserPrompt(text="And now?"), RoundStarted(round=1)]
        await session.append([*asked, summary, hidden, failed, notice, TurnEnded(reason="provider_error")], SECOND)
        await session.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with ThreadPoolExecutor(1) as aside:
        aside.submit(lambda: asyncio.run(write_conversation(tmp_path / "data"))).result()
    return tmp_path


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield port


def test_what_went_out_of_sight_is_marked_and_can_be_opened(browser: Browser, folder: Path) -> None:
    with run_server(folder, conversation_script("x", answers("x"))) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        page.get_by_role("link", name="What was forgotten").click()
        page.get_by_text("Earlier messages were summarized").click()
        expect(page.get_by_text("They greeted each other.")).to_be_visible()
        page.get_by_text("Hidden from the model").click()
        expect(page.get_by_text("ar:turn_1.assistant.completion")).to_be_visible()
        page.get_by_text("The model call failed: overloaded").click()
        expect(page.get_by_text("too many requests")).to_be_visible()
        expect(page.get_by_text("The agent received an error notice")).to_be_visible()
        expect(page.get_by_text("Send the message again in a moment")).to_be_visible()
        visit.close()


def test_a_server_that_is_started_again_in_mid_answer_is_not_noticed(
    browser: Browser, tmp_path: Path, port: int
) -> None:
    plays = (conversation_script("long", slow_reply(answers(LONG), delay_ms=15), title_reply("A long answer")),)
    with run_server(tmp_path, *plays, port=port, TIMELOOM_SERVER_TOKEN=TOKEN) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        visit.send_message("A long one, please.")
        expect(page.get_by_text("word3")).to_be_visible()
    expect(page.get_by_text("Connection lost")).to_be_visible()
    with run_server(tmp_path, *plays, port=port, TIMELOOM_SERVER_TOKEN=TOKEN):
        expect(page.get_by_role("article", name="Answer", exact=True)).to_have_text(LONG)
        expect(page.locator(".turn .bubble")).to_have_count(1)
        expect(page.get_by_text("Connection lost")).to_be_hidden()
    other = run_server(tmp_path, *plays, port=port)
    with other as restarted:
        assert isinstance(restarted, PageServer)
        expect(page.get_by_label("Token")).to_be_visible()
        page.get_by_label("Token").fill(restarted.token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("article", name="Answer", exact=True)).to_have_text(LONG)
    visit.close()
