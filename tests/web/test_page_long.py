"""A conversation of 10,000 blocks, opened and read as a person does."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bench.histories import write_history
from tests.harness.replies import answers
from tests.web.web_harness import PageVisit, conversation_script, run_server
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.stores.sqlite import SqliteStore

BLOCKS = 10_000
LONG = ConversationId("conv_1760000000000_longlong")
PATIENCE_MS = 60_000


async def written(folder: Path) -> int:
    header = ConversationStarted(tenant="local", project="default", user="somebody")
    async with await SqliteStore.open(folder) as store:
        return await write_history(store, LONG, BLOCKS, header)


@pytest.fixture(scope="module")
def visit(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageVisit]:
    folder = Path(tmp_path_factory.mktemp("long"))
    # In a thread of its own: the browser's has a loop that runs.
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, written(folder / "data")).result()
    with run_server(folder, conversation_script("", {"reply": answers("I am here."), "repeat": True})) as server:
        visit = PageVisit(browser, server, width=1440)
        visit.open_page()
        visit.page.goto(f"{server.address}/#/c/{LONG}")
        yield visit
        visit.close()


def test_its_end_is_shown_and_earlier_turns_come_as_one_scrolls(visit: PageVisit) -> None:
    page = visit.page
    turns = page.get_by_role("region", name=re.compile(r"^Turn \d+$"))
    expect(turns.last.get_by_text("nobody was there")).to_be_visible(timeout=PATIENCE_MS)
    newest = turns.last.get_attribute("aria-label")
    few = turns.count()
    assert few < 30
    page.get_by_role("region", name="Messages").hover()
    while turns.count() == few:
        page.mouse.wheel(0, -4_000)
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert turns.last.get_attribute("aria-label") == newest


def test_every_block_is_in_reach_and_few_are_drawn(visit: PageVisit) -> None:
    page = visit.page
    page.get_by_role("button", name="Inspector").click()
    rows = page.get_by_role("listbox", name="Blocks")
    expect(rows.get_by_role("option").first).to_contain_text("conv.header")
    rows.focus()
    page.keyboard.press("End")
    last = rows.locator("[aria-selected=true]")
    expect(last).to_contain_text(re.compile("conv.title|react.turn.end"))
    seq = int(last.locator(".block-seq").inner_text())
    assert seq >= BLOCKS
    expect(last).to_have_attribute("aria-posinset", str(seq))
    assert rows.get_by_role("option").count() < 100
    page.keyboard.press("Home")
    expect(rows.locator("[aria-selected=true] .block-seq")).to_have_text("1")


def test_blocks_and_prompts_in_the_middle_are_looked_at(visit: PageVisit) -> None:
    page = visit.page
    rows = page.get_by_role("listbox", name="Blocks")
    page.get_by_label("Filter blocks").fill("react.model.call")
    rows.get_by_role("option").nth(3).click()
    page.get_by_role("region", name=re.compile("^Block")).get_by_role("button", name="Prompt").click()
    expect(page.get_by_role("group", name="Rounds")).to_contain_text("Turn 1, round 4")
    sent = page.get_by_role("region", name="Prompt as sent")
    expect(sent).to_contain_text("ANNOUNCE", timeout=PATIENCE_MS)
    page.get_by_role("button", name="Next round").click()
    expect(page.get_by_role("group", name="Rounds")).to_contain_text("Turn 1, round 5")


def test_it_can_be_spoken_to(visit: PageVisit) -> None:
    visit.send_message("Are you there?")
    expect(visit.page.get_by_text("I am here.")).to_be_visible(timeout=PATIENCE_MS)
