"""Forgetting on request on the page: `/compact` in the composer, and pins with the keyboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.harness.replies import answers
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply

WORDS = "word " * 400

PLAYS = (
    conversation_script(
        "ferry",
        *(answers(f"Answer {n}. {WORDS}") for n in range(1, 5)),
        {"reply": "They asked about ferries.", "when": "compaction", "repeat": True},
        title_reply("Ferries"),
    ),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with run_server(Path(tmp_path_factory.mktemp("page")), *PLAYS) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, server: PageServer) -> Iterator[PageVisit]:
    visit = PageVisit(browser, server)
    yield visit
    visit.close()


def test_a_pinned_message_is_marked_listed_and_kept_by_a_compaction(visit: PageVisit) -> None:
    page = visit.open_page()
    for n in range(1, 4):
        visit.send_message(f"ferry {n}")
        expect(page.get_by_text(f"Answer {n}.")).to_be_visible()
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    pin = page.get_by_role("button", name="Pin", exact=True).first
    pin.focus()
    page.keyboard.press("Enter")
    expect(pin).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("Pinned (1)")).to_be_visible()
    visit.send_message("/compact the fares")
    expect(page.get_by_text("Compacted 1 turn:")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("")
    page.reload()
    page.get_by_text("Pinned (1)").click()
    page.get_by_role("button", name="Unpin ferry 1").press("Enter")
    expect(page.get_by_text("Pinned (1)")).to_have_count(0)
    page.get_by_role("region", name="Messages").evaluate("box => { box.scrollTop = 0; }")
    expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    visit.send_message("/compact")
    expect(page.get_by_text("Nothing to compact")).to_be_in_viewport()


def test_a_block_that_cannot_be_pinned_says_why(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("/compact")
    expect(page.get_by_text("There is nothing to compact yet.")).to_be_visible()
    page.get_by_role("link", name="Ferries").first.click()
    expect(page.get_by_text("Answer 3.")).to_be_visible()
    # The first answer is part of the summary.
    page.get_by_role("button", name="Pin", exact=True).nth(1).click()
    expect(page.get_by_text("is in the prompt; read it again")).to_be_visible()
